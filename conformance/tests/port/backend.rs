//! The three traits: one transaction around one call of the lifecycle.

use std::sync::Arc;
use std::time::Duration;

use queue_table_core::{
    Administration, BATCH_MAX, Bell, ClaimRequest, ClaimedJob, Disposition, EffectName, Enqueued,
    Error, ErrorText, Failed, Failure, FailureRecord, Fenced, Finding, JobId, JobRecord,
    LeaseLength, ListRequest, MaxAttempts, Migrated, NewJob, PromoteRequest, PurgeRequest, Purged,
    QueueBackend, QueueName, QueueStats, ReapRequest, Reaped, Receipt, Result, Severity, Table,
    TransactionalBackend, Waiter, Woken, check_count,
};

use crate::job::Job;
use crate::lifecycle::{ENGINE, VERSION, check_version, paused_key};
use crate::store::{Read, Store, Txn};
use crate::{admin, lifecycle};

/// How long a write waits for the one writer's place.
const WAIT_MAX: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Toy {
    pub(crate) store: Arc<Store>,
    pub(crate) table: Table,
    pub(crate) bell: Bell,
}

impl Toy {
    pub(crate) fn on(store: Arc<Store>, table: Table) -> Self {
        Self {
            store,
            table,
            bell: Bell::default(),
        }
    }

    fn begin(&self, operation: &'static str) -> Result<Txn<'_>> {
        let busy = || Failed::new(ENGINE, operation, "another transaction writes");
        let begun = self.store.begin(WAIT_MAX);
        begun.ok_or_else(|| Error::Contention(busy()))
    }

    fn write<R>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&mut Txn<'_>) -> Result<R>,
    ) -> Result<R> {
        let mut tx = self.begin(operation)?;
        let done = work(&mut tx)?;
        tx.commit();
        Ok(done)
    }

    fn each<I, T>(
        &self,
        operation: &'static str,
        items: &[I],
        judge: impl Fn(&mut Txn<'_>, &I) -> Fenced<T>,
    ) -> Result<Vec<Fenced<T>>> {
        check_count("receipts", items.len(), BATCH_MAX as usize)?;
        self.write(operation, |tx| {
            check_version(tx)?;
            Ok(items.iter().map(|item| judge(tx, item)).collect())
        })
    }

    fn read(&self) -> Result<&Store> {
        check_version(&*self.store)?;
        Ok(&self.store)
    }
}

impl QueueBackend for Toy {
    fn engine(&self) -> &'static str {
        ENGINE
    }

    fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        let stored = self.write("enqueue", |tx| lifecycle::enqueue(tx, &self.table, jobs))?;
        jobs.iter().for_each(|job| self.ring(job.queue()));
        Ok(stored)
    }

    fn claim(&self, request: &ClaimRequest) -> Result<Vec<ClaimedJob>> {
        self.write("claim", |tx| lifecycle::claim(tx, request))
    }

    fn renew(&self, receipts: &[Receipt], lease: LeaseLength) -> Result<Vec<Fenced<()>>> {
        self.each("renew", receipts, |tx, one| {
            lifecycle::renew(tx, one, lease)
        })
    }

    fn ack(&self, receipts: &[Receipt]) -> Result<Vec<Fenced<()>>> {
        self.each("ack", receipts, lifecycle::ack)
    }

    fn fail(&self, failures: &[Failure]) -> Result<Vec<Fenced<Disposition>>> {
        self.each("fail", failures, lifecycle::fail)
    }

    fn reap(&self, request: &ReapRequest) -> Result<Vec<Reaped>> {
        self.write("reap", |tx| lifecycle::reap(tx, request))
    }

    fn wait(&self, waiter: &mut Waiter, at_most: Duration) -> Result<Woken> {
        Ok(self.bell.wait(waiter, at_most))
    }

    fn ring(&self, queue: &QueueName) {
        self.bell.ring(queue);
    }
}

impl Administration for Toy {
    fn migrate(&self) -> Result<Migrated> {
        self.write("migrate", |tx| {
            let from = tx.get("version").and_then(|text| text.parse().ok());
            if from > Some(VERSION) {
                check_version(tx)?;
            }
            tx.put("version".to_owned(), VERSION.to_string());
            Ok(Migrated { from, to: VERSION })
        })
    }

    fn check(&self) -> Result<Vec<Finding>> {
        let mismatch = check_version(&*self.store).err();
        let finding = mismatch.map(|error| Finding {
            severity: Severity::Fatal,
            subject: "version".to_owned(),
            text: error.to_string(),
        });
        Ok(finding.into_iter().collect())
    }

    fn get(&self, job: JobId) -> Result<Option<JobRecord>> {
        Ok(Job::load(self.read()?, job).map(Job::record))
    }

    fn list(&self, request: &ListRequest) -> Result<Vec<JobRecord>> {
        Ok(admin::list(self.read()?, request))
    }

    fn failures(&self, job: JobId) -> Result<Vec<FailureRecord>> {
        Ok(admin::failures(self.read()?, job))
    }

    fn stats(&self, queue: Option<&QueueName>) -> Result<Vec<QueueStats>> {
        Ok(admin::stats(self.read()?, queue, self.store.now_micros()))
    }

    fn replay(&self, job: JobId, extra: MaxAttempts) -> Result<u32> {
        self.write("replay", |tx| admin::replay(tx, job, extra))
    }

    fn cancel(&self, job: JobId, reason: &ErrorText) -> Result<()> {
        self.write("cancel", |tx| admin::cancel(tx, job, reason))
    }

    fn promote(&self, request: &PromoteRequest) -> Result<u32> {
        self.write("promote", |tx| admin::promote(tx, request))
    }

    fn purge(&self, request: &PurgeRequest) -> Result<Purged> {
        self.write("purge", |tx| admin::purge(tx, request))
    }

    fn pause(&self, queue: &QueueName) -> Result<()> {
        self.write("pause", |tx| {
            check_version(tx)?;
            tx.put(paused_key(queue.as_str()), String::new());
            Ok(())
        })
    }

    fn resume(&self, queue: &QueueName) -> Result<()> {
        self.write("resume", |tx| {
            check_version(tx)?;
            tx.delete(&paused_key(queue.as_str()));
            Ok(())
        })
    }
}

/// The engine's transaction, and which queues to ring for when it commits.
#[derive(Debug)]
pub(crate) struct ToyTx<'t> {
    pub(crate) txn: Txn<'t>,
    enqueued_to: Vec<QueueName>,
}

impl TransactionalBackend for Toy {
    type Tx<'t> = ToyTx<'t>;

    fn enqueue_in(&self, tx: &mut ToyTx<'_>, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        let stored = lifecycle::enqueue(&mut tx.txn, &self.table, jobs)?;
        let queues = jobs.iter().map(|job| job.queue().clone());
        tx.enqueued_to.extend(queues);
        Ok(stored)
    }

    fn claim_in(&self, tx: &mut ToyTx<'_>, request: &ClaimRequest) -> Result<Vec<ClaimedJob>> {
        lifecycle::claim(&mut tx.txn, request)
    }

    fn ack_in(&self, tx: &mut ToyTx<'_>, receipt: &Receipt) -> Result<()> {
        check_version(&tx.txn)?;
        Ok(lifecycle::ack(&mut tx.txn, receipt)?)
    }

    fn fail_in(&self, tx: &mut ToyTx<'_>, failure: &Failure) -> Result<Disposition> {
        check_version(&tx.txn)?;
        Ok(lifecycle::fail(&mut tx.txn, failure)?)
    }

    fn record_effect_in(
        &self,
        tx: &mut ToyTx<'_>,
        receipt: &Receipt,
        name: &EffectName,
    ) -> Result<bool> {
        check_version(&tx.txn)?;
        Ok(lifecycle::record_effect(&mut tx.txn, receipt, name)?)
    }

    fn transaction<R, E, F>(&self, work: F) -> std::result::Result<R, E>
    where
        E: From<Error>,
        F: for<'t> FnOnce(&mut ToyTx<'t>) -> std::result::Result<R, E>,
    {
        let mut tx = ToyTx {
            txn: self.begin("transaction")?,
            enqueued_to: Vec::new(),
        };
        let done = work(&mut tx)?;
        tx.txn.commit();
        tx.enqueued_to.iter().for_each(|queue| self.ring(queue));
        Ok(done)
    }
}
