//! What is SQLite's own: locks, the clock, the file, the tables. The contract itself is proved by
//! `conformance`.

#![cfg(test)]

mod clock;
mod fair;
mod file;
mod locks;
mod tables;

use std::time::Duration;

use queue_table_conformance::{Fixture, Fresh, Setup};
use queue_table_core::{
    BatchSize, ClaimRequest, ClaimedJob, JobId, Kind, LeaseLength, NewJob, Payload, QueueBackend,
    QueueName, WorkerId,
};
use queue_table_sqlite::SqliteQueue;
use queue_table_sqlite::fixture::{SqliteFixture, SqliteProbe};
use rusqlite::Connection;

fn fresh() -> (SqliteQueue, SqliteProbe) {
    let Fresh { backend, probe } = SqliteFixture.fresh(&Setup::default()).unwrap();
    (backend, probe)
}

/// A connection of the application's own.
fn raw(probe: &SqliteProbe) -> Connection {
    Connection::open(probe.file()).unwrap()
}

/// The same tables with another busy deadline.
fn impatient(probe: &SqliteProbe, busy_deadline: Duration) -> SqliteQueue {
    let builder = SqliteQueue::builder(probe.file());
    builder.busy_deadline(busy_deadline).build().unwrap()
}

fn mail() -> QueueName {
    QueueName::new("mail").unwrap()
}

fn job() -> NewJob {
    let kind = Kind::new("mail.send").unwrap();
    NewJob::new(&mail(), kind, Payload::from_json("{}").unwrap())
}

fn enqueue(queue: &SqliteQueue, jobs: usize) -> Vec<JobId> {
    let enqueued = queue.enqueue(&vec![job(); jobs]).unwrap();
    enqueued.into_iter().map(|one| one.job_id()).collect()
}

fn request(worker: &str, limit: u32) -> ClaimRequest {
    ClaimRequest::new(mail(), WorkerId::new(worker).unwrap())
        .with_limit(BatchSize::new(limit).unwrap())
}

fn lease(length: Duration) -> LeaseLength {
    LeaseLength::new(length).unwrap()
}

fn claim_one(queue: &SqliteQueue, worker: &str) -> ClaimedJob {
    let mut claimed = queue.claim(&request(worker, 1)).unwrap();
    assert_eq!(claimed.len(), 1);
    claimed.remove(0)
}
