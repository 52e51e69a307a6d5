//! The one connection of a process that writes to a file, shared by every queue on that file.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use queue_table_core::worker::observe;
use queue_table_core::{Bell, Error, Result};
use rusqlite::Connection;

use crate::busy::Patience;
use crate::error::failed;
use crate::turn::{NoTurn, Turns};
use crate::{ENGINE, connection};

/// The writers of this process, by canonical path.
static WRITERS: LazyLock<Mutex<HashMap<PathBuf, Weak<Writer>>>> = LazyLock::new(Mutex::default);

/// The writing connection of one file, opened at the first write, and the order of those who want
/// it.
#[derive(Debug)]
pub(crate) struct Writer {
    file: PathBuf,
    turns: Turns,
    idle: Mutex<Option<Connection>>,
    bells: Mutex<HashMap<String, Arc<Bell>>>,
}

impl Writer {
    /// The writer of a file; queues on the same file get the same one.
    pub(crate) fn of(file: &Path) -> Arc<Self> {
        let mut writers = lock(&WRITERS);
        if let Some(writer) = writers.get(file).and_then(Weak::upgrade) {
            return writer;
        }
        writers.retain(|_, writer| writer.strong_count() > 0);
        let writer = Arc::new(Self {
            file: file.to_owned(),
            turns: Turns::default(),
            idle: Mutex::default(),
            bells: Mutex::default(),
        });
        writers.insert(file.to_owned(), Arc::downgrade(&writer));
        writer
    }

    /// The bell of one job table: rung by one queue in this process, heard by all on the same
    /// table.
    pub(crate) fn bell(&self, table: &str) -> Arc<Bell> {
        Arc::clone(lock(&self.bells).entry(table.to_owned()).or_default())
    }

    /// Runs `work` on the connection when it is this thread's turn. SQLite too waits no longer than
    /// the deadline.
    ///
    /// After a panic the connection is closed, and after an error for which `unsound` says so; the
    /// next caller opens another.
    pub(crate) fn with<R, E: From<Error>>(
        &self,
        operation: &'static str,
        deadline: Instant,
        unsound: impl FnOnce(&E) -> bool,
        work: impl FnOnce(&mut Connection) -> Result<R, E>,
    ) -> Result<R, E> {
        let asked = Instant::now();
        let turn = self.turns.wait(deadline);
        observe::connection_waited(ENGINE, operation, asked.elapsed());
        let _turn = turn.map_err(|no| no_turn(operation, no))?;
        let _patience = Patience::until(deadline);
        let idle = lock(&self.idle).take();
        let mut connection = match idle {
            Some(connection) => connection,
            None => connection::open_writer(&self.file, operation, deadline)?,
        };
        let result = work(&mut connection);
        if is_sound(&connection) && !result.as_ref().is_err_and(unsound) {
            *lock(&self.idle) = Some(connection);
        }
        result
    }
}

/// A transaction left open would swallow the next caller's writes, and a file that was opened while
/// it could not be written stays so for the connection.
fn is_sound(connection: &Connection) -> bool {
    connection.is_autocommit() && matches!(connection.is_readonly("main"), Ok(false))
}

fn no_turn(operation: &'static str, no: NoTurn) -> Error {
    match no {
        NoTurn::TooLate => Error::Contention(failed(
            operation,
            "other threads of this process kept the writer until the deadline",
        )),
        NoTurn::Own => Error::Engine(failed(
            operation,
            "this thread is inside a transaction of its own on this file and would wait for itself; \
             call the `_in` form of the operation there",
        )),
    }
}

/// A poisoned lock is taken all the same: nothing panics between two changes of what these locks
/// guard.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use queue_table_core::{
        Administration, ClaimRequest, Kind, NewJob, Payload, QueueBackend, QueueBackendExt,
        QueueName, State, TransactionalBackend, WorkerId,
    };

    use crate::SqliteQueue;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    fn id(writer: &Writer) -> i64 {
        let unsound = |_: &Error| false;
        let read = |connection: &mut Connection| {
            let id = connection.query_row("SELECT a FROM temp.mark", [], |row| row.get(0));
            Ok(id.unwrap_or(0))
        };
        writer.with("test", soon(), unsound, read).unwrap()
    }

    fn mark(writer: &Writer) {
        let run = |connection: &mut Connection| {
            connection
                .execute_batch("CREATE TEMP TABLE mark (a); INSERT INTO temp.mark VALUES (7)")
                .map_err(crate::error::map("test"))
        };
        writer.with("test", soon(), |_: &Error| false, run).unwrap();
    }

    #[test]
    fn two_queues_on_one_file_share_the_writer_until_both_are_gone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jobs.db");
        let (one, two) = (Writer::of(&file), Writer::of(&file));
        assert!(Arc::ptr_eq(&one, &two));
        assert!(Arc::ptr_eq(&one.bell("job"), &two.bell("job")));
        assert!(!Arc::ptr_eq(&one.bell("job"), &one.bell("other")));
        drop((one, two));
        assert!(
            lock(&WRITERS)
                .get(&file)
                .is_some_and(|gone| gone.upgrade().is_none())
        );
    }

    #[test]
    fn the_connection_is_kept_while_it_is_sound() {
        let folder = tempfile::tempdir().unwrap();
        let writer = Writer::of(&folder.path().join("jobs.db"));
        mark(&writer);
        assert_eq!(id(&writer), 7);
        let refused = writer.with(
            "test",
            soon(),
            |_: &Error| true,
            |_| Err::<(), _>(crate::error::never_migrated()),
        );
        assert!(refused.is_err());
        assert_eq!(id(&writer), 0, "closed after an error that says so");
    }

    #[test]
    fn a_transaction_left_open_closes_the_connection() {
        let folder = tempfile::tempdir().unwrap();
        let writer = Writer::of(&folder.path().join("jobs.db"));
        mark(&writer);
        let begin = |connection: &mut Connection| {
            connection
                .execute_batch("BEGIN")
                .map_err(crate::error::map("test"))
        };
        writer
            .with("test", soon(), |_: &Error| false, begin)
            .unwrap();
        assert_eq!(id(&writer), 0);
    }

    #[test]
    fn waiting_for_oneself_is_told_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let writer = Writer::of(&folder.path().join("jobs.db"));
        let nested = |_: &mut Connection| {
            let inner = writer.with("ack", soon(), |_: &Error| false, |_| Ok(()));
            Ok(inner.unwrap_err())
        };
        let error = writer
            .with("test", soon(), |_: &Error| false, nested)
            .unwrap();
        assert_eq!(error.kind(), "engine");
        assert!(
            queue_table_core::ErrorText::of(&error)
                .as_str()
                .contains("`_in` form")
        );
    }

    /// A queue whose writer is not in WAL, as on a file system without shared memory.
    fn without_wal(file: &Path) -> SqliteQueue {
        let builder = SqliteQueue::builder(file).busy_deadline(Duration::from_millis(200));
        let queue = builder.build().unwrap();
        let mut connection = Connection::open(file).unwrap();
        crate::busy::install(&mut connection).unwrap();
        connection
            .execute_batch(&crate::migration_sql(queue.table()))
            .unwrap();
        *lock(&queue.writer().idle) = Some(connection);
        queue
    }

    fn job() -> NewJob {
        let queue = QueueName::new("mail").unwrap();
        NewJob::new(
            &queue,
            Kind::new("k").unwrap(),
            Payload::from_json("1").unwrap(),
        )
    }

    #[test]
    fn a_busy_commit_is_rolled_back_and_the_connection_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jobs.db");
        let queue = without_wal(&file);
        queue.enqueue(&[job(), job()]).unwrap();
        let request = ClaimRequest::new(job().queue().clone(), WorkerId::new("w").unwrap());
        let claimed = queue.claim(&request).unwrap().remove(0);

        // Without WAL, somebody who reads keeps the writer from committing.
        let reader = Connection::open(&file).unwrap();
        reader
            .execute_batch("BEGIN; SELECT COUNT(*) FROM job")
            .unwrap();
        assert_eq!(
            queue.ack_one(&claimed.receipt).unwrap_err().kind(),
            "contention"
        );
        assert!(
            lock(&queue.writer().idle)
                .as_ref()
                .is_some_and(Connection::is_autocommit)
        );

        reader.execute_batch("COMMIT").unwrap();
        let state = queue.get(claimed.job_id()).unwrap().unwrap().state;
        assert_eq!(state, State::Running);
        assert_eq!(queue.claim(&request).unwrap().len(), 1);
        queue.ack_one(&claimed.receipt).unwrap();
    }

    #[test]
    fn a_file_that_was_replaced_is_unavailable_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jobs.db");
        let queue = without_wal(&file);
        queue.enqueue(&[job()]).unwrap();
        let copy = folder.path().join("copy.db");
        std::fs::copy(&file, &copy).unwrap();
        std::fs::rename(&copy, &file).unwrap();
        assert_eq!(queue.enqueue(&[job()]).unwrap_err().kind(), "unavailable");
        assert_eq!(queue.enqueue(&[job()]).unwrap()[0].job_id().get(), 2);
    }

    #[test]
    fn a_transaction_that_cannot_begin_closes_the_connection_whatever_the_callers_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jobs.db");
        let queue = without_wal(&file);
        // A folder where the journal belongs: SQLite takes it for one left over, and cannot open
        // it.
        let in_the_way = folder.path().join("jobs.db-journal");
        std::fs::create_dir(&in_the_way).unwrap();
        // The caller's own error type says nothing of what SQLite said.
        struct Hidden;
        impl From<Error> for Hidden {
            fn from(_: Error) -> Self {
                Self
            }
        }
        let store = |tx: &mut rusqlite::Transaction<'_>| {
            queue.enqueue_in(tx, &[job()])?;
            Ok::<_, Hidden>(())
        };
        assert!(queue.transaction(store).is_err());
        assert!(lock(&queue.writer().idle).is_none(), "closed");
        std::fs::remove_dir(&in_the_way).unwrap();
        assert!(queue.transaction(store).is_ok());
    }
}
