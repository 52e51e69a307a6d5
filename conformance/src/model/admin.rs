//! What operators ask for, on open tables and on committed ones.

use std::collections::BTreeMap;

use queue_table_core::{
    Delay, ErrorText, FailureRecord, JobId, JobRecord, ListRequest, MaxAttempts, PurgeCursor,
    PurgeRequest, Purged, QueueName, QueueStats, Rejected, Result, State, Timestamp,
};

use super::decode;
use super::lifecycle::{Open, finish};
use super::state::Tables;
use crate::fixture::Row;

impl Open<'_> {
    pub(super) fn replay(&mut self, job: JobId, extra: MaxAttempts) -> Result<u32> {
        self.tables.check_version()?;
        let row = self.tables.row(job)?;
        if row.state != State::Dead {
            return Err(wrong_state(row, "replay", "dead"));
        }
        let (budget, queue) = (row.attempts + extra.get(), QueueName::stored(&row.queue));
        self.take_key_back(job, queue)?;
        let now = self.now();
        self.tables.change(job, |row| {
            row.state = State::Ready;
            row.run_at = now;
            row.max_attempts = budget;
            row.finished_at = None;
            row.last_error = None;
        });
        Ok(budget)
    }

    /// Refuses when the job's key names another unfinished job; else the key names this one again.
    fn take_key_back(&mut self, job: JobId, queue: QueueName) -> Result<()> {
        let Some(dedup) = self.tables.own_keys.get(&job) else {
            return Ok(());
        };
        let key = (queue, dedup.key.clone());
        let named = self.tables.dedup.get(&key);
        if let Some(&(holder, _)) = named.filter(|(holder, _)| *holder != job)
            && let Some(row) = self.tables.jobs.get(&holder)
            && !row.state.is_terminal()
        {
            return Err(Rejected::DedupKeyTaken {
                job_id: job,
                holder,
            }
            .into());
        }
        self.tables.dedup.insert(key, (job, dedup.scope));
        Ok(())
    }

    pub(super) fn cancel(&mut self, job: JobId, reason: &ErrorText) -> Result<()> {
        self.tables.check_version()?;
        let row = self.tables.row(job)?;
        if row.state.is_terminal() {
            return Err(wrong_state(row, "cancel", "ready and running"));
        }
        let now = self.now();
        self.tables.change(job, |row| {
            finish(row, State::Dead, now);
            row.last_error = Some(reason.as_str().to_owned());
        });
        Ok(())
    }

    pub(super) fn purge(&mut self, request: &PurgeRequest) -> Result<Purged> {
        self.tables.check_version()?;
        let found = self.purgeable(request);
        let full = found.len() == request.limit.get() as usize;
        let mut purged = Purged {
            cursor: found.last().copied().filter(|_| full),
            ..Purged::default()
        };
        for PurgeCursor { job_id, .. } in found {
            if self.tables.references.contains(&job_id) {
                purged.kept.push(job_id);
            } else {
                self.tables.delete_with_sisters(job_id);
                purged.deleted += 1;
            }
        }
        Ok(purged)
    }

    /// Old enough terminal rows behind the cursor, oldest first, at most the request's limit.
    fn purgeable(&self, request: &PurgeRequest) -> Vec<PurgeCursor> {
        let now = self.now();
        let window = |row: &Row| match row.state {
            State::Succeeded => request.succeeded_after,
            State::Dead => request.dead_after,
            State::Ready | State::Running => None,
        };
        let old_enough = |row: &Row, finished_at: Timestamp| {
            window(row).is_some_and(|keep| is_over(finished_at, keep, now))
        };
        let place = |row: &Row| {
            let finished_at = row.finished_at?;
            old_enough(row, finished_at).then_some(PurgeCursor {
                finished_at,
                job_id: row.job_id,
            })
        };
        let rows = self.tables.jobs.values();
        let mut found: Vec<_> = rows
            .filter_map(|row| place(row))
            .filter(|place| request.cursor.is_none_or(|cursor| *place > cursor))
            .collect();
        found.sort_unstable();
        found.truncate(request.limit.get() as usize);
        found
    }
}

fn is_over(start: Timestamp, length: Delay, now: Timestamp) -> bool {
    start.as_micros().saturating_add(length.as_micros()) <= now.as_micros()
}

fn wrong_state(
    row: &Row,
    operation: &'static str,
    allowed: &'static str,
) -> queue_table_core::Error {
    Rejected::WrongState {
        job_id: row.job_id,
        state: row.state,
        operation,
        allowed,
    }
    .into()
}

impl Tables {
    pub(super) fn list(&self, request: &ListRequest) -> Vec<JobRecord> {
        let asked = |row: &Row| {
            (request.queue.as_ref()).is_none_or(|queue| queue.as_str() == row.queue)
                && request.state.is_none_or(|state| state == row.state)
                && (request.kind.as_ref()).is_none_or(|kind| kind.as_str() == row.kind)
                && request.after.is_none_or(|after| row.job_id > after)
        };
        let rows = self.jobs.values().filter(|row| asked(row));
        rows.take(request.limit.get() as usize)
            .map(|row| decode::record(row))
            .collect()
    }

    pub(super) fn failures_of(&self, job: JobId) -> Vec<FailureRecord> {
        let records = self.failures.range((job, 0)..=(job, u32::MAX));
        records.map(|(_, record)| record.clone()).collect()
    }

    pub(super) fn stats(&self, only: Option<&QueueName>, now: Timestamp) -> Vec<QueueStats> {
        let asked = |queue: &QueueName| only.is_none_or(|only| only == queue);
        let mut counts = BTreeMap::new();
        for queue in self.paused.keys().filter(|queue| asked(queue)) {
            let mut empty = no_jobs(queue);
            empty.paused = true;
            counts.insert(queue.clone(), empty);
        }
        for row in self.jobs.values() {
            let queue = QueueName::stored(&row.queue);
            if asked(&queue) {
                let stats = counts.entry(queue);
                count(stats.or_insert_with_key(no_jobs), row, now);
            }
        }
        counts.into_values().collect()
    }
}

fn no_jobs(queue: &QueueName) -> QueueStats {
    QueueStats {
        queue: queue.clone(),
        due: 0,
        scheduled: 0,
        running: 0,
        overdue: 0,
        succeeded: 0,
        dead: 0,
        oldest_due: None,
        paused: false,
    }
}

fn count(stats: &mut QueueStats, row: &Row, now: Timestamp) {
    match row.state {
        State::Ready if row.run_at <= now => {
            stats.due += 1;
            stats.oldest_due = stats.oldest_due.max(Some(now.since(row.run_at)));
        }
        State::Ready => stats.scheduled += 1,
        State::Running => {
            stats.running += 1;
            let overdue = row.lease_until.is_some_and(|until| until <= now);
            stats.overdue += u64::from(overdue);
        }
        State::Succeeded => stats.succeeded += 1,
        State::Dead => stats.dead += 1,
    }
}
