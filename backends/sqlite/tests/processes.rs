//! Several processes on one file. The test binary starts itself as the others.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

use libtest_mimic::{Arguments, Failed, Trial};
use queue_table_core::{
    Administration, ClaimRequest, Kind, NewJob, Payload, QueueBackend, QueueName, Severity,
    TransactionalBackend, WorkerId,
};
use queue_table_sqlite::SqliteQueue;

/// Set for the processes that a test starts: what to do, and on which file.
const CHILD: &str = "QUEUE_TABLE_SQLITE_CHILD";
const FILE: &str = "QUEUE_TABLE_SQLITE_FILE";

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    if let (Ok(child), Ok(file)) = (std::env::var(CHILD), std::env::var(FILE)) {
        return match run_child(&child, Path::new(&file)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{child}: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let trials = vec![
        Trial::test(
            "two_processes_drain_a_queue_without_a_job_claimed_twice",
            drain_by_two,
        ),
        Trial::test(
            "a_process_that_dies_inside_a_transaction_leaves_no_job_and_no_lock",
            leave_nothing,
        ),
        Trial::test(
            "eight_processes_migrate_a_new_file_at_once",
            migrate_by_eight,
        ),
        Trial::test(
            "neither_of_two_writing_processes_starves",
            share_between_two,
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn run_child(child: &str, file: &Path) -> Outcome<()> {
    let queue = SqliteQueue::open(file)?;
    match child {
        "migrate" => println!("{:?}", queue.migrate()?.from),
        "drain" => drain(&queue)?,
        "die" => die_inside_a_transaction(&queue)?,
        other => return Err(format!("unknown child {other}").into()),
    }
    Ok(())
}

/// Claims and acks one by one until nothing is left, and prints each claim.
fn drain(queue: &SqliteQueue) -> Outcome<()> {
    let request = ClaimRequest::new(mail()?, WorkerId::unique("drain")?);
    loop {
        let claimed = queue.claim(&request)?;
        if claimed.is_empty() {
            return Ok(());
        }
        for job in claimed {
            println!("{} {}", job.job_id(), job.attempt());
            queue.ack(&[job.receipt])?[0].clone()?;
        }
    }
}

/// Ends the process between an enqueue and its commit.
fn die_inside_a_transaction(queue: &SqliteQueue) -> Outcome<()> {
    let job = job()?;
    let dying = |tx: &mut rusqlite::Transaction<'_>| -> queue_table_core::Result<()> {
        queue.enqueue_in(tx, &[job])?;
        println!("enqueued");
        std::process::abort()
    };
    Ok(queue.transaction(dying)?)
}

fn job() -> Outcome<NewJob> {
    let payload = Payload::from_json("{}")?;
    Ok(NewJob::new(&mail()?, Kind::new("mail.send")?, payload))
}

fn mail() -> Outcome<QueueName> {
    Ok(QueueName::new("mail")?)
}

fn start(child: &str, file: &Path) -> Outcome<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env(CHILD, child).env(FILE, file);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command.spawn()?)
}

/// Starts so many children at once, and gives back the lines each printed.
fn run_children(count: usize, child: &str, file: &Path) -> Outcome<Vec<Vec<String>>> {
    let children = (0..count).map(|_| start(child, file));
    let children = children.collect::<Outcome<Vec<_>>>()?;
    let mut printed = Vec::new();
    for child in children {
        let output = child.wait_with_output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
        let text = String::from_utf8(output.stdout)?;
        printed.push(text.lines().map(str::to_owned).collect());
    }
    Ok(printed)
}

fn filled(file: &Path, jobs: usize) -> Outcome<SqliteQueue> {
    let queue = SqliteQueue::open(file)?;
    queue.migrate()?;
    queue.enqueue(&vec![job()?; jobs])?;
    Ok(queue)
}

fn expect(holds: bool, otherwise: impl Into<String>) -> Result<(), Failed> {
    if holds {
        Ok(())
    } else {
        Err(otherwise.into().into())
    }
}

fn drain_by_two() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("jobs.db");
    let queue = filled(&file, 1_000)?;
    let printed = run_children(2, "drain", &file)?;
    let claims: Vec<_> = printed.iter().flatten().collect();
    let distinct: BTreeSet<_> = claims.iter().collect();
    expect(claims.len() == 1_000, format!("{} claims", claims.len()))?;
    expect(
        distinct.len() == 1_000,
        format!("{} distinct claims", distinct.len()),
    )?;
    expect(
        claims.iter().all(|claim| claim.ends_with(" 1")),
        "an attempt beyond the first",
    )?;
    let stats = queue.stats(None)?;
    expect(stats[0].succeeded == 1_000, format!("{stats:?}"))
}

fn leave_nothing() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("jobs.db");
    let queue = filled(&file, 1)?;
    let output = start("die", &file)?.wait_with_output()?;
    expect(!output.status.success(), "the child did not die")?;
    expect(output.stdout == b"enqueued\n", "the child died too early")?;
    expect(
        queue.stats(None)?[0].due == 1,
        "the job of the dead process is there",
    )?;
    let began = std::time::Instant::now();
    queue.enqueue(&[job()?])?;
    let waited = began.elapsed();
    expect(
        waited.as_secs() < 5,
        format!("the lock outlived the process: {waited:?}"),
    )
}

fn share_between_two() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("jobs.db");
    filled(&file, 2_000)?;
    let shares: Vec<_> = run_children(2, "drain", &file)?
        .iter()
        .map(Vec::len)
        .collect();
    expect(
        shares.iter().all(|share| *share >= 200),
        format!("{shares:?}"),
    )
}

fn migrate_by_eight() -> Result<(), Failed> {
    for _ in 0..3 {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("jobs.db");
        let printed = run_children(8, "migrate", &file)?;
        let first = printed.iter().flatten().filter(|line| *line == "None");
        expect(first.count() == 1, format!("{printed:?}"))?;
        let findings = SqliteQueue::open(&file)?.check()?;
        let healthy = findings
            .iter()
            .all(|finding| finding.severity == Severity::Info);
        expect(healthy, format!("{findings:?}"))?;
    }
    Ok(())
}
