//! The contract of `queue-table`: background jobs in an ordinary table of the application's own
//! database.
//!
//! This crate holds what is the same on every engine: the traits a backend implements, the types
//! that go in and out, errors sorted by what the caller does next, the retry policy, and the
//! worker. It names no driver and no engine, has no async code, and opens no connection. The rules
//! that every backend keeps are in `CONTRACT.md` beside it; the crate `queue-table-conformance`
//! proves them on a backend.
//!
//! Applications use the facade `queue-table` with the feature of their database. This crate alone
//! is for those who port the queue to another engine.

mod backend;
mod bell;
mod error;
mod free_first;
mod id;
mod instant;
mod invalid;
mod job;
mod lease;
mod name;
mod payload;
mod receipt;
mod request;
mod retry;
mod table;
pub mod worker;

pub use backend::{
    Administration, CONTRACT_VERSION, QueueBackend, QueueBackendExt, TransactionalBackend,
};
pub use bell::{Bell, Waiter, Woken};
pub use error::{ERROR_TEXT_BYTES_MAX, Error, ErrorText, Failed, Rejected, Result};
pub use free_first::free_first;
pub use id::{JobId, State};
pub use instant::Timestamp;
pub use invalid::{Invalid, Problem};
pub use job::{
    ClaimedJob, Dedup, DedupScope, Enqueued, FailureCause, FailureRecord, Job, JobRecord, NewJob,
};
pub use lease::{
    BATCH_MAX, BatchSize, DELAY_MAX, Delay, ENQUEUE_MAX, LEASE_MAX, LEASE_MIN, LeaseLength,
    MAX_ATTEMPTS_DEFAULT, MAX_ATTEMPTS_MAX, MaxAttempts, check_count,
};
pub use name::{
    ColumnName, DEDUP_KEY_BYTES_MAX, DedupKey, EffectName, IDENTIFIER_BYTES_MAX, Kind,
    NAME_BYTES_MAX, QueueName, SchemaName, TableName, WorkerId,
};
pub use payload::{PAYLOAD_BYTES_MAX, PAYLOAD_DEPTH_MAX, Payload, PayloadError, StoredPayload};
pub use receipt::{Fenced, LostClaim, LostReason, Observed, Receipt};
pub use request::{
    Accepts, ClaimRequest, Disposition, FailAction, Failure, Finding, ListRequest, Migrated,
    PromoteRequest, PurgeCursor, PurgeRequest, Purged, QueueStats, ReapRequest, Reaped, Severity,
};
pub use retry::{RETRY_DELAY_MIN, RetryPolicy};
pub use table::{COLUMNS_MAX, Column, ColumnType, ColumnValue, Table};
pub use worker::{Context, Outcome, Worker, WorkerBuilder};
