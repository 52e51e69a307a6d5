//! The queue, and its trait methods: one transaction around one call each.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, Opts, Transaction};
use queue_table_core::worker::observe::{self, EnqueuedBy};
use queue_table_core::{
    BATCH_MAX, Bell, ClaimRequest, ClaimedJob, Disposition, EffectName, Enqueued, Error, Failure,
    Fenced, LeaseLength, NewJob, QueueBackend, QueueName, ReapRequest, Reaped, Receipt, Result,
    Table, TransactionalBackend, Waiter, Woken, check_count,
};

use crate::batches::all_answers;
use crate::builder::Builder;
use crate::dedup::Snapshot;
use crate::fence::Rows;
use crate::pool::Connections;
use crate::ringing::{self, Ringing};
use crate::server::Server;
use crate::sql::Statements;
use crate::{claim, enqueue, lifecycle, migrate, recovery};

/// Largest JSON document of one statement, whatever the server takes.
const CHUNK_BYTES_MAX: u64 = 4 * 1_048_576;

/// A queue in a MySQL or MariaDB database.
///
/// Holds a pool of connections and one more for renewals; connects at the first use. Share it by
/// reference or `Arc`.
pub struct MysqlQueue {
    pub(crate) connections: Connections,
    pub(crate) table: Table,
    /// What the first connection found out, and the statements for it.
    known: OnceLock<Known>,
    /// Whether the ledger has been read and found to be of this build's version.
    ledger_read: AtomicBool,
    bell: Bell,
    /// Tells this backend from others of the process.
    id: u64,
}

#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) server: Server,
    pub(crate) sql: Statements,
}

impl fmt::Debug for MysqlQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MysqlQueue")
            .field("table", &self.table)
            .field("connections", &self.connections)
            .finish_non_exhaustive()
    }
}

impl MysqlQueue {
    /// A queue on the tables `job` and so on, at an address such as
    /// `mysql://user:password@host:3306/database`. Connects to nothing yet.
    ///
    /// # Errors
    /// Those of [`MysqlQueue::builder`] and [`Builder::build`].
    pub fn connect(url: &str) -> Result<Self> {
        Self::builder(url)?.build()
    }

    /// Sets up a queue at an address such as `mysql://user:password@host:3306/database`.
    ///
    /// Besides the driver's parameters the address may have `require_ssl=true`.
    ///
    /// # Errors
    /// [`Error::Rejected`] when the address cannot be read; it is not repeated in the message.
    pub fn builder(url: &str) -> Result<Builder> {
        Builder::from_url(url)
    }

    /// Sets up a queue with the driver's options. Their time-outs hold where they are given.
    #[must_use]
    pub fn builder_with(opts: impl Into<Opts>) -> Builder {
        Builder::from_opts(opts)
    }

    pub(crate) fn new(connections: Connections, table: Table) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(0);
        Self {
            connections,
            table,
            known: OnceLock::new(),
            ledger_read: AtomicBool::new(false),
            bell: Bell::default(),
            id: IDS.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// What kind of server this is, asked once; refused when the queue cannot work on it.
    pub(crate) fn known<Q: Queryable>(&self, session: &mut Q) -> Result<&Known> {
        if let Some(known) = self.known.get() {
            return Ok(known);
        }
        let server = Server::ask(session)?;
        server.check_supported()?;
        // Half, because a JSON text of quotes is twice as long as what it says.
        let chunk_bytes_max = (server.number("max_allowed_packet") / 2).min(CHUNK_BYTES_MAX);
        let chunk_bytes_max = usize::try_from(chunk_bytes_max).unwrap_or(0);
        let sql = Statements::new(&self.table, server.flavour, chunk_bytes_max);
        Ok(self.known.get_or_init(|| Known { server, sql }))
    }

    /// The statements, once the tables are known to be of this build's version.
    pub(crate) fn statements<Q: Queryable>(&self, session: &mut Q) -> Result<&Statements> {
        let known = self.known(session)?;
        if !self.ledger_read.load(Ordering::Relaxed) {
            migrate::check_version(session, &known.sql)?;
            self.ledger_read.store(true, Ordering::Relaxed);
        }
        Ok(&known.sql)
    }

    /// Runs `work` in one transaction of our own, and again while another transaction is in the
    /// way.
    pub(crate) fn in_transaction<T>(
        &self,
        operation: &'static str,
        mut work: impl FnMut(&mut Conn, &Statements) -> Result<T>,
    ) -> Result<T> {
        self.connections
            .pooled(self.engine(), operation, |connection| {
                let sql = self.statements(connection.session())?;
                connection.transaction(sql.engine, operation, |session| work(session, sql))
            })
    }

    /// Reads outside a transaction.
    fn look<T>(
        &self,
        operation: &'static str,
        mut read: impl FnMut(&mut Conn, &Statements) -> Result<T>,
    ) -> Result<T> {
        self.connections
            .look(self.engine(), operation, |connection| {
                let session = connection.session();
                let sql = self.statements(session)?;
                read(session, sql)
            })
    }

    /// What every operation on a caller's transaction begins with.
    fn borrowed(&self, tx: &mut Transaction<'_>, operation: &'static str) -> Result<&Statements> {
        lifecycle::check_in_transaction(tx, self.engine(), operation)?;
        self.statements(tx)
    }

    fn ring_for(&self, jobs: &[NewJob]) {
        for queue in jobs.iter().map(NewJob::queue).collect::<BTreeSet<_>>() {
            self.bell.ring(queue);
        }
    }
}

impl QueueBackend for MysqlQueue {
    /// `mysql`, or `mariadb` once a connection has told so.
    fn engine(&self) -> &'static str {
        self.known.get().map_or("mysql", |known| known.sql.engine)
    }

    fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        enqueue::check(&self.table, jobs)?;
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let enqueued = self.in_transaction("enqueue", |session, sql| {
            enqueue::enqueue(session, sql, jobs, Snapshot::Latest)
        })?;
        observe::enqueued(self.engine(), EnqueuedBy::Enqueue, jobs, &enqueued);
        self.ring_for(jobs);
        Ok(enqueued)
    }

    /// A look first: an empty poll costs one read, and neither locks nor commits.
    fn claim(&self, request: &ClaimRequest) -> Result<Vec<ClaimedJob>> {
        const OPERATION: &str = "claim";
        if request
            .accepts
            .as_ref()
            .is_some_and(|kinds| kinds.is_empty())
        {
            return Ok(Vec::new());
        }
        let first = self.look(OPERATION, |session, sql| {
            claim::due_priority(session, sql, &request.queue, None)
        })?;
        let Some(first) = first else {
            return Ok(Vec::new());
        };
        self.in_transaction(OPERATION, |session, sql| {
            claim::claim(session, sql, request, first)
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
        let receipts: Vec<&Receipt> = receipts.iter().collect();
        self.free_first("ack", &receipts, Receipt::job_id, lifecycle::ack)
    }

    fn fail(&self, failures: &[Failure]) -> Result<Vec<Fenced<Disposition>>> {
        check_receipts(failures.len())?;
        if failures.is_empty() {
            return Ok(Vec::new());
        }
        let failures: Vec<&Failure> = failures.iter().collect();
        let job_of = |failure: &Failure| failure.receipt.job_id();
        self.free_first("fail", &failures, job_of, lifecycle::fail)
    }

    /// Mostly nothing is overdue, which one look tells.
    fn reap(&self, request: &ReapRequest) -> Result<Vec<Reaped>> {
        if !self.look("reap", recovery::is_any_overdue)? {
            return Ok(Vec::new());
        }
        self.in_transaction("reap", |session, sql| recovery::reap(session, sql, request))
    }

    fn wait(&self, waiter: &mut Waiter, at_most: Duration) -> Result<Woken> {
        Ok(self.bell.wait(waiter, at_most))
    }

    fn ring(&self, queue: &QueueName) {
        self.bell.ring(queue);
    }
}

impl TransactionalBackend for MysqlQueue {
    type Tx<'t> = Transaction<'t>;

    fn enqueue_in(&self, tx: &mut Transaction<'_>, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        enqueue::check(&self.table, jobs)?;
        let sql = self.borrowed(tx, "enqueue")?;
        let enqueued = enqueue::enqueue(tx, sql, jobs, Snapshot::Unknown)?;
        observe::enqueued(sql.engine, EnqueuedBy::EnqueueIn, jobs, &enqueued);
        ringing::note(self.id, jobs.iter().map(NewJob::queue));
        Ok(enqueued)
    }

    fn claim_in(
        &self,
        tx: &mut Transaction<'_>,
        request: &ClaimRequest,
    ) -> Result<Vec<ClaimedJob>> {
        let sql = self.borrowed(tx, "claim")?;
        if request
            .accepts
            .as_ref()
            .is_some_and(|kinds| kinds.is_empty())
        {
            return Ok(Vec::new());
        }
        match claim::due_priority(tx, sql, &request.queue, None)? {
            Some(first) => claim::claim(tx, sql, request, first),
            None => Ok(Vec::new()),
        }
    }

    fn ack_in(&self, tx: &mut Transaction<'_>, receipt: &Receipt) -> Result<()> {
        let sql = self.borrowed(tx, "ack")?;
        for answer in all_answers(lifecycle::ack(tx, sql, Rows::All, &[receipt])?) {
            answer?;
        }
        Ok(())
    }

    fn fail_in(&self, tx: &mut Transaction<'_>, failure: &Failure) -> Result<Disposition> {
        let sql = self.borrowed(tx, "fail")?;
        let mut disposition = Disposition::Dead;
        for answer in all_answers(lifecycle::fail(tx, sql, Rows::All, &[failure])?) {
            disposition = answer?;
        }
        Ok(disposition)
    }

    fn record_effect_in(
        &self,
        tx: &mut Transaction<'_>,
        receipt: &Receipt,
        name: &EffectName,
    ) -> Result<bool> {
        let sql = self.borrowed(tx, "record_effect")?;
        lifecycle::record_effect(tx, sql, receipt, name)
    }

    fn transaction<R, E, F>(&self, work: F) -> std::result::Result<R, E>
    where
        E: From<Error>,
        F: for<'t> FnOnce(&mut Transaction<'t>) -> std::result::Result<R, E>,
    {
        let ringing = Ringing::begin(self.id);
        let engine = self.engine();
        let done = self
            .connections
            .pooled_once(engine, "transaction", |connection| {
                connection.driver_transaction(engine, work)
            })?;
        for queue in ringing.queues() {
            self.bell.ring(&queue);
        }
        Ok(done)
    }
}

fn check_receipts(count: usize) -> Result<()> {
    Ok(check_count("receipts", count, BATCH_MAX as usize)?)
}
