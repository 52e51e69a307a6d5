//! The model's fixture and probe, as a porter would write them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use queue_table_core::{Administration, JobId, State, Table, Timestamp};

use super::clock::micros;
use super::fault::{Fault, Faults};
use super::open::after;
use super::state::{Tables, broken_rule};
use super::{ENGINE, Model, ModelTx, Shared, WAIT_MAX};
use crate::fixture::{
    Capabilities, Change, Fixture, Fresh, Held, PortError, Probe, Profile, Row, Setup, Written,
};

/// Fresh models, all without or all with one fault.
#[derive(Debug, Clone, Default)]
pub struct ModelFixture {
    faults: Faults,
}

impl ModelFixture {
    /// Models that keep every rule.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Mutants with this fault.
    #[must_use]
    pub fn with(fault: Fault) -> Self {
        let faults = Faults::only(fault);
        Self { faults }
    }

    /// Models that keep every rule, and note where a fault would have made a difference.
    #[must_use]
    pub fn noting() -> Self {
        let faults = Faults::noting();
        Self { faults }
    }

    /// The faults that this fixture's models have come by: no other mutant can behave otherwise
    /// than they did.
    #[must_use]
    pub fn met(&self) -> BTreeSet<Fault> {
        self.faults.met()
    }
}

impl Fixture for ModelFixture {
    type Backend = Model;
    type Probe = ModelProbe;

    fn profile(&self) -> Profile {
        Profile {
            engine: ENGINE.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            reproduce: "cargo test -p queue-table-conformance --test model".to_owned(),
            capabilities: Capabilities::default(),
            deviations: Vec::new(),
        }
    }

    fn at_once(&self) -> usize {
        8
    }

    fn fresh(&self, setup: &Setup) -> Result<Fresh<Self>, PortError> {
        let mut table = Table::default();
        for (name, column_type) in &setup.columns {
            table = table
                .with_column(name, *column_type)
                .map_err(PortError::new)?;
        }
        let shared = Arc::new(Shared::new(self.faults.clone()));
        let backend = Model::on(Arc::clone(&shared), table.clone());
        if setup.migrated {
            backend.migrate().map_err(PortError::new)?;
        }
        Ok(Fresh {
            backend,
            probe: ModelProbe { shared, table },
        })
    }
}

/// The way to a model's tables past its backend.
#[derive(Debug)]
pub struct ModelProbe {
    shared: Arc<Shared>,
    table: Table,
}

impl ModelProbe {
    fn look<R>(&self, look: impl FnOnce(&Tables) -> R) -> R {
        look(&self.shared.stored())
    }

    /// The rule that refuses a raw write, or what a mutant's tables make of it.
    fn refused(&self, rule: Option<&'static str>, row: &Row) -> Option<&'static str> {
        let faults = &self.shared.faults;
        if rule.is_some() && faults.has(Fault::TableWithoutChecks) {
            None
        } else if row.attempts > row.max_attempts && faults.has(Fault::TableChecksTooMuch) {
            Some("job_budget")
        } else {
            rule
        }
    }

    fn change<R>(&self, change: impl FnOnce(&mut Tables) -> R) -> Result<R, PortError> {
        let _turn = self.shared.turn("probe").map_err(PortError::new)?;
        Ok(change(&mut self.shared.stored()))
    }
}

impl Probe<Model> for ModelProbe {
    fn session(&self) -> Result<Model, PortError> {
        Ok(Model::on(Arc::clone(&self.shared), self.table.clone()))
    }

    fn now(&self) -> Result<Timestamp, PortError> {
        Ok(self.shared.clock.now())
    }

    fn row(&self, job: JobId) -> Result<Option<Row>, PortError> {
        Ok(self.look(|tables| tables.jobs.get(&job).map(|row| (**row).clone())))
    }

    fn ids(&self) -> Result<Vec<JobId>, PortError> {
        Ok(self.look(|tables| tables.jobs.keys().copied().collect()))
    }

    fn count(&self, sister: &str) -> Result<u64, PortError> {
        let rows = self.look(|tables| match sister {
            "dedup" => Ok(tables.dedup.len()),
            "effect" => Ok(tables.effects.len()),
            "queue" => Ok(tables.paused.len()),
            "failure" => Ok(tables.failures.len()),
            _ => Err(PortError::new(format_args!("no sister table `{sister}`"))),
        })?;
        u64::try_from(rows).map_err(PortError::new)
    }

    fn skip_to(&self, id: JobId) -> Result<(), PortError> {
        self.change(|tables| tables.last_id = id.get() - 1)
    }

    fn set_version(&self, version: u32) -> Result<(), PortError> {
        self.change(|tables| tables.version = Some(version))
    }

    fn rewind(&self, job: JobId, by: Duration) -> Result<(), PortError> {
        let back = |instant: Timestamp| after(instant, -micros(by));
        let rewind = |row: &mut Row| {
            row.run_at = back(row.run_at);
            row.enqueued_at = back(row.enqueued_at);
            row.lease_until = row.lease_until.map(back);
            row.claimed_at = row.claimed_at.map(back);
            row.finished_at = row.finished_at.map(back);
        };
        self.change(|tables| {
            tables.row(job).map_err(PortError::new)?;
            tables.change(job, rewind);
            Ok(())
        })?
    }

    fn write(&self, job: JobId, changes: &[Change]) -> Result<Written, PortError> {
        let now = self.shared.clock.now();
        self.change(|tables| {
            let mut row = tables.row(job).map_err(PortError::new)?.clone();
            let refused = changes
                .iter()
                .find_map(|one| apply(&mut row, one, now).err());
            let checked = !changes.contains(&Change::Undecodable);
            let refused = refused.or_else(|| broken_rule(&row).filter(|_| checked));
            match self.refused(refused, &row) {
                Some(rule) => Ok(Written::Refused(rule.to_owned())),
                None => {
                    tables.insert(row);
                    Ok(Written::Stored)
                }
            }
        })?
    }

    fn delete(&self, job: JobId) -> Result<(), PortError> {
        self.change(|tables| {
            if tables.references.contains(&job) {
                return Err(PortError::new(format_args!("job {job} is referenced")));
            }
            tables.jobs.remove(&job);
            Ok(())
        })?
    }

    fn hold(&self, _: JobId, hold: Duration) -> Result<Held, PortError> {
        let shared = Arc::clone(&self.shared);
        let (held, is_held) = channel();
        let thread = std::thread::spawn(move || {
            let turn = shared.turns.take(WAIT_MAX);
            let turn = turn.ok_or_else(|| PortError::new("another writer has its turn"))?;
            held.send(()).map_err(PortError::new)?;
            std::thread::sleep(hold);
            drop(turn);
            Ok(())
        });
        let held = Held::by(thread);
        match is_held.recv() {
            Ok(()) => Ok(held),
            Err(_) => Err(held
                .released()
                .err()
                .unwrap_or_else(|| PortError::new("the lock was not held"))),
        }
    }

    fn effect_in(&self, tx: &mut ModelTx<'_>, text: &str) -> Result<(), PortError> {
        if tx.poisoned {
            return Err(PortError::new("the transaction is aborted"));
        }
        tx.tables.test_effects.push(text.to_owned());
        Ok(())
    }

    fn effects(&self) -> Result<Vec<String>, PortError> {
        Ok(self.look(|tables| tables.test_effects.clone()))
    }

    fn reference(&self, job: JobId) -> Result<(), PortError> {
        self.change(|tables| tables.references.insert(job))?;
        Ok(())
    }
}

/// Changes one column, or names the rule that the value itself breaks.
fn apply(row: &mut Row, change: &Change, now: Timestamp) -> Result<(), &'static str> {
    let count = |number: i64| u32::try_from(number).map_err(|_| "job_attempts");
    match change {
        Change::State(word) => row.state = State::parse(word).ok_or("job_state")?,
        Change::Attempts(number) => row.attempts = count(*number)?,
        Change::MaxAttempts(number) => row.max_attempts = count(*number)?,
        Change::Priority(priority) => row.priority = *priority,
        Change::PayloadVersion(version) => row.payload_version = *version,
        Change::WorkerId(worker) => row.worker_id = worker.map(str::to_owned),
        Change::LeaseUntil(micros) => row.lease_until = micros.map(|micros| after(now, micros)),
        Change::RunAt(micros) => row.run_at = after(now, *micros),
        Change::FinishedAt(micros) => row.finished_at = micros.map(|micros| after(now, micros)),
        Change::Payload(text) => row.payload = text.as_bytes().to_vec(),
        Change::Undecodable => row.payload = vec![b'"', 0xff, b'"'],
    }
    Ok(())
}
