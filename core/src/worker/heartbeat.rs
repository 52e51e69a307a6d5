//! Renews every live claim, on a fixed grid.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::backend::QueueBackend;
use crate::error::Error;
use crate::lease::BATCH_MAX;
use crate::receipt::Receipt;

use super::held::Held;
use super::signal::Phase;
use super::{Shared, inbox};

/// Renewals per lease: two beats in a row may fail before a lease runs out.
const BEATS_PER_LEASE: u32 = 3;

/// Shortest pause after a beat that failed, so that a database that is down is not hammered.
const RETRY_MIN: Duration = Duration::from_millis(150);

/// Into how many parts a batch is divided that was renewed in part only.
const PARTS: usize = 32;

/// Beats until the worker has ended.
pub(super) fn run<B: QueueBackend + ?Sized>(shared: &Shared<B>) {
    let interval = shared.settings.lease.get() / BEATS_PER_LEASE;
    let mut grid = Grid::new(Instant::now(), interval);
    let mut went_well = true;
    loop {
        let pause = if went_well {
            grid.pause(Instant::now())
        } else {
            (interval / 3).max(RETRY_MIN)
        };
        if shared.signal.sleep(pause, Phase::Ended) {
            return;
        }
        grid.beat(Instant::now());
        went_well = beat(shared);
    }
}

/// Renews all live claims in batches. `false` when a batch got no answer.
fn beat<B: QueueBackend + ?Sized>(shared: &Shared<B>) -> bool {
    for held in shared.slots.take_overdue(Instant::now()) {
        shared.send(inbox::Completion::unstarted(held));
    }
    // A claim that was refused once is never granted again.
    let mut live = shared.live.all();
    live.retain(|held| held.lost().is_none());
    let mut went_well = true;
    let until = Instant::now() + shared.settings.lease.get() / BEATS_PER_LEASE;
    for batch in live.chunks(BATCH_MAX as usize) {
        went_well &= renew(shared, batch, until);
    }
    warn_of_lapses(&live);
    went_well
}

/// Renews a batch. When a row in it stays locked, its neighbours are renewed, but which they are is
/// told by smaller batches only; they are asked for until the next beat is due.
fn renew<B: QueueBackend + ?Sized>(
    shared: &Shared<B>,
    batch: &[Arc<Held>],
    until: Instant,
) -> bool {
    let receipts: Vec<Receipt> = batch.iter().map(|held| held.receipt().clone()).collect();
    let lease = shared.settings.lease;
    let sent = Instant::now();
    let verdicts = match shared.backend.renew(&receipts, lease) {
        Ok(verdicts) => verdicts,
        Err(Error::OutcomeUnknown(_)) if batch.len() > 1 && Instant::now() < until => {
            let parts = batch.chunks(batch.len().div_ceil(PARTS));
            // Every part is renewed, also behind one that fails, while there is time: the next beat
            // renews the free rows again.
            let is_failed =
                |part: &&[Arc<Held>]| Instant::now() >= until || !renew(shared, part, until);
            return parts.filter(is_failed).count() == 0;
        }
        Err(error) => {
            shared.error("renew", &error);
            return false;
        }
    };
    for (held, verdict) in batch.iter().zip(verdicts) {
        match verdict {
            Ok(()) => held.renewed(sent, lease.get()),
            Err(lost) => {
                // A claim that was acknowledged since the batch was made is refused too; its
                // handler is done with it.
                held.lose(lost.reason());
                tracing::debug!(%lost, "renewal refused");
            }
        }
    }
    true
}

fn warn_of_lapses(live: &[Arc<Held>]) {
    let now = Instant::now();
    for held in live
        .iter()
        .filter(|held| held.lost().is_none() && held.lapse_is_news(now))
    {
        tracing::warn!(
            job_id = %held.job.job_id(),
            attempt = held.job.attempt(),
            "the lease may have run out: it could not be renewed in time"
        );
    }
}

/// Beats at fixed instants, whatever a beat costs. A beat that comes too late is made at once, and
/// the ones it has missed are not made up.
#[derive(Debug)]
struct Grid {
    start: Instant,
    interval: Duration,
    /// When the next beat is due, since the start.
    due: Duration,
}

impl Grid {
    fn new(start: Instant, interval: Duration) -> Self {
        Self {
            start,
            interval,
            due: interval,
        }
    }

    /// How long until the next beat; zero when it is late.
    fn pause(&self, now: Instant) -> Duration {
        self.due
            .saturating_sub(now.saturating_duration_since(self.start))
    }

    /// A beat is made: the next one is the first point of the grid after `now`.
    fn beat(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.start);
        let since_point = passed.as_nanos() % self.interval.as_nanos().max(1);
        let since_point = Duration::from_nanos(u64::try_from(since_point).unwrap_or(0));
        self.due = passed - since_point + self.interval;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_time_a_beat_takes_does_not_move_the_next_one() {
        let start = Instant::now();
        let mut grid = Grid::new(start, SECOND);
        assert_eq!(grid.pause(start), SECOND);
        grid.beat(start + SECOND);
        assert_eq!(grid.pause(start + SECOND.mul_f64(1.5)), SECOND / 2);
        assert_eq!(grid.pause(start + SECOND.mul_f64(1.9)), SECOND / 10);
    }

    #[test]
    fn a_late_beat_is_made_at_once_and_missed_ones_are_not_made_up() {
        let start = Instant::now();
        let mut grid = Grid::new(start, SECOND);
        let late = start + SECOND.mul_f64(3.25);
        assert_eq!(grid.pause(late), Duration::ZERO);
        grid.beat(late);
        assert_eq!(grid.pause(late), SECOND.mul_f64(0.75));
    }
}
