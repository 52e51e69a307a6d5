//! The broken backend for operators, and what a statement sees that looks at few rows.

use std::time::Duration;

use queue_table_core::{
    Administration, BatchSize, ClaimRequest, Error, ErrorText, FailureRecord, Finding, JobId,
    JobRecord, ListRequest, MaxAttempts, Migrated, PromoteRequest, PurgeRequest, Purged, QueueName,
    QueueStats, Rejected, Result, State, TransactionalBackend,
};

use super::{Broken, Seed};

/// How many rows a statement that looks at few looks at.
const FEW: u32 = 100;

impl<B: Administration + TransactionalBackend> Broken<B> {
    pub(super) fn first_rows(&self, count: u32) -> Result<Vec<JobRecord>> {
        let limit = BatchSize::new(count).map_err(Rejected::from)?;
        self.inner.list(&ListRequest::first(limit))
    }

    /// Whether the first rows hold one that the claim may want. Fewer rows are all looked at.
    pub(super) fn sees_a_claimable(&self, request: &ClaimRequest) -> Result<bool> {
        let rows = self.first_rows(FEW)?;
        let is_accepted = |row: &JobRecord| match &request.accepts {
            Some(accepts) => accepts
                .get(&row.kind)
                .is_some_and(|versions| versions.contains(&row.payload_version)),
            None => true,
        };
        let is_wanted = |row: &JobRecord| {
            let due = row.state == State::Ready && row.run_at <= row.enqueued_at;
            due && row.queue == request.queue && is_accepted(row)
        };
        Ok(rows.len() < FEW as usize || rows.iter().any(is_wanted))
    }

    /// Whether the first rows hold a claim that ended long before the others.
    pub(super) fn sees_an_overdue(&self) -> Result<bool> {
        let rows = self.first_rows(FEW)?;
        let ends = || rows.iter().filter_map(|row| row.lease_until);
        let apart = ends().max().zip(ends().min());
        let one_is_old =
            apart.is_some_and(|(late, early)| late.since(early) > Duration::from_secs(30));
        Ok(rows.len() < FEW as usize || one_is_old)
    }

    /// Whether the first rows hold one that the promotion may want. Fewer rows are all looked at.
    fn sees_a_promotable(&self, request: &PromoteRequest) -> Result<bool> {
        let rows = self.first_rows(FEW)?;
        let is_wanted = |row: &JobRecord| row.state == State::Ready && row.priority < request.to;
        Ok(rows.len() < FEW as usize || rows.iter().any(is_wanted))
    }
}

impl<B: Administration + TransactionalBackend> Administration for Broken<B> {
    fn migrate(&self) -> Result<Migrated> {
        match self.inner.migrate() {
            Err(Error::Schema { found, needed, .. }) if self.has(Seed::MigratesNewer) => {
                Ok(Migrated {
                    from: found,
                    to: needed,
                })
            }
            migrated => migrated,
        }
    }

    fn check(&self) -> Result<Vec<Finding>> {
        if self.has(Seed::ChecksNothing) {
            return Ok(Vec::new());
        }
        self.inner.check()
    }

    fn get(&self, job: JobId) -> Result<Option<JobRecord>> {
        self.answer("get", || self.inner.get(job), || Some(None))
    }

    fn list(&self, request: &ListRequest) -> Result<Vec<JobRecord>> {
        self.answer("list", || self.inner.list(request), || Some(Vec::new()))
    }

    fn failures(&self, job: JobId) -> Result<Vec<FailureRecord>> {
        let run = || self.inner.failures(job);
        self.answer("failures", run, || Some(Vec::new()))
    }

    fn stats(&self, queue: Option<&QueueName>) -> Result<Vec<QueueStats>> {
        self.answer("stats", || self.inner.stats(queue), || Some(Vec::new()))
    }

    fn replay(&self, job: JobId, extra: MaxAttempts) -> Result<u32> {
        self.answer("replay", || self.inner.replay(job, extra), || None)
    }

    fn cancel(&self, job: JobId, reason: &ErrorText) -> Result<()> {
        self.answer("cancel", || self.inner.cancel(job, reason), || Some(()))
    }

    fn promote(&self, request: &PromoteRequest) -> Result<u32> {
        self.wait_if(Seed::PromoteWaits, State::Ready, &[])?;
        let mut request = request.clone();
        if self.has(Seed::LooksAtFew) {
            if !self.sees_a_promotable(&request)? {
                return Ok(0);
            }
            let few = BatchSize::new(FEW).map_err(Rejected::from)?;
            request.limit = request.limit.min(few);
        }
        self.answer("promote", || self.inner.promote(&request), || Some(0))
    }

    fn purge(&self, request: &PurgeRequest) -> Result<Purged> {
        self.answer("purge", || self.inner.purge(request), || None)
    }

    fn pause(&self, queue: &QueueName) -> Result<()> {
        self.answer("pause", || self.inner.pause(queue), || Some(()))
    }

    fn resume(&self, queue: &QueueName) -> Result<()> {
        self.answer("resume", || self.inner.resume(queue), || Some(()))
    }
}
