//! The fixture and the probe: raw access to the engine, without the backend's code.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use queue_table_conformance::{
    Capabilities, Change, Fixture, Fresh, Held, PortError, Probe, Profile, Row, Setup, Written,
};
use queue_table_core::{Administration, JobId, State, Table, Timestamp};

use crate::backend::{Toy, ToyTx};
use crate::job::{Job, instant};
use crate::store::{Read, Store, Txn};

pub(crate) struct ToyFixture;

pub(crate) struct ToyProbe {
    store: Arc<Store>,
    table: Table,
}

impl Fixture for ToyFixture {
    type Backend = Toy;
    type Probe = ToyProbe;

    fn profile(&self) -> Profile {
        Profile {
            engine: "toy".to_owned(),
            version: "1".to_owned(),
            reproduce: "cargo test -p queue-table-conformance --test port".to_owned(),
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
        let store = Arc::new(Store::default());
        let backend = Toy::on(Arc::clone(&store), table.clone());
        if setup.migrated {
            backend.migrate().map_err(PortError::new)?;
        }
        Ok(Fresh {
            backend,
            probe: ToyProbe { store, table },
        })
    }
}

impl ToyProbe {
    fn write<R>(
        &self,
        work: impl FnOnce(&mut Txn<'_>) -> Result<R, PortError>,
    ) -> Result<R, PortError> {
        let begun = self.store.begin(Duration::from_secs(5));
        let mut tx = begun.ok_or_else(|| PortError::new("another transaction writes"))?;
        let done = work(&mut tx)?;
        tx.commit();
        Ok(done)
    }

    fn change<R>(
        &self,
        job: JobId,
        change: impl FnOnce(&mut Job, i64) -> R,
    ) -> Result<R, PortError> {
        self.write(|tx| {
            let found = Job::load(tx, job);
            let mut row = found.ok_or_else(|| PortError::new(format_args!("no job {job}")))?;
            let done = change(&mut row, tx.now_micros());
            row.store(tx);
            Ok(done)
        })
    }
}

impl Probe<Toy> for ToyProbe {
    fn session(&self) -> Result<Toy, PortError> {
        Ok(Toy::on(Arc::clone(&self.store), self.table.clone()))
    }

    fn now(&self) -> Result<Timestamp, PortError> {
        Ok(instant(self.store.now_micros()))
    }

    fn row(&self, job: JobId) -> Result<Option<Row>, PortError> {
        Ok(Job::load(&*self.store, job).map(|job| Row {
            job_id: job.job_id,
            queue: job.queue,
            kind: job.kind,
            payload: job.payload,
            payload_version: job.payload_version,
            state: job.state,
            priority: job.priority,
            run_at: instant(job.run_at),
            attempts: job.attempts,
            max_attempts: job.max_attempts,
            worker_id: job.worker_id,
            lease_until: job.lease_until.map(instant),
            enqueued_at: instant(job.enqueued_at),
            claimed_at: job.claimed_at.map(instant),
            finished_at: job.finished_at.map(instant),
            last_error: job.last_error,
            columns: job.columns,
        }))
    }

    fn ids(&self) -> Result<Vec<JobId>, PortError> {
        let keys = self.store.scan("job/").into_iter();
        keys.map(|(key, _)| {
            key["job/".len()..]
                .parse()
                .map(JobId::new)
                .map_err(PortError::new)
        })
        .collect()
    }

    fn count(&self, sister: &str) -> Result<u64, PortError> {
        let prefix = match sister {
            "dedup" | "effect" | "failure" => format!("{sister}/"),
            "queue" => "paused/".to_owned(),
            _ => return Err(PortError::new(format_args!("no sister table `{sister}`"))),
        };
        u64::try_from(self.store.scan(&prefix).len()).map_err(PortError::new)
    }

    fn skip_to(&self, id: JobId) -> Result<(), PortError> {
        self.write(|tx| {
            tx.put("last_id".to_owned(), (id.get() - 1).to_string());
            Ok(())
        })
    }

    fn set_version(&self, version: u32) -> Result<(), PortError> {
        self.write(|tx| {
            tx.put("version".to_owned(), version.to_string());
            Ok(())
        })
    }

    fn rewind(&self, job: JobId, by: Duration) -> Result<(), PortError> {
        let by = i64::try_from(by.as_micros()).map_err(PortError::new)?;
        self.change(job, |row, _| {
            row.run_at -= by;
            row.enqueued_at -= by;
            let optional = [
                &mut row.lease_until,
                &mut row.claimed_at,
                &mut row.finished_at,
            ];
            for instant in optional.into_iter().flatten() {
                *instant -= by;
            }
        })
    }

    /// The engine has no constraints of its own; the port's are here.
    fn write(&self, job: JobId, changes: &[Change]) -> Result<Written, PortError> {
        if changes.contains(&Change::Undecodable) {
            self.change(job, |row, _| row.payload = vec![b'"', 0xff, b'"'])?;
            return Ok(Written::Stored);
        }
        self.change(job, |row, now| {
            let mut changed = row.clone();
            for change in changes {
                if let Err(rule) = apply(&mut changed, change, now) {
                    return Written::Refused(rule.to_owned());
                }
            }
            match broken_rule(&changed) {
                Some(rule) => Written::Refused(rule.to_owned()),
                None => {
                    *row = changed;
                    Written::Stored
                }
            }
        })
    }

    fn delete(&self, job: JobId) -> Result<(), PortError> {
        self.write(|tx| {
            if let Some(row) = Job::load(tx, job) {
                row.delete(tx);
            }
            Ok(())
        })
    }

    fn hold(&self, _: JobId, hold: Duration) -> Result<Held, PortError> {
        let store = Arc::clone(&self.store);
        let (begun, has_begun) = channel();
        let thread = std::thread::spawn(move || {
            let writer = store.begin(Duration::from_secs(5));
            let writer = writer.ok_or_else(|| PortError::new("another transaction writes"))?;
            begun.send(()).map_err(PortError::new)?;
            std::thread::sleep(hold);
            drop(writer);
            Ok(())
        });
        has_begun.recv().map_err(PortError::new)?;
        Ok(Held::by(thread))
    }

    fn effect_in(&self, tx: &mut ToyTx<'_>, text: &str) -> Result<(), PortError> {
        let number = tx.txn.scan("test/effect/").len();
        tx.txn
            .put(format!("test/effect/{number:06}"), text.to_owned());
        Ok(())
    }

    fn effects(&self) -> Result<Vec<String>, PortError> {
        let effects = self.store.scan("test/effect/").into_iter();
        Ok(effects.map(|(_, text)| text).collect())
    }

    fn reference(&self, job: JobId) -> Result<(), PortError> {
        self.write(|tx| {
            tx.put(format!("test/reference/{job}"), String::new());
            Ok(())
        })
    }
}

/// Changes one column, or names the rule that the value itself breaks.
fn apply(job: &mut Job, change: &Change, now: i64) -> Result<(), &'static str> {
    let count = |number: i64| u32::try_from(number).map_err(|_| "attempts");
    match change {
        Change::State(word) => job.state = State::parse(word).ok_or("state")?,
        Change::Attempts(number) => job.attempts = count(*number)?,
        Change::MaxAttempts(number) => job.max_attempts = count(*number)?,
        Change::Priority(priority) => job.priority = *priority,
        Change::PayloadVersion(version) => job.payload_version = *version,
        Change::WorkerId(worker) => job.worker_id = worker.map(str::to_owned),
        Change::LeaseUntil(micros) => job.lease_until = micros.map(|micros| now + micros),
        Change::RunAt(micros) => job.run_at = now + micros,
        Change::FinishedAt(micros) => job.finished_at = micros.map(|micros| now + micros),
        Change::Payload(text) => job.payload = text.as_bytes().to_vec(),
        Change::Undecodable => return Err("payload"),
    }
    Ok(())
}

fn broken_rule(job: &Job) -> Option<&'static str> {
    let running = job.state == State::Running;
    let json = serde_json::from_slice::<serde::de::IgnoredAny>(&job.payload);
    let rules = [
        ("attempts", job.max_attempts >= 1),
        (
            "claim shape",
            job.worker_id.is_some() == running && job.lease_until.is_some() == running,
        ),
        (
            "finish shape",
            job.finished_at.is_some() == job.state.is_terminal(),
        ),
        ("payload", json.is_ok()),
    ];
    rules
        .into_iter()
        .find(|(_, kept)| !kept)
        .map(|(rule, _)| rule)
}
