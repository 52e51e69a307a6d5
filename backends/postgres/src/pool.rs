//! Connections: from a pool of the crate's own or of the caller's, and those kept apart from it.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use diesel::connection::{AnsiTransactionManager, CacheSize, Connection as _, TransactionManager};
use diesel::prelude::*;
use diesel::r2d2::{ConnectionManager, R2D2Connection};
use queue_table_core::Result;
use queue_table_core::worker::observe;
use r2d2::{HandleError, ManageConnection, PooledConnection};
use scheduled_thread_pool::ScheduledThreadPool;

use crate::error::{ENGINE, unavailable};

/// How long connecting may take where the URL does not say: libpq would wait for ever.
const CONNECT_TIMEOUT_S: u32 = 10;

/// Two, so that one server that does not answer does not keep another's pool from growing.
const HELPER_THREADS: usize = 2;

/// How long dropping a queue waits for helper threads that are connecting or closing.
const CLOSE_WAIT: Duration = Duration::from_secs(1);

/// A pool that the service already has.
pub type DieselPool = diesel::r2d2::Pool<ConnectionManager<PgConnection>>;

/// Opens connections for the crate's own pool. Shows the URL to nobody.
#[derive(Clone)]
pub(crate) struct Manager(Arc<Settings>);

struct Settings {
    url: String,
    secrets: Vec<String>,
    prepared: bool,
    pooled: Pooled,
}

/// How many connections of the pool are there or are being made.
///
/// Helper threads make and close them. When the process ends meanwhile, OpenSSL is taken down under
/// libpq, and the process dies of it; so a queue that is dropped waits for them.
#[derive(Default)]
struct Pooled {
    connections: Mutex<usize>,
    fewer: Condvar,
}

/// One of them. It counts until libpq has closed the connection, which stands before it.
pub(crate) struct PooledPg {
    connection: PgConnection,
    _counted: Counted,
}

struct Counted(Arc<Settings>);

impl Counted {
    fn new(settings: &Arc<Settings>) -> Self {
        *settings.pooled.lock() += 1;
        Self(Arc::clone(settings))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        *self.0.pooled.lock() -= 1;
        self.0.pooled.fewer.notify_all();
    }
}

impl Pooled {
    fn lock(&self) -> std::sync::MutexGuard<'_, usize> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits, when it is dropped after the pool, for the pool's last connection.
pub(crate) struct AwaitClosed(Manager);

impl Drop for AwaitClosed {
    fn drop(&mut self) {
        let pooled = &self.0.0.pooled;
        let waited = pooled
            .fewer
            .wait_timeout_while(pooled.lock(), CLOSE_WAIT, |connections| *connections > 0);
        let (connections, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if *connections > 0 {
            tracing::debug!(
                connections = *connections,
                "postgres: connections still open"
            );
        }
    }
}

/// A connection could not be made; the text is libpq's without URL and password.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ConnectFailed(String);

impl Manager {
    pub(crate) fn new(url: &str, prepared: bool) -> Self {
        Self(Arc::new(Settings {
            url: with_connect_timeout(url),
            secrets: secrets(url),
            prepared,
            pooled: Pooled::default(),
        }))
    }

    /// A connection that is in no pool.
    fn establish(&self) -> Result<PgConnection, ConnectFailed> {
        let connected = PgConnection::establish(&self.0.url);
        let mut connection =
            connected.map_err(|error| ConnectFailed(self.redact(&error.to_string())))?;
        if !self.0.prepared {
            connection.set_prepared_statement_cache_size(CacheSize::Disabled);
        }
        Ok(connection)
    }

    /// The text without anything that may be the password.
    fn redact(&self, text: &str) -> String {
        let hide = |text: String, secret: &String| text.replace(secret.as_str(), "***");
        self.0.secrets.iter().fold(text.to_owned(), hide)
    }
}

impl ManageConnection for Manager {
    type Connection = PooledPg;
    type Error = ConnectFailed;

    fn connect(&self) -> Result<PooledPg, ConnectFailed> {
        let counted = Counted::new(&self.0);
        Ok(PooledPg {
            connection: self.establish()?,
            _counted: counted,
        })
    }

    fn is_valid(&self, pooled: &mut PooledPg) -> Result<(), ConnectFailed> {
        pooled
            .connection
            .ping()
            .map_err(|error| ConnectFailed(self.redact(&error.to_string())))
    }

    fn has_broken(&self, pooled: &mut PooledPg) -> bool {
        std::thread::panicking() || pooled.connection.is_broken()
    }
}

/// The URL as it is, or with a limit to the time that connecting may take.
fn with_connect_timeout(url: &str) -> String {
    if url.contains("connect_timeout") || std::env::var_os("PGCONNECT_TIMEOUT").is_some() {
        return url.to_owned();
    }
    let mark = match (url.contains("://"), url.contains('?')) {
        (false, _) => ' ',
        (true, false) => '?',
        (true, true) => '&',
    };
    format!("{url}{mark}connect_timeout={CONNECT_TIMEOUT_S}")
}

/// What must not be shown: the whole URL, which libpq quotes when it cannot read it, and the
/// password in it.
fn secrets(url: &str) -> Vec<String> {
    let mut secrets = vec![with_connect_timeout(url), url.to_owned()];
    let user_part = url
        .split_once("://")
        .and_then(|(_, rest)| rest.rsplit_once('@'));
    if let Some((_, password)) = user_part.and_then(|(user, _)| user.split_once(':')) {
        secrets.push(password.to_owned());
        secrets.push(decode_percent(password));
    }
    // Either form may hold it as a setting: `?password=..` or `password=..`.
    for part in url.split(['?', '&', ' ']) {
        if let Some(password) = part.strip_prefix("password=") {
            secrets.push(password.to_owned());
            secrets.push(decode_percent(password.trim_matches('\'')));
        }
    }
    secrets.retain(|secret| !secret.is_empty());
    secrets
}

fn decode_percent(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = text
            .get(at + 1..at + 3)
            .filter(|_| bytes[at] == b'%')
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        decoded.push(hex.unwrap_or(bytes[at]));
        at += if hex.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// r2d2 logs each failed attempt to connect as an error; one that is waited out is a warning.
#[derive(Debug)]
pub(crate) struct LogConnectFailures;

impl HandleError<ConnectFailed> for LogConnectFailures {
    fn handle_error(&self, error: ConnectFailed) {
        tracing::warn!(error = %error, "postgres: cannot connect");
    }
}

/// Where connections come from.
pub(crate) enum Pool {
    /// Dropped in this order.
    Own(r2d2::Pool<Manager>, AwaitClosed),
    Given(DieselPool),
}

/// A connection, given back to its pool when dropped.
pub(crate) enum Connection {
    Own(PooledConnection<Manager>),
    Given(PooledConnection<ConnectionManager<PgConnection>>),
    Apart(Box<PgConnection>),
}

impl Deref for Connection {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        match self {
            Self::Own(pooled) => &pooled.connection,
            Self::Given(connection) => connection,
            Self::Apart(connection) => connection,
        }
    }
}

impl DerefMut for Connection {
    fn deref_mut(&mut self) -> &mut PgConnection {
        match self {
            Self::Own(pooled) => &mut pooled.connection,
            Self::Given(connection) => connection,
            Self::Apart(connection) => connection,
        }
    }
}

impl Pool {
    /// The crate's own pool. Connects to nothing yet.
    pub(crate) fn open(manager: Manager, size: u32, wait: Duration) -> Self {
        let pool = r2d2::Pool::builder()
            .max_size(size)
            .min_idle(Some(0))
            .connection_timeout(wait)
            // A dead connection shows itself at BEGIN, before anything was done on it.
            .test_on_check_out(false)
            .error_handler(Box::new(LogConnectFailures))
            .thread_pool(helpers())
            .build_unchecked(manager.clone());
        Self::Own(pool, AwaitClosed(manager))
    }

    /// Most connections that may be dead at once.
    pub(crate) fn max_size(&self) -> u32 {
        match self {
            Self::Own(pool, ..) => pool.max_size(),
            Self::Given(pool) => pool.max_size(),
        }
    }

    /// A connection of the pool.
    pub(crate) fn get(&self, operation: &'static str) -> Result<Connection> {
        let asked = Instant::now();
        let got = match self {
            Self::Own(pool, ..) => pool.get().map(Connection::Own),
            Self::Given(pool) => pool.get().map(Connection::Given),
        };
        observe::connection_waited(ENGINE, operation, asked.elapsed());
        got.map_err(|error| unavailable(operation, error.to_string()))
    }

    /// A connection that its user keeps: a new one, or one of the caller's pool where no URL is
    /// known.
    pub(crate) fn get_apart(&self, operation: &'static str) -> Result<Connection> {
        match self {
            Self::Own(_, AwaitClosed(manager)) => {
                let connected = manager.establish();
                let connection =
                    connected.map_err(|error| unavailable(operation, error.to_string()))?;
                Ok(Connection::Apart(Box::new(connection)))
            }
            Self::Given(_) => self.get(operation),
        }
    }
}

/// The threads that connect for every pool of this process; r2d2 would start three for each.
fn helpers() -> Arc<ScheduledThreadPool> {
    static HELPERS: OnceLock<Arc<ScheduledThreadPool>> = OnceLock::new();
    let start = || {
        let threads = ScheduledThreadPool::builder()
            .num_threads(HELPER_THREADS)
            .thread_name_pattern("queue-connect-{}")
            .build();
        Arc::new(threads)
    };
    Arc::clone(HELPERS.get_or_init(start))
}

/// Takes a connection out of service: its pool drops it.
pub(crate) fn condemn(connection: &mut PgConnection) {
    AnsiTransactionManager::transaction_manager_status_mut(connection).set_in_error();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connect_error(url: &str) -> String {
        let error = Manager::new(url, true).establish().err().unwrap();
        format!("{error} {error:?}")
    }

    #[test]
    fn a_connect_error_shows_no_password() {
        for url in [
            "postgres://app:s3cr%25t@127.0.0.1:1/shop",
            "postgres://app:s3cr%25t@127.0.0.1:notaport/shop",
            "postgre://app:s3cr%25t@127.0.0.1:1/shop",
            "postgres://app@127.0.0.1:1/shop?password=s3cr%25t&nonsense=1",
            "host=127.0.0.1 port=1 password=s3cr%25t nonsense=1",
            "host=127.0.0.1 port=1 password='s3cr%t",
        ] {
            let error = connect_error(url);
            assert!(!error.contains("s3cr"), "{url}: {error}");
        }
    }

    #[test]
    fn connecting_is_limited_in_time_unless_the_url_says_otherwise() {
        assert_eq!(
            with_connect_timeout("postgres://h/d"),
            "postgres://h/d?connect_timeout=10"
        );
        assert_eq!(
            with_connect_timeout("postgres://h/d?a=b"),
            "postgres://h/d?a=b&connect_timeout=10"
        );
        assert_eq!(
            with_connect_timeout("host=h dbname=d"),
            "host=h dbname=d connect_timeout=10"
        );
        assert_eq!(
            with_connect_timeout("host=h connect_timeout=2"),
            "host=h connect_timeout=2"
        );
    }

    #[test]
    fn percent_codes_are_decoded() {
        assert_eq!(decode_percent("a%20b%zz%4"), "a b%zz%4");
    }
}
