//! A backend in memory that keeps every rule: the suite's own yardstick.
//!
//! One writer at a time, as on SQLite: a transaction takes the writer's turn, changes a copy, and its commit puts the
//! copy in place; reads see what is committed. Its clock is real; the probe lets time pass by moving rows back.

mod admin;
mod decode;
mod fixture;
mod lifecycle;
mod queue;
mod state;
mod turn;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use queue_table_core::{Bell, Error, Failed, QueueName, Result, Table, Timestamp};

pub use fixture::{ModelFixture, ModelProbe};

use lifecycle::Open;
use state::Tables;
use turn::{Turn, Turns};

/// The name in errors.
pub(crate) const ENGINE: &str = "model";

/// How long a writer waits for its turn.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// The backend in memory. Sessions on the same tables share them, and have bells of their own.
#[derive(Debug)]
pub struct Model {
    shared: Arc<Shared>,
    table: Table,
    bell: Bell,
}

/// The database: tables, the turn to write them, and the clock.
#[derive(Debug)]
struct Shared {
    turns: Turns,
    stored: Mutex<Tables>,
    clock: Clock,
}

/// A transaction of the caller's: the writer's turn and a copy of the tables. Dropping it rolls back.
#[derive(Debug)]
pub struct ModelTx<'t> {
    _turn: Turn<'t>,
    tables: Tables,
    enqueued_to: BTreeSet<QueueName>,
}

/// Wall-clock time that never goes back.
#[derive(Debug)]
struct Clock {
    start_micros: i64,
    start: Instant,
}

impl Clock {
    fn start() -> Self {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self {
            start_micros: micros(since_1970.unwrap_or_default()),
            start: Instant::now(),
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.start_micros + micros(self.start.elapsed()))
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

impl Model {
    fn on(shared: Arc<Shared>, table: Table) -> Self {
        Self {
            shared,
            table,
            bell: Bell::default(),
        }
    }

    /// Runs statements that look at everything before they change anything: an error leaves the tables as they were.
    fn write<R>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&mut Open<'_>) -> Result<R>,
    ) -> Result<R> {
        let _turn = self.shared.turn(operation)?;
        let mut tables = self.shared.stored();
        work(&mut self.open(&mut tables))
    }

    fn read<R>(&self, look: impl FnOnce(&Tables) -> R) -> Result<R> {
        let tables = self.shared.stored();
        tables.check_version()?;
        Ok(look(&tables))
    }

    fn open<'a>(&'a self, tables: &'a mut Tables) -> Open<'a> {
        Open {
            tables,
            clock: &self.shared.clock,
            table: &self.table,
        }
    }
}

impl Shared {
    fn new() -> Self {
        Self {
            turns: Turns::default(),
            stored: Mutex::default(),
            clock: Clock::start(),
        }
    }

    fn turn(&self, operation: &'static str) -> Result<Turn<'_>> {
        self.turns.take(WAIT_MAX).ok_or_else(|| {
            Error::Contention(Failed::new(
                ENGINE,
                operation,
                "another writer has its turn",
            ))
        })
    }

    /// Poisoned by a scenario's panic, not by a half-made change.
    fn stored(&self) -> MutexGuard<'_, Tables> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
