//! The three traits that a backend implements. `CONTRACT.md` beside this crate says what each must
//! keep.

use std::time::Duration;

use crate::bell::{Waiter, Woken};
use crate::error::{Error, ErrorText, Result};
use crate::id::JobId;
use crate::job::{ClaimedJob, Enqueued, FailureRecord, JobRecord, NewJob};
use crate::lease::LeaseLength;
use crate::lease::MaxAttempts;
use crate::name::{EffectName, QueueName};
use crate::receipt::{Fenced, Receipt};
use crate::request::{
    ClaimRequest, Disposition, Failure, Finding, ListRequest, Migrated, PromoteRequest,
    PurgeRequest, Purged, QueueStats, ReapRequest, Reaped,
};

/// Raised when a rule of the contract changes, so that a backend and the suite that judges it can
/// be told apart.
pub const CONTRACT_VERSION: u32 = 2;

/// Moves jobs through their life in one database. Batch-first, without defaults, object-safe.
///
/// Every method is one short transaction of its own (more than one where it says so), and retries
/// [`Error::Contention`] a bounded number of times by itself. Batches of receipts are judged
/// receipt by receipt and answered in the order given; an empty batch does nothing.
pub trait QueueBackend: Send + Sync {
    /// The engine's name in errors, logs and metrics, such as `sqlite`.
    fn engine(&self) -> &'static str;

    /// Stores jobs, all or none, and returns their ids in the order given. At most 10,000.
    ///
    /// # Errors
    /// [`Error::Rejected`] for more jobs than that, or business columns the queue was not built
    /// with; [`Error::OutcomeUnknown`] when the connection died while committing: with dedup keys,
    /// enqueue again.
    fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>>;

    /// Claims due jobs for one worker: state running, `attempts + 1`, worker and lease stored, in
    /// claim order.
    ///
    /// An empty answer means that nothing could be locked now, not that the queue is empty.
    ///
    /// # Errors
    /// [`Error::OutcomeUnknown`] when the connection died while committing: forget it, the lease
    /// ends by itself.
    fn claim(&self, request: &ClaimRequest) -> Result<Vec<ClaimedJob>>;

    /// Moves the deadlines of live claims to the database's now + `lease`. At most 1,000, on a
    /// connection kept apart; free rows first, as for [`QueueBackend::ack`].
    ///
    /// # Errors
    /// [`Error::Rejected`] for more receipts than that; [`Error::OutcomeUnknown`] when some are
    /// renewed and the rows of the others stayed locked: renew again, in smaller batches. A claim
    /// that no longer holds is no error but its own answer.
    fn renew(&self, receipts: &[Receipt], lease: LeaseLength) -> Result<Vec<Fenced<()>>>;

    /// Finishes claimed jobs as succeeded. At most 1,000.
    ///
    /// On engines with row locks those whose rows are free are finished first, and the rest in a
    /// second transaction that waits for them.
    ///
    /// # Errors
    /// [`Error::Rejected`] for more receipts than that; [`Error::OutcomeUnknown`] when the
    /// connection died while committing, or the rows of some stayed locked after others were
    /// finished: read the row, which tells whether it went through.
    fn ack(&self, receipts: &[Receipt]) -> Result<Vec<Fenced<()>>>;

    /// Gives claimed jobs up: to be tried again, dead, or released. At most 1,000.
    ///
    /// # Errors
    /// As for [`QueueBackend::ack`].
    fn fail(&self, failures: &[Failure]) -> Result<Vec<Fenced<Disposition>>>;

    /// Brings back running jobs whose lease has run out, and buries ready jobs that have no attempt
    /// left.
    ///
    /// # Errors
    /// Transient ones; call again at the next round.
    fn reap(&self, request: &ReapRequest) -> Result<Vec<Reaped>>;

    /// Waits until a job may be there for the waiter's queues, or `at_most` has passed.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the engine's own wake-up is lost; the caller falls back to
    /// polling.
    fn wait(&self, waiter: &mut Waiter, at_most: Duration) -> Result<Woken>;

    /// Wakes waiters of the queue in this process: for callers whose own transaction enqueued and
    /// has committed.
    fn ring(&self, queue: &QueueName);
}

/// What operators and workers need besides. Object-safe.
pub trait Administration: QueueBackend {
    /// Creates the tables or brings them to this build's version. Safe when many processes start at
    /// once.
    ///
    /// # Errors
    /// [`Error::Schema`] when the tables are newer than this build; [`Error::Unsupported`] for a
    /// server that is too old.
    fn migrate(&self) -> Result<Migrated>;

    /// Looks at the server, the session and the tables, and reports what would break or slow the
    /// queue.
    ///
    /// # Errors
    /// Only when it cannot look: what it finds is the answer.
    fn check(&self) -> Result<Vec<Finding>>;

    /// Reads one job; `None` when there is no such row.
    ///
    /// # Errors
    /// Those of any read.
    fn get(&self, job: JobId) -> Result<Option<JobRecord>>;

    /// Reads one page of jobs by id, from low to high.
    ///
    /// # Errors
    /// Those of any read.
    fn list(&self, request: &ListRequest) -> Result<Vec<JobRecord>>;

    /// Reads the failed and reaped attempts of a job, first to last.
    ///
    /// # Errors
    /// Those of any read.
    fn failures(&self, job: JobId) -> Result<Vec<FailureRecord>>;

    /// Counts jobs per queue, by name; of one queue when asked (an empty answer when it has no rows
    /// and is not paused).
    ///
    /// Reads every row of the queues asked for: for operators, not for a loop.
    ///
    /// # Errors
    /// Those of any read.
    fn stats(&self, queue: Option<&QueueName>) -> Result<Vec<QueueStats>>;

    /// Makes a dead job ready again, due at once, with a budget of `attempts so far + extra`, and
    /// returns that budget.
    ///
    /// The id stays, `attempts` stays, the last error is cleared.
    ///
    /// # Errors
    /// [`Error::Rejected`] when there is no such job, it is not dead, or its dedup key meanwhile
    /// names another unfinished job.
    fn replay(&self, job: JobId, extra: MaxAttempts) -> Result<u32>;

    /// Makes a ready or running job dead. A worker that holds it learns so as a lost claim.
    ///
    /// # Errors
    /// [`Error::Rejected`] when there is no such job or it is already finished.
    fn cancel(&self, job: JobId, reason: &ErrorText) -> Result<()>;

    /// Gives jobs of one queue that have been due for long a higher priority, the oldest first, and
    /// returns how many.
    ///
    /// Fewer than the limit means that no more were found free among the oldest; what others hold
    /// is passed over, and a backend looks at 1,000 or more of the oldest only. The stored priority
    /// is changed for good: retries and releases keep it. Each job moves in the table's indexes, so
    /// this is for the few that starve, not for a whole queue.
    ///
    /// # Errors
    /// Transient ones; call again with the same request.
    fn promote(&self, request: &PromoteRequest) -> Result<u32>;

    /// Deletes one bounded batch of old finished jobs, committed by itself.
    ///
    /// # Errors
    /// Transient ones; call again with the same request.
    fn purge(&self, request: &PurgeRequest) -> Result<Purged>;

    /// Stops claims of a queue; claims that are held go on. Pausing twice is pausing.
    ///
    /// # Errors
    /// Those of any write.
    fn pause(&self, queue: &QueueName) -> Result<()>;

    /// Lets a queue be claimed again. Resuming a queue that is not paused does nothing.
    ///
    /// # Errors
    /// Those of any write.
    fn resume(&self, queue: &QueueName) -> Result<()>;
}

/// The same operations inside a transaction that the caller owns.
///
/// They issue no commit, no rollback, no retry and no DDL, and leave the session's settings alone.
/// After [`Error::Contention`] roll back and run the whole transaction again.
pub trait TransactionalBackend: QueueBackend {
    /// The driver's own transaction, or what stands for it.
    type Tx<'t>;

    /// Stores jobs; they become visible exactly when the caller commits.
    ///
    /// # Errors
    /// As for [`QueueBackend::enqueue`], and [`Error::Rejected`] outside a transaction.
    fn enqueue_in(&self, tx: &mut Self::Tx<'_>, jobs: &[NewJob]) -> Result<Vec<Enqueued>>;

    /// Claims jobs that return to the queue untouched when the caller rolls back: work inside the
    /// claim transaction.
    ///
    /// # Errors
    /// As for [`QueueBackend::claim`], and [`Error::Rejected`] outside a transaction.
    fn claim_in(&self, tx: &mut Self::Tx<'_>, request: &ClaimRequest) -> Result<Vec<ClaimedJob>>;

    /// Finishes a claimed job in one commit with the caller's own changes.
    ///
    /// # Errors
    /// [`Error::LostClaim`] when the claim no longer holds: let it roll the caller's transaction
    /// back.
    fn ack_in(&self, tx: &mut Self::Tx<'_>, receipt: &Receipt) -> Result<()>;

    /// Gives a claimed job up in one commit with the caller's own changes.
    ///
    /// # Errors
    /// As for [`TransactionalBackend::ack_in`].
    fn fail_in(&self, tx: &mut Self::Tx<'_>, failure: &Failure) -> Result<Disposition>;

    /// Records that the claim's job has had the effect `name`, and says whether it is the first
    /// time.
    ///
    /// `false` means that an earlier attempt committed the effect: do not repeat it. Rolls back
    /// with the caller.
    ///
    /// # Errors
    /// [`Error::LostClaim`] when the claim no longer holds.
    fn record_effect_in(
        &self,
        tx: &mut Self::Tx<'_>,
        receipt: &Receipt,
        name: &EffectName,
    ) -> Result<bool>;

    /// Runs `work` in one transaction of this backend: commits when it returns `Ok`, else rolls
    /// back.
    ///
    /// Rings the bell of the queues that `work` enqueued to, after the commit. `work` is run once:
    /// after [`Error::Contention`] the caller runs the whole again.
    ///
    /// # Errors
    /// Those of `work`, and those of beginning and committing.
    fn transaction<R, E, F>(&self, work: F) -> std::result::Result<R, E>
    where
        E: From<Error>,
        F: for<'t> FnOnce(&mut Self::Tx<'t>) -> std::result::Result<R, E>;
}

/// One receipt at a time, for callers without a batch.
///
/// A lost claim becomes an error here, on purpose: a boolean that is ignored would let an obsolete
/// worker's effect stand.
pub trait QueueBackendExt: QueueBackend {
    /// Finishes one claimed job.
    ///
    /// # Errors
    /// [`Error::LostClaim`] when the claim no longer holds, and as for [`QueueBackend::ack`].
    fn ack_one(&self, receipt: &Receipt) -> Result<()> {
        only(
            self.engine(),
            "ack",
            self.ack(std::slice::from_ref(receipt))?,
        )
    }

    /// Renews one claim.
    ///
    /// # Errors
    /// [`Error::LostClaim`] when the claim no longer holds, and as for [`QueueBackend::renew`].
    fn renew_one(&self, receipt: &Receipt, lease: LeaseLength) -> Result<()> {
        only(
            self.engine(),
            "renew",
            self.renew(std::slice::from_ref(receipt), lease)?,
        )
    }

    /// Gives one claimed job up.
    ///
    /// # Errors
    /// [`Error::LostClaim`] when the claim no longer holds, and as for [`QueueBackend::fail`].
    fn fail_one(&self, failure: &Failure) -> Result<Disposition> {
        only(
            self.engine(),
            "fail",
            self.fail(std::slice::from_ref(failure))?,
        )
    }

    /// Stores one job.
    ///
    /// # Errors
    /// As for [`QueueBackend::enqueue`].
    fn enqueue_one(&self, job: &NewJob) -> Result<Enqueued> {
        only(
            self.engine(),
            "enqueue",
            self.enqueue(std::slice::from_ref(job))?
                .into_iter()
                .map(Ok)
                .collect(),
        )
    }
}

impl<B: QueueBackend + ?Sized> QueueBackendExt for B {}

fn only<T>(engine: &'static str, operation: &'static str, answers: Vec<Fenced<T>>) -> Result<T> {
    let failed = || {
        crate::Failed::new(
            engine,
            operation,
            "the backend gave no answer for a receipt",
        )
    };
    Ok(answers
        .into_iter()
        .next()
        .ok_or_else(|| Error::Engine(failed()))??)
}

macro_rules! forward {
    ($($pointer:ty),*) => {$(
        impl<B: QueueBackend + ?Sized> QueueBackend for $pointer {
            fn engine(&self) -> &'static str {
                (**self).engine()
            }

            fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
                (**self).enqueue(jobs)
            }

            fn claim(&self, request: &ClaimRequest) -> Result<Vec<ClaimedJob>> {
                (**self).claim(request)
            }

            fn renew(&self, receipts: &[Receipt], lease: LeaseLength) -> Result<Vec<Fenced<()>>> {
                (**self).renew(receipts, lease)
            }

            fn ack(&self, receipts: &[Receipt]) -> Result<Vec<Fenced<()>>> {
                (**self).ack(receipts)
            }

            fn fail(&self, failures: &[Failure]) -> Result<Vec<Fenced<Disposition>>> {
                (**self).fail(failures)
            }

            fn reap(&self, request: &ReapRequest) -> Result<Vec<Reaped>> {
                (**self).reap(request)
            }

            fn wait(&self, waiter: &mut Waiter, at_most: Duration) -> Result<Woken> {
                (**self).wait(waiter, at_most)
            }

            fn ring(&self, queue: &QueueName) {
                (**self).ring(queue);
            }
        }

        impl<B: Administration + ?Sized> Administration for $pointer {
            fn migrate(&self) -> Result<Migrated> {
                (**self).migrate()
            }

            fn check(&self) -> Result<Vec<Finding>> {
                (**self).check()
            }

            fn get(&self, job: JobId) -> Result<Option<JobRecord>> {
                (**self).get(job)
            }

            fn list(&self, request: &ListRequest) -> Result<Vec<JobRecord>> {
                (**self).list(request)
            }

            fn failures(&self, job: JobId) -> Result<Vec<FailureRecord>> {
                (**self).failures(job)
            }

            fn stats(&self, queue: Option<&QueueName>) -> Result<Vec<QueueStats>> {
                (**self).stats(queue)
            }

            fn replay(&self, job: JobId, extra: MaxAttempts) -> Result<u32> {
                (**self).replay(job, extra)
            }

            fn cancel(&self, job: JobId, reason: &ErrorText) -> Result<()> {
                (**self).cancel(job, reason)
            }

            fn promote(&self, request: &PromoteRequest) -> Result<u32> {
                (**self).promote(request)
            }

            fn purge(&self, request: &PurgeRequest) -> Result<Purged> {
                (**self).purge(request)
            }

            fn pause(&self, queue: &QueueName) -> Result<()> {
                (**self).pause(queue)
            }

            fn resume(&self, queue: &QueueName) -> Result<()> {
                (**self).resume(queue)
            }
        }

        impl<B: TransactionalBackend> TransactionalBackend for $pointer {
            type Tx<'t> = B::Tx<'t>;

            fn enqueue_in(&self, tx: &mut Self::Tx<'_>, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
                (**self).enqueue_in(tx, jobs)
            }

            fn claim_in(&self, tx: &mut Self::Tx<'_>, request: &ClaimRequest) -> Result<Vec<ClaimedJob>> {
                (**self).claim_in(tx, request)
            }

            fn ack_in(&self, tx: &mut Self::Tx<'_>, receipt: &Receipt) -> Result<()> {
                (**self).ack_in(tx, receipt)
            }

            fn fail_in(&self, tx: &mut Self::Tx<'_>, failure: &Failure) -> Result<Disposition> {
                (**self).fail_in(tx, failure)
            }

            fn record_effect_in(&self, tx: &mut Self::Tx<'_>, receipt: &Receipt, name: &EffectName) -> Result<bool> {
                (**self).record_effect_in(tx, receipt, name)
            }

            fn transaction<R, E, F>(&self, work: F) -> std::result::Result<R, E>
            where
                E: From<Error>,
                F: for<'t> FnOnce(&mut Self::Tx<'t>) -> std::result::Result<R, E>,
            {
                (**self).transaction(work)
            }
        }
    )*};
}

forward!(&B, std::sync::Arc<B>, Box<B>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_two_traits_are_object_safe_and_upcast() {
        fn upcast(backend: &dyn Administration) -> &dyn QueueBackend {
            backend
        }
        let _: fn(&dyn Administration) -> &dyn QueueBackend = upcast;
    }
}
