//! One connection: how a transaction runs on it, and how it is judged broken.

use std::fmt;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use mysql::{Conn, IsolationLevel, Row, TxOpts};
use queue_table_core::{Error, Failed, Result};

use crate::error::{failed, leaves_doubt};

/// A connection used within this time is taken to be alive; after it, it is asked.
const TRUSTED_FOR: Duration = Duration::from_secs(1);

/// One connection and what the pool has to know about it.
pub(crate) struct Connection {
    conn: Conn,
    used: Instant,
    /// A transaction was opened and neither committed nor rolled back.
    open: bool,
    broken: bool,
    /// The shorter time-out of the two: work that took less has met none.
    time_out: Option<Duration>,
    /// How long the session waits for a row.
    lock_wait: Duration,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("open", &self.open)
            .field("broken", &self.broken)
            .finish_non_exhaustive()
    }
}

impl Connection {
    pub(crate) fn new(conn: Conn, time_out: Option<Duration>, lock_wait: Duration) -> Self {
        Self {
            conn,
            used: Instant::now(),
            open: false,
            broken: false,
            time_out,
            lock_wait,
        }
    }

    /// The driver's connection, for reads outside a transaction.
    pub(crate) fn session(&mut self) -> &mut Conn {
        self.used = Instant::now();
        &mut self.conn
    }

    /// Runs `work` in one transaction at READ COMMITTED: commits when it returns `Ok`, else rolls
    /// back.
    pub(crate) fn transaction<T>(
        &mut self,
        engine: &'static str,
        operation: &'static str,
        work: impl FnOnce(&mut Conn) -> Result<T>,
    ) -> Result<T> {
        self.begin().map_err(failed(engine, operation))?;
        match work(&mut self.conn) {
            Ok(done) => {
                let committed = self.conn.query_drop("COMMIT");
                self.committed(engine, operation, committed)?;
                Ok(done)
            }
            Err(error) => {
                self.judge(&error);
                // Not waited for on a connection that is given up: the server rolls back when it
                // closes.
                if !self.broken {
                    self.roll_back();
                }
                Err(error)
            }
        }
    }

    /// The same, but waits for a row no longer than `at_most`.
    pub(crate) fn short_transaction<T>(
        &mut self,
        engine: &'static str,
        operation: &'static str,
        at_most: Duration,
        work: impl FnOnce(&mut Conn) -> Result<T>,
    ) -> Result<T> {
        let usual = self.lock_wait;
        self.wait_for_rows(at_most.min(usual))
            .map_err(failed(engine, operation))?;
        let done = self.transaction(engine, operation, work);
        if !self.broken
            && let Err(error) = self.wait_for_rows(usual)
        {
            tracing::debug!(%error, "the session could not be put back, and is given up");
        }
        done
    }

    /// In whole seconds, the shortest the server knows being one.
    fn wait_for_rows(&mut self, at_most: Duration) -> mysql::Result<()> {
        let seconds = at_most.as_secs().max(1);
        let set = format!("SET SESSION innodb_lock_wait_timeout = {seconds}");
        let done = self.session().query_drop(set);
        self.broken |= done.is_err();
        done
    }

    /// One on the driver's own transaction type, for a caller's work.
    pub(crate) fn driver_transaction<T, E: From<Error>>(
        &mut self,
        engine: &'static str,
        work: impl for<'t> FnOnce(&mut mysql::Transaction<'t>) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        const OPERATION: &str = "transaction";
        self.used = Instant::now();
        // True until the end is known, also when `work` panics: the pool then drops the connection.
        self.open = true;
        let options = TxOpts::default().set_isolation_level(Some(IsolationLevel::ReadCommitted));
        let mut tx = self
            .conn
            .start_transaction(options)
            .map_err(failed(engine, OPERATION))?;
        match work(&mut tx) {
            // A time-out that `work` kept to itself: a late answer would be taken for the commit's.
            Ok(_) if may_have_timed_out(self.used, self.time_out) && !in_step(&mut tx) => {
                self.broken = true;
                let source = "a statement timed out, and its answer is outstanding";
                Err(Error::Unavailable(Failed::new(engine, OPERATION, source)).into())
            }
            Ok(done) => {
                let committed = tx.commit();
                self.committed(engine, OPERATION, committed)?;
                Ok(done)
            }
            Err(error) => {
                // What kind of error it is only the caller knows, so the connection is asked.
                self.open = tx.rollback().is_err() || !in_step(&mut self.conn);
                Err(error)
            }
        }
    }

    /// Both statements in one round trip. The level holds for this one transaction; the session
    /// keeps its own.
    fn begin(&mut self) -> mysql::Result<()> {
        self.used = Instant::now();
        self.open = true;
        let begun = run_all(
            &mut self.conn,
            "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION",
        );
        self.broken |= begun.is_err();
        begun
    }

    /// Gives the connection up after an error that is not the server's own answer: the driver keeps
    /// a connection whose read timed out, and takes the late answer for the next statement's.
    pub(crate) fn judge(&mut self, error: &Error) {
        let answered = matches!(
            error,
            Error::LostClaim(_) | Error::Contention(_) | Error::Rejected(_) | Error::Schema { .. }
        );
        self.broken |= !answered;
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken || self.open
    }

    pub(crate) fn check_alive(&mut self) -> mysql::Result<()> {
        if self.is_trusted() {
            return Ok(());
        }
        let answer = self.session().ping();
        self.broken |= answer.is_err();
        answer
    }

    /// Whether it was used a moment ago.
    pub(crate) fn is_trusted(&self) -> bool {
        self.used.elapsed() < TRUSTED_FOR
    }

    fn committed(
        &mut self,
        engine: &'static str,
        operation: &'static str,
        committed: mysql::Result<()>,
    ) -> Result<()> {
        match committed {
            Ok(()) => {
                self.open = false;
                Ok(())
            }
            Err(error) if leaves_doubt(&error) => {
                self.broken = true;
                Err(Error::OutcomeUnknown(Failed::new(engine, operation, error)))
            }
            Err(error) => {
                self.roll_back();
                Err(failed(engine, operation)(error))
            }
        }
    }

    /// A connection that cannot even roll back stays open, and is dropped for it; the server then
    /// rolls back.
    fn roll_back(&mut self) {
        self.open = self.conn.query_drop("ROLLBACK").is_err();
    }
}

/// Whether a statement since `begun` may have reached the time-out. Half of it counts, as clocks
/// differ.
fn may_have_timed_out(begun: Instant, time_out: Option<Duration>) -> bool {
    time_out.is_some_and(|time_out| begun.elapsed() >= time_out / 2)
}

/// Whether the next answer is the next statement's, and not one that came too late.
fn in_step<Q: Queryable>(session: &mut Q) -> bool {
    let token = fastrand::u32(..);
    let answer = session.query_first::<Row, _>(format!("SELECT {token}"));
    let answer = answer.ok().flatten();
    let number = answer.and_then(|row| row.get_opt::<u32, _>(0));
    matches!(number, Some(Ok(number)) if number == token)
}

/// Runs several statements without rows in one round trip, and stops at the first that fails:
/// `query_drop` would hear the first one's error only.
pub(crate) fn run_all<Q: Queryable>(session: &mut Q, statements: &str) -> mysql::Result<()> {
    let mut results = session.query_iter(statements)?;
    while let Some(result) = results.iter() {
        for row in result {
            row?;
        }
    }
    Ok(())
}
