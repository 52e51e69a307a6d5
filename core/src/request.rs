//! What callers ask of a backend, and what it answers.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::error::ErrorText;
use crate::id::{JobId, State};
use crate::instant::Timestamp;
use crate::lease::{BatchSize, Delay, LeaseLength};
use crate::name::{Kind, QueueName, WorkerId};
use crate::receipt::Receipt;
use crate::retry::RetryPolicy;

/// Asks for jobs of one queue.
///
/// ```
/// use std::time::Duration;
/// use queue_table_core::{BatchSize, ClaimRequest, LeaseLength, QueueName, WorkerId};
///
/// let request = ClaimRequest::new(QueueName::new("mail")?, WorkerId::unique("mailer")?)
///     .with_lease(LeaseLength::new(Duration::from_secs(30))?)
///     .with_limit(BatchSize::new(10)?);
/// assert_eq!(request.limit.get(), 10);
/// # Ok::<(), queue_table_core::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRequest {
    /// The queue.
    pub queue: QueueName,
    /// Who claims.
    pub worker: WorkerId,
    /// How long the claims hold without renewal; one minute by default.
    pub lease: LeaseLength,
    /// Most jobs to claim; one by default.
    pub limit: BatchSize,
    /// The kinds and payload versions the worker can run; `None` for all. An empty map claims
    /// nothing.
    pub accepts: Option<Accepts>,
}

/// The kinds a worker can run, each with the payload versions it understands.
pub type Accepts = BTreeMap<Kind, RangeInclusive<u16>>;

impl ClaimRequest {
    /// Asks for one job of any kind, for a minute.
    #[must_use]
    pub fn new(queue: QueueName, worker: WorkerId) -> Self {
        Self {
            queue,
            worker,
            lease: LeaseLength::default(),
            limit: BatchSize::ONE,
            accepts: None,
        }
    }

    /// The same request with another lease.
    #[must_use]
    pub fn with_lease(self, lease: LeaseLength) -> Self {
        Self { lease, ..self }
    }

    /// The same request for up to so many jobs.
    #[must_use]
    pub fn with_limit(self, limit: BatchSize) -> Self {
        Self { limit, ..self }
    }

    /// The same request for these kinds and payload versions only.
    #[must_use]
    pub fn accepting(self, accepts: Accepts) -> Self {
        Self {
            accepts: Some(accepts),
            ..self
        }
    }
}

/// Gives a claimed job up, and says what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The claim.
    pub receipt: Receipt,
    /// What becomes of the job.
    pub action: FailAction,
    /// Why; stored as the job's last error and with the failed attempt.
    pub error: Option<ErrorText>,
}

/// What becomes of a job that is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailAction {
    /// Ready again after the delay, or dead when no attempt is left.
    Retry {
        /// Until the next attempt.
        after: Delay,
    },
    /// Dead, whatever is left of the budget.
    Dead,
    /// Ready again after the delay without spending the budget: `max_attempts` grows by one,
    /// because `attempts` never shrinks. For snoozing and for shutdown. No failure is recorded.
    Release {
        /// Until the next attempt.
        after: Delay,
    },
}

impl Failure {
    /// Tries the job again after the delay.
    #[must_use]
    pub fn retry(receipt: Receipt, after: Delay, error: ErrorText) -> Self {
        Self {
            receipt,
            action: FailAction::Retry { after },
            error: Some(error),
        }
    }

    /// Gives the job up for good.
    #[must_use]
    pub fn dead(receipt: Receipt, error: ErrorText) -> Self {
        Self {
            receipt,
            action: FailAction::Dead,
            error: Some(error),
        }
    }

    /// Gives the claim back without spending the budget.
    #[must_use]
    pub fn release(receipt: Receipt, after: Delay) -> Self {
        Self {
            receipt,
            action: FailAction::Release { after },
            error: None,
        }
    }
}

/// Where a job went that was failed, released or reaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// Ready again, due at this instant.
    Ready {
        /// When it is due.
        run_at: Timestamp,
    },
    /// Dead.
    Dead,
}

/// Asks for the jobs that crashed workers left, and for ready jobs without attempts left.
#[derive(Debug, Clone, PartialEq)]
pub struct ReapRequest {
    /// Most jobs to move; 100 by default.
    pub limit: BatchSize,
    /// How long a reaped job waits, by the attempt that was lost.
    pub policy: RetryPolicy,
}

impl ReapRequest {
    /// Reaps up to so many jobs.
    #[must_use]
    pub fn new(limit: BatchSize, policy: RetryPolicy) -> Self {
        Self { limit, policy }
    }
}

/// One job that the reaper moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reaped {
    /// The job.
    pub job_id: JobId,
    /// Its queue.
    pub queue: QueueName,
    /// The attempts it has had.
    pub attempt: u32,
    /// Who held it; `None` when it was ready with no attempt left.
    pub worker: Option<WorkerId>,
    /// Where it went.
    pub disposition: Disposition,
}

/// Asks for rows, by id from low to high.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListRequest {
    /// Of this queue only.
    pub queue: Option<QueueName>,
    /// In this state only.
    pub state: Option<State>,
    /// Of this kind only.
    pub kind: Option<Kind>,
    /// With a higher id only: the last id of the page before.
    pub after: Option<JobId>,
    /// Most rows to return.
    pub limit: BatchSize,
}

impl ListRequest {
    /// The first rows of any queue, state and kind.
    #[must_use]
    pub fn first(limit: BatchSize) -> Self {
        Self {
            queue: None,
            state: None,
            kind: None,
            after: None,
            limit,
        }
    }
}

/// Asks for the jobs of one queue that have been due for long to be given a higher priority.
///
/// Due jobs of one priority are claimed in the order in which they came due: a job that is promoted
/// stands before all of that priority that come due later, so that no stream of them can starve it.
///
/// ```
/// use std::time::Duration;
/// use queue_table_core::{BatchSize, Delay, PromoteRequest, QueueName};
///
/// let an_hour = Delay::new(Duration::from_secs(3_600))?;
/// let request = PromoteRequest::new(QueueName::new("mail")?, an_hour, 10);
/// assert_eq!(request.limit, BatchSize::MAX);
/// # Ok::<(), queue_table_core::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromoteRequest {
    /// The queue.
    pub queue: QueueName,
    /// Jobs that have been due for at least this long.
    pub waited: Delay,
    /// The priority they get; jobs that have it, or a higher one, stay as they are.
    pub to: i32,
    /// Most jobs to promote; 1,000 by default.
    pub limit: BatchSize,
}

impl PromoteRequest {
    /// Asks for up to 1,000 jobs.
    #[must_use]
    pub fn new(queue: QueueName, waited: Delay, to: i32) -> Self {
        Self {
            queue,
            waited,
            to,
            limit: BatchSize::MAX,
        }
    }

    /// The same request for up to so many jobs.
    #[must_use]
    pub fn with_limit(self, limit: BatchSize) -> Self {
        Self { limit, ..self }
    }
}

/// Asks for one bounded batch of old finished jobs to be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgeRequest {
    /// Deletes succeeded jobs finished at least this long ago; `None` keeps them.
    pub succeeded_after: Option<Delay>,
    /// Deletes dead jobs finished at least this long ago; `None` keeps them.
    pub dead_after: Option<Delay>,
    /// Most rows to look at.
    pub limit: BatchSize,
    /// Goes on behind the batch before.
    pub cursor: Option<PurgeCursor>,
}

/// How far a purge has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PurgeCursor {
    /// The last row's end.
    pub finished_at: Timestamp,
    /// The last row's id.
    pub job_id: JobId,
}

/// What one batch of a purge did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Purged {
    /// Rows deleted, with their failures, effects and dedup keys.
    pub deleted: u32,
    /// Rows that a constraint of the user's keeps, because their own rows reference them.
    pub kept: Vec<JobId>,
    /// Where the next batch starts; `None` when this one found no full batch.
    pub cursor: Option<PurgeCursor>,
}

/// Counts of one queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueStats {
    /// The queue.
    pub queue: QueueName,
    /// Ready jobs that are due.
    pub due: u64,
    /// Ready jobs that are not due yet.
    pub scheduled: u64,
    /// Running jobs, overdue ones among them.
    pub running: u64,
    /// Running jobs whose lease has run out, which the next reap brings back.
    pub overdue: u64,
    /// Succeeded jobs not yet purged.
    pub succeeded: u64,
    /// Dead jobs not yet purged.
    pub dead: u64,
    /// How long the longest-waiting due job has been due; `None` when none is.
    pub oldest_due: Option<Duration>,
    /// Whether the queue is paused.
    pub paused: bool,
}

/// What a migration did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migrated {
    /// The version found; `None` when there were no tables.
    pub from: Option<u32>,
    /// The version now.
    pub to: u32,
}

/// Something `check` found out about the server, the session or the tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The setting or object, such as `journal_mode`.
    pub subject: String,
    /// What was found, and what to do about it.
    pub text: String,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// As it should be, or worth knowing.
    Info,
    /// Works, but slower or less safely than it could.
    Warning,
    /// Breaks the contract; do not run the queue like this.
    Fatal,
}
