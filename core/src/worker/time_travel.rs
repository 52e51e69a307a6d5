//! For tests: makes the next delayed job due, with what every backend has.

use crate::backend::Administration;
use crate::error::{ErrorText, Result};
use crate::id::State;
use crate::job::JobRecord;
use crate::lease::{BatchSize, MaxAttempts};
use crate::name::QueueName;
use crate::request::ListRequest;

use super::Shared;

/// Makes the job due that would be due next of those this worker may claim; `false` when there is
/// none.
pub(super) fn to_next_job<B: Administration + ?Sized>(shared: &Shared<B>) -> Result<bool> {
    let mut next: Option<JobRecord> = None;
    for queue in shared.settings.queues.names() {
        if !is_paused(shared, queue)? {
            next = earliest(shared, queue, next)?;
        }
    }
    let Some(job) = next else { return Ok(false) };
    let left = job.max_attempts.saturating_sub(job.attempts);
    let reason = ErrorText::new("cancelled to be due at once");
    shared.backend.cancel(job.job_id, &reason)?;
    shared.backend.replay(job.job_id, MaxAttempts::new(left)?)?;
    Ok(true)
}

fn is_paused<B: Administration + ?Sized>(shared: &Shared<B>, queue: &QueueName) -> Result<bool> {
    let stats = shared.backend.stats(Some(queue))?;
    Ok(stats.iter().any(|queue| queue.paused))
}

/// The earliest ready job of the queue that a claim would take, or the one given when that is
/// earlier.
fn earliest<B: Administration + ?Sized>(
    shared: &Shared<B>,
    queue: &QueueName,
    mut found: Option<JobRecord>,
) -> Result<Option<JobRecord>> {
    let accepts = shared.handlers.accepts();
    let mut request = ListRequest::first(BatchSize::MAX);
    request.queue = Some(queue.clone());
    request.state = Some(State::Ready);
    loop {
        let page = shared.backend.list(&request)?;
        request.after = page.last().map(|job| job.job_id);
        let ended = page.len() < BatchSize::MAX.get() as usize;
        let claimable = page.into_iter().filter(|job| {
            let readable = accepts.iter().any(|(kind, versions)| {
                *kind == job.kind && versions.contains(&job.payload_version)
            });
            readable && job.attempts < job.max_attempts
        });
        found = found
            .into_iter()
            .chain(claimable)
            .min_by_key(|job| (job.run_at, job.job_id));
        if ended {
            return Ok(found);
        }
    }
}
