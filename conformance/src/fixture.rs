//! What a porter writes: how to set up, observe and disturb one engine.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use queue_table_core::{Administration, ColumnType, JobId, Timestamp, TransactionalBackend};

pub use crate::stored::{Change, Row, Written};

/// One engine under test. The suite asks it for fresh tables and never for the engine's name.
pub trait Fixture: Send + Sync + 'static {
    /// The backend under test: all three traits.
    type Backend: Administration + TransactionalBackend + 'static;
    /// Observes and disturbs one set of tables without the backend's code.
    type Probe: Probe<Self::Backend>;

    /// What is under test, and what it declares it can and cannot do.
    fn profile(&self) -> Profile;

    /// How many scenarios may run at once, unless the environment says otherwise. Each may open
    /// some twenty sessions.
    fn at_once(&self) -> usize {
        4
    }

    /// Scenarios whose outcome would mean nothing on this server: a probe at the start found that
    /// it does not honour what they rely on, such as a stand-in that ignores lock hints. They are
    /// not tried, and the verdict is partial.
    ///
    /// # Errors
    /// [`PortError`] when the probe fails.
    fn unverified(&self) -> Result<Vec<Unverified>, PortError> {
        Ok(Vec::new())
    }

    /// Makes a new set of tables that no other scenario sees, with a backend on it.
    ///
    /// # Errors
    /// [`PortError`] when it cannot be set up: the scenario fails.
    fn fresh(&self, setup: &Setup) -> Result<Fresh<Self>, PortError>;

    /// Opens the migrated tables at a probe's [address](Probe::address), in another process than
    /// the one that made them. For fixtures that declare [`Capabilities::processes`]; the set-up
    /// has no business columns then.
    ///
    /// # Errors
    /// [`PortError`] when they cannot be opened.
    fn reopen(&self, address: &str) -> Result<Self::Backend, PortError> {
        Err(PortError::new(format_args!(
            "no second process can open the tables at `{address}`"
        )))
    }
}

/// One set of tables with a backend on it.
pub struct Fresh<F: Fixture + ?Sized> {
    /// The backend.
    pub backend: F::Backend,
    /// The other route to the same tables. Dropping it drops the tables.
    pub probe: F::Probe,
}

impl<F: Fixture + ?Sized> fmt::Debug for Fresh<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fresh").finish_non_exhaustive()
    }
}

/// How a set of tables is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// Whether `migrate` has run, and the business columns have been added.
    pub migrated: bool,
    /// Business columns of the job table, all nullable.
    pub columns: Vec<(&'static str, ColumnType)>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            migrated: true,
            columns: Vec::new(),
        }
    }
}

/// What is under test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The engine's name in reports, such as `postgresql`.
    pub engine: String,
    /// The server's version as it tells it.
    pub version: String,
    /// How somebody repeats this run.
    pub reproduce: String,
    /// What it can do.
    pub capabilities: Capabilities,
    /// Scenarios that are expected to fail, each with its reason. They are run, and must fail.
    pub deviations: Vec<Deviation>,
}

/// What a backend and its fixture can do. Each gates scenarios; those of `row_locks` have twins for
/// the other answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Capabilities {
    /// Claims skip rows that another transaction holds. Without it, claims queue for the one
    /// writer.
    pub row_locks: bool,
    /// A second process can open the same tables: the fixture can spawn workers.
    pub processes: bool,
    /// The fixture can cut and restore the connections of a backend.
    pub network: bool,
    /// The engine counts what a session reads.
    #[serde(default)]
    pub counters: bool,
}

/// A scenario that this backend is known to fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deviation {
    /// The scenario's id.
    pub scenario: String,
    /// Why it fails, and what a user has to know.
    pub reason: String,
}

/// A scenario that this server cannot verify.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unverified {
    /// The scenario's id.
    pub scenario: String,
    /// What the probe found.
    pub reason: String,
}

/// The other route to one set of tables: raw SQL on connections of its own, never the backend's
/// statements.
pub trait Probe<B: TransactionalBackend>: Send + Sync {
    /// A second, independent backend on the same tables, with connections of its own.
    ///
    /// # Errors
    /// [`PortError`] when it cannot be opened.
    fn session(&self) -> Result<B, PortError>;

    /// Where the tables are, for [`Fixture::reopen`]: a file or a schema, without a password. What
    /// a second process needs besides, it has from the same environment as this one.
    ///
    /// # Errors
    /// [`PortError`] where no second process can open them.
    fn address(&self) -> Result<String, PortError> {
        Err(PortError::new("no second process can open these tables"))
    }

    /// The server, for a network of the suite's own before it ([`Proxy`](crate::Proxy)). For
    /// fixtures that declare [`Capabilities::network`].
    ///
    /// # Errors
    /// [`PortError`] where nothing stands between a backend and its tables.
    fn server(&self) -> Result<Server, PortError> {
        Err(PortError::new("there is no network to cut"))
    }

    /// As [`Probe::session`], connecting to this address instead of the server's, without TLS: the
    /// suite must be able to see a commit. It gives up within seconds when nobody answers.
    ///
    /// # Errors
    /// [`PortError`] when it cannot be opened.
    fn session_through(&self, address: SocketAddr) -> Result<B, PortError> {
        Err(PortError::new(format_args!("there is no way by {address}")))
    }

    /// Brings the engine's statistics up to date, as its own housekeeping does in time.
    ///
    /// # Errors
    /// [`PortError`] when they cannot be.
    fn settle(&self) -> Result<(), PortError> {
        Ok(())
    }

    /// How much the transaction's session has read so far, in a unit of the engine's own that does
    /// not depend on time: pages, rows, or steps. For fixtures that declare
    /// [`Capabilities::counters`].
    ///
    /// Count what a claim looks at, and one for each descent into an index, not the comparisons on
    /// the way. With 5,000 rows in the way a claim may read twice as much as without them, and 20
    /// more.
    ///
    /// # Errors
    /// [`PortError`] where it is not counted.
    fn reads_in(&self, tx: &mut B::Tx<'_>) -> Result<u64, PortError> {
        let _ = tx;
        Err(PortError::new("nobody counts what a session reads"))
    }

    /// Drops an index of the job table: `ready`, `lease` or `retention`. Not for scenarios, but for
    /// the faults that they must notice ([`Seed`](crate::Seed)).
    ///
    /// # Errors
    /// [`PortError`] where there is none.
    fn drop_index(&self, index: &str) -> Result<(), PortError> {
        Err(PortError::new(format_args!("there is no index `{index}`")))
    }

    /// The database's clock now.
    ///
    /// # Errors
    /// [`PortError`] when it cannot be read.
    fn now(&self) -> Result<Timestamp, PortError>;

    /// Every column of one stored row; `None` when there is none.
    ///
    /// # Errors
    /// [`PortError`] when it cannot be read.
    fn row(&self, job: JobId) -> Result<Option<Row>, PortError>;

    /// The ids of all stored rows, from low to high.
    ///
    /// # Errors
    /// [`PortError`] when they cannot be read.
    fn ids(&self) -> Result<Vec<JobId>, PortError>;

    /// How many rows a sister table (`dedup`, `effect`, `queue`, `failure`) has.
    ///
    /// # Errors
    /// [`PortError`] when they cannot be counted.
    fn count(&self, sister: &str) -> Result<u64, PortError>;

    /// Gives the next job this id, or one soon after it: moves the table's sequence on.
    ///
    /// # Errors
    /// [`PortError`] when it cannot be moved.
    fn skip_to(&self, id: JobId) -> Result<(), PortError>;

    /// Writes a version into the ledger, as the migration of a newer build would.
    ///
    /// # Errors
    /// [`PortError`] when it cannot be written.
    fn set_version(&self, version: u32) -> Result<(), PortError>;

    /// Moves every instant of a row back by so much: time passes without waiting.
    ///
    /// # Errors
    /// [`PortError`] when there is no such row.
    fn rewind(&self, job: JobId, by: Duration) -> Result<(), PortError>;

    /// Changes columns of a row with one UPDATE, and says how the engine took it.
    ///
    /// # Errors
    /// [`PortError`] when something else than the table's own rules refused it.
    fn write(&self, job: JobId, changes: &[Change]) -> Result<Written, PortError>;

    /// Deletes a row of the job table only.
    ///
    /// # Errors
    /// [`PortError`] when it cannot be deleted.
    fn delete(&self, job: JobId) -> Result<(), PortError>;

    /// Locks a row for `hold` in a transaction of its own that changes nothing and rolls back.
    /// Returns once it is held.
    ///
    /// Where there is one writer, holds the writer.
    ///
    /// # Errors
    /// [`PortError`] when it cannot be locked.
    fn hold(&self, job: JobId, hold: Duration) -> Result<Held, PortError>;

    /// Writes one row into a table of the test's own, inside the caller's transaction: an effect to
    /// be fenced.
    ///
    /// # Errors
    /// [`PortError`] when the transaction is no longer usable.
    fn effect_in(&self, tx: &mut B::Tx<'_>, text: &str) -> Result<(), PortError>;

    /// The effects that were committed, in order.
    ///
    /// # Errors
    /// [`PortError`] when they cannot be read.
    fn effects(&self) -> Result<Vec<String>, PortError>;

    /// Makes a row of the test's own reference the job, so that the job cannot be deleted.
    ///
    /// # Errors
    /// [`PortError`] when it cannot be written.
    fn reference(&self, job: JobId) -> Result<(), PortError>;
}

/// The server under test, as the suite's network sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Host and port, such as `127.0.0.1:5432`.
    pub address: String,
    /// Bytes that a client sends when, and only when, it asks the server to commit.
    pub commit: Vec<u8>,
}

/// A lock on a row that is let go when its time is up.
#[derive(Debug)]
pub struct Held {
    thread: Option<std::thread::JoinHandle<Result<(), PortError>>>,
}

impl Held {
    /// The thread that holds the lock and ends when it has let go.
    #[must_use]
    pub fn by(thread: std::thread::JoinHandle<Result<(), PortError>>) -> Self {
        Self {
            thread: Some(thread),
        }
    }

    /// Waits until the lock is let go.
    ///
    /// # Errors
    /// [`PortError`] when the holder failed: the lock may not have been held all the time.
    pub fn released(mut self) -> Result<(), PortError> {
        match self.thread.take().map(std::thread::JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(PortError::new("the lock holder panicked")),
            None => Ok(()),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // A scenario that failed before `released` has its own failure to report.
            drop(thread.join());
        }
    }
}

/// The fixture itself failed: the set-up, not the backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortError(String);

impl PortError {
    /// Says what failed.
    pub fn new(text: impl fmt::Display) -> Self {
        Self(text.to_string())
    }
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fixture: {}", self.0)
    }
}

impl std::error::Error for PortError {}
