//! Rows as the other route sees and writes them.

use queue_table_core::{ColumnValue, JobId, State, Timestamp};

/// A stored row, every column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The id.
    pub job_id: JobId,
    /// The queue.
    pub queue: String,
    /// The kind.
    pub kind: String,
    /// The payload's bytes.
    pub payload: Vec<u8>,
    /// The payload's version.
    pub payload_version: u16,
    /// The state, as stored.
    pub state: State,
    /// The priority.
    pub priority: i32,
    /// When it is due.
    pub run_at: Timestamp,
    /// Claims so far.
    pub attempts: u32,
    /// The budget.
    pub max_attempts: u32,
    /// Who holds it.
    pub worker_id: Option<String>,
    /// Until when.
    pub lease_until: Option<Timestamp>,
    /// When it was enqueued.
    pub enqueued_at: Timestamp,
    /// When it was last claimed.
    pub claimed_at: Option<Timestamp>,
    /// When it was finished.
    pub finished_at: Option<Timestamp>,
    /// Why it last failed.
    pub last_error: Option<String>,
    /// The business columns, in the order of the set-up.
    pub columns: Vec<ColumnValue>,
}

/// One column to change by raw SQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// `state`, to any text.
    State(&'static str),
    /// `attempts`.
    Attempts(i64),
    /// `max_attempts`.
    MaxAttempts(i64),
    /// `priority`.
    Priority(i32),
    /// `payload_version`.
    PayloadVersion(u16),
    /// `worker_id`.
    WorkerId(Option<&'static str>),
    /// `lease_until`, so many microseconds from the database's now.
    LeaseUntil(Option<i64>),
    /// `run_at`, so many microseconds from the database's now.
    RunAt(i64),
    /// `finished_at`, so many microseconds from the database's now.
    FinishedAt(Option<i64>),
    /// `payload`, with the table's rules kept.
    Payload(&'static str),
    /// `payload`, past the table's rules where the engine allows that: bytes no reader can decode.
    Undecodable,
}

/// How an engine took a raw write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// It stored it.
    Stored,
    /// One of the table's rules refused it; the engine's message.
    Refused(String),
    /// The engine cannot be brought to store such a thing at all.
    Impossible,
}
