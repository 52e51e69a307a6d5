//! The three traits: one transaction around each call.

use std::time::Duration;

use queue_table_core::{
    Administration, BATCH_MAX, ClaimRequest, ClaimedJob, Disposition, EffectName, Enqueued, Error,
    ErrorText, Failure, FailureRecord, Fenced, Finding, JobId, JobRecord, LeaseLength, ListRequest,
    MaxAttempts, Migrated, NewJob, PurgeRequest, Purged, QueueBackend, QueueName, QueueStats,
    ReapRequest, Reaped, Receipt, Result, Severity, TransactionalBackend, Waiter, Woken,
    check_count,
};

use super::lifecycle::Open;
use super::state::VERSION;
use super::{ENGINE, Model, ModelTx, decode};

impl QueueBackend for Model {
    fn engine(&self) -> &'static str {
        ENGINE
    }

    fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        let stored = self.write("enqueue", |open| open.enqueue(jobs))?;
        new_jobs(jobs, &stored).for_each(|job| self.bell.ring(job.queue()));
        Ok(stored)
    }

    fn claim(&self, request: &ClaimRequest) -> Result<Vec<ClaimedJob>> {
        self.write("claim", |open| open.claim(request))
    }

    fn renew(&self, receipts: &[Receipt], lease: LeaseLength) -> Result<Vec<Fenced<()>>> {
        self.each("renew", receipts, |open, receipt| {
            open.renew(receipt, lease)
        })
    }

    fn ack(&self, receipts: &[Receipt]) -> Result<Vec<Fenced<()>>> {
        self.each("ack", receipts, |open, receipt| open.ack(receipt))
    }

    fn fail(&self, failures: &[Failure]) -> Result<Vec<Fenced<Disposition>>> {
        self.each("fail", failures, |open, failure| open.fail(failure))
    }

    fn reap(&self, request: &ReapRequest) -> Result<Vec<Reaped>> {
        self.write("reap", |open| open.reap(request))
    }

    fn wait(&self, waiter: &mut Waiter, at_most: Duration) -> Result<Woken> {
        Ok(self.bell.wait(waiter, at_most))
    }

    fn ring(&self, queue: &QueueName) {
        self.bell.ring(queue);
    }
}

impl Model {
    /// Judges a batch one by one, in the order given, in one transaction.
    fn each<I, T>(
        &self,
        operation: &'static str,
        items: &[I],
        judge: impl Fn(&mut Open<'_>, &I) -> Fenced<T>,
    ) -> Result<Vec<Fenced<T>>> {
        check_count("receipts", items.len(), BATCH_MAX as usize)?;
        self.write(operation, |open| {
            open.tables.check_version()?;
            Ok(items.iter().map(|item| judge(open, item)).collect())
        })
    }
}

fn new_jobs<'a>(jobs: &'a [NewJob], stored: &'a [Enqueued]) -> impl Iterator<Item = &'a NewJob> {
    let both = jobs.iter().zip(stored);
    both.filter(|(_, stored)| stored.is_new())
        .map(|(job, _)| job)
}

impl Administration for Model {
    fn migrate(&self) -> Result<Migrated> {
        self.write("migrate", |open| {
            let from = open.tables.version;
            if from.is_some_and(|found| found > VERSION) {
                open.tables.check_version()?;
            }
            open.tables.version = Some(VERSION);
            Ok(Migrated { from, to: VERSION })
        })
    }

    fn check(&self) -> Result<Vec<Finding>> {
        let found = self.shared.stored().check_version().err();
        let finding = found.map(|error| Finding {
            severity: Severity::Fatal,
            subject: "job_schema".to_owned(),
            text: error.to_string(),
        });
        Ok(finding.into_iter().collect())
    }

    fn get(&self, job: JobId) -> Result<Option<JobRecord>> {
        self.read(|tables| tables.jobs.get(&job).map(|row| decode::record(row)))
    }

    fn list(&self, request: &ListRequest) -> Result<Vec<JobRecord>> {
        self.read(|tables| tables.list(request))
    }

    fn failures(&self, job: JobId) -> Result<Vec<FailureRecord>> {
        self.read(|tables| tables.failures_of(job))
    }

    fn stats(&self, queue: Option<&QueueName>) -> Result<Vec<QueueStats>> {
        self.read(|tables| tables.stats(queue, self.shared.clock.now()))
    }

    fn replay(&self, job: JobId, extra: MaxAttempts) -> Result<u32> {
        self.write("replay", |open| open.replay(job, extra))
    }

    fn cancel(&self, job: JobId, reason: &ErrorText) -> Result<()> {
        self.write("cancel", |open| open.cancel(job, reason))
    }

    fn purge(&self, request: &PurgeRequest) -> Result<Purged> {
        self.write("purge", |open| open.purge(request))
    }

    fn pause(&self, queue: &QueueName) -> Result<()> {
        self.write("pause", |open| {
            open.tables.check_version()?;
            let now = open.now();
            open.tables.paused.entry(queue.clone()).or_insert(now);
            Ok(())
        })
    }

    fn resume(&self, queue: &QueueName) -> Result<()> {
        self.write("resume", |open| {
            open.tables.check_version()?;
            open.tables.paused.remove(queue);
            Ok(())
        })
    }
}

impl TransactionalBackend for Model {
    type Tx<'t> = ModelTx<'t>;

    fn enqueue_in(&self, tx: &mut ModelTx<'_>, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        let stored = self.open(&mut tx.tables).enqueue(jobs)?;
        let queues = new_jobs(jobs, &stored).map(|job| job.queue().clone());
        tx.enqueued_to.extend(queues);
        Ok(stored)
    }

    fn claim_in(&self, tx: &mut ModelTx<'_>, request: &ClaimRequest) -> Result<Vec<ClaimedJob>> {
        self.open(&mut tx.tables).claim(request)
    }

    fn ack_in(&self, tx: &mut ModelTx<'_>, receipt: &Receipt) -> Result<()> {
        tx.tables.check_version()?;
        Ok(self.open(&mut tx.tables).ack(receipt)?)
    }

    fn fail_in(&self, tx: &mut ModelTx<'_>, failure: &Failure) -> Result<Disposition> {
        tx.tables.check_version()?;
        Ok(self.open(&mut tx.tables).fail(failure)?)
    }

    fn record_effect_in(
        &self,
        tx: &mut ModelTx<'_>,
        receipt: &Receipt,
        name: &EffectName,
    ) -> Result<bool> {
        tx.tables.check_version()?;
        Ok(self.open(&mut tx.tables).record_effect(receipt, name)?)
    }

    fn transaction<R, E, F>(&self, work: F) -> std::result::Result<R, E>
    where
        E: From<Error>,
        F: for<'t> FnOnce(&mut ModelTx<'t>) -> std::result::Result<R, E>,
    {
        let turn = self.shared.turn("transaction")?;
        let tables = self.shared.stored().clone();
        let mut tx = ModelTx {
            _turn: turn,
            tables,
            enqueued_to: Default::default(),
        };
        let done = work(&mut tx)?;
        *self.shared.stored() = std::mem::take(&mut tx.tables);
        tx.enqueued_to
            .iter()
            .for_each(|queue| self.bell.ring(queue));
        Ok(done)
    }
}
