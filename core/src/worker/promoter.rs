//! Promotes jobs that have waited long, where the application has asked for it.

use std::time::Duration;

use crate::backend::Administration;
use crate::error::Result;
use crate::invalid::{Invalid, Problem};
use crate::lease::{BatchSize, DELAY_MAX, Delay};
use crate::name::QueueName;
use crate::request::PromoteRequest;

use super::idle::jittered;
use super::settings::in_duration;
use super::signal::Phase;
use super::{Shared, observe};

/// Shortest wait that counts as long: below it, promoting would be what a busy worker mostly does.
const WAITED_MIN: Duration = Duration::from_secs(1);

/// Between two rounds at least, and at most.
const EVERY_MIN: Duration = Duration::from_millis(250);
const EVERY_MAX: Duration = Duration::from_secs(60);

/// Most batches of one queue in one round: enough for 100,000 jobs, and then the next round goes
/// on.
const BATCHES_MAX: u32 = 100;

/// Pause between two batches: others want the table too.
const BETWEEN_BATCHES: Duration = Duration::from_millis(20);

/// Which jobs are old, and the priority they get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ageing {
    waited: Delay,
    to: i32,
}

impl Ageing {
    /// # Errors
    /// [`Invalid`] for a wait outside its limits, and for a priority that no other is below.
    pub(super) fn new(waited: Duration, to: i32) -> Result<Self, Invalid> {
        let waited = in_duration("wait before promotion", waited, WAITED_MIN, DELAY_MAX)?;
        if to == i32::MIN {
            let rule = "is the lowest there is; one that others are below is needed";
            return Err(Invalid::new("priority to promote to", Problem::Other(rule)));
        }
        let waited = Delay::new(waited)?;
        Ok(Self { waited, to })
    }

    /// Often enough that a job waits little longer than it was said to.
    fn every(self) -> Duration {
        (self.waited.get() / 4).clamp(EVERY_MIN, EVERY_MAX)
    }
}

/// Promotes in rounds until the worker stops. The first round comes at a random moment of the first
/// interval, so that workers that start together do not promote together.
pub(super) fn run<B: Administration + ?Sized>(shared: &Shared<B>) {
    let Some(ageing) = shared.settings.ageing else {
        return;
    };
    let every = ageing.every();
    let mut pause = every.mul_f64(fastrand::f64());
    while !shared.signal.sleep(pause, Phase::Draining) {
        for queue in shared.settings.queues.names() {
            if let Err(error) = round(shared, ageing, queue) {
                shared.error("promote", &error);
            }
        }
        pause = jittered(every);
    }
}

/// Promotes until no old job of the queue is left below the priority.
fn round<B: Administration + ?Sized>(
    shared: &Shared<B>,
    ageing: Ageing,
    queue: &QueueName,
) -> Result<()> {
    let request = PromoteRequest::new(queue.clone(), ageing.waited, ageing.to);
    for _ in 0..BATCHES_MAX {
        let promoted = shared.backend.promote(&request)?;
        if promoted > 0 {
            observe::promoted(shared.backend.engine(), queue, promoted);
            tracing::info!(%queue, jobs = promoted, to = ageing.to, "promoted jobs that had waited long");
            shared
                .tally
                .note(|report| report.promoted += u64::from(promoted));
        }
        let is_last = promoted < BatchSize::MAX.get();
        if is_last || shared.signal.sleep(BETWEEN_BATCHES, Phase::Draining) {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(waited: Duration, to: i32) -> String {
        Ageing::new(waited, to).unwrap_err().to_string()
    }

    #[test]
    fn a_wait_outside_its_limits_is_refused() {
        let short = WAITED_MIN - Duration::from_nanos(1);
        for waited in [Duration::ZERO, short, DELAY_MAX + WAITED_MIN, Duration::MAX] {
            let text = refusal(waited, 0);
            assert!(
                text.starts_with("wait before promotion is ")
                    && text.ends_with("1s to 3153600000s is allowed"),
                "{text}"
            );
        }
        assert!(Ageing::new(WAITED_MIN, 0).is_ok() && Ageing::new(DELAY_MAX, i32::MAX).is_ok());
    }

    #[test]
    fn the_lowest_priority_is_refused() {
        assert_eq!(
            refusal(WAITED_MIN, i32::MIN),
            "priority to promote to is the lowest there is; one that others are below is needed"
        );
        assert!(Ageing::new(WAITED_MIN, i32::MIN + 1).is_ok());
    }

    #[test]
    fn rounds_come_at_a_quarter_of_the_wait_but_neither_hectic_nor_rare() {
        let every = |seconds| {
            let ageing = Ageing::new(Duration::from_secs(seconds), 0);
            ageing.unwrap().every().as_secs_f64()
        };
        assert_eq!([1, 20, 86_400].map(every), [0.25, 5.0, 60.0]);
    }
}
