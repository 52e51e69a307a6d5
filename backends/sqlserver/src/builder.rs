//! Puts a queue together.

use std::fmt;
use std::time::Duration;

use queue_table_core::{Result, Table, check_count};

use crate::connect::ConnectOptions;
use crate::pool::{Manager, Pools};
use crate::queue::SqlServerQueue;

/// Connections unless asked for more: enough for a worker's claims, completions and a few
/// producers.
const POOL_SIZE: u32 = 8;

/// Most connections that can be asked for: SQL Server's own limit.
const POOL_SIZE_MAX: usize = 32_767;

/// How long an operation waits for a connection.
const POOL_WAIT: Duration = Duration::from_secs(15);

/// Puts a [`SqlServerQueue`] together. Connects to nothing: the first operation does.
///
/// ```
/// use queue_table_core::Table;
/// use queue_table_sqlserver::SqlServerQueue;
///
/// let queue = SqlServerQueue::builder("sqlserver://app:secret@localhost/shop?encrypt=false")
///     .table(Table::named("mail_job")?.in_schema("app")?)
///     .pool_size(4)
///     .build()?;
/// assert!(!format!("{queue:?}").contains("secret"));
/// # Ok::<(), queue_table_core::Error>(())
/// ```
#[must_use = "build() makes the queue"]
pub struct Builder {
    options: Result<ConnectOptions>,
    table: Table,
    pool_size: u32,
    pool_wait: Duration,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("table", &self.table)
            .field("pool_size", &self.pool_size)
            .field("pool_wait", &self.pool_wait)
            .finish_non_exhaustive()
    }
}

impl Builder {
    pub(crate) fn new(options: Result<ConnectOptions>) -> Self {
        Self {
            options,
            table: Table::default(),
            pool_size: POOL_SIZE,
            pool_wait: POOL_WAIT,
        }
    }

    /// Uses these tables instead of `job` in the login's own schema.
    pub fn table(self, table: Table) -> Self {
        Self { table, ..self }
    }

    /// Most connections; 8 by default. One more is opened to renew claims.
    pub fn pool_size(self, pool_size: u32) -> Self {
        Self { pool_size, ..self }
    }

    /// How long an operation waits for a connection; 15 seconds by default.
    ///
    /// While the server cannot be reached, every operation takes this long to say so.
    pub fn pool_wait(self, pool_wait: Duration) -> Self {
        Self { pool_wait, ..self }
    }

    /// Builds the queue.
    ///
    /// # Errors
    /// Those of the connection string (see [`ConnectOptions::parse`]), and
    /// [`Error::Rejected`](queue_table_core::Error::Rejected) for a pool of more than 32,767
    /// connections.
    pub fn build(self) -> Result<SqlServerQueue> {
        check_count("pool", self.pool_size as usize, POOL_SIZE_MAX)?;
        let manager = Manager::new(self.options?);
        let pools = Pools::new(&manager, self.pool_size, self.pool_wait);
        Ok(SqlServerQueue::on(pools, &self.table))
    }
}
