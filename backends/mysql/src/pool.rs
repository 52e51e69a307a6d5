//! Connections: how they are made, kept, judged broken, and how one transaction runs on one of
//! them.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use mysql::{Conn, IsolationLevel, Opts, OptsBuilder, Row, TxOpts};
use queue_table_core::worker::observe;
use queue_table_core::{Error, Failed, Result};
use scheduled_thread_pool::{OnPoolDropBehavior, ScheduledThreadPool};

use crate::error::{failed, leaves_doubt};

/// A connection used within this time is taken to be alive; after it, it is asked.
const TRUSTED_FOR: Duration = Duration::from_secs(1);

/// How often a transaction of our own is run before contention reaches the caller.
const ATTEMPTS_MAX: u32 = 8;

/// First pause between two of them; it doubles, with jitter.
const PAUSE: Duration = Duration::from_millis(1);

/// One connection and what the pool has to know about it.
pub(crate) struct Connection {
    conn: Conn,
    used: Instant,
    /// A transaction was opened and neither committed nor rolled back.
    open: bool,
    broken: bool,
    /// The shorter time-out of the two: work that took less has met none.
    time_out: Option<Duration>,
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

    /// The same on the driver's own transaction type, for a caller's work.
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
    fn judge(&mut self, error: &Error) {
        let answered = matches!(
            error,
            Error::LostClaim(_) | Error::Contention(_) | Error::Rejected(_) | Error::Schema { .. }
        );
        self.broken |= !answered;
    }

    fn is_broken(&self) -> bool {
        self.broken || self.open
    }

    fn check_alive(&mut self) -> mysql::Result<()> {
        if self.used.elapsed() < TRUSTED_FOR {
            return Ok(());
        }
        self.session().ping()
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

/// Makes connections.
pub(crate) struct Manager {
    opts: Opts,
    lock_wait: Duration,
}

/// Never the options: they hold the password.
impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manager").finish_non_exhaustive()
    }
}

impl Manager {
    pub(crate) fn new(opts: Opts, lock_wait: Duration) -> Self {
        Self { opts, lock_wait }
    }

    /// How long a statement waits for a row, and how long a transaction is run again at most.
    pub(crate) fn lock_wait(&self) -> Duration {
        self.lock_wait
    }

    pub(crate) fn connect(&self) -> mysql::Result<Connection> {
        self.open(self.opts.clone())
    }

    /// A connection for work that may take long, such as a migration: without a read time-out.
    pub(crate) fn connect_patient(&self) -> mysql::Result<Connection> {
        self.open(
            OptsBuilder::from_opts(self.opts.clone())
                .read_timeout(None)
                .into(),
        )
    }

    fn open(&self, opts: Opts) -> mysql::Result<Connection> {
        let time_outs = [opts.get_read_timeout(), opts.get_write_timeout()];
        let time_out = time_outs.into_iter().flatten().min().copied();
        let mut conn = Conn::new(opts)?;
        // Our own session: a wait for a row, or for somebody's ALTER TABLE, ends before the read
        // time-out does.
        let seconds = self.lock_wait.as_secs().max(1);
        conn.query_drop(format!(
            "SET SESSION autocommit = 1, SESSION innodb_lock_wait_timeout = {seconds}, \
             SESSION lock_wait_timeout = {seconds}"
        ))?;
        Ok(Connection {
            conn,
            used: Instant::now(),
            open: false,
            broken: false,
            time_out,
        })
    }
}

/// The pool's view of the manager.
struct PooledManager(Arc<Manager>);

impl r2d2::ManageConnection for PooledManager {
    type Connection = Connection;
    type Error = mysql::Error;

    fn connect(&self) -> mysql::Result<Connection> {
        self.0.connect()
    }

    fn is_valid(&self, connection: &mut Connection) -> mysql::Result<()> {
        connection.check_alive()
    }

    fn has_broken(&self, connection: &mut Connection) -> bool {
        connection.is_broken()
    }
}

/// Why the pool could not connect last: r2d2 itself keeps only a text.
#[derive(Debug, Clone, Default)]
struct LastError(Arc<Mutex<Option<mysql::Error>>>);

impl LastError {
    fn set(&self, error: Option<mysql::Error>) -> Option<mysql::Error> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut last, error)
    }
}

impl r2d2::HandleError<mysql::Error> for LastError {
    fn handle_error(&self, error: mysql::Error) {
        tracing::warn!(%error, "cannot connect");
        self.set(Some(error));
    }
}

/// How many connections, and how long to wait for one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolSize {
    pub(crate) max: u32,
    pub(crate) wait: Duration,
}

/// The pool, and one connection beside it for renewals: handlers that hold every pooled connection
/// cannot starve them.
pub(crate) struct Connections {
    manager: Arc<Manager>,
    pool: r2d2::Pool<PooledManager>,
    last_error: LastError,
    renewing: Mutex<Option<Connection>>,
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections")
            .field("pool", &self.pool.state())
            .finish_non_exhaustive()
    }
}

impl Connections {
    /// Connects nothing: a service starts also while its database is down.
    pub(crate) fn new(manager: Manager, size: PoolSize) -> Self {
        let manager = Arc::new(manager);
        let last_error = LastError::default();
        let threads = ScheduledThreadPool::builder()
            .num_threads(2)
            .thread_name_pattern("queue-table-mysql-{}")
            .on_drop_behavior(OnPoolDropBehavior::DiscardPendingScheduled)
            .build();
        let pool = r2d2::Pool::builder()
            .max_size(size.max)
            .min_idle(Some(0))
            .connection_timeout(size.wait)
            .test_on_check_out(true)
            .error_handler(Box::new(last_error.clone()))
            // Two: one may hang in a connect while the other closes idle connections.
            .thread_pool(Arc::new(threads))
            .build_unchecked(PooledManager(Arc::clone(&manager)));
        Self {
            manager,
            pool,
            last_error,
            renewing: Mutex::new(None),
        }
    }

    pub(crate) fn manager(&self) -> &Manager {
        &self.manager
    }

    /// Runs `work` on a pooled connection, and again a bounded number of times while another
    /// transaction is in the way.
    pub(crate) fn pooled<T>(
        &self,
        engine: &'static str,
        operation: &'static str,
        mut work: impl FnMut(&mut Connection) -> Result<T>,
    ) -> Result<T> {
        self.again(|| {
            let mut connection = self.checkout(engine, operation)?;
            work(&mut connection).inspect_err(|error| connection.judge(error))
        })
    }

    /// Runs `work` once on a pooled connection.
    pub(crate) fn pooled_once<T, E: From<Error>>(
        &self,
        engine: &'static str,
        operation: &'static str,
        work: impl FnOnce(&mut Connection) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let mut connection = self.checkout(engine, operation)?;
        work(&mut connection)
    }

    fn checkout(
        &self,
        engine: &'static str,
        operation: &'static str,
    ) -> Result<r2d2::PooledConnection<PooledManager>> {
        let asked = Instant::now();
        let connection = self.pool.get();
        observe::connection_waited(engine, operation, asked.elapsed());
        let last_error = self.last_error.set(None);
        connection.map_err(|timeout| match last_error {
            Some(error) => failed(engine, operation)(error),
            None => Error::Unavailable(Failed::new(engine, operation, timeout)),
        })
    }

    /// Runs `work` on the connection for renewals, and again while another transaction is in the
    /// way.
    pub(crate) fn renewing<T>(
        &self,
        engine: &'static str,
        operation: &'static str,
        mut work: impl FnMut(&mut Connection) -> Result<T>,
    ) -> Result<T> {
        let mut kept = self.renewing.lock().unwrap_or_else(PoisonError::into_inner);
        self.again(|| {
            let alive = |mut connection: Connection| {
                let answer = connection.check_alive();
                answer.is_ok().then_some(connection)
            };
            let mut connection = match kept.take().and_then(alive) {
                Some(connection) => connection,
                None => self.manager.connect().map_err(failed(engine, operation))?,
            };
            let done = work(&mut connection).inspect_err(|error| connection.judge(error));
            *kept = Some(connection).filter(|connection| !connection.is_broken());
            done
        })
    }

    /// Runs `attempt` until it ends otherwise than by contention, at most eight times and not
    /// beyond one lock wait.
    fn again<T>(&self, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
        let until = Instant::now() + self.manager.lock_wait();
        let mut run = 1;
        loop {
            match attempt() {
                Err(Error::Contention(source)) if run < ATTEMPTS_MAX && Instant::now() < until => {
                    tracing::debug!(run, error = %source, "contention; once more");
                    std::thread::sleep(
                        (PAUSE * 2_u32.pow(run)).mul_f64(0.5 + fastrand::f64() / 2.0),
                    );
                    run += 1;
                }
                ended => return ended,
            }
        }
    }
}
