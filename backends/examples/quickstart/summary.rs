//! The table at the end: what happened.

use queue_table::sqlite::SqliteQueue;
use queue_table::worker::Report;
use queue_table::{Administration, BatchSize, JobId, ListRequest, QueueName};

use crate::shop::{self, Failure, Import};

/// Prints what the database holds, and what this run did.
pub(crate) fn print(
    queue: &SqliteQueue,
    invoices: &QueueName,
    import: &Import,
    reports: &[Report],
    refused: bool,
    files: usize,
) -> Result<(), Failure> {
    let stats = queue.stats(Some(invoices))?;
    let jobs = |count: fn(&queue_table::QueueStats) -> u64| stats.iter().map(count).sum::<u64>();
    let attempts = attempts(queue, invoices)?;
    let rows = [
        ("orders new", import.new),
        ("orders already there", import.already_there),
        ("lines malformed", import.malformed),
        ("orders stored", shop::orders(queue)?.try_into()?),
        ("jobs succeeded", jobs(|stats| stats.succeeded)),
        ("jobs dead", jobs(|stats| stats.dead)),
        (
            "jobs unfinished",
            jobs(|stats| stats.due + stats.scheduled + stats.running),
        ),
        ("attempts in all", attempts),
        (
            "jobs reaped",
            reports.iter().map(|report| report.reaped).sum(),
        ),
        (
            "stale acks refused",
            u64::from(refused)
                + reports
                    .iter()
                    .map(|report| report.lost.total())
                    .sum::<u64>(),
        ),
        ("invoice files", files.try_into()?),
    ];
    println!();
    for (what, count) in rows {
        println!("  {what:<22}{count:>8}");
    }
    println!();
    Ok(())
}

/// The sum over all jobs, page by page.
fn attempts(queue: &SqliteQueue, invoices: &QueueName) -> Result<u64, Failure> {
    let mut request = ListRequest {
        queue: Some(invoices.clone()),
        ..ListRequest::first(BatchSize::MAX)
    };
    let mut sum = 0;
    loop {
        let page = queue.list(&request)?;
        sum += page.iter().map(|job| u64::from(job.attempts)).sum::<u64>();
        let last: Option<JobId> = page.last().map(|job| job.job_id);
        match last {
            Some(last) => request.after = Some(last),
            None => return Ok(sum),
        }
    }
}
