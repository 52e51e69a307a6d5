//! Claim and ack, batch by batch, against a hand-written loop of the same statements on one
//! connection.
//!
//! `cargo bench -p queue-table-sqlite`. Both run in turn on fresh files, at WAL and synchronous =
//! FULL, with payloads of 200 bytes; the numbers are medians of jobs per second, and the ratio is
//! the crate's over the loop's.

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use queue_table_core::{
    Administration, BatchSize, ClaimRequest, Kind, NewJob, Payload, QueueBackend, QueueName,
    WorkerId,
};
use queue_table_sqlite::SqliteQueue;
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(700);

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    println!(
        "SQLite {}, synchronous = FULL, one thread",
        rusqlite::version()
    );
    println!("batch   crate jobs/s   loop jobs/s   ratio");
    for batch in [1, 10, 100] {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ours.push(round(batch, by_crate)?);
            theirs.push(round(batch, by_hand)?);
        }
        let (ours, theirs) = (median(ours), median(theirs));
        println!(
            "{batch:>5} {ours:>14.0} {theirs:>13.0} {:>7.2}",
            ours / theirs
        );
    }
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Jobs per second of one round on a file with more jobs than the round can run.
fn round(batch: u32, run: fn(&Path, u32) -> Outcome<usize>) -> Outcome<f64> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("jobs.db");
    let queue = SqliteQueue::open(&file)?;
    queue.migrate()?;
    let payload = Payload::from_json(format!("\"{}\"", "x".repeat(198)))?;
    let job = NewJob::new(&QueueName::new("mail")?, Kind::new("mail.send")?, payload);
    let jobs = vec![job; 10_000];
    for _ in 0..if batch == 100 { 15 } else { 5 } {
        queue.enqueue(&jobs)?;
    }
    drop(queue);
    let began = Instant::now();
    let done = run(&file, batch)?;
    Ok(done as f64 / began.elapsed().as_secs_f64())
}

fn by_crate(file: &Path, batch: u32) -> Outcome<usize> {
    let queue = SqliteQueue::open(file)?;
    let request = ClaimRequest::new(QueueName::new("mail")?, WorkerId::unique("bench")?)
        .with_limit(BatchSize::new(batch)?);
    let (began, mut done) = (Instant::now(), 0);
    while began.elapsed() < ROUND {
        let claimed = queue.claim(&request)?;
        let receipts: Vec<_> = claimed.into_iter().map(|job| job.receipt).collect();
        let acked = queue.ack(&receipts)?;
        assert_eq!(
            acked.iter().filter(|ack| ack.is_ok()).count(),
            batch as usize
        );
        done += acked.len();
    }
    Ok(done)
}

/// What a careful application would write for itself: the same guards, no priorities to step over,
/// no second queue.
fn by_hand(file: &Path, batch: u32) -> Outcome<usize> {
    let mut connection = Connection::open(file)?;
    connection.execute_batch("PRAGMA synchronous = FULL")?;
    connection.busy_timeout(Duration::from_secs(10))?;
    let (began, mut done) = (Instant::now(), 0);
    while began.elapsed() < ROUND {
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let claimed = claim_by_hand(&tx, batch)?;
        tx.commit()?;
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for (job_id, attempt, _, _) in &claimed {
            let sql = "UPDATE job SET state = 'succeeded', finished_at = unixepoch() * 1000000, worker_id = NULL,
                lease_until = NULL, last_error = NULL
                WHERE job_id = ?1 AND state = 'running' AND attempts = ?2 AND worker_id = 'w'
                  AND lease_until > unixepoch() * 1000000";
            assert_eq!(
                tx.prepare_cached(sql)?.execute(params![job_id, attempt])?,
                1
            );
        }
        tx.commit()?;
        assert_eq!(claimed.len(), batch as usize);
        done += claimed.len();
    }
    Ok(done)
}

type Claimed = Vec<(i64, i64, String, String)>;

fn claim_by_hand(tx: &Transaction<'_>, batch: u32) -> rusqlite::Result<Claimed> {
    let sql = "SELECT job_id, attempts + 1, kind, payload FROM job
        WHERE queue = 'mail' AND state = 'ready' AND run_at <= unixepoch() * 1000000 + 999999 AND attempts < max_attempts
        ORDER BY priority DESC, run_at, job_id LIMIT +?1";
    let mut select = tx.prepare_cached(sql)?;
    let found = select.query_map([batch], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
    })?;
    let claimed = found.collect::<rusqlite::Result<Claimed>>()?;
    let mut update = tx.prepare_cached(
        "UPDATE job SET state = 'running', attempts = attempts + 1, worker_id = 'w',
          lease_until = unixepoch() * 1000000 + 60000000, claimed_at = unixepoch() * 1000000 WHERE job_id = ?1",
    )?;
    for (job_id, ..) in &claimed {
        update.execute([job_id])?;
    }
    Ok(claimed)
}
