//! The backend: each trait method is one transaction around one call.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use diesel::pg::PgConnection;
use queue_table_core::worker::observe::{self, EnqueuedBy};
use queue_table_core::{
    Administration, BATCH_MAX, Bell, ClaimRequest, ClaimedJob, Disposition, EffectName, Enqueued,
    Error, ErrorText, Failure, FailureRecord, Fenced, Finding, JobId, JobRecord, LeaseLength,
    ListRequest, MaxAttempts, Migrated, NewJob, PromoteRequest, PurgeRequest, Purged, QueueBackend,
    QueueName, QueueStats, ReapRequest, Reaped, Receipt, Result, Table, TransactionalBackend,
    Waiter, Woken, check_count,
};

use crate::builder::Builder;
use crate::enqueue::{self, Batch};
use crate::error::{ENGINE, broken};
use crate::lifecycle::{self, Protocol};
use crate::look::{self, EmptyPolls};
use crate::notify::Notifier;
use crate::pool::{Connection, DieselPool, Pool};
use crate::sql::Names;
use crate::transact::{once, own, require_transaction};
use crate::{admin, batches, check, migrate, purge};

/// The queue in a PostgreSQL database.
///
/// Share it between threads by reference or in an `Arc`. Operations of its own run at READ
/// COMMITTED whatever the role's default is, and are tried again a few times when other
/// transactions are in their way. Claims are renewed on a connection kept apart from the pool, so
/// that handlers that hold every pooled connection cannot lose them.
pub struct PostgresQueue {
    pool: Arc<Pool>,
    protocol: Arc<Protocol>,
    renewals: Mutex<Option<Connection>>,
    empty: EmptyPolls,
    bell: Arc<Bell>,
    /// The queues enqueued to in each transaction of [`TransactionalBackend::transaction`] that is
    /// open, by the address of its connection.
    enqueued: Mutex<HashMap<usize, BTreeSet<QueueName>>>,
    notifier: Option<Notifier>,
}

/// Shows the tables only: the pool's URL holds a password.
impl fmt::Debug for PostgresQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresQueue")
            .field("table", &self.protocol.table)
            .finish_non_exhaustive()
    }
}

impl PostgresQueue {
    /// A queue on the tables `job` and so on, with a pool of its own. Connects to nothing yet.
    ///
    /// # Errors
    /// None with these settings; see [`Builder::build`].
    pub fn connect(url: &str) -> Result<Self> {
        Self::builder(url).build()
    }

    /// A queue with a pool of its own to the database at `url`, in either of libpq's forms.
    #[must_use]
    pub fn builder(url: &str) -> Builder {
        Builder::with_url(url)
    }

    /// A queue on a pool that the service already has. One of its connections is kept to renew
    /// claims.
    #[must_use]
    pub fn builder_with_pool(pool: DieselPool) -> Builder {
        Builder::with_pool(pool)
    }

    pub(crate) fn assemble(pool: Pool, table: Table, notify: bool) -> Self {
        let (pool, bell) = (Arc::new(pool), Arc::new(Bell::default()));
        let protocol = Arc::new(Protocol::of(table));
        let notifier = notify.then(|| Notifier::start(&pool, &protocol, &bell));
        Self {
            pool,
            protocol,
            renewals: Mutex::default(),
            empty: EmptyPolls::default(),
            bell,
            enqueued: Mutex::default(),
            notifier,
        }
    }

    /// The statement that stores one job without a dedup key, for a service whose own transaction
    /// is on another driver.
    ///
    /// Parameters: 1 queue (text), 2 kind (text), 3 payload (text, JSON), 4 payload version (int4),
    /// 5 priority (int4), 6 delay in microseconds (int8), 7 max attempts (int4), then the business
    /// columns in the order they were added (int8, text or uuid). Returns one row with the job's id
    /// (int8). Core's limits are not checked by it: build a [`NewJob`] first and take the values
    /// from there.
    ///
    /// ```
    /// use queue_table_postgres::PostgresQueue;
    ///
    /// let queue = PostgresQueue::connect("postgres://localhost/shop")?;
    /// assert!(queue.enqueue_sql().starts_with(r#"INSERT INTO "job" (queue, kind,"#));
    /// # Ok::<(), queue_table_core::Error>(())
    /// ```
    #[must_use]
    pub fn enqueue_sql(&self) -> String {
        let sql = Names::of(&self.protocol.table).put_into(include_str!("../sql/enqueue_one.sql"));
        let lines = sql.lines().filter(|line| !line.starts_with("--"));
        lines.collect::<Vec<_>>().join("\n")
    }

    fn ring_all<'a>(&self, queues: impl IntoIterator<Item = &'a QueueName>) {
        for queue in queues {
            self.ring(queue);
        }
    }

    fn open_transactions(&self) -> MutexGuard<'_, HashMap<usize, BTreeSet<QueueName>>> {
        self.enqueued.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells one open transaction from another: connections do not move while a transaction is open on
/// them.
fn address(tx: &PgConnection) -> usize {
    std::ptr::from_ref(tx).addr()
}

fn queues(jobs: &[NewJob]) -> BTreeSet<QueueName> {
    jobs.iter().map(|job| job.queue().clone()).collect()
}

fn check_receipts(given: usize) -> Result<()> {
    Ok(check_count("receipts", given, BATCH_MAX as usize)?)
}

impl QueueBackend for PostgresQueue {
    fn engine(&self) -> &'static str {
        ENGINE
    }

    fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        let batch = Batch::of(&self.protocol.table, jobs)?;
        if jobs.is_empty() {
            return Ok(vec![]);
        }
        let enqueued = own(&self.pool, "enqueue", |tx| {
            enqueue::enqueue(tx, &self.protocol, &batch)
        })?;
        observe::enqueued(ENGINE, EnqueuedBy::Enqueue, jobs, &enqueued);
        self.ring_all(&queues(jobs));
        Ok(enqueued)
    }

    /// Where the last claim found nothing, one look comes first, and mostly ends it.
    fn claim(&self, request: &ClaimRequest) -> Result<Vec<ClaimedJob>> {
        if self.empty.contain(request) && look::shows_no_job(&self.pool, &self.protocol, request)? {
            return Ok(vec![]);
        }
        let claimed = own(&self.pool, "claim", |tx| {
            lifecycle::claim(tx, &self.protocol, request)
        })?;
        self.empty.note(request, claimed.is_empty());
        Ok(claimed)
    }

    fn renew(&self, receipts: &[Receipt], lease: LeaseLength) -> Result<Vec<Fenced<()>>> {
        check_receipts(receipts.len())?;
        if receipts.is_empty() {
            return Ok(vec![]);
        }
        batches::renew(&self.renewals, &self.pool, &self.protocol, receipts, lease)
    }

    fn ack(&self, receipts: &[Receipt]) -> Result<Vec<Fenced<()>>> {
        check_receipts(receipts.len())?;
        if receipts.is_empty() {
            return Ok(vec![]);
        }
        batches::ack(&self.pool, &self.protocol, receipts)
    }

    fn fail(&self, failures: &[Failure]) -> Result<Vec<Fenced<Disposition>>> {
        check_receipts(failures.len())?;
        if failures.is_empty() {
            return Ok(vec![]);
        }
        batches::fail(&self.pool, &self.protocol, failures)
    }

    /// Mostly nothing is overdue, which one look tells.
    fn reap(&self, request: &ReapRequest) -> Result<Vec<Reaped>> {
        if look::shows_nothing_overdue(&self.pool, &self.protocol)? {
            return Ok(vec![]);
        }
        own(&self.pool, "reap", |tx| {
            lifecycle::reap(tx, &self.protocol, request)
        })
    }

    fn wait(&self, waiter: &mut Waiter, at_most: Duration) -> Result<Woken> {
        Ok(self.bell.wait(waiter, at_most))
    }

    fn ring(&self, queue: &QueueName) {
        self.bell.ring(queue);
        if let Some(notifier) = &self.notifier {
            notifier.announce(queue);
        }
    }
}

impl Administration for PostgresQueue {
    fn migrate(&self) -> Result<Migrated> {
        own(&self.pool, "migrate", |tx| {
            migrate::migrate(tx, &self.protocol.table)
        })
    }

    fn check(&self) -> Result<Vec<Finding>> {
        own(&self.pool, "check", |tx| {
            check::check(tx, &self.protocol.table)
        })
    }

    fn get(&self, job: JobId) -> Result<Option<JobRecord>> {
        own(&self.pool, "get", |tx| admin::get(tx, &self.protocol, job))
    }

    fn list(&self, request: &ListRequest) -> Result<Vec<JobRecord>> {
        own(&self.pool, "list", |tx| {
            admin::list(tx, &self.protocol, request)
        })
    }

    fn failures(&self, job: JobId) -> Result<Vec<FailureRecord>> {
        own(&self.pool, "failures", |tx| {
            admin::failures(tx, &self.protocol, job)
        })
    }

    fn stats(&self, queue: Option<&QueueName>) -> Result<Vec<QueueStats>> {
        own(&self.pool, "stats", |tx| {
            admin::stats(tx, &self.protocol, queue)
        })
    }

    fn replay(&self, job: JobId, extra: MaxAttempts) -> Result<u32> {
        own(&self.pool, "replay", |tx| {
            admin::replay(tx, &self.protocol, job, extra)
        })
    }

    fn cancel(&self, job: JobId, reason: &ErrorText) -> Result<()> {
        own(&self.pool, "cancel", |tx| {
            admin::cancel(tx, &self.protocol, job, reason)
        })
    }

    fn promote(&self, request: &PromoteRequest) -> Result<u32> {
        own(&self.pool, "promote", |tx| {
            admin::promote(tx, &self.protocol, request)
        })
    }

    fn purge(&self, request: &PurgeRequest) -> Result<Purged> {
        own(&self.pool, "purge", |tx| {
            purge::purge(tx, &self.protocol, request)
        })
    }

    fn pause(&self, queue: &QueueName) -> Result<()> {
        own(&self.pool, "pause", |tx| {
            admin::pause(tx, &self.protocol, queue)
        })
    }

    fn resume(&self, queue: &QueueName) -> Result<()> {
        own(&self.pool, "resume", |tx| {
            admin::resume(tx, &self.protocol, queue)
        })?;
        self.ring(queue);
        Ok(())
    }
}

impl TransactionalBackend for PostgresQueue {
    type Tx<'t> = PgConnection;

    fn enqueue_in(&self, tx: &mut PgConnection, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        require_transaction(tx, "enqueue")?;
        let batch = Batch::of(&self.protocol.table, jobs)?;
        if jobs.is_empty() {
            return Ok(vec![]);
        }
        let enqueued = enqueue::enqueue(tx, &self.protocol, &batch)?;
        observe::enqueued(ENGINE, EnqueuedBy::EnqueueIn, jobs, &enqueued);
        if let Some(to_ring) = self.open_transactions().get_mut(&address(tx)) {
            to_ring.extend(queues(jobs));
        }
        Ok(enqueued)
    }

    fn claim_in(&self, tx: &mut PgConnection, request: &ClaimRequest) -> Result<Vec<ClaimedJob>> {
        require_transaction(tx, "claim")?;
        lifecycle::claim(tx, &self.protocol, request)
    }

    fn ack_in(&self, tx: &mut PgConnection, receipt: &Receipt) -> Result<()> {
        require_transaction(tx, "ack")?;
        only("ack", lifecycle::ack(tx, &self.protocol, &[receipt])?)
    }

    fn fail_in(&self, tx: &mut PgConnection, failure: &Failure) -> Result<Disposition> {
        require_transaction(tx, "fail")?;
        only("fail", lifecycle::fail(tx, &self.protocol, &[failure])?)
    }

    fn record_effect_in(
        &self,
        tx: &mut PgConnection,
        receipt: &Receipt,
        name: &EffectName,
    ) -> Result<bool> {
        require_transaction(tx, "record_effect")?;
        Ok(lifecycle::record_effect(
            tx,
            &self.protocol,
            receipt,
            name,
        )??)
    }

    fn transaction<R, E, F>(&self, work: F) -> Result<R, E>
    where
        E: From<Error>,
        F: for<'t> FnOnce(&mut Self::Tx<'t>) -> Result<R, E>,
    {
        let mut to_ring = BTreeSet::new();
        let result = once(&self.pool, |tx| {
            let at = address(tx);
            self.open_transactions().insert(at, BTreeSet::new());
            let result = work(tx);
            // Before the connection goes back to the pool, where another transaction takes the same
            // address.
            to_ring = self.open_transactions().remove(&at).unwrap_or_default();
            result
        })?;
        self.ring_all(&to_ring);
        Ok(result)
    }
}

/// The one answer of a batch of one.
fn only<T>(operation: &'static str, answers: Vec<Fenced<T>>) -> Result<T> {
    let missing = || broken(operation, "there is no answer for the receipt");
    Ok(answers.into_iter().next().ok_or_else(missing)??)
}
