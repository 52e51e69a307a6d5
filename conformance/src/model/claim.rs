//! Claim: which jobs, and what it stores.

use std::cmp::Reverse;

use queue_table_core::{
    ClaimRequest, ClaimedJob, Error, Failed, JobId, Result, State, StoredPayload, Timestamp,
};

use super::fault::Fault;
use super::open::{Open, after};
use super::{ENGINE, decode};
use crate::fixture::Row;

impl Open<'_> {
    pub(super) fn claim(&mut self, request: &ClaimRequest) -> Result<Vec<ClaimedJob>> {
        self.tables.check_version()?;
        let claimable = self.claimable(request, self.now());
        let claimed = claimable.into_iter().map(|job| self.take(job, request));
        let mut claimed = claimed.collect::<Result<Vec<_>>>()?;
        if claimed.len() > 1 && self.has(Fault::ClaimReturnsIdOrder) {
            claimed.sort_unstable_by_key(ClaimedJob::job_id);
        }
        let undecodable = claimed.iter().find_map(|job| decoded(&job.payload).err());
        if let Some(error) = undecodable
            && self.has(Fault::ClaimDecodesTheBatch)
        {
            return Err(error);
        }
        Ok(claimed)
    }

    /// Due jobs for the request, in claim order, at most its limit.
    fn claimable(&self, request: &ClaimRequest, now: Timestamp) -> Vec<JobId> {
        if self.is_paused(request) && !self.has(Fault::ClaimIgnoresPause) {
            return Vec::new();
        }
        let rows = self.seen().jobs.values();
        let mut found: Vec<_> = rows
            .filter(|row| self.is_claimable(row, request, now))
            .map(|row| self.place(row))
            .collect();
        found.sort_unstable();
        let exhausted = |job: &JobId| self.tables.row(*job).is_ok_and(is_exhausted);
        if found.iter().any(|(.., job)| exhausted(job)) && self.has(Fault::ClaimBlockedByExhausted)
        {
            found.truncate(found.iter().take_while(|(.., job)| !exhausted(job)).count());
        }
        let limit = request.limit.get() as usize;
        let more = usize::from(found.len() > limit && self.has(Fault::ClaimTakesMore));
        found.truncate(limit + more);
        found.into_iter().map(|(.., job)| job).collect()
    }

    fn is_paused(&self, request: &ClaimRequest) -> bool {
        let mut paused = self.tables.paused.keys();
        let every = self.has(Fault::PauseOfEveryQueue);
        paused.any(|queue| every || self.same(queue.as_str(), request.queue.as_str()))
    }

    fn is_claimable(&self, row: &Row, request: &ClaimRequest, now: Timestamp) -> bool {
        let queue = request.queue.as_str();
        let of_queue = self.same(&row.queue, queue) || self.has(Fault::ClaimIgnoresQueue);
        let due = row.run_at <= now || self.has(Fault::ClaimIgnoresDueTime);
        let has_attempts = !is_exhausted(row)
            || self.has(Fault::ClaimTakesExhausted)
            || self.has(Fault::ClaimBlockedByExhausted);
        of_queue && due && has_attempts && self.is_free(row, now) && self.is_accepted(row, request)
    }

    fn is_free(&self, row: &Row, now: Timestamp) -> bool {
        let overdue = row.lease_until.is_some_and(|until| until <= now);
        row.state == State::Ready
            || overdue && self.has(Fault::ClaimTakesOverdue)
            || row.state == State::Dead && self.has(Fault::ClaimRetakesFinished)
    }

    fn is_accepted(&self, row: &Row, request: &ClaimRequest) -> bool {
        let Some(accepts) = request.accepts.as_ref() else {
            return true;
        };
        let accepted = accepts.iter().any(|(kind, versions)| {
            self.same(kind.as_str(), &row.kind)
                && (versions.contains(&row.payload_version)
                    || self.has(Fault::ClaimIgnoresVersions))
        });
        accepted || self.has(Fault::ClaimIgnoresKinds)
    }

    /// The place in the claim order.
    fn place(&self, row: &Row) -> (Reverse<i32>, Timestamp, JobId) {
        let by_id = self.has(Fault::ClaimIgnoresPriority);
        let priority = if by_id { 0 } else { row.priority };
        let run_at = if by_id || self.has(Fault::ClaimIgnoresDueOrder) {
            Timestamp::from_micros(0)
        } else {
            row.run_at
        };
        (Reverse(priority), run_at, row.job_id)
    }

    /// Stores the claim and answers what was stored.
    fn take(&mut self, job: JobId, request: &ClaimRequest) -> Result<ClaimedJob> {
        let now = self.now();
        let until = after(self.base(now), request.lease.as_micros());
        let has_error = self.tables.row(job)?.last_error.is_some();
        let forgets = has_error && self.has(Fault::ClaimForgetsError);
        self.tables.change(job, |row| {
            row.state = State::Running;
            row.attempts += 1;
            row.worker_id = Some(request.worker.as_str().to_owned());
            row.lease_until = Some(until);
            row.claimed_at = Some(now);
            row.finished_at = None;
            if forgets {
                row.last_error = None;
            }
        });
        let claimed = decode::claimed(self.tables.row(job)?);
        if self.has(Fault::ClaimKeepsAttempt) {
            self.tables.change(job, |row| row.attempts -= 1);
        }
        Ok(claimed)
    }
}

/// No attempt is left.
pub(super) fn is_exhausted(row: &Row) -> bool {
    row.attempts >= row.max_attempts
}

fn decoded(payload: &StoredPayload) -> Result<()> {
    let failed = |error| Error::Engine(Failed::new(ENGINE, "claim", error));
    payload.as_str().map(|_| ()).map_err(failed)
}
