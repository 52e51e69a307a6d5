//! What operators ask for, on open tables and on committed ones.

use std::collections::BTreeMap;

use queue_table_core::{
    Delay, Error, ErrorText, Failed, FailureRecord, JobId, JobRecord, ListRequest, MaxAttempts,
    PurgeCursor, PurgeRequest, Purged, QueueName, QueueStats, Rejected, Result, State, Timestamp,
};

use super::fault::{Fault, Faults};
use super::open::{Open, finish};
use super::state::Tables;
use super::{ENGINE, decode};
use crate::fixture::Row;

impl Open<'_> {
    pub(super) fn replay(&mut self, job: JobId, extra: MaxAttempts) -> Result<u32> {
        self.tables.check_version()?;
        let row = self.tables.row(job)?;
        if row.state != State::Dead && !self.has(Fault::ReplayOfAnyJob) {
            return Err(wrong_state(row, "replay", "dead"));
        }
        let (budget, queue) = (row.attempts + extra.get(), QueueName::stored(&row.queue));
        if !self.has(Fault::ReplayIgnoresKey) {
            self.take_key_back(job, queue)?;
        }
        let now = self.base(self.now());
        let (keeps, resets) = (
            self.has(Fault::ReplayKeepsBudget),
            self.has(Fault::ReplayResetsAttempts),
        );
        self.tables.change(job, |row| {
            row.state = State::Ready;
            row.run_at = now;
            if !keeps {
                row.max_attempts = budget;
            }
            if resets {
                row.attempts = 0;
            }
            row.worker_id = None;
            row.lease_until = None;
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
        let key = self.key(&queue, &dedup.key);
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
        if row.state.is_terminal() && !self.has(Fault::CancelOfAnyJob) {
            return Err(wrong_state(row, "cancel", "ready and running"));
        }
        let now = self.now();
        self.tables.change(job, |row| {
            finish(row, State::Dead, now);
            row.last_error = Some(reason.as_str().to_owned());
        });
        Ok(())
    }

    pub(super) fn pause(&mut self, queue: &QueueName) -> Result<()> {
        self.tables.check_version()?;
        let now = self.now();
        self.tables.paused.entry(queue.clone()).or_insert(now);
        Ok(())
    }

    pub(super) fn resume(&mut self, queue: &QueueName) -> Result<()> {
        self.tables.check_version()?;
        if !self.has(Fault::ResumeForgotten) {
            self.tables.paused.remove(queue);
        }
        Ok(())
    }

    pub(super) fn purge(&mut self, request: &PurgeRequest) -> Result<Purged> {
        self.tables.check_version()?;
        let found = self.purgeable(request);
        let full = found.len() >= request.limit.get() as usize;
        let mut purged = Purged {
            cursor: found.last().copied().filter(|_| full),
            ..Purged::default()
        };
        let is_kept = |tables: &Tables, job: JobId| tables.references.contains(&job);
        let found = found.iter().map(|place| place.job_id);
        if self.has(Fault::PurgeStopsAtReferences)
            && found.clone().any(|job| is_kept(self.tables, job))
        {
            let refused = Failed::new(ENGINE, "purge", "a row is still referenced");
            return Err(Error::Engine(refused));
        }
        for job in found {
            if is_kept(self.tables, job) {
                purged.kept.push(job);
            } else if self.has(Fault::PurgeLeavesSisters) {
                self.tables.jobs.remove(&job);
                purged.deleted += 1;
            } else {
                self.tables.delete_with_sisters(job);
                purged.deleted += 1;
            }
        }
        Ok(purged)
    }

    /// Old enough terminal rows behind the cursor, oldest first, at most the request's limit.
    fn purgeable(&self, request: &PurgeRequest) -> Vec<PurgeCursor> {
        let (now, rows) = (self.now(), self.tables.jobs.values());
        let begins_again = self.has(Fault::PurgeIgnoresCursor);
        let cursor = request.cursor.filter(|_| !begins_again);
        let mut found: Vec<_> = rows
            .filter_map(|row| self.purge_place(row, request, now))
            .filter(|place| cursor.is_none_or(|cursor| *place > cursor))
            .collect();
        found.sort_unstable();
        let more = usize::from(self.has(Fault::PurgeTakesMore));
        found.truncate(request.limit.get() as usize + more);
        found
    }

    /// The row's place in the order of a purge; `None` when it stays.
    fn purge_place(
        &self,
        row: &Row,
        request: &PurgeRequest,
        now: Timestamp,
    ) -> Option<PurgeCursor> {
        let any = self.has(Fault::PurgeIgnoresWindows).then_some(Delay::ZERO);
        let ready = request
            .dead_after
            .filter(|_| self.has(Fault::PurgeDeletesReady));
        let (end, window) = match row.state {
            State::Succeeded => (row.finished_at?, any.or(request.succeeded_after)),
            State::Dead => (row.finished_at?, any.or(request.dead_after)),
            State::Ready => (row.enqueued_at, ready),
            State::Running => return None,
        };
        is_over(end, window?, now).then_some(PurgeCursor {
            finished_at: end,
            job_id: row.job_id,
        })
    }
}

fn is_over(start: Timestamp, length: Delay, now: Timestamp) -> bool {
    start.as_micros().saturating_add(length.as_micros()) <= now.as_micros()
}

fn wrong_state(row: &Row, operation: &'static str, allowed: &'static str) -> Error {
    Rejected::WrongState {
        job_id: row.job_id,
        state: row.state,
        operation,
        allowed,
    }
    .into()
}

impl Tables {
    pub(super) fn list(&self, request: &ListRequest, faults: &Faults) -> Vec<JobRecord> {
        let begins_at = |_: &JobId| !faults.has(Fault::ListIgnoresCursor);
        let after = request.after.filter(begins_at);
        let is_behind = |row: &Row| after.is_none_or(|after| row.job_id > after);
        let asked = |row: &Row| {
            faults.has(Fault::ListIgnoresFilters)
                || (request.queue.as_ref()).is_none_or(|queue| queue.as_str() == row.queue)
                    && request.state.is_none_or(|state| state == row.state)
                    && (request.kind.as_ref()).is_none_or(|kind| kind.as_str() == row.kind)
        };
        let rows = self
            .jobs
            .values()
            .filter(|row| is_behind(row) && asked(row));
        rows.take(request.limit.get() as usize)
            .map(|row| decode::record(row))
            .collect()
    }

    pub(super) fn failures_of(&self, job: JobId) -> Vec<FailureRecord> {
        let records = self.failures.range((job, 0)..=(job, u32::MAX));
        records.map(|(_, record)| record.clone()).collect()
    }

    pub(super) fn stats(
        &self,
        only: Option<&QueueName>,
        now: Timestamp,
        faults: &Faults,
    ) -> Vec<QueueStats> {
        let asked = |queue: &QueueName| only.is_none_or(|only| only == queue);
        let mut counts = BTreeMap::new();
        let left_out = faults.has(Fault::StatsLeaveOutPaused);
        for queue in self.paused.keys().filter(|queue| asked(queue) && !left_out) {
            let mut empty = no_jobs(queue);
            empty.paused = true;
            counts.insert(queue.clone(), empty);
        }
        for row in self.jobs.values() {
            let queue = QueueName::stored(&row.queue);
            if asked(&queue) {
                let stats = counts.entry(queue);
                count(stats.or_insert_with_key(no_jobs), row, now, faults);
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

fn count(stats: &mut QueueStats, row: &Row, now: Timestamp, faults: &Faults) {
    match row.state {
        State::Ready if row.run_at <= now || faults.has(Fault::StatsCountScheduledAsDue) => {
            stats.due += 1;
            stats.oldest_due = stats.oldest_due.max(Some(now.since(row.run_at)));
        }
        State::Ready => stats.scheduled += 1,
        State::Running => {
            stats.running += 1;
            let overdue = row.lease_until.is_some_and(|until| until <= now)
                && !faults.has(Fault::StatsLeaveOutOverdue);
            stats.overdue += u64::from(overdue);
        }
        State::Succeeded => stats.succeeded += 1,
        State::Dead => stats.dead += 1,
    }
}
