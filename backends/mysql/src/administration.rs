//! The trait methods for operators: one transaction around one call each.

use queue_table_core::{
    Administration, ErrorText, FailureRecord, Finding, JobId, JobRecord, ListRequest, MaxAttempts,
    Migrated, PromoteRequest, PurgeRequest, Purged, QueueBackend, QueueName, QueueStats, Result,
};

use crate::queue::MysqlQueue;
use crate::{admin, check, migrate, promote, recovery};

impl Administration for MysqlQueue {
    fn migrate(&self) -> Result<Migrated> {
        migrate::migrate(self)
    }

    fn check(&self) -> Result<Vec<Finding>> {
        check::check(self)
    }

    fn get(&self, job: JobId) -> Result<Option<JobRecord>> {
        self.in_transaction("get", |session, sql| admin::get(session, sql, job))
    }

    fn list(&self, request: &ListRequest) -> Result<Vec<JobRecord>> {
        self.in_transaction("list", |session, sql| admin::list(session, sql, request))
    }

    fn failures(&self, job: JobId) -> Result<Vec<FailureRecord>> {
        self.in_transaction("failures", |session, sql| {
            admin::failures(session, sql, job)
        })
    }

    fn stats(&self, queue: Option<&QueueName>) -> Result<Vec<QueueStats>> {
        self.in_transaction("stats", |session, sql| admin::stats(session, sql, queue))
    }

    fn replay(&self, job: JobId, extra: MaxAttempts) -> Result<u32> {
        let replayed = self.in_transaction("replay", |session, sql| {
            admin::replay(session, sql, job, extra)
        });
        let (queue, budget) = replayed?;
        self.ring(&queue);
        Ok(budget)
    }

    fn cancel(&self, job: JobId, reason: &ErrorText) -> Result<()> {
        self.in_transaction("cancel", |session, sql| {
            admin::cancel(session, sql, job, reason)
        })
    }

    fn promote(&self, request: &PromoteRequest) -> Result<u32> {
        self.in_transaction("promote", |session, sql| {
            promote::promote(session, sql, request)
        })
    }

    fn purge(&self, request: &PurgeRequest) -> Result<Purged> {
        self.in_transaction("purge", |session, sql| {
            recovery::purge(session, sql, request)
        })
    }

    fn pause(&self, queue: &QueueName) -> Result<()> {
        self.in_transaction("pause", |session, sql| admin::pause(session, sql, queue))
    }

    fn resume(&self, queue: &QueueName) -> Result<()> {
        self.in_transaction("resume", |session, sql| admin::resume(session, sql, queue))?;
        self.ring(queue);
        Ok(())
    }
}
