//! The trait methods: one transaction around one call each.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use queue_table_core::worker::observe::{self, EnqueuedBy};
use queue_table_core::{
    Administration, Bell, ClaimRequest, ClaimedJob, Disposition, Enqueued, Error, ErrorText,
    Failure, FailureRecord, Fenced, Finding, JobId, JobRecord, LeaseLength, ListRequest,
    MaxAttempts, Migrated, NewJob, PromoteRequest, PurgeRequest, Purged, QueueBackend, QueueName,
    QueueStats, ReapRequest, Reaped, Receipt, Result, Table, Waiter, Woken,
};
use r2d2::Pool;
use rusqlite::{Connection, TransactionBehavior};

use crate::builder::SqliteQueueBuilder;
use crate::busy::Patience;
use crate::error::{self, failed};
use crate::pool::{self, Readers};
use crate::sql::Statements;
use crate::writer::Writer;
use crate::{ENGINE, admin, check, enqueue, lifecycle, migrate, purge};

/// How often an operation that met contention is run, the first time included, while its deadline
/// lasts.
const ATTEMPTS_MAX: u32 = 3;

/// A queue in one SQLite file. Cheap to clone; clones share everything.
///
/// All queues of a process on the same file write through one connection, in the order of their
/// calls.
#[derive(Clone)]
pub struct SqliteQueue {
    inner: Arc<Inner>,
}

struct Inner {
    file: PathBuf,
    tables: Tables,
    busy_deadline: Duration,
    writer: Arc<Writer>,
    readers: Pool<Readers>,
    bell: Arc<Bell>,
}

/// One set of tables and the statements on it.
pub(crate) struct Tables {
    pub(crate) table: Table,
    pub(crate) sql: Statements,
}

impl Tables {
    pub(crate) fn new(table: Table) -> Self {
        let sql = Statements::new(&table);
        Self { table, sql }
    }
}

impl fmt::Debug for SqliteQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteQueue")
            .field("file", &self.inner.file)
            .field("table", &self.inner.tables.table.name())
            .finish_non_exhaustive()
    }
}

impl SqliteQueue {
    /// The queue in the table `job` of a file. Opens nothing yet.
    ///
    /// # Errors
    /// As for [`SqliteQueueBuilder::build`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::builder(path).build()
    }

    /// Sets up a queue in a file: its tables, how long to wait.
    #[must_use]
    pub fn builder(path: impl AsRef<Path>) -> SqliteQueueBuilder {
        SqliteQueueBuilder::new(path.as_ref())
    }

    /// The file, by its canonical path.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.inner.file
    }

    /// The tables.
    #[must_use]
    pub fn table(&self) -> &Table {
        &self.inner.tables.table
    }

    pub(crate) fn new(
        file: &Path,
        table: Table,
        busy_deadline: Duration,
        readers_max: u32,
    ) -> Self {
        let writer = Writer::of(file);
        let bell = writer.bell(table.name());
        let inner = Inner {
            file: file.to_owned(),
            tables: Tables::new(table),
            busy_deadline,
            writer,
            readers: pool::build(file, readers_max, busy_deadline),
            bell,
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    pub(crate) fn tables(&self) -> &Tables {
        &self.inner.tables
    }

    pub(crate) fn writer(&self) -> &Writer {
        &self.inner.writer
    }

    pub(crate) fn bell(&self) -> &Arc<Bell> {
        &self.inner.bell
    }

    pub(crate) fn deadline(&self) -> Instant {
        let now = Instant::now();
        // A deadline beyond what the clock can hold is as good as a day.
        now.checked_add(self.inner.busy_deadline)
            .unwrap_or(now + Duration::from_secs(86_400))
    }

    /// One transaction around `work`, run again a few times when another one was in the way.
    pub(crate) fn write<R>(
        &self,
        operation: &'static str,
        work: impl Fn(&Connection) -> Result<R>,
    ) -> Result<R> {
        let deadline = self.deadline();
        for _ in 1..ATTEMPTS_MAX {
            match self.write_once(operation, deadline, &work) {
                Err(Error::Contention(_)) if Instant::now() < deadline => {
                    sleep(Duration::from_micros(fastrand::u64(500..5_000)));
                }
                other => return other,
            }
        }
        self.write_once(operation, deadline, &work)
    }

    fn write_once<R>(
        &self,
        operation: &'static str,
        deadline: Instant,
        work: impl Fn(&Connection) -> Result<R>,
    ) -> Result<R> {
        let unsound =
            |error: &Error| matches!(error, Error::Unavailable(_) | Error::OutcomeUnknown(_));
        self.writer()
            .with(operation, deadline, unsound, |connection| {
                let tx = connection
                    .transaction_with_behavior(TransactionBehavior::Immediate)
                    .map_err(error::map(operation))?;
                let value = work(&tx)?;
                tx.commit().map_err(error::commit(operation))?;
                Ok(value)
            })
    }

    /// Runs statements that only read, on a connection that blocks nobody.
    pub(crate) fn read<R>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Connection) -> rusqlite::Result<R>,
    ) -> Result<R> {
        let reader = self.inner.readers.get();
        let reader = reader.map_err(|error| Error::Unavailable(failed(operation, error)))?;
        let _patience = Patience::until(self.deadline());
        work(&reader).map_err(error::map(operation))
    }

    /// Rings for the jobs that are due at once.
    fn ring_for(&self, jobs: &[NewJob], enqueued: &[Enqueued]) {
        for queue in enqueue::woken(jobs, enqueued) {
            self.inner.bell.ring(queue);
        }
    }
}

impl QueueBackend for SqliteQueue {
    fn engine(&self) -> &'static str {
        ENGINE
    }

    fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        let columns = enqueue::check(self.tables(), jobs)?;
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let store = |tx: &Connection| enqueue::enqueue(tx, self.tables(), jobs, &columns);
        let enqueued = self.write("enqueue", store)?;
        observe::enqueued(ENGINE, EnqueuedBy::Enqueue, jobs, &enqueued);
        self.ring_for(jobs, &enqueued);
        Ok(enqueued)
    }

    /// An empty queue costs one read and does not touch the writer.
    fn claim(&self, request: &ClaimRequest) -> Result<Vec<ClaimedJob>> {
        let probe = |reader: &Connection| lifecycle::claim_probe(reader, self.tables(), request);
        if !self.read("claim", probe)? {
            return Ok(Vec::new());
        }
        self.write("claim", |tx| lifecycle::claim(tx, self.tables(), request))
    }

    /// Waits for the writer like every write, and for nothing else: neither for readers nor for a
    /// free one.
    fn renew(&self, receipts: &[Receipt], lease: LeaseLength) -> Result<Vec<Fenced<()>>> {
        lifecycle::check_batch(receipts.len())?;
        if receipts.is_empty() {
            return Ok(Vec::new());
        }
        self.write("renew", |tx| {
            lifecycle::renew(tx, self.tables(), receipts, lease)
        })
    }

    fn ack(&self, receipts: &[Receipt]) -> Result<Vec<Fenced<()>>> {
        lifecycle::check_batch(receipts.len())?;
        if receipts.is_empty() {
            return Ok(Vec::new());
        }
        self.write("ack", |tx| lifecycle::ack(tx, self.tables(), receipts))
    }

    fn fail(&self, failures: &[Failure]) -> Result<Vec<Fenced<Disposition>>> {
        lifecycle::check_batch(failures.len())?;
        if failures.is_empty() {
            return Ok(Vec::new());
        }
        self.write("fail", |tx| lifecycle::fail(tx, self.tables(), failures))
    }

    fn reap(&self, request: &ReapRequest) -> Result<Vec<Reaped>> {
        self.write("reap", |tx| lifecycle::reap(tx, self.tables(), request))
    }

    /// Hears the enqueues of this process; those of others are found by polling.
    fn wait(&self, waiter: &mut Waiter, at_most: Duration) -> Result<Woken> {
        Ok(self.inner.bell.wait(waiter, at_most))
    }

    fn ring(&self, queue: &QueueName) {
        self.inner.bell.ring(queue);
    }
}

impl Administration for SqliteQueue {
    fn migrate(&self) -> Result<Migrated> {
        self.write("migrate", |tx| migrate::migrate(tx, self.tables()))
    }

    fn check(&self) -> Result<Vec<Finding>> {
        // On the writer: two of the settings are the connection's own.
        self.writer().with(
            "check",
            self.deadline(),
            |_| false,
            |connection| check::check(connection, self.tables()),
        )
    }

    fn get(&self, job: JobId) -> Result<Option<JobRecord>> {
        self.read("get", |reader| admin::get(reader, self.tables(), job))
    }

    fn list(&self, request: &ListRequest) -> Result<Vec<JobRecord>> {
        self.read("list", |reader| admin::list(reader, self.tables(), request))
    }

    fn failures(&self, job: JobId) -> Result<Vec<FailureRecord>> {
        self.read("failures", |reader| {
            admin::failures(reader, self.tables(), job)
        })
    }

    fn stats(&self, queue: Option<&QueueName>) -> Result<Vec<QueueStats>> {
        self.read("stats", |reader| admin::stats(reader, self.tables(), queue))
    }

    fn replay(&self, job: JobId, extra: MaxAttempts) -> Result<u32> {
        let replay = |tx: &Connection| admin::replay(tx, self.tables(), job, extra);
        let (queue, budget) = self.write("replay", replay)?;
        self.ring(&queue);
        Ok(budget)
    }

    fn cancel(&self, job: JobId, reason: &ErrorText) -> Result<()> {
        self.write("cancel", |tx| admin::cancel(tx, self.tables(), job, reason))
    }

    fn promote(&self, request: &PromoteRequest) -> Result<u32> {
        self.write("promote", |tx| admin::promote(tx, self.tables(), request))
    }

    fn purge(&self, request: &PurgeRequest) -> Result<Purged> {
        purge::purge(self, request)
    }

    fn pause(&self, queue: &QueueName) -> Result<()> {
        self.write("pause", |tx| admin::pause(tx, self.tables(), queue))
    }

    fn resume(&self, queue: &QueueName) -> Result<()> {
        self.write("resume", |tx| admin::resume(tx, self.tables(), queue))?;
        self.ring(queue);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use queue_table_core::{Kind, Payload, QueueBackendExt, WorkerId};

    #[test]
    fn writes_pass_a_pool_whose_readers_are_all_taken() {
        let folder = tempfile::tempdir().unwrap();
        let builder = SqliteQueue::builder(folder.path().join("jobs.db"));
        let queue = builder
            .readers_max(1)
            .busy_deadline(Duration::from_millis(200))
            .build()
            .unwrap();
        queue.migrate().unwrap();
        let mail = QueueName::new("mail").unwrap();
        let job = NewJob::new(
            &mail,
            Kind::new("k").unwrap(),
            Payload::from_json("1").unwrap(),
        );
        queue.enqueue_one(&job).unwrap();
        let request = ClaimRequest::new(mail, WorkerId::new("w").unwrap());
        let claimed = queue.claim(&request).unwrap().remove(0);

        let taken = queue.inner.readers.get().unwrap();
        assert_eq!(
            queue.get(claimed.job_id()).unwrap_err().kind(),
            "unavailable"
        );
        queue
            .renew_one(&claimed.receipt, LeaseLength::default())
            .unwrap();
        queue.ack_one(&claimed.receipt).unwrap();
        drop(taken);
        assert!(queue.get(claimed.job_id()).unwrap().is_some());
    }

    #[test]
    fn contention_is_tried_again_a_bounded_number_of_times() {
        let folder = tempfile::tempdir().unwrap();
        let queue = SqliteQueue::open(folder.path().join("jobs.db")).unwrap();
        let runs = std::cell::Cell::new(0);
        let contention = |_: &Connection| {
            runs.set(runs.get() + 1);
            Err::<(), _>(Error::Contention(failed("ack", "in the way")))
        };
        assert_eq!(
            queue.write("ack", contention).unwrap_err().kind(),
            "contention"
        );
        assert_eq!(runs.get(), ATTEMPTS_MAX);
    }

    #[test]
    fn debug_output_names_file_and_table() {
        let folder = tempfile::tempdir().unwrap();
        let queue = SqliteQueue::open(folder.path().join("jobs.db")).unwrap();
        let text = format!("{queue:?}");
        assert!(
            text.contains("jobs.db") && text.contains("\"job\""),
            "{text}"
        );
    }
}
