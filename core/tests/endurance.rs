//! A million jobs through one worker: its memory stays as it is, and it is quick.

#![cfg(target_os = "linux")]

use std::collections::HashSet;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use queue_table_core::{
    Administration, ClaimRequest, ClaimedJob, Disposition, Enqueued, ErrorText, Failure,
    FailureRecord, Fenced, Finding, JobId, JobRecord, Kind, LeaseLength, ListRequest, MaxAttempts,
    Migrated, NewJob, PromoteRequest, PurgeRequest, Purged, QueueBackend, QueueName, QueueStats,
    ReapRequest, Reaped, Receipt, Result, StoredPayload, Timestamp, Waiter, Woken, Worker,
};

const JOBS: i64 = 1_000_000;

/// Endless jobs, of which it remembers only those that are claimed.
#[derive(Default)]
struct Endless {
    last: AtomicI64,
    acked: AtomicU64,
    claimed: Mutex<HashSet<i64>>,
}

impl Endless {
    fn job(&self, request: &ClaimRequest) -> ClaimedJob {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let now = Timestamp::from_micros(0);
        ClaimedJob {
            receipt: Receipt::new(JobId::new(id), 1, request.worker.clone()),
            queue: request.queue.clone(),
            kind: Kind::stored("endless"),
            payload: StoredPayload::new(vec![b'1'; 200]),
            payload_version: 1,
            priority: 0,
            run_at: now,
            max_attempts: 1,
            enqueued_at: now,
            claimed_at: now,
            lease_until: now,
            last_error: None,
            columns: Vec::new(),
        }
    }
}

impl QueueBackend for Endless {
    fn engine(&self) -> &'static str {
        "endless"
    }

    fn claim(&self, request: &ClaimRequest) -> Result<Vec<ClaimedJob>> {
        let jobs: Vec<ClaimedJob> = (0..request.limit.get())
            .map(|_| self.job(request))
            .collect();
        let ids = jobs.iter().map(|job| job.job_id().get());
        self.claimed
            .lock()
            .unwrap_or_else(|error| error.into_inner())
            .extend(ids);
        Ok(jobs)
    }

    fn ack(&self, receipts: &[Receipt]) -> Result<Vec<Fenced<()>>> {
        let mut claimed = self
            .claimed
            .lock()
            .unwrap_or_else(|error| error.into_inner());
        for receipt in receipts {
            assert!(claimed.remove(&receipt.job_id().get()), "acked once");
        }
        self.acked
            .fetch_add(receipts.len() as u64, Ordering::Relaxed);
        Ok(receipts.iter().map(|_| Ok(())).collect())
    }

    fn renew(&self, receipts: &[Receipt], _: LeaseLength) -> Result<Vec<Fenced<()>>> {
        Ok(receipts.iter().map(|_| Ok(())).collect())
    }

    fn fail(&self, failures: &[Failure]) -> Result<Vec<Fenced<Disposition>>> {
        // Shutdown gives back what never started.
        Ok(failures.iter().map(|_| Ok(Disposition::Dead)).collect())
    }

    fn enqueue(&self, _: &[NewJob]) -> Result<Vec<Enqueued>> {
        Ok(Vec::new())
    }

    fn reap(&self, _: &ReapRequest) -> Result<Vec<Reaped>> {
        Ok(Vec::new())
    }

    fn wait(&self, _: &mut Waiter, _: Duration) -> Result<Woken> {
        Ok(Woken::TimedOut)
    }

    fn ring(&self, _: &QueueName) {}
}

impl Administration for Endless {
    fn migrate(&self) -> Result<Migrated> {
        Ok(Migrated { from: None, to: 1 })
    }

    fn check(&self) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }

    fn get(&self, _: JobId) -> Result<Option<JobRecord>> {
        Ok(None)
    }

    fn list(&self, _: &ListRequest) -> Result<Vec<JobRecord>> {
        Ok(Vec::new())
    }

    fn failures(&self, _: JobId) -> Result<Vec<FailureRecord>> {
        Ok(Vec::new())
    }

    fn stats(&self, _: Option<&QueueName>) -> Result<Vec<QueueStats>> {
        Ok(Vec::new())
    }

    fn replay(&self, _: JobId, extra: MaxAttempts) -> Result<u32> {
        Ok(extra.get())
    }

    fn cancel(&self, _: JobId, _: &ErrorText) -> Result<()> {
        Ok(())
    }

    fn promote(&self, _: &PromoteRequest) -> Result<u32> {
        Ok(0)
    }

    fn purge(&self, _: &PurgeRequest) -> Result<Purged> {
        Ok(Purged::default())
    }

    fn pause(&self, _: &QueueName) -> Result<()> {
        Ok(())
    }

    fn resume(&self, _: &QueueName) -> Result<()> {
        Ok(())
    }
}

/// Resident memory of this process, in pages of 4 KiB.
fn resident_pages() -> i64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0)
}

#[test]
fn a_million_jobs_leave_memory_flat() {
    let backend = Arc::new(Endless::default());
    let worker = Worker::builder(Arc::clone(&backend))
        .queue("endless")
        .slots(2)
        .prefetch(100)
        .handle_kind("endless", 1..=1, |_, _| ())
        .start()
        .unwrap();
    let wait_for = |jobs: i64| {
        while backend.acked.load(Ordering::Relaxed) < jobs as u64 {
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    // The allocator and the queues reach their size first.
    wait_for(JOBS / 10);
    let before = resident_pages();
    wait_for(JOBS);
    let grown = resident_pages() - before;
    let report = worker.stop(Duration::from_secs(10));
    assert!(
        before > 0 && grown < 1_024,
        "grew by {grown} pages, from {before}"
    );
    assert!(
        report.succeeded >= JOBS as u64 && report.lost.total() == 0,
        "{report:?}"
    );
    assert!(backend.claimed.lock().unwrap().len() as u64 <= report.released);
}
