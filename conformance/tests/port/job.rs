//! A job's row as the engine stores it, and the keys it is found by.

use queue_table_core::{
    ClaimedJob, ColumnValue, JobId, JobRecord, Kind, QueueName, Receipt, State, StoredPayload,
    Timestamp, WorkerId,
};
use serde::{Deserialize, Serialize};

use crate::store::{Read, Txn};

/// Every column of the contract's job table.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) job_id: JobId,
    pub(crate) queue: String,
    pub(crate) kind: String,
    pub(crate) payload: Vec<u8>,
    pub(crate) payload_version: u16,
    pub(crate) state: State,
    pub(crate) priority: i32,
    pub(crate) run_at: i64,
    pub(crate) attempts: u32,
    pub(crate) max_attempts: u32,
    pub(crate) worker_id: Option<String>,
    pub(crate) lease_until: Option<i64>,
    pub(crate) enqueued_at: i64,
    pub(crate) claimed_at: Option<i64>,
    pub(crate) finished_at: Option<i64>,
    pub(crate) last_error: Option<String>,
    pub(crate) columns: Vec<ColumnValue>,
}

/// Where the ready jobs of a queue stand, in claim order.
pub(crate) fn ready_prefix(queue: &str) -> String {
    format!("ready/{}:{queue}/", queue.len())
}

/// Where the next lower priority begins, after a key of the queue's index.
pub(crate) fn behind_priority(prefix: &str, key: &str) -> String {
    let priority = key[prefix.len()..].split('/').next().unwrap_or_default();
    // '0' is the character behind '/'.
    format!("{prefix}{priority}0")
}

pub(crate) fn job_key(job: JobId) -> String {
    format!("job/{:020}", job.get())
}

/// Instants and ids as digits that sort like numbers, negative ones too.
pub(crate) fn sortable(number: i64) -> String {
    format!("{:020}", i128::from(number) + (1_i128 << 63))
}

impl Job {
    pub(crate) fn load(db: &impl Read, job: JobId) -> Option<Self> {
        decode(&db.get(&job_key(job))?)
    }

    /// Writes the row and moves its index entry. The only place that keeps both in step.
    pub(crate) fn store(&self, tx: &mut Txn<'_>) {
        if let Some(old) = Self::load(tx, self.job_id) {
            tx.delete(&old.index_key());
        }
        tx.put(self.index_key(), self.job_id.to_string());
        tx.put(job_key(self.job_id), encode(self));
    }

    pub(crate) fn delete(&self, tx: &mut Txn<'_>) {
        tx.delete(&self.index_key());
        tx.delete(&job_key(self.job_id));
    }

    /// Ready jobs in claim order, running ones by deadline, finished ones by their end.
    fn index_key(&self) -> String {
        let id = sortable(self.job_id.get());
        match self.state {
            State::Ready => {
                let highest_first = sortable(-i64::from(self.priority));
                let due = sortable(self.run_at);
                format!("{}{highest_first}/{due}/{id}", ready_prefix(&self.queue))
            }
            State::Running => format!("lease/{}/{id}", sortable(self.lease_until.unwrap_or(0))),
            State::Succeeded | State::Dead => {
                format!("done/{}/{id}", sortable(self.finished_at.unwrap_or(0)))
            }
        }
    }

    /// Takes the claim off and makes the job terminal.
    pub(crate) fn finish(&mut self, state: State, now: i64) {
        self.state = state;
        self.finished_at = Some(now);
        self.worker_id = None;
        self.lease_until = None;
    }

    /// Takes the claim off and makes the job ready.
    pub(crate) fn release(&mut self, run_at: i64) {
        self.state = State::Ready;
        self.run_at = run_at;
        self.worker_id = None;
        self.lease_until = None;
    }

    pub(crate) fn is_exhausted(&self) -> bool {
        self.attempts >= self.max_attempts
    }

    pub(crate) fn worker(&self) -> Option<WorkerId> {
        self.worker_id.as_deref().map(WorkerId::stored)
    }

    pub(crate) fn claimed(self, worker: &WorkerId) -> ClaimedJob {
        ClaimedJob {
            receipt: Receipt::new(self.job_id, self.attempts, worker.clone()),
            queue: QueueName::stored(&self.queue),
            kind: Kind::stored(&self.kind),
            payload: StoredPayload::new(self.payload),
            payload_version: self.payload_version,
            priority: self.priority,
            run_at: instant(self.run_at),
            max_attempts: self.max_attempts,
            enqueued_at: instant(self.enqueued_at),
            claimed_at: instant(self.claimed_at.unwrap_or(0)),
            lease_until: instant(self.lease_until.unwrap_or(0)),
            last_error: self.last_error,
            columns: self.columns,
        }
    }

    pub(crate) fn record(self) -> JobRecord {
        JobRecord {
            job_id: self.job_id,
            worker: self.worker(),
            queue: QueueName::stored(&self.queue),
            kind: Kind::stored(&self.kind),
            payload: StoredPayload::new(self.payload),
            payload_version: self.payload_version,
            state: self.state,
            priority: self.priority,
            run_at: instant(self.run_at),
            attempts: self.attempts,
            max_attempts: self.max_attempts,
            lease_until: self.lease_until.map(instant),
            enqueued_at: instant(self.enqueued_at),
            claimed_at: self.claimed_at.map(instant),
            finished_at: self.finished_at.map(instant),
            last_error: self.last_error,
            columns: self.columns,
        }
    }
}

pub(crate) fn instant(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

#[expect(clippy::expect_used, reason = "strings and numbers always serialise")]
pub(crate) fn encode(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("plain data serialises")
}

pub(crate) fn decode<T: for<'de> Deserialize<'de>>(text: &str) -> Option<T> {
    serde_json::from_str(text).ok()
}
