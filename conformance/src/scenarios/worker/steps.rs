//! Starting workers, and waiting for what they do.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Instant;

use queue_table_core::{ClaimedJob, JobId, RetryPolicy, Worker, WorkerBuilder};

use super::super::prelude::*;

/// Far more than a worker needs for a few jobs.
const PATIENCE: Duration = Duration::from_secs(20);

/// Often enough that nothing in a scenario waits long for the next poll.
pub(super) const OFTEN: Duration = Duration::from_millis(20);

/// A worker on a session of its own that asks often, tries again at once, and reaps only when told
/// to.
pub(super) fn worker<F: Fixture>(arena: &Arena<'_, F>) -> Check<WorkerBuilder<F::Backend>> {
    let session = Arc::new(arena.session()?);
    Ok(Worker::builder(session)
        .queue(&arena.queue)
        .slots(2)
        .poll_interval(OFTEN)
        .retry_policy(RetryPolicy::fixed(Duration::from_millis(1))?)
        .reap_every(Duration::from_secs(3_600)))
}

/// Starts the worker.
pub(super) fn start<F: Fixture>(builder: WorkerBuilder<F::Backend>) -> Check<Worker<F::Backend>> {
    builder
        .start()
        .map_err(|error| Failed::new(format_args!("the worker does not start: {error}")))
}

/// Waits until something is so.
#[track_caller]
pub(super) fn wait_until(what: &str, mut is_so: impl FnMut() -> Check<bool>) -> Check {
    let start = Instant::now();
    while !is_so()? {
        if start.elapsed() > PATIENCE {
            return Err(Failed::new(format_args!("still not so: {what}")));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Waits until the job is in this state.
#[track_caller]
pub(super) fn wait_for_state<F: Fixture>(arena: &Arena<'_, F>, job: JobId, state: State) -> Check {
    let what = format!("job {job} is {state}");
    wait_until(&what, || Ok(arena.row(job)?.state == state))
}

/// What handlers have seen: job and attempt, in the order they began.
#[derive(Debug, Clone, Default)]
pub(super) struct Diary(Arc<Mutex<Vec<(JobId, u32)>>>);

impl Diary {
    pub(super) fn note(&self, job: &ClaimedJob) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.push((job.job_id(), job.attempt()));
    }

    pub(super) fn seen(&self) -> Vec<(JobId, u32)> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
