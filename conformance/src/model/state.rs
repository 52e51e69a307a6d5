//! The tables, and the rules that they keep by themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use queue_table_core::{
    Dedup, DedupKey, DedupScope, Error, FailureRecord, JobId, QueueName, Rejected, Result, State,
    Timestamp,
};
use serde::de::IgnoredAny;

use super::ENGINE;
use crate::fixture::Row;

/// The version that `migrate` brings the tables to.
pub(super) const VERSION: u32 = 1;

/// Everything that is stored. A copy shares the rows until they change.
#[derive(Debug, Clone, Default)]
pub(super) struct Tables {
    pub(super) version: Option<u32>,
    pub(super) jobs: BTreeMap<JobId, Arc<Row>>,
    pub(super) last_id: i64,
    /// Who a key names, and for how long.
    pub(super) dedup: BTreeMap<(QueueName, DedupKey), (JobId, DedupScope)>,
    /// The key that a job was enqueued with, whomever the key names now.
    pub(super) own_keys: BTreeMap<JobId, Dedup>,
    /// Job and name; the attempt is 0 but for a mutant.
    pub(super) effects: BTreeSet<(JobId, String, u32)>,
    pub(super) paused: BTreeMap<QueueName, Timestamp>,
    pub(super) failures: BTreeMap<(JobId, u32), FailureRecord>,
    /// The test's own tables.
    pub(super) test_effects: Vec<String>,
    pub(super) references: BTreeSet<JobId>,
}

impl Tables {
    /// Refuses tables of another version.
    pub(super) fn check_version(&self) -> Result<()> {
        if self.version == Some(VERSION) {
            return Ok(());
        }
        Err(Error::Schema {
            engine: ENGINE,
            found: self.version,
            needed: VERSION,
        })
    }

    pub(super) fn next_id(&mut self) -> JobId {
        self.last_id += 1;
        JobId::new(self.last_id)
    }

    pub(super) fn insert(&mut self, row: Row) {
        self.jobs.insert(row.job_id, Arc::new(row));
    }

    pub(super) fn row(&self, job: JobId) -> Result<&Row> {
        let row = self.jobs.get(&job).map(|row| &**row);
        row.ok_or(Error::Rejected(Rejected::NoSuchJob(job)))
    }

    /// Changes a row that was looked at before.
    pub(super) fn change(&mut self, job: JobId, change: impl FnOnce(&mut Row)) {
        if let Some(row) = self.jobs.get_mut(&job) {
            change(Arc::make_mut(row));
        }
    }

    /// Deletes a row with its failures, its effects and the key that still names it.
    pub(super) fn delete_with_sisters(&mut self, job: JobId) {
        self.jobs.remove(&job);
        self.failures.retain(|(of, _), _| *of != job);
        self.effects.retain(|(of, ..)| *of != job);
        self.dedup.retain(|_, (named, _)| *named != job);
        self.own_keys.remove(&job);
    }
}

/// The name of the first rule of the table that the row breaks.
pub(super) fn broken_rule(row: &Row) -> Option<&'static str> {
    let running = row.state == State::Running;
    if row.max_attempts < 1 {
        Some("job_attempts")
    } else if row.worker_id.is_some() != running || row.lease_until.is_some() != running {
        Some("job_claim_shape")
    } else if row.finished_at.is_some() != row.state.is_terminal() {
        Some("job_finish_shape")
    } else if serde_json::from_slice::<IgnoredAny>(&row.payload).is_err() {
        Some("job_payload")
    } else {
        None
    }
}
