//! The names of metrics and spans, in one place.
//!
//! The worker records all of them but two: [`enqueued`] and [`connection_waited`] are called by the
//! backends, so that producers without a worker are seen as well.
//!
//! | metric | kind | labels | meaning |
//! | --- | --- | --- | --- |
//! | `queue_table_enqueued_total` | counter | engine, queue, kind, by | jobs stored, without those that a dedup key already named; by `enqueue` once it has committed, by `enqueue_in` when it has stored them: jobs of a transaction that rolls back are counted too |
//! | `queue_table_claimed_total` | counter | engine, queue, kind | jobs claimed |
//! | `queue_table_acked_total` | counter | engine, queue, kind | jobs succeeded, in the handler's transaction or after it |
//! | `queue_table_failed_total` | counter | engine, queue, kind, reason | attempts failed: `error`, `panic` or `undecodable` |
//! | `queue_table_dead_total` | counter | engine, queue, kind | of these, those that left the job dead |
//! | `queue_table_released_total` | counter | engine, queue, kind, reason | claims given back: `snooze`, `release` or `unstarted` |
//! | `queue_table_lost_claims_total` | counter | engine, queue, kind, reason | results refused: `expired`, `superseded`, `finished`, `gone`; `unconfirmed` when the database did not take the result |
//! | `queue_table_reaped_total` | counter | engine, queue, to | jobs the reaper moved, to `ready` or `dead` |
//! | `queue_table_promoted_total` | counter | engine, queue | jobs promoted because they had waited long |
//! | `queue_table_purged_total` | counter | engine | rows that retention deleted |
//! | `queue_table_ticks_total` | counter | engine, queue, kind | jobs that a schedule enqueued |
//! | `queue_table_errors_total` | counter | engine, operation, error | operations of the worker that failed, by the error's kind |
//! | `queue_table_connection_wait_seconds` | histogram | engine, operation | how long an operation waited for a connection of the pool, connecting included, also in vain; one sample for each connection that was tried. Renewals are in it only where they share the caller's pool: else they have a connection of their own. On SQLite: how long a write waited for the one writer, renewals too |
//! | `queue_table_claim_seconds` | histogram | engine, queue | how long a claim took, empty ones too |
//! | `queue_table_start_delay_seconds` | histogram | engine, queue, kind | from the time a job was due to the start of its handler |
//! | `queue_table_handler_seconds` | histogram | engine, queue, kind | how long the handler ran |
//! | `queue_table_lease_margin_seconds` | histogram | engine, queue, kind | what was left of the lease when the result was stored |
//! | `queue_table_handlers_running` | gauge | engine, worker | handlers that run now |
//! | `queue_table_jobs` | gauge | engine, queue, state | jobs by state (`due`, `scheduled`, `running`, `overdue`, `succeeded`, `dead`); with `sample_stats_every` only |
//! | `queue_table_oldest_due_seconds` | gauge | engine, queue | how long the oldest due job has waited; with `sample_stats_every` only |
//!
//! | span | fields | around |
//! | --- | --- | --- |
//! | `queue_table.job` | engine, queue, kind, job_id, attempt, worker | one run of a handler |
//!
//! Events of the worker itself have the target `queue_table_core::worker` and below.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use metrics::{Label, counter, gauge, histogram};

use crate::backend::QueueBackend;
use crate::error::Error;
use crate::job::{ClaimedJob, Enqueued, NewJob};
use crate::name::QueueName;
use crate::request::{Disposition, QueueStats, Reaped};

use super::held::Held;

/// The labels of a job's metrics.
fn of(engine: &'static str, job: &ClaimedJob) -> Vec<Label> {
    vec![
        Label::from_static_parts("engine", engine),
        Label::new("queue", job.queue.as_str().to_owned()),
        Label::new("kind", job.kind.as_str().to_owned()),
    ]
}

fn with(mut labels: Vec<Label>, name: &'static str, value: &'static str) -> Vec<Label> {
    labels.push(Label::from_static_parts(name, value));
    labels
}

fn in_queue(engine: &'static str, queue: &QueueName) -> Vec<Label> {
    vec![
        Label::from_static_parts("engine", engine),
        Label::new("queue", queue.as_str().to_owned()),
    ]
}

/// How jobs were stored, as `queue_table_enqueued_total` says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnqueuedBy {
    /// [`QueueBackend::enqueue`], which has committed.
    Enqueue,
    /// [`TransactionalBackend::enqueue_in`](crate::TransactionalBackend::enqueue_in), whose
    /// transaction is still open.
    EnqueueIn,
}

/// Counts the new ones of jobs that were enqueued. For backends.
pub fn enqueued(engine: &'static str, by: EnqueuedBy, jobs: &[NewJob], enqueued: &[Enqueued]) {
    let by = match by {
        EnqueuedBy::Enqueue => "enqueue",
        EnqueuedBy::EnqueueIn => "enqueue_in",
    };
    let new = jobs.iter().zip(enqueued).filter(|(_, job)| job.is_new());
    let mut counts = BTreeMap::<_, u64>::new();
    for (job, _) in new {
        *counts.entry((job.queue(), job.kind())).or_default() += 1;
    }
    for ((queue, kind), jobs) in counts {
        let mut labels = with(in_queue(engine, queue), "by", by);
        labels.push(Label::new("kind", kind.as_str().to_owned()));
        counter!("queue_table_enqueued_total", labels).increment(jobs);
    }
}

/// Records how long an operation waited for its connection, whether it got one or not. For
/// backends.
pub fn connection_waited(engine: &'static str, operation: &'static str, waited: Duration) {
    histogram!("queue_table_connection_wait_seconds", "engine" => engine, "operation" => operation)
        .record(waited);
}

pub(super) fn claimed(
    engine: &'static str,
    queue: &QueueName,
    jobs: &[ClaimedJob],
    took: Duration,
) {
    histogram!("queue_table_claim_seconds", in_queue(engine, queue)).record(took);
    for job in jobs {
        counter!("queue_table_claimed_total", of(engine, job)).increment(1);
    }
}

/// The database measured the time until the claim, this process the time since.
pub(super) fn started(engine: &'static str, held: &Held) {
    let job = &held.job;
    let delay = job.claimed_at.since(job.run_at) + held.arrived.elapsed();
    histogram!("queue_table_start_delay_seconds", of(engine, job)).record(delay);
}

pub(super) fn handled(engine: &'static str, job: &ClaimedJob, took: Duration) {
    histogram!("queue_table_handler_seconds", of(engine, job)).record(took);
}

pub(super) fn running(engine: &'static str, worker: &str, handlers: usize) {
    let worker = worker.to_owned();
    gauge!("queue_table_handlers_running", "engine" => engine, "worker" => worker)
        .set(handlers as f64);
}

pub(super) fn margin(engine: &'static str, held: &Held) {
    let left = held.deadline().saturating_duration_since(Instant::now());
    histogram!("queue_table_lease_margin_seconds", of(engine, &held.job)).record(left);
}

pub(super) fn acked(engine: &'static str, job: &ClaimedJob) {
    counter!("queue_table_acked_total", of(engine, job)).increment(1);
}

pub(super) fn failed(engine: &'static str, job: &ClaimedJob, reason: &'static str, dead: bool) {
    let labels = of(engine, job);
    if dead {
        counter!("queue_table_dead_total", labels.clone()).increment(1);
    }
    counter!("queue_table_failed_total", with(labels, "reason", reason)).increment(1);
}

pub(super) fn released(engine: &'static str, job: &ClaimedJob, reason: &'static str) {
    let labels = with(of(engine, job), "reason", reason);
    counter!("queue_table_released_total", labels).increment(1);
}

pub(super) fn lost(engine: &'static str, job: &ClaimedJob, reason: &'static str) {
    let labels = with(of(engine, job), "reason", reason);
    counter!("queue_table_lost_claims_total", labels).increment(1);
}

pub(super) fn reaped(engine: &'static str, job: &Reaped) {
    let to = match job.disposition {
        Disposition::Ready { .. } => "ready",
        Disposition::Dead => "dead",
    };
    let labels = with(in_queue(engine, &job.queue), "to", to);
    counter!("queue_table_reaped_total", labels).increment(1);
}

#[cfg(feature = "periodic")]
pub(super) fn tick(engine: &'static str, job: &crate::NewJob) {
    let kind = Label::new("kind", job.kind().as_str().to_owned());
    let mut labels = in_queue(engine, job.queue());
    labels.push(kind);
    counter!("queue_table_ticks_total", labels).increment(1);
}

pub(super) fn promoted(engine: &'static str, queue: &QueueName, jobs: u32) {
    counter!("queue_table_promoted_total", in_queue(engine, queue)).increment(jobs.into());
}

pub(super) fn purged(engine: &'static str, rows: u32) {
    counter!("queue_table_purged_total", "engine" => engine).increment(rows.into());
}

/// Counts and logs an operation that failed. The loop that called it goes on.
pub(super) fn error<B: QueueBackend + ?Sized>(backend: &B, operation: &'static str, error: &Error) {
    let (engine, kind) = (backend.engine(), error.kind());
    counter!("queue_table_errors_total", "engine" => engine, "operation" => operation, "error" => kind)
        .increment(1);
    tracing::warn!(engine, operation, kind, error = %crate::ErrorText::of(error), "operation failed");
}

pub(super) fn stats(engine: &'static str, stats: &QueueStats) {
    let states = [
        ("due", stats.due),
        ("scheduled", stats.scheduled),
        ("running", stats.running),
        ("overdue", stats.overdue),
        ("succeeded", stats.succeeded),
        ("dead", stats.dead),
    ];
    let queue = in_queue(engine, &stats.queue);
    for (state, jobs) in states {
        gauge!("queue_table_jobs", with(queue.clone(), "state", state)).set(jobs as f64);
    }
    gauge!("queue_table_oldest_due_seconds", queue).set(stats.oldest_due.unwrap_or_default());
}
