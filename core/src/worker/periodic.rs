//! Enqueues what schedules say, without a leader.
//!
//! Every worker that has the schedule enqueues each tick; the dedup key made of the schedule's name
//! and the tick's instant lets exactly one of them through. The workers' clocks decide when a tick
//! is enqueued (the earliest one's), not which ticks there are. The key lasts as long as the job's
//! row: finished jobs are kept longer than workers' clocks can differ.

use std::time::Duration;

use jiff::Timestamp as Instant;

use crate::backend::QueueBackend;
use crate::error::{Error, Result};
use crate::job::{Enqueued, NewJob};

use super::idle::Backoff;
use super::schedule::Periodic;
use super::signal::Phase;
use super::{Shared, observe};

/// Longest sleep, after which the clock is read again: it may have been set, or the machine have
/// slept.
const SLEEP_MOST: Duration = Duration::from_secs(60);

/// Enqueues the ticks of all schedules until the worker stops.
pub(super) fn run<B: QueueBackend + ?Sized>(shared: &Shared<B>) {
    let schedules = &shared.settings.schedules;
    let started = Instant::now();
    let mut done: Vec<Instant> = schedules
        .iter()
        .map(|schedule| back(started, schedule.catch_up.within()))
        .collect();
    let mut errors = Backoff::new(Duration::from_millis(250), Duration::from_secs(30));
    loop {
        let mut pause = SLEEP_MOST;
        let mut went_well = true;
        for (schedule, done) in schedules.iter().zip(&mut done) {
            match make_up(shared, schedule, done) {
                Ok(()) => pause = pause.min(until_next(schedule, *done)),
                Err(error) => {
                    shared.error("enqueue", &error);
                    pause = pause.min(errors.pause());
                    went_well = false;
                }
            }
        }
        if went_well {
            errors.reset();
        }
        if shared.signal.sleep(pause, Phase::Draining) {
            return;
        }
    }
}

/// Enqueues what is due of one schedule. `done` is the last tick that needs no more care.
fn make_up<B: QueueBackend + ?Sized>(
    shared: &Shared<B>,
    schedule: &Periodic,
    done: &mut Instant,
) -> Result<()> {
    for tick in schedule.due(*done, Instant::now()) {
        match schedule.job(tick) {
            Ok(job) => enqueue(shared, &job)?,
            Err(invalid) => {
                // Making it again gives the same; the other ticks go on.
                shared.error("enqueue", &Error::from(invalid));
            }
        }
        *done = tick;
    }
    Ok(())
}

/// A tick enqueued twice is enqueued once, so that an unknown outcome may simply be tried again.
fn enqueue<B: QueueBackend + ?Sized>(shared: &Shared<B>, job: &NewJob) -> Result<()> {
    let enqueued = shared.backend.enqueue(std::slice::from_ref(job))?;
    if let [Enqueued::Inserted(job_id)] = enqueued[..] {
        observe::tick(shared.backend.engine(), job);
        shared.tally.note(|report| report.ticks += 1);
        tracing::debug!(%job_id, key = ?job.dedup().map(|dedup| dedup.key.as_str()), "tick enqueued");
    }
    Ok(())
}

/// How long until there may be a tick to enqueue. `done` may lie behind now by ticks that were
/// passed over.
fn until_next(schedule: &Periodic, done: Instant) -> Duration {
    let now = Instant::now();
    schedule.next(now.max(done)).map_or(SLEEP_MOST, |next| {
        Duration::try_from(next.duration_since(now)).unwrap_or(Duration::ZERO)
    })
}

fn back(instant: Instant, by: Duration) -> Instant {
    instant.checked_sub(by).unwrap_or(Instant::MIN)
}
