//! Promote: jobs that have been due for long get a higher priority.

use queue_table_core::{JobId, PromoteRequest, Result, State, Timestamp};

use super::claim::is_exhausted;
use super::fault::Fault;
use super::open::Open;
use crate::fixture::Row;

impl Open<'_> {
    pub(super) fn promote(&mut self, request: &PromoteRequest) -> Result<u32> {
        self.tables.check_version()?;
        let found = self.promotable(request);
        if !found.is_empty() && self.has(Fault::PromoteDoesNothing) {
            return Ok(0);
        }
        let now = self.now();
        let makes_due_now = !found.is_empty() && self.has(Fault::PromoteChangesDueTime);
        for job in &found {
            self.tables.change(*job, |row| {
                row.priority = request.to;
                if makes_due_now {
                    row.run_at = now;
                }
            });
        }
        Ok(u32::try_from(found.len()).unwrap_or(u32::MAX))
    }

    /// Jobs that have waited long below the priority, the oldest first, at most the limit.
    fn promotable(&self, request: &PromoteRequest) -> Vec<JobId> {
        let now = self.now();
        let rows = self.tables.jobs.values();
        let mut found: Vec<_> = rows
            .filter(|row| self.is_promotable(row, request, now))
            .map(|row| (row.run_at, row.job_id))
            .collect();
        if found.len() > 1 && !self.has(Fault::PromoteInIdOrder) {
            found.sort_unstable();
        }
        let limit = request.limit.get() as usize;
        let more = usize::from(found.len() > limit && self.has(Fault::PromoteTakesMore));
        found.truncate(limit + more);
        found.into_iter().map(|(_, job)| job).collect()
    }

    fn is_promotable(&self, row: &Row, request: &PromoteRequest, now: Timestamp) -> bool {
        let waited = now.as_micros() - row.run_at.as_micros();
        let of_queue =
            self.same(&row.queue, request.queue.as_str()) || self.has(Fault::PromoteIgnoresQueue);
        let is_waiting =
            row.state == State::Ready && !is_exhausted(row) || self.has(Fault::PromoteIgnoresState);
        let is_old = waited >= request.waited.as_micros()
            || waited >= 0 && self.has(Fault::PromoteIgnoresAge)
            || waited < 0 && self.has(Fault::PromoteTakesFuture);
        let is_below = row.priority < request.to || self.has(Fault::PromoteLowers);
        of_queue && is_waiting && is_old && is_below
    }
}
