//! A blocking connection, and the transaction that rolls back unless it is committed.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::time::Duration;

use queue_table_core::{Error, QueueName, Rejected, Result};
use tiberius::{Config, IsolationLevel, Row, ToSql};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};

use crate::ENGINE;
use crate::connect::ConnectOptions;
use crate::error::{self, map, unexpected};

/// The driver's client on a socket of tokio's.
pub type Client = tiberius::Client<Compat<TcpStream>>;

/// Sets what a session carries from one use to the next.
const SESSION: &str = include_str!("../sql/session.sql");

/// How often a login may be sent on to another server, as Azure's gateways do.
const REDIRECTS_MAX: usize = 3;

/// One connection, for one thread at a time: it blocks where the driver would wait.
///
/// It owns a single-threaded runtime, which runs only inside a call. Inside an async task calls
/// panic, and so does dropping it: keep it within `spawn_blocking` there, or use the functions of
/// [`crate::lifecycle`] on a client of your own.
///
/// Its session is at READ COMMITTED with XACT_ABORT and NOCOUNT on: any error of the server rolls
/// the whole transaction back, and no row counts are reported (use OUTPUT).
pub struct Connection {
    runtime: Runtime,
    client: Client,
    session: String,
    in_transaction: bool,
    broken: bool,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("in_transaction", &self.in_transaction)
            .field("broken", &self.broken)
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// Connects, logs in, and sets the session.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the server cannot be reached, is too slow, or its database is
    /// not open; [`Error::Engine`] when it refuses the login.
    pub fn open(options: &ConnectOptions) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(|error| Error::Unavailable(error::failed("connect", error)))?;
        let client = runtime.block_on(login(options))?;
        let mut connection = Self {
            runtime,
            client,
            session: session_settings(options.lock_timeout),
            in_transaction: false,
            broken: false,
        };
        connection.reset()?;
        Ok(connection)
    }

    /// Puts the session back to what this crate needs, whatever was set on it, in one round trip.
    ///
    /// # Errors
    /// Those of any statement: the connection is then no longer usable.
    pub fn reset(&mut self) -> Result<()> {
        let session = self.session.clone();
        self.run(async |client| batch(client, "reset", &session).await)
    }

    /// Begins a transaction at READ COMMITTED. It rolls back when dropped.
    ///
    /// # Errors
    /// Those of any statement.
    pub fn transaction(&mut self) -> Result<Transaction<'_>> {
        self.run(async |client| {
            let level = IsolationLevel::ReadCommitted;
            let begun = client.begin_transaction_with_isolation(level).await;
            begun.map_err(map("begin"))
        })?;
        self.in_transaction = true;
        Ok(Transaction {
            connection: self,
            open: true,
            enqueued: BTreeSet::new(),
        })
    }

    /// Runs a statement on its own, outside a transaction, and returns the rows of its first
    /// result.
    ///
    /// # Errors
    /// The server's, by what to do next.
    pub fn query(&mut self, text: &str, params: &[&dyn ToSql]) -> Result<Vec<Row>> {
        self.run(async |client| rows(client, "query", text, params).await)
    }

    /// Whether the connection must be closed: it was lost, or its transaction could not be ended.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.broken || self.in_transaction
    }

    /// Runs one piece of async work to its end.
    pub(crate) fn run<T>(&mut self, work: impl AsyncFnOnce(&mut Client) -> Result<T>) -> Result<T> {
        let result = block_on(&self.runtime, work(&mut self.client));
        if result.as_ref().is_err_and(error::ends_connection) {
            self.broken = true;
        }
        result
    }
}

/// The batch that sets a session up for the queue, for clients of your own: run it as plain text,
/// without parameters.
///
/// Every wait for a lock ends after `lock_timeout`, as contention.
#[must_use]
pub fn session_settings(lock_timeout: Duration) -> String {
    let millis = lock_timeout.as_millis().min(i32::MAX as u128);
    SESSION.replace("{lock_timeout}", &millis.to_string())
}

/// The only place where a thread waits for the driver.
fn block_on<T>(runtime: &Runtime, work: impl Future<Output = T>) -> T {
    runtime.block_on(work)
}

async fn login(options: &ConnectOptions) -> Result<Client> {
    let mut config = options.config.clone();
    for _ in 0..REDIRECTS_MAX {
        match client(config.clone(), options).await {
            Err(tiberius::error::Error::Routing { host, port }) => {
                config.host(host);
                config.port(port);
            }
            result => return result.map_err(map("connect")),
        }
    }
    Err(unexpected(
        "connect",
        "the server sends the login round in a circle",
    ))
}

async fn client(config: Config, options: &ConnectOptions) -> tiberius::Result<Client> {
    let late = || tiberius::error::Error::Io {
        kind: std::io::ErrorKind::TimedOut,
        message: "no TCP connection within the connect timeout".to_owned(),
    };
    let connecting = TcpStream::connect(config.get_addr());
    let socket = tokio::time::timeout(options.connect_timeout, connecting)
        .await
        .map_err(|_| late())??;
    socket.set_nodelay(true)?;
    Client::connect(config, socket.compat_write()).await
}

/// Runs a statement and reads its answer to the end: an error may come after rows.
pub(crate) async fn rows(
    client: &mut Client,
    operation: &'static str,
    text: &str,
    params: &[&dyn ToSql],
) -> Result<Vec<Row>> {
    let answer = client.query(text, params).await.map_err(map(operation))?;
    answer.into_first_result().await.map_err(map(operation))
}

/// Runs an INSERT into a table whose key ignores duplicates, and tells so by a warning.
///
/// Servers send it as a message, but Microsoft's page on CREATE INDEX shows it with the severity of
/// an error.
pub(crate) async fn insert(
    client: &mut Client,
    operation: &'static str,
    text: &str,
    given: &str,
) -> Result<()> {
    const DUPLICATE_IGNORED: u32 = 3604;
    let done = match client.query(text, &[&given]).await {
        Ok(answer) => answer.into_results().await.map(drop),
        Err(error) => Err(error),
    };
    match done {
        Err(error) if error.code() == Some(DUPLICATE_IGNORED) => Ok(()),
        done => done.map_err(map(operation)),
    }
}

/// Runs a batch without parameters, outside `sp_executesql`, at whose end SET would be undone.
pub(crate) async fn batch(client: &mut Client, operation: &'static str, text: &str) -> Result<()> {
    let answer = client.simple_query(text).await.map_err(map(operation))?;
    answer.into_results().await.map_err(map(operation))?;
    Ok(())
}

/// An open transaction: rolled back when dropped, unless it was committed.
///
/// The first error of the server ends it, because XACT_ABORT is on: every later call is refused, so
/// that nothing runs outside the transaction by mistake.
///
/// ```no_run
/// use queue_table_sqlserver::{ConnectOptions, Connection};
///
/// let options = ConnectOptions::parse("sqlserver://app:secret@localhost/shop")?;
/// let mut connection = Connection::open(&options)?;
/// let mut tx = connection.transaction()?;
/// tx.execute("INSERT INTO customer_order (customer) VALUES (@P1)", &[&"ACME"])?;
/// tx.commit()?;
/// # Ok::<(), queue_table_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Transaction<'c> {
    connection: &'c mut Connection,
    open: bool,
    /// The queues that got new jobs: their bells are rung after the commit.
    pub(crate) enqueued: BTreeSet<QueueName>,
}

impl Transaction<'_> {
    /// Runs a statement for its effect. Parameters are `@P1`, `@P2` and so on.
    ///
    /// # Errors
    /// The server's, by what to do next; the transaction is then over.
    pub fn execute(&mut self, text: &str, params: &[&dyn ToSql]) -> Result<()> {
        self.query(text, params).map(drop)
    }

    /// Runs a statement and returns the rows of its first result, all of them.
    ///
    /// # Errors
    /// As for [`Transaction::execute`].
    pub fn query(&mut self, text: &str, params: &[&dyn ToSql]) -> Result<Vec<Row>> {
        self.run("query", async |client| {
            rows(client, "query", text, params).await
        })
    }

    /// Commits.
    ///
    /// # Errors
    /// [`Error::OutcomeUnknown`] when the connection was lost meanwhile;
    /// [`Rejected::NotInTransaction`] when an earlier error has ended the transaction: nothing was
    /// stored.
    pub fn commit(self) -> Result<()> {
        self.commit_as("commit")
    }

    /// Rolls back, which dropping does too.
    ///
    /// # Errors
    /// Those of any statement: the server rolls back by itself once the connection is closed.
    pub fn rollback(mut self) -> Result<()> {
        self.end()
    }

    pub(crate) fn commit_as(mut self, operation: &'static str) -> Result<()> {
        self.run(operation, async |client| {
            let done = client.commit_transaction().await;
            done.map_err(error::commit(operation))
        })?;
        self.open = false;
        self.connection.in_transaction = false;
        Ok(())
    }

    /// Runs one piece of async work inside the transaction.
    pub(crate) fn run<T>(
        &mut self,
        operation: &'static str,
        work: impl AsyncFnOnce(&mut Client) -> Result<T>,
    ) -> Result<T> {
        if !self.open {
            let engine = ENGINE;
            return Err(Rejected::NotInTransaction { engine, operation }.into());
        }
        let result = self.connection.run(work);
        if result.as_ref().is_err_and(ends_transaction) {
            self.open = false;
        }
        result
    }

    /// Rolls back whatever is still open on the server; after an error, that may be nothing.
    fn end(&mut self) -> Result<()> {
        self.open = false;
        if self.connection.broken || !self.connection.in_transaction {
            return Ok(());
        }
        let text = "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION";
        self.connection
            .run(async |client| batch(client, "rollback", text).await)?;
        self.connection.in_transaction = false;
        Ok(())
    }
}

/// Whether the server has rolled back. A lost claim and values that were refused before any SQL
/// leave everything as it is.
fn ends_transaction(error: &Error) -> bool {
    match error {
        Error::LostClaim(_) => false,
        Error::Rejected(rejected) => matches!(rejected, Rejected::Constraint { .. }),
        _ => true,
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            // The connection is marked and will be closed, which rolls back too.
            self.connection.broken = true;
            tracing::warn!(%error, "a transaction could not be rolled back");
        }
    }
}
