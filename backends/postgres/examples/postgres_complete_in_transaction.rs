//! A job's effect and its acknowledgement in one commit: an obsolete worker's effect is rolled
//! back.
//!
//! `POSTGRES_URL=postgres://.. cargo run -p queue-table-postgres --example postgres_complete_in_transaction`
//!
//! Works in a schema of its own, which it drops.

use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use queue_table_core::{
    Administration, BatchSize, ClaimRequest, ClaimedJob, Error, Kind, LeaseLength, NewJob, Payload,
    QueueBackend, QueueName, ReapRequest, RetryPolicy, Table, TransactionalBackend, WorkerId,
};
use queue_table_postgres::PostgresQueue;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Ok(url) = std::env::var("POSTGRES_URL") else {
        println!("set POSTGRES_URL to a database to try it on");
        return Ok(());
    };
    let table = Table::default().in_schema("complete_in_transaction")?;
    let queue = PostgresQueue::builder(&url).table(table).build()?;
    queue.migrate()?;
    let mut bank = PgConnection::establish(&url)?;
    bank.batch_execute(
        "SET search_path = complete_in_transaction;
         CREATE TABLE account (balance BIGINT NOT NULL);
         INSERT INTO account VALUES (0)",
    )?;

    let deposits = QueueName::new("deposits")?;
    let job = NewJob::new(&deposits, Kind::new("deposit")?, Payload::from_json("100")?);
    queue.enqueue(&[job])?;

    // The first worker stalls until its lease has run out, and the reaper gives the job to a second
    // one.
    let request = ClaimRequest::new(deposits, WorkerId::unique("teller")?)
        .with_lease(LeaseLength::new(Duration::from_millis(500))?);
    let stalled = queue.claim(&request)?.remove(0);
    std::thread::sleep(Duration::from_millis(510));
    let at_once = RetryPolicy::fixed(Duration::from_millis(1))?;
    queue.reap(&ReapRequest::new(BatchSize::MAX, at_once))?;
    std::thread::sleep(Duration::from_millis(5));
    let replacement = queue.claim(&request)?.remove(0);

    deposit(&queue, &replacement)?;
    let refused = deposit(&queue, &stalled);
    let balance: i64 = diesel::select(diesel::dsl::sql::<BigInt>("(SELECT balance FROM account)"))
        .get_result(&mut bank)?;
    bank.batch_execute("DROP SCHEMA complete_in_transaction CASCADE")?;

    let Err(Failed::Queue(Error::LostClaim(lost))) = refused else {
        return Err(format!("the stalled worker was not refused: {refused:?}").into());
    };
    println!("rolled back: {lost}");
    println!("balance {balance}");
    assert_eq!(balance, 100);
    Ok(())
}

fn deposit(queue: &PostgresQueue, job: &ClaimedJob) -> Result<(), Failed> {
    let amount: i64 = job.payload.decode().map_err(Failed::Payload)?;
    queue.transaction(|tx| {
        diesel::sql_query("UPDATE complete_in_transaction.account SET balance = balance + $1")
            .bind::<BigInt, _>(amount)
            .execute(tx)?;
        Ok(queue.ack_in(tx, &job.receipt)?)
    })
}

/// An error of the application's own: the queue's, diesel's, and bad payloads.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Queue(#[from] Error),
    #[error(transparent)]
    Database(#[from] diesel::result::Error),
    #[error(transparent)]
    Payload(queue_table_core::PayloadError),
}
