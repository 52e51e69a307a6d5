//! A job on its way in, and as it comes back.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::id::{JobId, State};
use crate::instant::Timestamp;
use crate::invalid::Invalid;
use crate::lease::{Delay, MaxAttempts};
use crate::name::{ColumnName, DedupKey, Kind, QueueName, WorkerId};
use crate::payload::{Payload, StoredPayload};
use crate::receipt::Receipt;
use crate::table::ColumnValue;

/// A typed payload: what producer and handler agree on.
///
/// ```
/// use queue_table_core::{Job, NewJob, QueueName};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct SendInvoice {
///     order_id: i64,
/// }
///
/// impl Job for SendInvoice {
///     const KIND: &'static str = "invoice.send";
/// }
///
/// let job = NewJob::of(&QueueName::new("invoices")?, &SendInvoice { order_id: 42 })?;
/// assert_eq!(job.payload().as_str(), r#"{"order_id":42}"#);
/// # Ok::<(), queue_table_core::Invalid>(())
/// ```
pub trait Job: Serialize + DeserializeOwned {
    /// The kind, which chooses the handler. Changing it orphans the jobs already enqueued.
    const KIND: &'static str;

    /// The version of the payload's shape. Raise it when old handlers could not read the new shape.
    const VERSION: u16 = 1;
}

/// A job to be enqueued: built, checked, and not yet anywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    queue: QueueName,
    kind: Kind,
    payload: Payload,
    payload_version: u16,
    priority: i32,
    delay: Delay,
    max_attempts: MaxAttempts,
    dedup: Option<Dedup>,
    columns: Vec<(ColumnName, ColumnValue)>,
}

/// A dedup key and how long it names its job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dedup {
    /// The key, unique within its queue.
    pub key: DedupKey,
    /// How long.
    pub scope: DedupScope,
}

/// How long a dedup key names the job it was enqueued with. The scope given by the job that holds
/// the key counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DedupScope {
    /// Until the job is succeeded or dead.
    WhileUnfinished,
    /// Until the job's row is purged.
    WhileRowExists,
}

impl DedupScope {
    /// The word stored in the table.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WhileUnfinished => "unfinished",
            Self::WhileRowExists => "row",
        }
    }
}

impl NewJob {
    /// A job with an untyped payload, of payload version 1.
    #[must_use]
    pub fn new(queue: &QueueName, kind: Kind, payload: Payload) -> Self {
        Self {
            queue: queue.clone(),
            kind,
            payload,
            payload_version: 1,
            priority: 0,
            delay: Delay::ZERO,
            max_attempts: MaxAttempts::default(),
            dedup: None,
            columns: Vec::new(),
        }
    }

    /// A job with a typed payload.
    ///
    /// # Errors
    /// [`Invalid`] when the type's kind is no valid kind, or the payload does not serialise to
    /// allowed JSON.
    pub fn of<J: Job>(queue: &QueueName, job: &J) -> Result<Self, Invalid> {
        let new = Self::new(queue, Kind::new(J::KIND)?, Payload::of(job)?);
        Ok(new.with_payload_version(J::VERSION))
    }

    /// Sets the version of the payload's shape.
    #[must_use]
    pub fn with_payload_version(self, payload_version: u16) -> Self {
        Self {
            payload_version,
            ..self
        }
    }

    /// Sets the priority: higher goes first, 0 by default. A preference, not a promise of order.
    #[must_use]
    pub fn with_priority(self, priority: i32) -> Self {
        Self { priority, ..self }
    }

    /// Makes the job due this long after the database stores it.
    ///
    /// # Errors
    /// [`Invalid`] when the delay is longer than 36,500 days.
    pub fn with_delay(self, delay: Duration) -> Result<Self, Invalid> {
        Ok(Self {
            delay: Delay::new(delay)?,
            ..self
        })
    }

    /// Sets how many claims the job may spend before it is dead.
    ///
    /// # Errors
    /// [`Invalid`] when it is 0 or more than 1,000,000.
    pub fn with_max_attempts(self, max_attempts: u32) -> Result<Self, Invalid> {
        Ok(Self {
            max_attempts: MaxAttempts::new(max_attempts)?,
            ..self
        })
    }

    /// Names the job, so that enqueueing it a second time finds the first.
    ///
    /// # Errors
    /// [`Invalid`] when the key is no valid dedup key.
    pub fn with_dedup(self, key: &str, scope: DedupScope) -> Result<Self, Invalid> {
        Ok(Self {
            dedup: Some(Dedup {
                key: DedupKey::new(key)?,
                scope,
            }),
            ..self
        })
    }

    /// Fills a business column. The queue must have been built with the column.
    ///
    /// # Errors
    /// [`Invalid`] when the name is no valid column name.
    pub fn with_column(
        mut self,
        name: &str,
        value: impl Into<ColumnValue>,
    ) -> Result<Self, Invalid> {
        self.columns.push((ColumnName::new(name)?, value.into()));
        Ok(self)
    }

    /// The queue.
    #[must_use]
    pub fn queue(&self) -> &QueueName {
        &self.queue
    }

    /// The kind.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// The payload.
    #[must_use]
    pub fn payload(&self) -> &Payload {
        &self.payload
    }

    /// The version of the payload's shape.
    #[must_use]
    pub fn payload_version(&self) -> u16 {
        self.payload_version
    }

    /// The priority.
    #[must_use]
    pub fn priority(&self) -> i32 {
        self.priority
    }

    /// The delay until it is due.
    #[must_use]
    pub fn delay(&self) -> Delay {
        self.delay
    }

    /// The attempt budget.
    #[must_use]
    pub fn max_attempts(&self) -> MaxAttempts {
        self.max_attempts
    }

    /// The dedup key and scope, where one was given.
    #[must_use]
    pub fn dedup(&self) -> Option<&Dedup> {
        self.dedup.as_ref()
    }

    /// The business columns given.
    #[must_use]
    pub fn columns(&self) -> &[(ColumnName, ColumnValue)] {
        &self.columns
    }
}

/// What an enqueue did for one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Enqueued {
    /// A new job.
    Inserted(JobId),
    /// The job that the dedup key already names; nothing was changed.
    Existing(JobId),
}

impl Enqueued {
    /// The job's id either way.
    #[must_use]
    pub const fn job_id(self) -> JobId {
        match self {
            Self::Inserted(id) | Self::Existing(id) => id,
        }
    }

    /// Whether the job is new.
    #[must_use]
    pub const fn is_new(self) -> bool {
        matches!(self, Self::Inserted(_))
    }
}

/// A job under a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedJob {
    /// The proof of the claim.
    pub receipt: Receipt,
    /// The queue.
    pub queue: QueueName,
    /// The kind.
    pub kind: Kind,
    /// The payload as stored.
    pub payload: StoredPayload,
    /// The version of the payload's shape.
    pub payload_version: u16,
    /// The priority.
    pub priority: i32,
    /// When it was due.
    pub run_at: Timestamp,
    /// The attempt budget.
    pub max_attempts: u32,
    /// When it was enqueued.
    pub enqueued_at: Timestamp,
    /// When it was claimed.
    pub claimed_at: Timestamp,
    /// When the claim ends unless renewed.
    pub lease_until: Timestamp,
    /// Why the attempt before failed, where one did.
    pub last_error: Option<String>,
    /// The business columns, in the order the queue was built with.
    pub columns: Vec<ColumnValue>,
}

impl ClaimedJob {
    /// The job's id: the key for effects outside the database.
    #[must_use]
    pub fn job_id(&self) -> JobId {
        self.receipt.job_id()
    }

    /// The attempt, counted from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.receipt.attempt()
    }

    /// The place in the claim order: priority from high to low, then due time, then id. For
    /// backends, to sort a batch.
    #[must_use]
    pub fn claim_order(&self) -> impl Ord + use<> {
        (std::cmp::Reverse(self.priority), self.run_at, self.job_id())
    }
}

/// A job's row, as an operator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRecord {
    /// The job.
    pub job_id: JobId,
    /// The queue.
    pub queue: QueueName,
    /// The kind.
    pub kind: Kind,
    /// The payload as stored.
    pub payload: StoredPayload,
    /// The version of the payload's shape.
    pub payload_version: u16,
    /// The state.
    pub state: State,
    /// The priority.
    pub priority: i32,
    /// When it is or was due.
    pub run_at: Timestamp,
    /// Claims so far.
    pub attempts: u32,
    /// The attempt budget.
    pub max_attempts: u32,
    /// Who holds it, when it is running.
    pub worker: Option<WorkerId>,
    /// When the claim ends, when it is running.
    pub lease_until: Option<Timestamp>,
    /// When it was enqueued.
    pub enqueued_at: Timestamp,
    /// When it was last claimed.
    pub claimed_at: Option<Timestamp>,
    /// When it was finished, when it is succeeded or dead.
    pub finished_at: Option<Timestamp>,
    /// Why the last attempt failed, where it did.
    pub last_error: Option<String>,
    /// The business columns, in the order the queue was built with.
    pub columns: Vec<ColumnValue>,
}

/// One failed or reaped attempt of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureRecord {
    /// The job.
    pub job_id: JobId,
    /// The attempt.
    pub attempt: u32,
    /// Who held the claim.
    pub worker: WorkerId,
    /// When the failure was stored.
    pub at: Timestamp,
    /// Whether a worker reported it, or the reaper found it.
    pub cause: FailureCause,
    /// The reason, where one was given.
    pub error: Option<String>,
}

/// How a failed attempt came to be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureCause {
    /// A worker reported it with `fail`.
    Failed,
    /// The lease ran out and the reaper found it.
    Reaped,
}

impl FailureCause {
    /// The word stored in the table.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Reaped => "reaped",
        }
    }

    /// The cause of a stored word; `None` for any other word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Failed, Self::Reaped]
            .into_iter()
            .find(|cause| cause.as_str() == word)
    }
}
