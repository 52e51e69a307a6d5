//! The queue: one transaction around one call each.

use std::collections::BTreeSet;
use std::time::Duration;

use queue_table_core::worker::observe::{self, EnqueuedBy};
use queue_table_core::{
    BATCH_MAX, Bell, ClaimRequest, ClaimedJob, Disposition, EffectName, Enqueued, Error, Failure,
    Fenced, LeaseLength, NewJob, QueueBackend, QueueName, ReapRequest, Reaped, Receipt, Result,
    Table, TransactionalBackend, Waiter, Woken, check_count,
};

use crate::builder::Builder;
use crate::connect::ConnectOptions;
use crate::connection::{Client, Transaction};
use crate::pool::Pools;
use crate::sql::Statements;
use crate::{ENGINE, claim, lifecycle};

/// How often an operation that owns its transaction is tried when others are in the way.
const TRIES_MAX: u32 = 5;

/// The first wait between tries; it doubles, with jitter.
const TRY_DELAY: Duration = Duration::from_millis(10);

/// A queue system in one SQL Server database.
///
/// Cloning is not needed: share it by reference or in an `Arc`. Nothing is connected until the
/// first call.
#[derive(Debug)]
pub struct SqlServerQueue {
    pub(crate) pools: Pools,
    sql: Statements,
    bell: Bell,
}

impl SqlServerQueue {
    /// A queue on the table `job`, by a connection string (see [`ConnectOptions::parse`]).
    ///
    /// # Errors
    /// Those of the connection string; whether the server is there shows at the first call.
    pub fn connect(connection_string: &str) -> Result<Self> {
        Self::builder(connection_string).build()
    }

    /// Begins a queue with other tables or pools.
    pub fn builder(connection_string: &str) -> Builder {
        Builder::new(ConnectOptions::parse(connection_string))
    }

    /// Begins a queue whose connections are opened by these options.
    pub fn builder_with(options: ConnectOptions) -> Builder {
        Builder::new(Ok(options))
    }

    pub(crate) fn on(pools: Pools, table: &Table) -> Self {
        Self {
            pools,
            sql: Statements::new(table),
            bell: Bell::default(),
        }
    }

    /// The statements, for [`crate::lifecycle`] on a client of your own.
    #[must_use]
    pub fn statements(&self) -> &Statements {
        &self.sql
    }

    /// How many connections are open now, in use or idle.
    #[must_use]
    pub fn open_connections(&self) -> u32 {
        self.pools.open_connections()
    }

    /// One transaction around one piece of work; again when others are in the way, a bounded number
    /// of times.
    pub(crate) fn in_transaction<T>(
        &self,
        operation: &'static str,
        work: impl AsyncFn(&mut Client, &Statements) -> Result<T>,
    ) -> Result<T> {
        patiently(|| {
            let mut connection = match operation {
                "renew" => self.pools.get_for_renewal()?,
                _ => self.pools.get(operation)?,
            };
            let mut tx = connection.transaction()?;
            let value = tx.run(operation, async |client| work(client, &self.sql).await)?;
            tx.commit_as(operation)?;
            Ok(value)
        })
    }

    /// One statement without a transaction around it.
    pub(crate) fn read<T>(
        &self,
        operation: &'static str,
        work: impl AsyncFn(&mut Client, &Statements) -> Result<T>,
    ) -> Result<T> {
        patiently(|| {
            let mut connection = self.pools.get(operation)?;
            connection.run(async |client| work(client, &self.sql).await)
        })
    }

    fn ring_for(&self, queues: impl IntoIterator<Item = QueueName>) {
        for queue in queues {
            self.bell.ring(&queue);
        }
    }
}

/// Tries again after contention, with a growing, jittered delay.
fn patiently<T>(once: impl Fn() -> Result<T>) -> Result<T> {
    let mut delay = TRY_DELAY;
    for _ in 1..TRIES_MAX {
        match once() {
            Err(Error::Contention(cause)) => {
                tracing::debug!(%cause, ?delay, "another transaction was in the way; trying again");
                std::thread::sleep(delay.mul_f64(0.5 + fastrand::f64() / 2.0));
                delay *= 2;
            }
            result => return result,
        }
    }
    once()
}

/// The queues that got a new job.
fn queues_of(jobs: &[NewJob], enqueued: &[Enqueued]) -> BTreeSet<QueueName> {
    let new = jobs.iter().zip(enqueued).filter(|(_, job)| job.is_new());
    new.map(|(job, _)| job.queue().clone()).collect()
}

impl QueueBackend for SqlServerQueue {
    fn engine(&self) -> &'static str {
        ENGINE
    }

    fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let enqueued = self.in_transaction("enqueue", async |client, sql| {
            lifecycle::enqueue(client, sql, jobs).await
        })?;
        observe::enqueued(ENGINE, EnqueuedBy::Enqueue, jobs, &enqueued);
        self.ring_for(queues_of(jobs, &enqueued));
        Ok(enqueued)
    }

    fn claim(&self, request: &ClaimRequest) -> Result<Vec<ClaimedJob>> {
        // An empty poll opens no transaction and takes no lock.
        let priorities = self.read("claim", async |client, sql| {
            claim::probe(client, sql, request).await
        })?;
        if priorities.is_empty() {
            return Ok(Vec::new());
        }
        self.in_transaction("claim", async |client, sql| {
            claim::claim_at(client, sql, request, &priorities).await
        })
    }

    fn renew(&self, receipts: &[Receipt], lease: LeaseLength) -> Result<Vec<Fenced<()>>> {
        check_receipts(receipts.len())?;
        if receipts.is_empty() {
            return Ok(Vec::new());
        }
        self.renew_free_first(receipts, lease)
    }

    fn ack(&self, receipts: &[Receipt]) -> Result<Vec<Fenced<()>>> {
        check_receipts(receipts.len())?;
        if receipts.is_empty() {
            return Ok(Vec::new());
        }
        self.ack_free_first(receipts)
    }

    fn fail(&self, failures: &[Failure]) -> Result<Vec<Fenced<Disposition>>> {
        check_receipts(failures.len())?;
        if failures.is_empty() {
            return Ok(Vec::new());
        }
        self.fail_free_first(failures)
    }

    fn reap(&self, request: &ReapRequest) -> Result<Vec<Reaped>> {
        self.in_transaction("reap", async |client, sql| {
            lifecycle::reap(client, sql, request).await
        })
    }

    fn wait(&self, waiter: &mut Waiter, at_most: Duration) -> Result<Woken> {
        Ok(self.bell.wait(waiter, at_most))
    }

    fn ring(&self, queue: &QueueName) {
        self.bell.ring(queue);
    }
}

impl TransactionalBackend for SqlServerQueue {
    type Tx<'t> = Transaction<'t>;

    fn enqueue_in(&self, tx: &mut Transaction<'_>, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        let enqueued = tx.run("enqueue", async |client| {
            lifecycle::enqueue(client, &self.sql, jobs).await
        })?;
        observe::enqueued(ENGINE, EnqueuedBy::EnqueueIn, jobs, &enqueued);
        tx.enqueued.extend(queues_of(jobs, &enqueued));
        Ok(enqueued)
    }

    fn claim_in(
        &self,
        tx: &mut Transaction<'_>,
        request: &ClaimRequest,
    ) -> Result<Vec<ClaimedJob>> {
        tx.run("claim", async |client| {
            lifecycle::claim(client, &self.sql, request).await
        })
    }

    fn ack_in(&self, tx: &mut Transaction<'_>, receipt: &Receipt) -> Result<()> {
        let receipts = std::slice::from_ref(receipt);
        let answers = tx.run("ack", async |client| {
            lifecycle::ack(client, &self.sql, receipts).await
        })?;
        only("ack", answers)
    }

    fn fail_in(&self, tx: &mut Transaction<'_>, failure: &Failure) -> Result<Disposition> {
        let failures = std::slice::from_ref(failure);
        let answers = tx.run("fail", async |client| {
            lifecycle::fail(client, &self.sql, failures).await
        })?;
        only("fail", answers)
    }

    fn record_effect_in(
        &self,
        tx: &mut Transaction<'_>,
        receipt: &Receipt,
        name: &EffectName,
    ) -> Result<bool> {
        tx.run("record_effect", async |client| {
            lifecycle::record_effect(client, &self.sql, receipt, name).await
        })
    }

    fn transaction<R, E, F>(&self, work: F) -> std::result::Result<R, E>
    where
        E: From<Error>,
        F: for<'t> FnOnce(&mut Transaction<'t>) -> std::result::Result<R, E>,
    {
        let mut connection = self.pools.get("transaction")?;
        let mut tx = connection.transaction()?;
        let value = work(&mut tx)?;
        let enqueued = std::mem::take(&mut tx.enqueued);
        tx.commit_as("transaction")?;
        self.ring_for(enqueued);
        Ok(value)
    }
}

fn check_receipts(count: usize) -> Result<()> {
    Ok(check_count("receipts", count, BATCH_MAX as usize)?)
}

/// The one answer of a batch of one; a lost claim is an error here, so that `?` rolls the caller's
/// transaction back.
fn only<T>(operation: &'static str, answers: Vec<Fenced<T>>) -> Result<T> {
    let missing = || crate::error::unexpected(operation, "the batch of one has no answer");
    let answer = answers.into_iter().next().ok_or_else(missing)?;
    Ok(answer?)
}
