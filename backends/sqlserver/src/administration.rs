//! What operators and workers need besides: one transaction, or one read, around one call each.

use queue_table_core::{
    Administration, ErrorText, FailureRecord, Finding, JobId, JobRecord, ListRequest, MaxAttempts,
    Migrated, PromoteRequest, PurgeCursor, PurgeRequest, Purged, QueueName, QueueStats, Result,
};

use crate::queue::SqlServerQueue;
use crate::{admin, check, migrate, recovery};

impl SqlServerQueue {
    /// Deletes what can be deleted; a refused batch is halved until the rows that a constraint
    /// keeps stand alone.
    fn purge_all(&self, jobs: &[PurgeCursor], purged: &mut Purged) -> Result<()> {
        if jobs.is_empty() {
            return Ok(());
        }
        let deleted = self.in_transaction("purge", async |client, sql| {
            recovery::purge(client, sql, jobs).await
        });
        match deleted {
            Ok(deleted) => {
                purged.deleted += deleted;
                Ok(())
            }
            Err(error) if recovery::is_kept(&error) => match jobs {
                [job] => {
                    purged.kept.push(job.job_id);
                    Ok(())
                }
                _ => {
                    let (first, second) = jobs.split_at(jobs.len() / 2);
                    self.purge_all(first, purged)?;
                    self.purge_all(second, purged)
                }
            },
            Err(error) => Err(error),
        }
    }
}

impl Administration for SqlServerQueue {
    fn migrate(&self) -> Result<Migrated> {
        self.in_transaction("migrate", async |client, sql| {
            migrate::migrate(client, sql).await
        })
    }

    fn check(&self) -> Result<Vec<Finding>> {
        self.read("check", async |client, sql| check::check(client, sql).await)
    }

    fn get(&self, job: JobId) -> Result<Option<JobRecord>> {
        self.read("get", async |client, sql| {
            admin::get(client, sql, job).await
        })
    }

    fn list(&self, request: &ListRequest) -> Result<Vec<JobRecord>> {
        self.read("list", async |client, sql| {
            admin::list(client, sql, request).await
        })
    }

    fn failures(&self, job: JobId) -> Result<Vec<FailureRecord>> {
        self.read("failures", async |client, sql| {
            admin::failures(client, sql, job).await
        })
    }

    fn stats(&self, queue: Option<&QueueName>) -> Result<Vec<QueueStats>> {
        self.read("stats", async |client, sql| {
            admin::stats(client, sql, queue).await
        })
    }

    fn replay(&self, job: JobId, extra: MaxAttempts) -> Result<u32> {
        self.in_transaction("replay", async |client, sql| {
            recovery::replay(client, sql, job, extra).await
        })
    }

    fn cancel(&self, job: JobId, reason: &ErrorText) -> Result<()> {
        self.in_transaction("cancel", async |client, sql| {
            recovery::cancel(client, sql, job, reason).await
        })
    }

    fn promote(&self, request: &PromoteRequest) -> Result<u32> {
        self.in_transaction("promote", async |client, sql| {
            admin::promote(client, sql, request).await
        })
    }

    fn purge(&self, request: &PurgeRequest) -> Result<Purged> {
        let found = self.read("purge", async |client, sql| {
            recovery::purge_select(client, sql, request).await
        })?;
        let full = found.len() == request.limit.get() as usize;
        let mut purged = Purged {
            cursor: found.last().copied().filter(|_| full),
            ..Purged::default()
        };
        self.purge_all(&found, &mut purged)?;
        Ok(purged)
    }

    fn pause(&self, queue: &QueueName) -> Result<()> {
        self.in_transaction("pause", async |client, sql| {
            admin::pause(client, sql, queue).await
        })
    }

    fn resume(&self, queue: &QueueName) -> Result<()> {
        self.in_transaction("resume", async |client, sql| {
            admin::resume(client, sql, queue).await
        })
    }
}
