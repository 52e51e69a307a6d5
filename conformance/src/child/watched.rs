//! A backend that tells of each call that moves jobs, before it and after it.

use std::time::Duration;

use queue_table_core::{
    Administration, ClaimRequest, ClaimedJob, Disposition, EffectName, Enqueued, Error, ErrorText,
    Failure, FailureRecord, Fenced, Finding, JobId, JobRecord, LeaseLength, ListRequest,
    MaxAttempts, Migrated, NewJob, PromoteRequest, PurgeRequest, Purged, QueueBackend, QueueName,
    QueueStats, ReapRequest, Reaped, Receipt, Result, TransactionalBackend, Waiter, Woken,
};

type Tell = dyn Fn(&str) + Send + Sync;

/// The backend, and whom it tells: `before claim`, `after claim` and so on; `before commit` when
/// an ack in a transaction is stored, and `after transaction` when that is committed.
pub(super) struct Watched<B> {
    backend: B,
    tell: Box<Tell>,
}

impl<B> Watched<B> {
    pub(super) fn new(backend: B, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let tell = Box::new(tell);
        Self { backend, tell }
    }

    fn around<R>(&self, before: &str, after: &str, call: impl FnOnce(&B) -> R) -> R {
        (self.tell)(before);
        let answer = call(&self.backend);
        (self.tell)(after);
        answer
    }
}

impl<B: QueueBackend> QueueBackend for Watched<B> {
    fn engine(&self) -> &'static str {
        self.backend.engine()
    }

    fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        self.backend.enqueue(jobs)
    }

    fn claim(&self, request: &ClaimRequest) -> Result<Vec<ClaimedJob>> {
        (self.tell)("before claim");
        let claimed = self.backend.claim(request)?;
        if !claimed.is_empty() {
            (self.tell)("after claim");
        }
        Ok(claimed)
    }

    fn renew(&self, receipts: &[Receipt], lease: LeaseLength) -> Result<Vec<Fenced<()>>> {
        self.around("before renew", "after renew", |backend| {
            backend.renew(receipts, lease)
        })
    }

    fn ack(&self, receipts: &[Receipt]) -> Result<Vec<Fenced<()>>> {
        self.around("before ack", "after ack", |backend| backend.ack(receipts))
    }

    fn fail(&self, failures: &[Failure]) -> Result<Vec<Fenced<Disposition>>> {
        self.around("before fail", "after fail", |backend| {
            backend.fail(failures)
        })
    }

    fn reap(&self, request: &ReapRequest) -> Result<Vec<Reaped>> {
        self.backend.reap(request)
    }

    fn wait(&self, waiter: &mut Waiter, at_most: Duration) -> Result<Woken> {
        self.backend.wait(waiter, at_most)
    }

    fn ring(&self, queue: &QueueName) {
        self.backend.ring(queue);
    }
}

impl<B: Administration> Administration for Watched<B> {
    fn migrate(&self) -> Result<Migrated> {
        self.backend.migrate()
    }

    fn check(&self) -> Result<Vec<Finding>> {
        self.backend.check()
    }

    fn get(&self, job: JobId) -> Result<Option<JobRecord>> {
        self.backend.get(job)
    }

    fn list(&self, request: &ListRequest) -> Result<Vec<JobRecord>> {
        self.backend.list(request)
    }

    fn failures(&self, job: JobId) -> Result<Vec<FailureRecord>> {
        self.backend.failures(job)
    }

    fn stats(&self, queue: Option<&QueueName>) -> Result<Vec<QueueStats>> {
        self.backend.stats(queue)
    }

    fn replay(&self, job: JobId, extra: MaxAttempts) -> Result<u32> {
        self.backend.replay(job, extra)
    }

    fn cancel(&self, job: JobId, reason: &ErrorText) -> Result<()> {
        self.backend.cancel(job, reason)
    }

    fn purge(&self, request: &PurgeRequest) -> Result<Purged> {
        self.backend.purge(request)
    }

    fn promote(&self, request: &PromoteRequest) -> Result<u32> {
        self.backend.promote(request)
    }

    fn pause(&self, queue: &QueueName) -> Result<()> {
        self.backend.pause(queue)
    }

    fn resume(&self, queue: &QueueName) -> Result<()> {
        self.backend.resume(queue)
    }
}

impl<B: TransactionalBackend> TransactionalBackend for Watched<B> {
    type Tx<'t> = B::Tx<'t>;

    fn enqueue_in(&self, tx: &mut Self::Tx<'_>, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        self.backend.enqueue_in(tx, jobs)
    }

    fn claim_in(&self, tx: &mut Self::Tx<'_>, request: &ClaimRequest) -> Result<Vec<ClaimedJob>> {
        self.backend.claim_in(tx, request)
    }

    fn ack_in(&self, tx: &mut Self::Tx<'_>, receipt: &Receipt) -> Result<()> {
        self.backend.ack_in(tx, receipt)?;
        (self.tell)("before commit");
        Ok(())
    }

    fn fail_in(&self, tx: &mut Self::Tx<'_>, failure: &Failure) -> Result<Disposition> {
        self.backend.fail_in(tx, failure)
    }

    fn record_effect_in(
        &self,
        tx: &mut Self::Tx<'_>,
        receipt: &Receipt,
        name: &EffectName,
    ) -> Result<bool> {
        self.backend.record_effect_in(tx, receipt, name)
    }

    fn transaction<R, E, F>(&self, work: F) -> std::result::Result<R, E>
    where
        E: From<Error>,
        F: for<'t> FnOnce(&mut Self::Tx<'t>) -> std::result::Result<R, E>,
    {
        self.around("before transaction", "after transaction", |backend| {
            backend.transaction(work)
        })
    }
}
