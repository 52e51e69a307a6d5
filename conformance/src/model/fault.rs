//! Faults that real queues have had, one of which a model can be given.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

macro_rules! faults {
    ($($name:ident: $sentence:literal,)*) => {
        /// One deliberate fault of a model. A model with one is a mutant: the suite must catch it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Fault {
            $(#[doc = $sentence] $name,)*
        }

        impl Fault {
            /// Every fault.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// What the mutant does wrong.
            #[must_use]
            pub const fn sentence(self) -> &'static str {
                match self {
                    $(Self::$name => $sentence,)*
                }
            }
        }
    };
}

faults! {
    EnqueueOnAnotherConnection: "enqueue in the caller's transaction uses a connection of its own",
    EnqueueCommitsTheCaller: "enqueue in the caller's transaction commits it, as lazy DDL does",
    EnqueueStoresHalfABatch: "an enqueue that is rejected has stored the jobs before the bad one",
    EnqueueIdsReversed: "the ids of a batch come back in another order than the jobs were given",
    EnqueueIgnoresDelay: "a delayed job is due at once",
    EnqueueRoundsUp: "due times are rounded up to whole seconds, so that a new job hides for a while",
    EmptyBatchFails: "an empty batch is an error",
    PayloadNormalised: "the payload is stored as parsed JSON and comes back rewritten",
    NamesFolded: "names that differ only in case are the same, as in a case-insensitive collation",
    ColumnsDropped: "business columns are not stored",
    ColumnsUnchecked: "business columns that the queue was not built with are let through and lost",
    DedupByQuery: "a dedup key is looked up before the batch and the lock, and then inserted unseen",
    DedupNeverEnds: "a dedup key names its job until the row is gone, whatever its scope",
    DedupEndsTooEarly: "a dedup key is free once its job is finished, whatever its scope",
    DedupScopeOfNewcomer: "the scope of the second enqueue decides, not that of the job that holds the key",
    DedupAcrossQueues: "a dedup key names one job of all queues",
    DedupOfGoneJobs: "a dedup key still names a job whose row is gone",
    DedupPoisonsTransaction: "a dedup key that is taken aborts the caller's transaction, as a unique violation does",
    DedupUpdatesTheJob: "a second enqueue with the same key overwrites the payload of the first",
    NoWakeUp: "a waiter hears no enqueue",
    ClaimWithoutGuard: "claim selects and then updates without looking again: two workers get one job",
    ClaimTakesMore: "a claim takes one job more than asked",
    ClaimIgnoresDueTime: "jobs are claimed before they are due",
    ClaimIgnoresPriority: "jobs are claimed by id alone",
    ClaimIgnoresDueOrder: "jobs of one priority are claimed by id, not by due time",
    ClaimReturnsIdOrder: "the right jobs are claimed, but come back by id, as RETURNING may give them",
    ClaimIgnoresPause: "a paused queue is claimed from",
    ClaimIgnoresQueue: "jobs of any queue are claimed",
    ClaimIgnoresKinds: "jobs of kinds that were not asked for are claimed",
    ClaimIgnoresVersions: "jobs of payload versions that were not asked for are claimed",
    ClaimTakesExhausted: "ready jobs without attempts left are claimed",
    ClaimBlockedByExhausted: "a ready job without attempts left hides the jobs behind it",
    ClaimTakesOverdue: "a claim takes running jobs whose lease is over, past the reaper",
    ClaimRetakesFinished: "a claim takes dead jobs again",
    ClaimKeepsAttempt: "a claim counts the attempt in its answer only, and does not store it",
    ClaimForgetsError: "a claim clears the error of the attempt before",
    ClaimDecodesTheBatch: "one payload that cannot be decoded fails the whole claim, whose jobs stay running",
    ClaimSwallowsErrors: "an error of the database is answered as an empty claim",
    ClaimInCommits: "a claim in the caller's transaction is committed at once",
    WritesNeverWait: "a write gives up at once while another session writes",
    FenceByJob: "renew, ack and fail look at the job id only",
    FenceByState: "renew, ack and fail look at the job id and whether it is running",
    FenceIgnoresAttempt: "renew, ack and fail do not compare the attempt",
    FenceIgnoresWorker: "renew, ack and fail do not compare the worker",
    FenceIgnoresDeadline: "renew, ack and fail do not look at the deadline",
    DeadlineBeforeTheWait: "the deadline is judged by the time before the wait for the lock",
    RenewRevives: "renew revives a lease that is over",
    RenewAddsToDeadline: "renew adds to the old deadline instead of the database's now",
    ReleaseUnfenced: "a release is taken from anybody",
    EffectUnfenced: "an effect is recorded for a claim that is lost",
    EffectPerAttempt: "an effect that an earlier attempt recorded is forgotten by the next",
    EffectCommitsAtOnce: "a recorded effect stays when the caller rolls back",
    LostClaimSwallowed: "renew, ack and fail of a lost claim change nothing, but answer Ok",
    LostClaimSwallowedInTx: "ack and fail in a transaction change nothing for a lost claim, but answer Ok",
    LostReasonNotTold: "every lost claim is said to be expired",
    BatchSpoiled: "one stale receipt makes the whole batch fail",
    BatchAnswersById: "a batch of receipts is answered by job id, not in the order given",
    BatchJudgedOnce: "a receipt that stands twice in a batch is acked twice",
    AckKeepsError: "an acked job keeps its last error",
    AckInOwnTransaction: "ack in the caller's transaction is committed at once",
    RetryAtOnce: "retry delays are zero",
    RetryForEver: "a job without attempts left is tried again",
    DeadIsRetried: "a job that is failed for good is tried again",
    ReleaseSpendsBudget: "a release spends an attempt of the budget",
    ReleaseCountsDown: "a release counts the attempts down",
    ReleaseRecordsFailure: "a release is recorded as a failure",
    FailureNotRecorded: "failed attempts are not recorded",
    FailureOfLastOnly: "only the last failed attempt of a job is kept",
    ReapWithoutRecheck: "the reaper moves the jobs it saw before it had their locks",
    ReapTakesLive: "the reaper takes jobs whose lease is not over",
    ReapTakesMore: "a reap takes one job more than asked",
    ReapInIdOrder: "the reaper takes the lowest ids, not the oldest deadlines",
    ReapLeavesExhausted: "ready jobs without attempts left are never buried",
    ReapResetsAttempts: "a reaped job's attempts begin again at zero",
    ReplayResetsAttempts: "a replayed job's attempts begin again at zero",
    ReplayKeepsBudget: "a replayed job gets no extra attempts",
    ReplayOfAnyJob: "jobs that are not dead are replayed",
    ReplayIgnoresKey: "a replay does not look at its dedup key",
    CancelOfAnyJob: "finished jobs are cancelled",
    CancelKeepsTheClaim: "a cancelled job's holder may still finish it",
    PromoteDoesNothing: "no job is ever promoted",
    PromoteIgnoresQueue: "jobs of every queue are promoted",
    PromoteIgnoresState: "running, finished and exhausted jobs are promoted",
    PromoteIgnoresAge: "every due job is promoted, however short it has waited",
    PromoteTakesFuture: "jobs that are not due yet are promoted",
    PromoteLowers: "jobs of a higher priority are brought down to the one they are to be promoted to",
    PromoteTakesMore: "a promotion takes one job more than asked",
    PromoteInIdOrder: "the lowest ids are promoted, not the jobs that have waited longest",
    PromoteChangesDueTime: "a promoted job is due anew, so that it stands behind the others again",
    PurgeDeletesReady: "a purge deletes old ready jobs",
    PurgeIgnoresWindows: "a purge looks at neither age nor outcome of finished jobs",
    PurgeTakesMore: "a purge deletes one row more than asked",
    PurgeLeavesSisters: "a purge leaves the failures, effects and dedup keys of its jobs",
    PurgeStopsAtReferences: "a row that a constraint keeps makes the whole purge fail",
    PurgeIgnoresCursor: "a purge begins at the oldest row each time",
    PauseOfEveryQueue: "a pause stops every queue",
    ResumeForgotten: "a resumed queue stays paused",
    ListIgnoresFilters: "list returns every job",
    ListIgnoresCursor: "list begins at the first row each time",
    StatsCountScheduledAsDue: "stats count jobs that are not due yet as due",
    StatsLeaveOutPaused: "stats leave out paused queues without jobs",
    StatsLeaveOutOverdue: "stats do not count overdue jobs",
    TransactionOfStaleTables: "a transaction puts back what it saw before it waited for its turn",
    TransactionCommitsErrors: "a transaction is committed although its work failed",
    RejectionPoisonsTransaction: "after a rejected call nothing else works in the caller's transaction",
    WorkersClock: "deadlines and due times are computed from the worker's clock",
    TableWithoutChecks: "the table takes every row",
    TableChecksTooMuch: "the table refuses a job with more attempts than its budget",
    CheckFindsNothing: "check looks at nothing",
    CheckCriesWolf: "check finds something fatal on good tables",
    MigrateTwiceFails: "a second migration fails because the tables are there",
    MigrateAgainEmpties: "a second migration makes the tables anew, without their rows",
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The fault of a model, and which faults its statements have come by.
///
/// A scenario that never comes by a fault cannot be failed by it, so that mutant need not be tried
/// on it.
#[derive(Debug, Clone, Default)]
pub(super) struct Faults {
    fault: Option<Fault>,
    met: Option<Arc<Mutex<BTreeSet<Fault>>>>,
}

impl Faults {
    pub(super) fn only(fault: Fault) -> Self {
        Self {
            fault: Some(fault),
            met: None,
        }
    }

    /// No fault, and a list of those come by.
    pub(super) fn noting() -> Self {
        Self {
            fault: None,
            met: Some(Arc::default()),
        }
    }

    pub(super) fn has(&self, fault: Fault) -> bool {
        if let Some(met) = &self.met {
            lock(met).insert(fault);
        }
        self.fault == Some(fault)
    }

    pub(super) fn met(&self) -> BTreeSet<Fault> {
        let met = self.met.as_ref();
        met.map(|met| lock(met).clone()).unwrap_or_default()
    }
}

fn lock(met: &Mutex<BTreeSet<Fault>>) -> MutexGuard<'_, BTreeSet<Fault>> {
    met.lock().unwrap_or_else(PoisonError::into_inner)
}
