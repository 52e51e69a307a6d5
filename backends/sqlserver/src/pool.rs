//! Pools of connections on r2d2: one for all operations, and one connection kept apart for
//! renewals.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use queue_table_core::worker::observe;
use queue_table_core::{Error, Result};
use r2d2::{HandleError, ManageConnection, Pool, PooledConnection};
use scheduled_thread_pool::ScheduledThreadPool;

use crate::ENGINE;
use crate::connect::ConnectOptions;
use crate::connection::Connection;
use crate::error::failed;

/// Opens, resets and judges connections for an r2d2 pool.
///
/// A check-out runs the session's settings again: that shows that the connection is alive, and
/// undoes whatever an earlier user set, in one round trip. A connection that was lost, timed out,
/// or still has a transaction open is closed.
#[derive(Debug, Clone)]
pub struct Manager {
    options: ConnectOptions,
}

impl Manager {
    /// Connects by these options.
    #[must_use]
    pub fn new(options: ConnectOptions) -> Self {
        Self { options }
    }
}

impl ManageConnection for Manager {
    type Connection = Connection;
    type Error = Error;

    fn connect(&self) -> Result<Connection> {
        Connection::open(&self.options)
    }

    fn is_valid(&self, connection: &mut Connection) -> Result<()> {
        connection.reset()
    }

    fn has_broken(&self, connection: &mut Connection) -> bool {
        connection.is_broken()
    }
}

/// Keeps the last error of a connect, which r2d2 itself hands out as text only.
#[derive(Debug, Clone, Default)]
struct LastError(Arc<Mutex<Option<Error>>>);

impl LastError {
    fn put(&self, error: Option<Error>) -> Option<Error> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut slot, error)
    }
}

impl HandleError<Error> for LastError {
    fn handle_error(&self, error: Error) {
        self.put(Some(error));
    }
}

/// One pool and the reason why it cannot connect.
struct Source {
    pool: Pool<Manager>,
    last: LastError,
}

impl Source {
    fn get(&self, operation: &'static str) -> Result<PooledConnection<Manager>> {
        match self.pool.get() {
            Ok(connection) => {
                self.last.put(None);
                Ok(connection)
            }
            Err(none) => Err(self
                .last
                .put(None)
                .unwrap_or_else(|| Error::Unavailable(failed(operation, none)))),
        }
    }
}

/// The pools of one queue. Nothing is connected until it is needed.
pub(crate) struct Pools {
    operations: Source,
    renewals: Source,
    lock_timeout: Duration,
}

impl fmt::Debug for Pools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pools")
            .field("open", &self.open_connections())
            .finish_non_exhaustive()
    }
}

impl Pools {
    pub(crate) fn new(manager: &Manager, size: u32, wait: Duration) -> Self {
        // One thread opens connections for both.
        let threads = Arc::new(
            ScheduledThreadPool::builder()
                .num_threads(1)
                .thread_name_pattern("queue-table-sqlserver-{}")
                .build(),
        );
        let source = |size: u32| {
            let last = LastError::default();
            let pool = Pool::builder()
                .max_size(size)
                .min_idle(Some(0))
                .test_on_check_out(true)
                .connection_timeout(wait.max(Duration::from_millis(1)))
                .error_handler(Box::new(last.clone()))
                .thread_pool(threads.clone())
                .build_unchecked(manager.clone());
            Source { pool, last }
        };
        Self {
            operations: source(size.max(1)),
            renewals: source(1),
            lock_timeout: manager.options.lock_timeout,
        }
    }

    pub(crate) fn get(&self, operation: &'static str) -> Result<PooledConnection<Manager>> {
        let asked = Instant::now();
        let connection = self.operations.get(operation);
        observe::connection_waited(ENGINE, operation, asked.elapsed());
        connection
    }

    /// The connection that handlers cannot use up: renewals must not wait behind them.
    pub(crate) fn get_for_renewal(&self) -> Result<PooledConnection<Manager>> {
        self.renewals.get("renew")
    }

    /// How long a session waits for a row.
    pub(crate) fn lock_timeout(&self) -> Duration {
        self.lock_timeout
    }

    pub(crate) fn open_connections(&self) -> u32 {
        [&self.operations, &self.renewals]
            .map(|source| source.pool.state().connections)
            .iter()
            .sum()
    }
}
