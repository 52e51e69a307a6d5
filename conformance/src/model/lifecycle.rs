//! The lifecycle on open tables: the statements that every backend has.
//!
//! Each looks at everything before it changes anything.

use std::cmp::Reverse;

use queue_table_core::{
    ClaimRequest, ClaimedJob, Dedup, DedupScope, Disposition, ENQUEUE_MAX, EffectName, Enqueued,
    FailAction, Failure, FailureCause, FailureRecord, Fenced, JobId, LeaseLength, LostClaim,
    NewJob, Observed, ReapRequest, Reaped, Receipt, Result, State, Table, Timestamp, WorkerId,
    check_count,
};

use super::state::Tables;
use super::{Clock, decode};
use crate::fixture::Row;

/// Tables that may be changed: the writer's turn is ours.
pub(super) struct Open<'a> {
    pub(super) tables: &'a mut Tables,
    pub(super) clock: &'a Clock,
    pub(super) table: &'a Table,
}

impl Open<'_> {
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn enqueue(&mut self, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        check_count("jobs", jobs.len(), ENQUEUE_MAX)?;
        let columns = jobs.iter().map(|job| self.table.arrange(job.columns()));
        let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
        self.tables.check_version()?;
        let stored = jobs.iter().zip(columns).map(|(job, columns)| {
            let holder = job.dedup().and_then(|dedup| self.holder(job, dedup));
            match holder {
                Some(existing) => Enqueued::Existing(existing),
                None => Enqueued::Inserted(self.insert(job, columns)),
            }
        });
        Ok(stored.collect())
    }

    /// The job that the key names, when it still does.
    fn holder(&self, job: &NewJob, dedup: &Dedup) -> Option<JobId> {
        let key = (job.queue().clone(), dedup.key.clone());
        let &(holder, scope) = self.tables.dedup.get(&key)?;
        let row = self.tables.jobs.get(&holder)?;
        let held = scope == DedupScope::WhileRowExists || !row.state.is_terminal();
        held.then_some(holder)
    }

    fn insert(&mut self, job: &NewJob, columns: Vec<queue_table_core::ColumnValue>) -> JobId {
        let (job_id, now) = (self.tables.next_id(), self.now());
        if let Some(dedup) = job.dedup() {
            let key = (job.queue().clone(), dedup.key.clone());
            self.tables.dedup.insert(key, (job_id, dedup.scope));
            self.tables.own_keys.insert(job_id, dedup.clone());
        }
        self.tables.insert(Row {
            job_id,
            queue: job.queue().as_str().to_owned(),
            kind: job.kind().as_str().to_owned(),
            payload: job.payload().as_str().as_bytes().to_vec(),
            payload_version: job.payload_version(),
            state: State::Ready,
            priority: job.priority(),
            run_at: after(now, job.delay().as_micros()),
            attempts: 0,
            max_attempts: job.max_attempts().get(),
            worker_id: None,
            lease_until: None,
            enqueued_at: now,
            claimed_at: None,
            finished_at: None,
            last_error: None,
            columns,
        });
        job_id
    }

    pub(super) fn claim(&mut self, request: &ClaimRequest) -> Result<Vec<ClaimedJob>> {
        self.tables.check_version()?;
        let now = self.now();
        let claimable = self.claimable(request, now);
        let claim = |job: JobId| {
            self.tables.change(job, |row| {
                row.state = State::Running;
                row.attempts += 1;
                row.worker_id = Some(request.worker.as_str().to_owned());
                row.lease_until = Some(after(now, request.lease.as_micros()));
                row.claimed_at = Some(now);
            });
            self.tables.row(job).map(decode::claimed)
        };
        claimable.into_iter().map(claim).collect()
    }

    /// Due jobs for the request, in claim order, at most its limit.
    fn claimable(&self, request: &ClaimRequest, now: Timestamp) -> Vec<JobId> {
        if self.tables.paused.contains_key(&request.queue) {
            return Vec::new();
        }
        let mut found: Vec<_> = self
            .tables
            .jobs
            .values()
            .filter(|row| is_claimable(row, request, now))
            .map(|row| (Reverse(row.priority), row.run_at, row.job_id))
            .collect();
        found.sort_unstable();
        found.truncate(request.limit.get() as usize);
        found.into_iter().map(|(_, _, job)| job).collect()
    }

    pub(super) fn renew(&mut self, receipt: &Receipt, lease: LeaseLength) -> Fenced<()> {
        self.held(receipt)?;
        let until = after(self.now(), lease.as_micros());
        self.tables
            .change(receipt.job_id(), |row| row.lease_until = Some(until));
        Ok(())
    }

    pub(super) fn ack(&mut self, receipt: &Receipt) -> Fenced<()> {
        self.held(receipt)?;
        let now = self.now();
        self.tables.change(receipt.job_id(), |row| {
            finish(row, State::Succeeded, now);
            row.last_error = None;
        });
        Ok(())
    }

    pub(super) fn fail(&mut self, failure: &Failure) -> Fenced<Disposition> {
        let receipt = &failure.receipt;
        let row = self.held(receipt)?;
        let (spent, now) = (row.attempts >= row.max_attempts, self.now());
        let error = failure.error.as_ref().map(|text| text.as_str().to_owned());
        let disposition = match failure.action {
            FailAction::Dead => Disposition::Dead,
            FailAction::Retry { .. } if spent => Disposition::Dead,
            FailAction::Retry { after: delay } | FailAction::Release { after: delay } => {
                Disposition::Ready {
                    run_at: after(now, delay.as_micros()),
                }
            }
        };
        let released = matches!(failure.action, FailAction::Release { .. });
        self.tables.change(receipt.job_id(), |row| {
            put_down(row, disposition, now);
            row.max_attempts += u32::from(released);
            if !released || error.is_some() {
                row.last_error.clone_from(&error);
            }
        });
        if !released {
            self.record_failure(receipt, FailureCause::Failed, error);
        }
        Ok(disposition)
    }

    pub(super) fn record_effect(&mut self, receipt: &Receipt, name: &EffectName) -> Fenced<bool> {
        self.held(receipt)?;
        let effect = (receipt.job_id(), name.as_str().to_owned());
        Ok(self.tables.effects.insert(effect))
    }

    pub(super) fn reap(&mut self, request: &ReapRequest) -> Result<Vec<Reaped>> {
        self.tables.check_version()?;
        let limit = request.limit.get() as usize;
        let overdue = self.overdue(limit);
        let exhausted = self.exhausted(limit - overdue.len());
        let mut reaped = Vec::with_capacity(overdue.len() + exhausted.len());
        for job in overdue {
            reaped.push(self.reap_overdue(job, request)?);
        }
        for job in exhausted {
            reaped.push(self.bury(job)?);
        }
        Ok(reaped)
    }

    /// Running jobs whose lease is over, the oldest deadline first.
    fn overdue(&self, limit: usize) -> Vec<JobId> {
        let now = self.now();
        let rows = self.tables.jobs.values();
        let mut found: Vec<_> = rows
            .filter(|row| row.state == State::Running)
            .filter_map(|row| row.lease_until.map(|until| (until, row.job_id)))
            .filter(|(until, _)| *until <= now)
            .collect();
        found.sort_unstable();
        found.truncate(limit);
        found.into_iter().map(|(_, job)| job).collect()
    }

    /// Ready jobs that no claim may take any more.
    fn exhausted(&self, limit: usize) -> Vec<JobId> {
        let rows = self.tables.jobs.values();
        rows.filter(|row| row.state == State::Ready && row.attempts >= row.max_attempts)
            .map(|row| row.job_id)
            .take(limit)
            .collect()
    }

    fn reap_overdue(&mut self, job: JobId, request: &ReapRequest) -> Result<Reaped> {
        let now = self.now();
        let row = self.tables.row(job)?.clone();
        let disposition = if row.attempts >= row.max_attempts {
            Disposition::Dead
        } else {
            let delay = request.policy.delay(row.attempts);
            Disposition::Ready {
                run_at: after(now, delay.as_micros()),
            }
        };
        let reaped = decode::reaped(&row, disposition);
        self.tables.change(job, |row| {
            put_down(row, disposition, now);
            row.last_error = Some("lease expired".to_owned());
        });
        if let Some(worker) = reaped.worker.clone() {
            let receipt = Receipt::new(job, row.attempts, worker);
            let error = Some("lease expired".to_owned());
            self.record_failure(&receipt, FailureCause::Reaped, error);
        }
        Ok(reaped)
    }

    fn bury(&mut self, job: JobId) -> Result<Reaped> {
        let now = self.now();
        let reaped = decode::reaped(self.tables.row(job)?, Disposition::Dead);
        self.tables.change(job, |row| {
            finish(row, State::Dead, now);
            row.last_error
                .get_or_insert_with(|| "no attempts left".to_owned());
        });
        Ok(reaped)
    }

    fn record_failure(&mut self, receipt: &Receipt, cause: FailureCause, error: Option<String>) {
        let record = FailureRecord {
            job_id: receipt.job_id(),
            attempt: receipt.attempt(),
            worker: receipt.worker().clone(),
            at: self.now(),
            cause,
            error,
        };
        let key = (receipt.job_id(), receipt.attempt());
        self.tables.failures.insert(key, record);
    }

    /// The row, when the receipt's claim holds it now.
    fn held(&self, receipt: &Receipt) -> Fenced<&Row> {
        let row = self.tables.jobs.get(&receipt.job_id());
        if let Some(row) = row
            && row.state == State::Running
            && row.attempts == receipt.attempt()
            && row.worker_id.as_deref() == Some(receipt.worker().as_str())
            && row.lease_until.is_some_and(|until| until > self.now())
        {
            return Ok(row);
        }
        let observed = row.map(|row| Observed {
            state: row.state,
            attempts: row.attempts,
            worker: row.worker_id.as_deref().map(WorkerId::stored),
        });
        Err(LostClaim::judge(receipt, observed.as_ref()))
    }
}

fn is_claimable(row: &Row, request: &ClaimRequest, now: Timestamp) -> bool {
    row.state == State::Ready
        && row.queue == request.queue.as_str()
        && row.run_at <= now
        && row.attempts < row.max_attempts
        && is_accepted(row, request)
}

fn is_accepted(row: &Row, request: &ClaimRequest) -> bool {
    request.accepts.as_ref().is_none_or(|accepts| {
        let mut kinds = accepts.iter().filter(|(kind, _)| kind.as_str() == row.kind);
        kinds.any(|(_, versions)| versions.contains(&row.payload_version))
    })
}

/// Takes the claim off a row and moves it to where it goes.
fn put_down(row: &mut Row, disposition: Disposition, now: Timestamp) {
    match disposition {
        Disposition::Dead => finish(row, State::Dead, now),
        Disposition::Ready { run_at } => {
            row.state = State::Ready;
            row.run_at = run_at;
            row.worker_id = None;
            row.lease_until = None;
        }
    }
}

/// Takes the claim off a row and makes it terminal.
pub(super) fn finish(row: &mut Row, state: State, now: Timestamp) {
    row.state = state;
    row.finished_at = Some(now);
    row.worker_id = None;
    row.lease_until = None;
}

pub(super) fn after(now: Timestamp, micros: i64) -> Timestamp {
    Timestamp::from_micros(now.as_micros().saturating_add(micros))
}
