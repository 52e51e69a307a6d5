//! How a worker ends: in order, and without losing a job.

use std::time::{Duration, Instant};

use crate::backend::QueueBackend;

use super::crew::{Crew, Role};
use super::report::Report;
use super::signal::Phase;
use super::{Shared, inbox};

/// Shortest time for calls on their way to come back, and for results to be stored.
const SETTLE_MIN: Duration = Duration::from_secs(1);

/// Stops the worker: claims end at once, what never started is given back, running handlers have
/// `drain` to end, then they are told to give up and have the grace period; last the results are
/// brought to the database.
pub(super) fn stop<B: QueueBackend + ?Sized>(
    shared: &Shared<B>,
    crew: &Crew,
    drain: Duration,
) -> Report {
    let grace = shared.settings.grace;
    let drained = in_future(drain);
    shared.signal.advance(Phase::Draining);
    for held in shared.slots.close() {
        shared.send(inbox::Completion::unstarted(held));
    }
    for queue in shared.settings.queues.names() {
        shared.backend.ring(queue);
    }
    if !shared.slots.wait_idle(drained) {
        shared.signal.advance(Phase::Cancelling);
        shared.slots.wait_idle(in_future(grace));
    }
    // Even without grace, a claim that is on its way is given back, and results are stored.
    let settle = grace.max(SETTLE_MIN);
    crew.wait(Role::Poller, in_future(settle));
    let stored_by = in_future(settle);
    shared.inbox.close(stored_by);
    crew.wait(Role::Completer, stored_by + Duration::from_secs(1));
    shared.signal.advance(Phase::Ended);
    // A handler that has not returned by now has had its time; the others need only see the end.
    let handlers_by = if shared.slots.busy() == 0 {
        settle
    } else {
        Duration::ZERO
    };
    crew.join(Role::Handler, in_future(handlers_by));
    for role in Role::ALL {
        crew.join(*role, in_future(settle));
    }
    let mut report = shared.tally.report();
    report.abandoned = shared
        .live
        .all()
        .iter()
        .map(|held| held.job.job_id())
        .collect();
    for job_id in &report.abandoned {
        tracing::error!(%job_id, "the job was not ended in time; its lease runs out");
    }
    report
}

fn in_future(duration: Duration) -> Instant {
    let now = Instant::now();
    // A drain "for ever" is one of a hundred years.
    now.checked_add(duration)
        .unwrap_or(now + Duration::from_secs(100 * 365 * 86_400))
}
