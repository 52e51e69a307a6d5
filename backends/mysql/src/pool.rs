//! How connections are made and kept, and how often an operation of our own is run on one.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use mysql::{Conn, Opts, OptsBuilder};
use queue_table_core::worker::observe;
use queue_table_core::{Error, Failed, Result};
use scheduled_thread_pool::{OnPoolDropBehavior, ScheduledThreadPool};

use crate::connection::Connection;
use crate::error::failed;

/// How often a transaction of our own is run before contention reaches the caller.
const ATTEMPTS_MAX: u32 = 8;

/// First pause between two of them; it doubles, with jitter.
const PAUSE: Duration = Duration::from_millis(1);

/// How long one try waits for a row while others wait for the answer: the shortest that the server
/// knows.
pub(crate) const SHORT_WAIT: Duration = Duration::from_secs(1);

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
        self.open(self.opts.clone(), self.lock_wait)
    }

    fn connect_for_renewals(&self) -> mysql::Result<Connection> {
        self.open(self.opts.clone(), self.lock_wait.min(SHORT_WAIT))
    }

    /// A connection for work that may take long, such as a migration: without a read time-out.
    pub(crate) fn connect_patient(&self) -> mysql::Result<Connection> {
        let patient = OptsBuilder::from_opts(self.opts.clone()).read_timeout(None);
        self.open(patient.into(), self.lock_wait)
    }

    fn open(&self, opts: Opts, lock_wait: Duration) -> mysql::Result<Connection> {
        let time_outs = [opts.get_read_timeout(), opts.get_write_timeout()];
        let time_out = time_outs.into_iter().flatten().min().copied();
        let mut conn = Conn::new(opts)?;
        // Our own session: a wait for a row, or for somebody's ALTER TABLE, ends before the read
        // time-out does.
        let seconds = lock_wait.as_secs().max(1);
        conn.query_drop(format!(
            "SET SESSION autocommit = 1, SESSION innodb_lock_wait_timeout = {seconds}, \
             SESSION lock_wait_timeout = {seconds}"
        ))?;
        Ok(Connection::new(conn, time_out, lock_wait))
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
            // `checkout` does, and a look need not.
            .test_on_check_out(false)
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
        work: impl FnMut(&mut Connection) -> Result<T>,
    ) -> Result<T> {
        self.pooled_within(self.manager.lock_wait(), engine, operation, work)
    }

    /// The same, but not again beyond `patience`.
    pub(crate) fn pooled_within<T>(
        &self,
        patience: Duration,
        engine: &'static str,
        operation: &'static str,
        mut work: impl FnMut(&mut Connection) -> Result<T>,
    ) -> Result<T> {
        again(patience.min(self.manager.lock_wait()), || {
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

    /// Runs `read`, which changes nothing, in one round trip: a connection that has idled is not
    /// asked first if it lives. Where it does not, the read is made again on one that does.
    pub(crate) fn look<T>(
        &self,
        engine: &'static str,
        operation: &'static str,
        mut read: impl FnMut(&mut Connection) -> Result<T>,
    ) -> Result<T> {
        let mut connection = self.get(engine, operation)?;
        let was_trusted = connection.is_trusted();
        let done = read(&mut connection).inspect_err(|error| connection.judge(error));
        drop(connection);
        match done {
            Err(Error::Unavailable(_)) if !was_trusted => self.pooled(engine, operation, read),
            Err(Error::Contention(_)) => self.pooled(engine, operation, read),
            done => done,
        }
    }

    /// A connection that is alive. After a server's restart every pooled one may be dead.
    fn checkout(
        &self,
        engine: &'static str,
        operation: &'static str,
    ) -> Result<r2d2::PooledConnection<PooledManager>> {
        for _ in 0..self.pool.max_size() {
            let mut connection = self.get(engine, operation)?;
            match connection.check_alive() {
                Ok(()) => return Ok(connection),
                Err(error) => tracing::debug!(%error, "a connection has died while it idled"),
            }
        }
        self.get(engine, operation)
    }

    fn get(
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
    /// way, but not beyond `patience`.
    pub(crate) fn renewing<T>(
        &self,
        engine: &'static str,
        operation: &'static str,
        patience: Duration,
        mut work: impl FnMut(&mut Connection) -> Result<T>,
    ) -> Result<T> {
        let mut kept = self.renewing.lock().unwrap_or_else(PoisonError::into_inner);
        again(patience.min(self.manager.lock_wait()), || {
            let alive = |mut connection: Connection| {
                let answer = connection.check_alive();
                answer.is_ok().then_some(connection)
            };
            let mut connection = match kept.take().and_then(alive) {
                Some(connection) => connection,
                None => {
                    let connected = self.manager.connect_for_renewals();
                    connected.map_err(failed(engine, operation))?
                }
            };
            let done = work(&mut connection).inspect_err(|error| connection.judge(error));
            *kept = Some(connection).filter(|connection| !connection.is_broken());
            done
        })
    }
}

/// Runs `attempt` until it ends otherwise than by contention, at most eight times and not beyond
/// `patience`.
fn again<T>(patience: Duration, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let until = Instant::now() + patience;
    let mut run = 1;
    loop {
        match attempt() {
            Err(Error::Contention(source)) if run < ATTEMPTS_MAX && Instant::now() < until => {
                tracing::debug!(run, error = %source, "contention; once more");
                std::thread::sleep((PAUSE * 2_u32.pow(run)).mul_f64(0.5 + fastrand::f64() / 2.0));
                run += 1;
            }
            ended => return ended,
        }
    }
}
