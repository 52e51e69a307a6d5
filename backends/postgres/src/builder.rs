//! How a queue is put together: its tables, its connections, its wake-up.

use std::fmt;
use std::time::Duration;

use queue_table_core::{Invalid, Problem};
use queue_table_core::{Rejected, Result, Table};

use crate::pool::{DieselPool, Manager, Pool};
use crate::queue::PostgresQueue;

/// Most pooled connections unless asked for more: enough for a worker's claims, completions and a
/// few producers.
const POOL_SIZE: u32 = 8;

/// How long an operation waits for a pooled connection.
const POOL_WAIT: Duration = Duration::from_secs(10);

enum Source {
    Url(String),
    Pool(DieselPool),
}

/// Puts a [`PostgresQueue`] together. Connects to nothing: the first operation does.
///
/// # Timeouts
/// The crate sets none on the session, so yours hold; claims skip locked rows and wait for none.
/// renew, ack and fail wait at most 2 seconds a try for a locked row, or your `lock_timeout` where
/// that is shorter. Set them in the URL, which a server applies to each new session, for example
/// `postgres://app@db/shop?options=-c%20lock_timeout%3D5s%20-c%20statement_timeout%3D30s`. An
/// operation that runs into `lock_timeout` is tried again and then reported as contention; one that
/// runs into `statement_timeout` is reported as unavailable. Add `tcp_user_timeout=10000` for
/// networks that lose connections silently. Connecting is limited to 10 seconds unless the URL has
/// a `connect_timeout`.
///
/// ```
/// use queue_table_core::Table;
/// use queue_table_postgres::PostgresQueue;
///
/// let queue = PostgresQueue::builder("postgres://app:secret@localhost/shop")
///     .table(Table::named("mail_job")?.in_schema("app")?)
///     .pool_size(4)
///     .build()?;
/// assert!(!format!("{queue:?}").contains("secret"));
/// # Ok::<(), queue_table_core::Error>(())
/// ```
pub struct Builder {
    source: Source,
    table: Table,
    pool_size: u32,
    pool_wait: Duration,
    prepared: bool,
    notify: bool,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("table", &self.table)
            .field("pool_size", &self.pool_size)
            .finish_non_exhaustive()
    }
}

impl Builder {
    pub(crate) fn with_url(url: &str) -> Self {
        Self::new(Source::Url(url.to_owned()))
    }

    pub(crate) fn with_pool(pool: DieselPool) -> Self {
        Self::new(Source::Pool(pool))
    }

    fn new(source: Source) -> Self {
        Self {
            source,
            table: Table::default(),
            pool_size: POOL_SIZE,
            pool_wait: POOL_WAIT,
            prepared: true,
            notify: false,
        }
    }

    /// Uses these tables instead of `job` in the connection's own schema.
    #[must_use]
    pub fn table(self, table: Table) -> Self {
        Self { table, ..self }
    }

    /// Most pooled connections; 8 by default. One more is opened to renew claims. A given pool
    /// keeps its own size.
    #[must_use]
    pub fn pool_size(self, pool_size: u32) -> Self {
        Self { pool_size, ..self }
    }

    /// How long an operation waits for a pooled connection; 10 seconds by default. A given pool
    /// keeps its own limit.
    #[must_use]
    pub fn pool_wait(self, pool_wait: Duration) -> Self {
        Self { pool_wait, ..self }
    }

    /// Whether statements are prepared on each connection; they are by default, which halves a
    /// claim's latency.
    ///
    /// Turn it off behind a pooler that swaps sessions between transactions and does not carry
    /// prepared statements along (PgBouncer does since 1.21 with `max_prepared_statements`). A
    /// given pool keeps its own setting.
    #[must_use]
    pub fn prepared_statements(self, prepared: bool) -> Self {
        Self { prepared, ..self }
    }

    /// Wakes workers of other processes by LISTEN and NOTIFY; off by default, when they find jobs
    /// by polling.
    ///
    /// Notifications are sent by a thread after this queue's own commits, one for many: a
    /// notification inside the enqueuing transaction would make commits queue for one lock of the
    /// whole server. Jobs enqueued in a caller's transaction are announced when the caller rings.
    /// Takes two connections more, or two of a given pool. A pooler that swaps sessions cannot
    /// carry LISTEN: workers then find jobs by polling.
    #[must_use]
    pub fn notify(self, notify: bool) -> Self {
        Self { notify, ..self }
    }

    /// Builds the queue.
    ///
    /// # Errors
    /// [`Rejected::Invalid`] for a pool too small: of size 0, or a given one with no connection
    /// left beside those that are kept for renewals and notifications.
    pub fn build(self) -> Result<PostgresQueue> {
        let kept = if self.notify { 3 } else { 1 };
        let (given, least) = match &self.source {
            Source::Url(_) => (self.pool_size, 1),
            Source::Pool(pool) => (pool.max_size(), kept + 1),
        };
        if given < least {
            let problem = Problem::OutOfRange {
                given: i64::from(given),
                min: i64::from(least),
                max: i64::from(u32::MAX),
            };
            return Err(Rejected::Invalid(Invalid::new("pool size", problem)).into());
        }
        let pool = match self.source {
            Source::Url(url) => {
                let manager = Manager::new(&url, self.prepared);
                Pool::open(manager, self.pool_size, self.pool_wait)
            }
            Source::Pool(pool) => Pool::Given(pool),
        };
        Ok(PostgresQueue::assemble(pool, self.table, self.notify))
    }
}
