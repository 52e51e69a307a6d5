//! Rows as they come from the server, and what they mean.

use std::time::Duration;

use diesel::data_types::PgTimestamp;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Binary, Bool, Integer, Nullable, Text, Timestamptz};
use queue_table_core::{
    ClaimedJob, Column, ColumnType, ColumnValue, Disposition, FailureCause, FailureRecord, JobId,
    JobRecord, Kind, Observed, QueueName, QueueStats, Reaped, Receipt, Result, State,
    StoredPayload, Timestamp, WorkerId,
};
use uuid::Uuid;

use crate::error::broken;

/// From 1970 to 2000, where PostgreSQL's instants begin.
const EPOCH_US: i64 = 946_684_800_000_000;

/// An instant as the server sends it.
pub(crate) fn instant(stored: PgTimestamp) -> Timestamp {
    Timestamp::from_micros(stored.0.saturating_add(EPOCH_US))
}

/// An instant as the server takes it.
pub(crate) fn stored(instant: Timestamp) -> PgTimestamp {
    PgTimestamp(instant.as_micros().saturating_sub(EPOCH_US))
}

/// A count. The table's checks keep it from being negative.
fn count(stored: i32) -> u32 {
    u32::try_from(stored).unwrap_or_default()
}

/// A payload version. A row that another program wrote with a larger one shows the largest, and can
/// still be claimed.
fn version(stored: i32) -> u16 {
    u16::try_from(stored.max(0)).unwrap_or(u16::MAX)
}

/// A state's word.
pub(crate) fn state(stored: &str) -> Result<State> {
    State::parse(stored).ok_or_else(|| broken("decode", format!("unknown state `{stored}`")))
}

/// Business columns from their texts. A value that is not of the type the queue was built with
/// comes as text.
fn columns(columns: &[Column], texts: Vec<Option<String>>) -> Vec<ColumnValue> {
    let value = |(column, text): (&Column, Option<String>)| {
        let Some(text) = text else {
            return ColumnValue::Null;
        };
        let typed = match column.column_type {
            ColumnType::Integer => text.parse().ok().map(ColumnValue::Integer),
            ColumnType::Uuid => Uuid::parse_str(&text).ok().map(ColumnValue::Uuid),
            ColumnType::Text => None,
        };
        typed.unwrap_or(ColumnValue::Text(text))
    };
    columns.iter().zip(texts).map(value).collect()
}

/// The SQL types of a [`ClaimedRow`].
#[rustfmt::skip]
pub(crate) type ClaimedShape = (
    BigInt, Integer, Text, Text, Text, Binary, Integer, Integer, Timestamptz, Integer, Timestamptz, Timestamptz,
    Timestamptz, Nullable<Text>, Array<Nullable<Text>>,
);

/// A row that a claim returns.
#[derive(Queryable)]
pub(crate) struct ClaimedRow {
    job_id: i64,
    attempts: i32,
    worker_id: String,
    queue: String,
    kind: String,
    payload: Vec<u8>,
    payload_version: i32,
    priority: i32,
    run_at: PgTimestamp,
    max_attempts: i32,
    enqueued_at: PgTimestamp,
    claimed_at: PgTimestamp,
    lease_until: PgTimestamp,
    last_error: Option<String>,
    columns: Vec<Option<String>>,
}

impl ClaimedRow {
    pub(crate) fn decode(self, of: &[Column]) -> ClaimedJob {
        let worker = WorkerId::stored(&self.worker_id);
        ClaimedJob {
            receipt: Receipt::new(JobId::new(self.job_id), count(self.attempts), worker),
            queue: QueueName::stored(&self.queue),
            kind: Kind::stored(&self.kind),
            payload: StoredPayload::new(self.payload),
            payload_version: version(self.payload_version),
            priority: self.priority,
            run_at: instant(self.run_at),
            max_attempts: count(self.max_attempts),
            enqueued_at: instant(self.enqueued_at),
            claimed_at: instant(self.claimed_at),
            lease_until: instant(self.lease_until),
            last_error: self.last_error,
            columns: columns(of, self.columns),
        }
    }
}

/// The SQL types of a [`RecordRow`].
#[rustfmt::skip]
pub(crate) type RecordShape = (
    BigInt, Text, Text, Binary, Integer, Text, Integer, Timestamptz, Integer, Integer, Nullable<Text>,
    Nullable<Timestamptz>, Timestamptz, Nullable<Timestamptz>, Nullable<Timestamptz>, Nullable<Text>,
    Array<Nullable<Text>>,
);

/// A whole row.
#[derive(Queryable)]
pub(crate) struct RecordRow {
    job_id: i64,
    queue: String,
    kind: String,
    payload: Vec<u8>,
    payload_version: i32,
    state: String,
    priority: i32,
    run_at: PgTimestamp,
    attempts: i32,
    max_attempts: i32,
    worker_id: Option<String>,
    lease_until: Option<PgTimestamp>,
    enqueued_at: PgTimestamp,
    claimed_at: Option<PgTimestamp>,
    finished_at: Option<PgTimestamp>,
    last_error: Option<String>,
    columns: Vec<Option<String>>,
}

impl RecordRow {
    pub(crate) fn decode(self, of: &[Column]) -> Result<JobRecord> {
        Ok(JobRecord {
            job_id: JobId::new(self.job_id),
            queue: QueueName::stored(&self.queue),
            kind: Kind::stored(&self.kind),
            payload: StoredPayload::new(self.payload),
            payload_version: version(self.payload_version),
            state: state(&self.state)?,
            priority: self.priority,
            run_at: instant(self.run_at),
            attempts: count(self.attempts),
            max_attempts: count(self.max_attempts),
            worker: self.worker_id.as_deref().map(WorkerId::stored),
            lease_until: self.lease_until.map(instant),
            enqueued_at: instant(self.enqueued_at),
            claimed_at: self.claimed_at.map(instant),
            finished_at: self.finished_at.map(instant),
            last_error: self.last_error,
            columns: columns(of, self.columns),
        })
    }
}

/// The SQL types of an [`ObservedRow`].
pub(crate) type ObservedShape = (BigInt, Text, Integer, Nullable<Text>);

/// What decides why a claim is lost.
#[derive(Queryable)]
pub(crate) struct ObservedRow {
    job_id: i64,
    state: String,
    attempts: i32,
    worker_id: Option<String>,
}

impl ObservedRow {
    pub(crate) fn decode(self) -> Result<(JobId, Observed)> {
        let observed = Observed {
            state: state(&self.state)?,
            attempts: count(self.attempts),
            worker: self.worker_id.as_deref().map(WorkerId::stored),
        };
        Ok((JobId::new(self.job_id), observed))
    }
}

/// The SQL types of a [`MovedRow`].
pub(crate) type MovedShape = (BigInt, Text, Timestamptz);

/// A job that was failed or released.
#[derive(Queryable)]
pub(crate) struct MovedRow {
    job_id: i64,
    state: String,
    run_at: PgTimestamp,
}

impl MovedRow {
    pub(crate) fn decode(self) -> Result<(JobId, Disposition)> {
        let disposition = disposition(&self.state, self.run_at)?;
        Ok((JobId::new(self.job_id), disposition))
    }
}

fn disposition(stored: &str, run_at: PgTimestamp) -> Result<Disposition> {
    Ok(match state(stored)? {
        State::Dead => Disposition::Dead,
        _ => Disposition::Ready {
            run_at: instant(run_at),
        },
    })
}

/// The SQL types of a [`ReapedRow`].
pub(crate) type ReapedShape = (BigInt, Text, Integer, Nullable<Text>, Text, Timestamptz);

/// A job that the reaper brought back.
#[derive(Queryable)]
pub(crate) struct ReapedRow {
    job_id: i64,
    queue: String,
    attempts: i32,
    worker_id: Option<String>,
    state: String,
    run_at: PgTimestamp,
}

impl ReapedRow {
    pub(crate) fn decode(self) -> Result<Reaped> {
        Ok(Reaped {
            job_id: JobId::new(self.job_id),
            queue: QueueName::stored(&self.queue),
            attempt: count(self.attempts),
            worker: self.worker_id.as_deref().map(WorkerId::stored),
            disposition: disposition(&self.state, self.run_at)?,
        })
    }
}

/// A ready job without attempts left, now dead.
pub(crate) fn buried((job_id, queue, attempts): (i64, String, i32)) -> Reaped {
    Reaped {
        job_id: JobId::new(job_id),
        queue: QueueName::stored(&queue),
        attempt: count(attempts),
        worker: None,
        disposition: Disposition::Dead,
    }
}

/// The SQL types of a [`FailureRow`].
pub(crate) type FailureShape = (BigInt, Integer, Text, Timestamptz, Text, Nullable<Text>);

/// One failed or reaped attempt.
#[derive(Queryable)]
pub(crate) struct FailureRow {
    job_id: i64,
    attempt: i32,
    worker_id: String,
    at: PgTimestamp,
    cause: String,
    error: Option<String>,
}

impl FailureRow {
    pub(crate) fn decode(self) -> Result<FailureRecord> {
        let unknown = || broken("decode", format!("unknown cause `{}`", self.cause));
        Ok(FailureRecord {
            job_id: JobId::new(self.job_id),
            attempt: count(self.attempt),
            worker: WorkerId::stored(&self.worker_id),
            at: instant(self.at),
            cause: FailureCause::parse(&self.cause).ok_or_else(unknown)?,
            error: self.error,
        })
    }
}

/// The SQL types of a [`StatsRow`].
#[rustfmt::skip]
pub(crate) type StatsShape = (
    Text, BigInt, BigInt, BigInt, BigInt, BigInt, BigInt, Nullable<BigInt>, Bool,
);

/// The counts of one queue.
#[derive(Queryable)]
pub(crate) struct StatsRow {
    queue: String,
    due: i64,
    scheduled: i64,
    running: i64,
    overdue: i64,
    succeeded: i64,
    dead: i64,
    oldest_due_us: Option<i64>,
    paused: bool,
}

impl StatsRow {
    pub(crate) fn decode(self) -> QueueStats {
        let count = |stored: i64| u64::try_from(stored).unwrap_or_default();
        QueueStats {
            queue: QueueName::stored(&self.queue),
            due: count(self.due),
            scheduled: count(self.scheduled),
            running: count(self.running),
            overdue: count(self.overdue),
            succeeded: count(self.succeeded),
            dead: count(self.dead),
            oldest_due: self
                .oldest_due_us
                .map(|age| Duration::from_micros(count(age))),
            paused: self.paused,
        }
    }
}
