//! A backend in memory that keeps every rule: the suite's own yardstick. With a fault, a mutant.
//!
//! One writer at a time, as on SQLite: a transaction takes the writer's turn, changes a copy, and
//! its commit puts the copy in place; reads see what is committed. The probe lets time pass by
//! moving rows back.

mod admin;
mod claim;
mod clock;
mod decode;
mod enqueue;
mod fault;
mod fence;
mod fixture;
mod open;
mod promote;
mod queue;
mod race;
mod reap;
mod state;
mod transaction;
mod turn;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use queue_table_core::{Bell, Error, Failed, Result, Table};

pub use fault::Fault;
pub use fixture::{ModelFixture, ModelProbe};
pub use transaction::ModelTx;

use clock::Clock;
use fault::Faults;
use open::{Before, Open};
use race::Race;
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
    race: Race,
    faults: Faults,
}

impl Model {
    fn on(shared: Arc<Shared>, table: Table) -> Self {
        Self {
            shared,
            table,
            bell: Bell::default(),
        }
    }

    fn has(&self, fault: Fault) -> bool {
        self.shared.faults.has(fault)
    }

    /// Runs a statement that looks at everything before it changes anything: an error leaves the
    /// tables as they were.
    fn write<R>(
        &self,
        operation: &'static str,
        statement: impl FnOnce(&mut Open<'_>) -> Result<R>,
    ) -> Result<R> {
        let before = self.seen_too_early(operation);
        let _turn = self.shared.turn(operation)?;
        let mut tables = self.shared.stored();
        let mut open = self.open(&mut tables);
        open.before = before;
        statement(&mut open)
    }

    /// What a faulty statement looks at before it has the turn.
    fn seen_too_early(&self, operation: &'static str) -> Option<Before> {
        let races = match operation {
            "claim" => self.has(Fault::ClaimWithoutGuard),
            "enqueue" => self.has(Fault::DedupByQuery),
            "reap" => self.has(Fault::ReapWithoutRecheck),
            _ => false,
        };
        let fenced = matches!(operation, "renew" | "ack" | "fail");
        let judges = fenced && self.has(Fault::DeadlineBeforeTheWait);
        if !races && !judges {
            return None;
        }
        let before = Before {
            tables: races.then(|| self.shared.stored().clone()),
            now: self.shared.clock.now(),
        };
        if races {
            self.shared.race.meet();
        }
        Some(before)
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
            faults: &self.shared.faults,
            before: None,
        }
    }
}

impl Shared {
    fn new(faults: Faults) -> Self {
        Self {
            turns: Turns::default(),
            stored: Mutex::default(),
            clock: Clock::start(),
            race: Race::default(),
            faults,
        }
    }

    fn turn(&self, operation: &'static str) -> Result<Turn<'_>> {
        let turn = self.turns.take(Duration::ZERO).or_else(|| {
            let waits = operation == "probe" || !self.faults.has(Fault::WritesNeverWait);
            self.turns
                .take(if waits { WAIT_MAX } else { Duration::ZERO })
        });
        let busy = || Failed::new(ENGINE, operation, "another writer has its turn");
        turn.ok_or_else(|| Error::Contention(busy()))
    }

    /// Poisoned by a scenario's panic, not by a half-made change.
    fn stored(&self) -> MutexGuard<'_, Tables> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
