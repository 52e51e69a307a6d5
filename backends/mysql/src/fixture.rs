//! How the conformance suite sets up, observes and disturbs this engine. Raw SQL, never the
//! backend's statements.
//!
//! One type for both products: [`MysqlFixture::mysql`] reads `MYSQL_URL`, [`MysqlFixture::mariadb`]
//! `MARIADB_URL`.
//!
//! DDL costs these servers some 30 ms a table, so sets of tables are kept and used again. A set is
//! a slot; a session that holds the slot's named lock owns it, in whatever process.

mod probe;
mod tables;

use std::net::SocketAddr;

use mysql::prelude::Queryable;
use mysql::{Conn, Opts, OptsBuilder, SslOpts};
use queue_table_conformance::{Capabilities, Fixture, Fresh, FromEnv, PortError, Profile, Setup};

use crate::queue::MysqlQueue;

pub use probe::MysqlProbe;

/// One server under test.
#[derive(Debug)]
pub struct MysqlFixture {
    engine: &'static str,
    variable: &'static str,
    version: String,
    server: Server,
}

/// Where the server is. Debug output does not show it: it holds the password.
#[derive(Clone)]
pub(crate) struct Server {
    opts: Opts,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

impl Server {
    fn connect(&self) -> Result<Conn, PortError> {
        Conn::new(self.opts.clone()).map_err(PortError::new)
    }

    fn queue(&self, table: queue_table_core::Table) -> Result<MysqlQueue, PortError> {
        Self::queue_by(self.opts.clone(), table)
    }

    /// The same by another address.
    fn queue_through(
        &self,
        address: SocketAddr,
        table: queue_table_core::Table,
    ) -> Result<MysqlQueue, PortError> {
        let opts = OptsBuilder::from_opts(self.opts.clone())
            .ip_or_hostname(Some(address.ip().to_string()))
            .tcp_port(address.port())
            .ssl_opts(None::<SslOpts>);
        Self::queue_by(opts.into(), table)
    }

    fn queue_by(opts: Opts, table: queue_table_core::Table) -> Result<MysqlQueue, PortError> {
        let builder = MysqlQueue::builder_with(opts).table(table);
        // The suite holds rows for seconds, and runs sixteen threads on one backend.
        builder.pool_size(20).build().map_err(PortError::new)
    }
}

impl MysqlFixture {
    /// The MySQL server at `MYSQL_URL`; not run when the variable is not set.
    ///
    /// # Errors
    /// [`PortError`] when the server cannot be reached.
    pub fn mysql() -> Result<FromEnv<Self>, PortError> {
        Self::from_env("mysql", "MYSQL_URL")
    }

    /// The MariaDB server at `MARIADB_URL`; not run when the variable is not set.
    ///
    /// # Errors
    /// [`PortError`] when the server cannot be reached.
    pub fn mariadb() -> Result<FromEnv<Self>, PortError> {
        Self::from_env("mariadb", "MARIADB_URL")
    }

    fn from_env(engine: &'static str, variable: &'static str) -> Result<FromEnv<Self>, PortError> {
        let Ok(url) = std::env::var(variable) else {
            return Ok(FromEnv::NotRun {
                engine: engine.to_owned(),
                reason: format!("{variable} is not set"),
            });
        };
        let opts = Opts::from_url(&url)
            .map_err(|_| PortError::new(format!("{variable} is not an address of MySQL")))?;
        let opts = OptsBuilder::from_opts(opts).prefer_socket(false).into();
        let server = Server { opts };
        let version: Option<String> = server
            .connect()?
            .query_first("SELECT VERSION()")
            .map_err(PortError::new)?;
        Ok(FromEnv::Ready(Self {
            engine,
            variable,
            version: version.unwrap_or_default(),
            server,
        }))
    }
}

impl Fixture for MysqlFixture {
    type Backend = MysqlQueue;
    type Probe = MysqlProbe;

    fn profile(&self) -> Profile {
        Profile {
            engine: self.engine.to_owned(),
            version: self.version.clone(),
            reproduce: format!(
                "{}=... cargo test -p queue-table-mysql --features fixture --test conformance_{}",
                self.variable, self.engine
            ),
            capabilities: Capabilities {
                row_locks: true,
                processes: true,
                network: true,
                counters: true,
            },
            deviations: Vec::new(),
        }
    }

    fn reopen(&self, address: &str) -> Result<MysqlQueue, PortError> {
        let table = queue_table_core::Table::named(address).map_err(PortError::new)?;
        self.server.queue(table)
    }

    fn fresh(&self, setup: &Setup) -> Result<Fresh<Self>, PortError> {
        let tables = tables::Tables::take(&self.server, setup)?;
        let backend = self.server.queue(tables.table.clone())?;
        let probe = MysqlProbe::new(self.server.clone(), tables)?;
        Ok(Fresh { backend, probe })
    }
}
