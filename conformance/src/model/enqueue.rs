//! Enqueue, and the keys that make a second enqueue find the first.

use queue_table_core::{
    ColumnValue, Dedup, DedupKey, DedupScope, ENQUEUE_MAX, Enqueued, Error, Failed, JobId, NewJob,
    QueueName, Result, State, Timestamp, check_count,
};

use super::ENGINE;
use super::fault::Fault;
use super::open::{Open, after, fold};
use crate::fixture::Row;

impl Open<'_> {
    pub(super) fn enqueue(&mut self, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        check_count("jobs", jobs.len(), ENQUEUE_MAX)?;
        if jobs.is_empty() && self.has(Fault::EmptyBatchFails) {
            let syntax = Failed::new(ENGINE, "enqueue", "syntax error near `VALUES`");
            return Err(Error::Engine(syntax));
        }
        if jobs.len() > 1 && self.has(Fault::EnqueueStoresHalfABatch) {
            return jobs.iter().map(|job| self.enqueue_checked(job)).collect();
        }
        let columns = jobs.iter().map(|job| self.arrange(job));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        self.tables.check_version()?;
        let stored = jobs.iter().zip(columns);
        let mut stored: Vec<_> = stored
            .map(|(job, columns)| self.store(job, columns))
            .collect();
        if jobs.len() > 1 && self.has(Fault::EnqueueIdsReversed) {
            stored.reverse();
        }
        Ok(stored)
    }

    fn enqueue_checked(&mut self, job: &NewJob) -> Result<Enqueued> {
        let columns = self.arrange(job)?;
        self.tables.check_version()?;
        Ok(self.store(job, columns))
    }

    fn arrange(&self, job: &NewJob) -> Result<Vec<ColumnValue>> {
        match self.table.arrange(job.columns()) {
            Err(_) if self.has(Fault::ColumnsUnchecked) => Ok(self.table.arrange(&[])?),
            arranged => Ok(arranged?),
        }
    }

    fn store(&mut self, job: &NewJob, columns: Vec<ColumnValue>) -> Enqueued {
        match job.dedup().and_then(|dedup| self.holder(job, dedup)) {
            Some(existing) => {
                if self.has(Fault::DedupUpdatesTheJob) {
                    let payload = job.payload().as_str().as_bytes().to_vec();
                    self.tables.change(existing, |row| row.payload = payload);
                }
                Enqueued::Existing(existing)
            }
            None => Enqueued::Inserted(self.insert(job, columns)),
        }
    }

    /// The job that the key names, when it still does.
    fn holder(&self, job: &NewJob, dedup: &Dedup) -> Option<JobId> {
        let seen = self.seen();
        let &(holder, scope) = seen.dedup.get(&self.key(job.queue(), &dedup.key))?;
        if !seen.jobs.contains_key(&holder) && self.has(Fault::DedupOfGoneJobs) {
            return Some(holder);
        }
        let row = seen.jobs.get(&holder)?;
        let scope = if self.has(Fault::DedupScopeOfNewcomer) {
            dedup.scope
        } else if self.has(Fault::DedupNeverEnds) {
            DedupScope::WhileRowExists
        } else if self.has(Fault::DedupEndsTooEarly) {
            DedupScope::WhileUnfinished
        } else {
            scope
        };
        let held = scope == DedupScope::WhileRowExists || !row.state.is_terminal();
        held.then_some(holder)
    }

    /// Queue and key as the primary key compares them.
    pub(super) fn key(&self, queue: &QueueName, key: &DedupKey) -> (QueueName, DedupKey) {
        if self.has(Fault::DedupAcrossQueues) {
            return (QueueName::stored(""), key.clone());
        }
        if self.has(Fault::NamesFolded) {
            let (queue, key) = (fold(queue.as_str()), fold(key.as_str()));
            return (QueueName::stored(&queue), DedupKey::stored(&key));
        }
        (queue.clone(), key.clone())
    }

    fn insert(&mut self, job: &NewJob, columns: Vec<ColumnValue>) -> JobId {
        let job_id = self.tables.next_id();
        if let Some(dedup) = job.dedup() {
            let key = self.key(job.queue(), &dedup.key);
            self.tables.dedup.insert(key, (job_id, dedup.scope));
            self.tables.own_keys.insert(job_id, dedup.clone());
        }
        let row = self.new_row(job_id, job, columns);
        self.tables.insert(row);
        job_id
    }

    fn new_row(&self, job_id: JobId, job: &NewJob, columns: Vec<ColumnValue>) -> Row {
        let now = self.now();
        let delay_micros = match job.delay().as_micros() {
            1.. if self.has(Fault::EnqueueIgnoresDelay) => 0,
            delay_micros => delay_micros,
        };
        let columns = if !columns.is_empty() && self.has(Fault::ColumnsDropped) {
            vec![ColumnValue::Null; columns.len()]
        } else {
            columns
        };
        Row {
            job_id,
            queue: job.queue().as_str().to_owned(),
            kind: job.kind().as_str().to_owned(),
            payload: self.stored_payload(job.payload().as_str()),
            payload_version: job.payload_version(),
            state: State::Ready,
            priority: job.priority(),
            run_at: self.due(now, delay_micros),
            attempts: 0,
            max_attempts: job.max_attempts().get(),
            worker_id: None,
            lease_until: None,
            enqueued_at: now,
            claimed_at: None,
            finished_at: None,
            last_error: None,
            columns,
        }
    }

    fn due(&self, now: Timestamp, delay_micros: i64) -> Timestamp {
        let due = after(self.base(now), delay_micros);
        if self.has(Fault::EnqueueRoundsUp) {
            let seconds = due.as_micros().div_euclid(1_000_000) + 1;
            return Timestamp::from_micros(seconds * 1_000_000);
        }
        due
    }

    fn stored_payload(&self, text: &str) -> Vec<u8> {
        let parsed = self.has(Fault::PayloadNormalised).then(|| {
            let value = serde_json::from_str::<serde_json::Value>(text);
            value.ok().map(|value| value.to_string().into_bytes())
        });
        parsed.flatten().unwrap_or_else(|| text.as_bytes().to_vec())
    }
}
