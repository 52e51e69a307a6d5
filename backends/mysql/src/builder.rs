//! How a queue is set up: address, tables, connections, time-outs.

use std::fmt;
use std::time::Duration;

use mysql::{Opts, OptsBuilder, SslOpts};
use queue_table_core::{Error, Invalid, Problem, Result, Table};

use crate::pool::{Connections, Manager, PoolSize};
use crate::queue::MysqlQueue;

/// Prepared statements kept per connection: more than this backend has, so that none is prepared
/// twice.
const STATEMENTS_KEPT: usize = 64;

/// Sets up a [`MysqlQueue`].
///
/// ```
/// use queue_table_core::Table;
/// use queue_table_mysql::MysqlQueue;
///
/// // Connects nothing yet: a service starts also while its database is down.
/// let queue = MysqlQueue::builder("mysql://app:secret@db.example/shop")?
///     .table(Table::named("billing_job")?)
///     .pool_size(4)
///     .build()?;
/// assert!(!format!("{queue:?}").contains("secret"));
/// # Ok::<(), queue_table_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Builder {
    opts: OptsBuilder,
    table: Table,
    pool: PoolSize,
    connect: Duration,
    read: Duration,
    write: Duration,
    lock_wait: Duration,
}

/// Never the address: it holds the password.
impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("table", &self.table)
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}

impl Builder {
    pub(crate) fn from_url(url: &str) -> Result<Self> {
        let (url, requires_ssl) = without_require_ssl(url)?;
        let opts = Opts::from_url(&url).map_err(|error| invalid_address(&error))?;
        let asked_for_socket = url.contains("prefer_socket=true");
        let mut builder = Self::from_opts(opts);
        builder.opts = builder.opts.prefer_socket(asked_for_socket);
        if requires_ssl {
            builder = builder.require_ssl();
        }
        Ok(builder)
    }

    pub(crate) fn from_opts(opts: impl Into<Opts>) -> Self {
        let opts: Opts = opts.into();
        Self {
            connect: opts
                .get_tcp_connect_timeout()
                .unwrap_or(Duration::from_secs(10)),
            read: opts
                .get_read_timeout()
                .copied()
                .unwrap_or(Duration::from_secs(30)),
            write: opts
                .get_write_timeout()
                .copied()
                .unwrap_or(Duration::from_secs(30)),
            lock_wait: Duration::from_secs(10),
            pool: PoolSize {
                max: 10,
                wait: Duration::from_secs(5),
            },
            table: Table::default(),
            opts: OptsBuilder::from_opts(opts).prefer_socket(false),
        }
    }

    /// Uses these tables instead of `job` and its sisters in the connection's own database.
    #[must_use]
    pub fn table(mut self, table: Table) -> Self {
        self.table = table;
        self
    }

    /// Most connections in the pool, 10 by default. One more is opened for renewals.
    #[must_use]
    pub fn pool_size(mut self, max: u32) -> Self {
        self.pool.max = max.max(1);
        self
    }

    /// How long to wait for a pooled connection, 5 s by default. As long is tried to connect while
    /// the server is down.
    #[must_use]
    pub fn pool_wait(mut self, wait: Duration) -> Self {
        self.pool.wait = wait.max(Duration::from_millis(1));
        self
    }

    /// How long to try to open a TCP connection, 10 s by default.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect = timeout;
        self
    }

    /// How long to wait for the server's answer to one statement, 30 s by default. Migrations wait
    /// without limit.
    ///
    /// After it the connection is given up, and the statement may still be running on the server.
    #[must_use]
    pub fn read_timeout(mut self, timeout: Duration) -> Self {
        self.read = timeout;
        self
    }

    /// How long to wait until the server takes a statement, 30 s by default.
    #[must_use]
    pub fn write_timeout(mut self, timeout: Duration) -> Self {
        self.write = timeout;
        self
    }

    /// How long a statement waits for a row or table that another transaction holds, in whole
    /// seconds, 10 by default.
    ///
    /// Set on the queue's own connections only. In a caller's transaction the caller's setting
    /// holds (50 s by default).
    #[must_use]
    pub fn lock_wait(mut self, wait: Duration) -> Self {
        self.lock_wait = wait;
        self
    }

    /// Requires an encrypted connection, as `require_ssl=true` in the address does.
    ///
    /// The server's certificate is checked against the roots that the feature `rustls` or
    /// `native-tls` comes with, unless the options say otherwise.
    #[must_use]
    pub fn require_ssl(mut self) -> Self {
        let opts: Opts = self.opts.into();
        let ssl = opts
            .get_ssl_opts()
            .cloned()
            .unwrap_or_else(SslOpts::default);
        self.opts = OptsBuilder::from_opts(opts).ssl_opts(ssl);
        self
    }

    /// Lets the driver move a connection to a loopback address over to the server's socket file,
    /// without encryption.
    #[must_use]
    pub fn prefer_socket(mut self, prefer: bool) -> Self {
        self.opts = self.opts.prefer_socket(prefer);
        self
    }

    /// Makes the queue. Connects nothing.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when encryption is asked for and this build has none;
    /// [`Error::Rejected`] when a lock may be waited for as long as an answer, or no database is
    /// named.
    pub fn build(self) -> Result<MysqlQueue> {
        if self.lock_wait >= self.read {
            return Err(Invalid::new(
                "lock wait",
                Problem::Other(
                    "is not shorter than the read time-out; a wait would end as a lost connection",
                ),
            )
            .into());
        }
        let opts: Opts = self
            .opts
            .tcp_connect_timeout(Some(self.connect))
            .read_timeout(Some(self.read))
            .write_timeout(Some(self.write))
            .stmt_cache_size(STATEMENTS_KEPT)
            .into();
        if opts.get_ssl_opts().is_some() && !cfg!(any(feature = "rustls", feature = "native-tls")) {
            return Err(Error::Unsupported {
                engine: "mysql",
                lacks: "this build has no encryption; turn on the feature `rustls` or `native-tls`"
                    .to_owned(),
            });
        }
        if opts.get_db_name().is_none_or(str::is_empty) && self.table.schema().is_none() {
            return Err(
                Invalid::new("database address", Problem::Other("names no database")).into(),
            );
        }
        let manager = Manager::new(opts, self.lock_wait);
        Ok(MysqlQueue::new(
            Connections::new(manager, self.pool),
            self.table,
        ))
    }
}

/// The address without our own parameter, which the driver would refuse, and whether it was true.
fn without_require_ssl(url: &str) -> Result<(String, bool)> {
    let Some((address, parameters)) = url.split_once('?') else {
        return Ok((url.to_owned(), false));
    };
    let mut required = false;
    let mut kept = Vec::new();
    for parameter in parameters.split('&') {
        match parameter.split_once('=') {
            Some(("require_ssl", "true")) => required = true,
            Some(("require_ssl", "false")) => {}
            // Anything else is refused and not guessed at: the answer would be an unencrypted
            // connection.
            Some(("require_ssl", _)) => {
                let rule = Problem::Other("has a require_ssl that is neither true nor false");
                return Err(Invalid::new("database address", rule).into());
            }
            _ => kept.push(parameter),
        }
    }
    let url = if kept.is_empty() {
        address.to_owned()
    } else {
        format!("{address}?{}", kept.join("&"))
    };
    Ok((url, required))
}

/// Says what is wrong without the address: its password would end in a log.
fn invalid_address(error: &mysql::UrlError) -> Error {
    let rule = match error {
        mysql::UrlError::UnknownParameter(_) => "has a parameter that the driver does not know",
        mysql::UrlError::InvalidValue(..) => {
            "has a parameter with a value that the driver does not take"
        }
        mysql::UrlError::FeatureRequired(..) => {
            "has a parameter for encryption that this build does not have"
        }
        _ => "is not of the form mysql://user:password@host:port/database",
    };
    Invalid::new("database address", Problem::Other(rule)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opts(url: &str) -> Opts {
        Builder::from_url(url).unwrap().opts.into()
    }

    #[test]
    fn the_socket_file_is_used_only_when_asked_for() {
        assert!(!opts("mysql://u:p@localhost/d").get_prefer_socket());
        assert!(opts("mysql://u:p@localhost/d?prefer_socket=true").get_prefer_socket());
        assert!(!opts("mysql://u:p@localhost/d?prefer_socket=false").get_prefer_socket());
    }

    #[test]
    fn require_ssl_asks_the_driver_for_encryption() {
        assert!(
            opts("mysql://u:p@h/d?require_ssl=true")
                .get_ssl_opts()
                .is_some()
        );
        assert!(
            opts("mysql://u:p@h/d?tcp_keepalive_time_ms=5&require_ssl=true")
                .get_ssl_opts()
                .is_some()
        );
        assert!(
            opts("mysql://u:p@h/d?require_ssl=false")
                .get_ssl_opts()
                .is_none()
        );
        assert!(Builder::from_url("mysql://u:p@h/d?require_ssl=yes").is_err());
    }

    #[cfg(not(any(feature = "rustls", feature = "native-tls")))]
    #[test]
    fn encryption_is_refused_by_a_build_without_it() {
        let built = Builder::from_url("mysql://u:p@h/d?require_ssl=true")
            .unwrap()
            .build();
        assert!(built.unwrap_err().to_string().contains("feature `rustls`"));
    }

    #[test]
    fn the_password_is_in_no_error_and_no_debug_output() {
        let url = "mysql://u:hunter2@h/d";
        let builder = Builder::from_url(url).unwrap();
        assert!(!format!("{builder:?} {:?}", builder.clone().build().unwrap()).contains("hunter2"));
        for bad in [
            "mysql://u:hunter2@h/d?what=hunter2",
            "http://u:hunter2@h/d",
            "mysql://u:hunter2@h:x/d",
            "hunter2",
        ] {
            let error = Builder::from_url(bad).unwrap_err();
            assert!(
                !format!("{error} {error:?}").contains("hunter2"),
                "{error:?}"
            );
        }
    }

    #[test]
    fn a_lock_is_not_waited_for_longer_than_an_answer() {
        let builder = Builder::from_url("mysql://u:p@h/d").unwrap();
        assert!(builder.lock_wait(Duration::from_secs(30)).build().is_err());
    }
}
