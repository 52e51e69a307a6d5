//! Open tables: the writer's turn is ours, statements may change them.

use queue_table_core::{State, Table, Timestamp};

use super::clock::Clock;
use super::fault::{Fault, Faults};
use super::state::Tables;
use crate::fixture::Row;

/// Tables that may be changed. Each statement looks at everything before it changes anything.
///
/// Its lifecycle stands in `enqueue`, `claim`, `fence` and `reap`, what operators ask for in
/// `admin` and `promote`. Wherever a statement asks `has`, a mutant does what it should not.
pub(super) struct Open<'a> {
    pub(super) tables: &'a mut Tables,
    pub(super) clock: &'a Clock,
    pub(super) table: &'a Table,
    pub(super) faults: &'a Faults,
    /// What a faulty statement saw before it had the turn.
    pub(super) before: Option<Before>,
}

/// The tables and the time before a wait.
pub(super) struct Before {
    /// Only where the fault is to choose by them.
    pub(super) tables: Option<Tables>,
    pub(super) now: Timestamp,
}

impl Open<'_> {
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The instant that durations are added to: the statement's.
    pub(super) fn base(&self, now: Timestamp) -> Timestamp {
        if self.has(Fault::WorkersClock) {
            self.clock.workers_now()
        } else {
            now
        }
    }

    pub(super) fn has(&self, fault: Fault) -> bool {
        self.faults.has(fault)
    }

    /// Names are compared exactly.
    pub(super) fn same(&self, one: &str, other: &str) -> bool {
        one == other || self.has(Fault::NamesFolded) && fold(one) == fold(other)
    }

    /// The tables that a choice is made from: as they are now that the turn is ours.
    pub(super) fn seen(&self) -> &Tables {
        let before = self.before.as_ref();
        let early = before.and_then(|before| before.tables.as_ref());
        early.unwrap_or(self.tables)
    }
}

/// The name as a case-insensitive collation compares it.
pub(super) fn fold(name: &str) -> String {
    name.to_lowercase()
}

/// Takes the claim off a row and makes it terminal.
pub(super) fn finish(row: &mut Row, state: State, now: Timestamp) {
    row.state = state;
    row.finished_at = Some(now);
    row.worker_id = None;
    row.lease_until = None;
}

pub(super) fn after(instant: Timestamp, micros: i64) -> Timestamp {
    Timestamp::from_micros(instant.as_micros().saturating_add(micros))
}
