//! Brings back the jobs of workers that died, from within every worker.

use crate::backend::QueueBackend;
use crate::error::Result;
use crate::lease::BatchSize;
use crate::request::ReapRequest;

use super::idle::jittered;
use super::signal::Phase;
use super::{Shared, observe};

/// Most batches in one round: enough for 100,000 jobs, and then the next round goes on.
const BATCHES_MAX: u32 = 100;

/// Reaps in rounds until the worker stops. The first round comes at a random moment of the first
/// interval, so that workers that start together do not reap together.
pub(super) fn run<B: QueueBackend + ?Sized>(shared: &Shared<B>) {
    let every = shared.settings.reap_every();
    let mut pause = every.mul_f64(fastrand::f64());
    while !shared.signal.sleep(pause, Phase::Draining) {
        if let Err(error) = round(shared) {
            shared.error("reap", &error);
        }
        pause = jittered(every);
    }
}

/// Reaps until nothing is overdue, and says how many jobs were moved.
pub(super) fn round<B: QueueBackend + ?Sized>(shared: &Shared<B>) -> Result<u64> {
    let request = ReapRequest::new(BatchSize::MAX, shared.handlers.default_retry().clone());
    let mut total = 0;
    for _ in 0..BATCHES_MAX {
        let reaped = shared.backend.reap(&request)?;
        for job in &reaped {
            observe::reaped(shared.backend.engine(), job);
            tracing::info!(job_id = %job.job_id, queue = %job.queue, attempt = job.attempt, to = ?job.disposition, "reaped");
        }
        total += reaped.len() as u64;
        shared
            .tally
            .note(|report| report.reaped += reaped.len() as u64);
        if reaped.len() < BatchSize::MAX.get() as usize || shared.signal.phase() > Phase::Running {
            break;
        }
    }
    Ok(total)
}
