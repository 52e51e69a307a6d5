//! The example `service` as a real process that is sent signals.

#[path = "../examples/service.rs"]
mod service;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use queue_table::sqlite::SqliteQueue;
use queue_table::{
    Administration, BatchSize, Kind, ListRequest, MAX_ATTEMPTS_DEFAULT, NewJob, Payload,
    QueueBackend, QueueName, State,
};

/// Tells this program that it is to be the service.
const SERVICE: &str = "QUEUE_TABLE_SERVICE";

const JOBS: usize = 20;

fn main() -> ExitCode {
    if std::env::var_os(SERVICE).is_some() {
        return match service::main() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    let trials = vec![
        Trial::test("sigterm_drains_gives_back_and_ends_with_0", || {
            drains_after("TERM")
        }),
        Trial::test("sigint_does_the_same", || drains_after("INT")),
        Trial::test("a_second_signal_ends_it_at_once", ends_at_once),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A service at work on jobs of so many tenths of a second each.
struct Service {
    process: Child,
    said: std::io::Lines<BufReader<ChildStdout>>,
    queue: SqliteQueue,
}

impl Service {
    fn start(file: &Path, pages: u32) -> Result<Self, Failed> {
        let queue = SqliteQueue::open(file)?;
        queue.migrate()?;
        let payload = Payload::from_json(format!(r#"{{"pages":{pages}}}"#))?;
        let job = NewJob::new(&QueueName::new("render")?, Kind::new("render")?, payload);
        queue.enqueue(&vec![job; JOBS])?;
        let mut process = Command::new(std::env::current_exe()?)
            .arg(file)
            .env(SERVICE, "1")
            .stdout(Stdio::piped())
            .spawn()?;
        let output = process.stdout.take().ok_or("no output")?;
        let said = BufReader::new(output).lines();
        Ok(Self {
            process,
            said,
            queue,
        })
    }

    fn count(&self, state: State) -> Result<usize, Failed> {
        let mut request = ListRequest::first(BatchSize::MAX);
        request.state = Some(state);
        Ok(self.queue.list(&request)?.len())
    }

    fn wait_until(
        &self,
        what: &str,
        so: impl Fn(&Self) -> Result<bool, Failed>,
    ) -> Result<(), Failed> {
        let began = Instant::now();
        while !so(self)? {
            if began.elapsed() > Duration::from_secs(30) {
                return Err(format!("in 30 s it did not come to this: {what}").into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn signal(&self, signal: &str) -> Result<(), Failed> {
        let command = format!("kill -{signal} {}", self.process.id());
        let status = Command::new("sh").args(["-c", &command]).status()?;
        expect(status.success(), command)
    }

    fn hear(&mut self, word: &str) -> Result<String, Failed> {
        for line in self.said.by_ref() {
            let line = line?;
            if line.starts_with(word) {
                return Ok(line);
            }
        }
        Err(format!("it ended without saying `{word}`").into())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to kill.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn drains_after(signal: &str) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let mut service = Service::start(&folder.path().join("jobs.db"), 3)?;
    service.hear("working as")?;
    // Two run, and others wait for them once the first ones have been timed.
    service.wait_until("jobs are claimed ahead", |service| {
        Ok(service.count(State::Running)? > 2)
    })?;

    service.signal(signal)?;

    let report = service.hear("Report")?;
    let status = service.process.wait()?;
    expect(status.code() == Some(0), status.to_string())?;
    let succeeded = service.count(State::Succeeded)?;
    expect(
        report.contains(&format!("succeeded: {succeeded},")),
        &report,
    )?;
    expect(!report.contains("released: 0"), &report)?;
    expect(report.contains("abandoned: []"), &report)?;
    expect(service.count(State::Running)? == 0, "a job is still held")?;
    expect(
        succeeded + service.count(State::Ready)? == JOBS,
        "a job is lost",
    )?;
    for job in service.queue.list(&ListRequest::first(BatchSize::MAX))? {
        let spent = job.attempts + MAX_ATTEMPTS_DEFAULT - job.max_attempts;
        let done = u32::from(job.state == State::Succeeded);
        expect(spent == done, format!("attempts spent: {job:?}"))?;
    }
    Ok(())
}

fn ends_at_once() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let mut service = Service::start(&folder.path().join("jobs.db"), 150)?;
    service.wait_until(
        "jobs run",
        |service| Ok(service.count(State::Running)? == 2),
    )?;
    service.signal("TERM")?;
    service.hear("stopping")?;
    let second = Instant::now();

    service.signal("INT")?;

    let status = service.process.wait()?;
    expect(status.code() == Some(1), status.to_string())?;
    let took = second.elapsed();
    expect(took < Duration::from_secs(5), format!("took {took:?}"))?;
    expect(service.count(State::Running)? == 2, "their leases run out")
}

fn expect(holds: bool, otherwise: impl Into<String>) -> Result<(), Failed> {
    if holds {
        return Ok(());
    }
    Err(otherwise.into().into())
}
