//! Reap: what crashed workers left, and ready jobs that no claim may take.

use queue_table_core::{
    Delay, Disposition, FailureCause, JobId, ReapRequest, Reaped, Receipt, Result, State,
};

use super::claim::is_exhausted;
use super::decode;
use super::fault::Fault;
use super::fence::put_down;
use super::open::{Open, after, finish};
use crate::fixture::Row;

impl Open<'_> {
    pub(super) fn reap(&mut self, request: &ReapRequest) -> Result<Vec<Reaped>> {
        self.tables.check_version()?;
        let more = usize::from(self.has(Fault::ReapTakesMore));
        let limit = request.limit.get() as usize + more;
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
        let rows = self.seen().jobs.values();
        let mut found: Vec<_> = rows
            .filter(|row| row.state == State::Running)
            .filter_map(|row| row.lease_until.map(|until| (until, row.job_id)))
            .filter(|(until, _)| *until <= now || self.has(Fault::ReapTakesLive))
            .collect();
        if found.len() > 1 && !self.has(Fault::ReapInIdOrder) {
            found.sort_unstable();
        }
        found.truncate(limit);
        found.into_iter().map(|(_, job)| job).collect()
    }

    fn exhausted(&self, limit: usize) -> Vec<JobId> {
        let is_stuck = |row: &Row| {
            row.state == State::Ready && is_exhausted(row) && !self.has(Fault::ReapLeavesExhausted)
        };
        let rows = self.tables.jobs.values();
        rows.filter(|row| is_stuck(row))
            .map(|row| row.job_id)
            .take(limit)
            .collect()
    }

    fn reap_overdue(&mut self, job: JobId, request: &ReapRequest) -> Result<Reaped> {
        let (now, row) = (self.now(), self.tables.row(job)?.clone());
        let disposition = if is_exhausted(&row) && !self.has(Fault::RetryForEver) {
            Disposition::Dead
        } else {
            let delay = request.policy.delay(row.attempts);
            let delay = if self.has(Fault::RetryAtOnce) {
                Delay::ZERO
            } else {
                delay
            };
            Disposition::Ready {
                run_at: after(self.base(now), delay.as_micros()),
            }
        };
        let reaped = decode::reaped(&row, disposition);
        let resets = self.has(Fault::ReapResetsAttempts);
        self.tables.change(job, |row| {
            put_down(row, disposition, now);
            row.last_error = Some("lease expired".to_owned());
            if resets {
                row.attempts = 0;
            }
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
}
