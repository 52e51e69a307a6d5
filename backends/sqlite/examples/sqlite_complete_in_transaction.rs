//! A job's effect and its acknowledgement in one commit: an obsolete worker's effect is rolled
//! back.
//!
//! `cargo run -p queue-table-sqlite --example sqlite_complete_in_transaction`

use std::time::Duration;

use queue_table_core::{
    Administration, BatchSize, ClaimRequest, ClaimedJob, Error, Kind, LeaseLength, NewJob, Payload,
    QueueBackend, QueueName, ReapRequest, RetryPolicy, TransactionalBackend, WorkerId,
};
use queue_table_sqlite::SqliteQueue;
use queue_table_sqlite::rusqlite::{self, Connection};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("bank.db");
    let queue = SqliteQueue::open(&file)?;
    queue.migrate()?;
    let bank = Connection::open(&file)?;
    bank.execute_batch(
        "CREATE TABLE account (balance INTEGER NOT NULL); INSERT INTO account VALUES (0)",
    )?;

    let deposits = QueueName::new("deposits")?;
    let job = NewJob::new(&deposits, Kind::new("deposit")?, Payload::from_json("100")?);
    queue.enqueue(&[job])?;

    // The first worker stalls until its lease has run out, and the reaper gives the job to a second
    // one.
    let request = ClaimRequest::new(deposits, WorkerId::unique("teller")?)
        .with_lease(LeaseLength::new(Duration::from_millis(100))?);
    let stalled = queue.claim(&request)?.remove(0);
    std::thread::sleep(Duration::from_millis(110));
    let at_once = RetryPolicy::fixed(Duration::from_millis(1))?;
    queue.reap(&ReapRequest::new(BatchSize::MAX, at_once))?;
    std::thread::sleep(Duration::from_millis(5));
    let replacement = queue.claim(&request)?.remove(0);

    deposit(&queue, &replacement)?;
    match deposit(&queue, &stalled) {
        Err(Failed::Queue(Error::LostClaim(lost))) => println!("rolled back: {lost}"),
        other => return Err(format!("the stalled worker was not refused: {other:?}").into()),
    }

    let balance: i64 = bank.query_row("SELECT balance FROM account", [], |row| row.get(0))?;
    println!("balance {balance}");
    assert_eq!(balance, 100);
    Ok(())
}

fn deposit(queue: &SqliteQueue, job: &ClaimedJob) -> Result<(), Failed> {
    let amount: i64 = job.payload.decode().map_err(Failed::Payload)?;
    queue.transaction(|tx| {
        tx.execute("UPDATE account SET balance = balance + ?1", [amount])?;
        Ok(queue.ack_in(tx, &job.receipt)?)
    })
}

/// An error of the application's own: the queue's, the driver's, and bad payloads.
#[derive(Debug)]
#[expect(dead_code, reason = "shown by Debug")]
enum Failed {
    Queue(Error),
    Database(rusqlite::Error),
    Payload(queue_table_core::PayloadError),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Queue(error)
    }
}

impl From<rusqlite::Error> for Failed {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for Failed {}
