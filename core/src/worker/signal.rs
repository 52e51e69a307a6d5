//! The worker's phase, which every thread of it watches.

use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use super::lock;

/// How far a worker has come in its life. Only ever moves forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Claims and runs jobs.
    Running,
    /// Claims no more, and lets running handlers end.
    Draining,
    /// Has told running handlers to give up.
    Cancelling,
    /// No handler is waited for any more.
    Ended,
}

/// Where the phase is kept, and where threads sleep that must hear of its change.
#[derive(Debug)]
pub(super) struct Signal {
    phase: Mutex<Phase>,
    moved: Condvar,
}

impl Signal {
    pub(super) fn new() -> Self {
        Self {
            phase: Mutex::new(Phase::Running),
            moved: Condvar::new(),
        }
    }

    pub(super) fn phase(&self) -> Phase {
        *lock(&self.phase)
    }

    /// Moves on to `phase`; never back.
    pub(super) fn advance(&self, phase: Phase) {
        let mut current = lock(&self.phase);
        *current = phase.max(*current);
        drop(current);
        self.moved.notify_all();
    }

    /// Sleeps, and says whether `phase` has been reached: then it returns at once.
    pub(super) fn sleep(&self, at_most: Duration, phase: Phase) -> bool {
        let until = Instant::now().checked_add(at_most);
        let mut current = lock(&self.phase);
        while *current < phase {
            let left = until.map_or(at_most, |until| {
                until.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                return false;
            }
            current = super::wait(&self.moved, current, left);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phase_never_moves_back() {
        let signal = Signal::new();
        signal.advance(Phase::Cancelling);
        signal.advance(Phase::Draining);
        assert_eq!(signal.phase(), Phase::Cancelling);
    }

    #[test]
    fn a_sleeper_wakes_when_its_phase_is_reached() {
        let signal = Signal::new();
        assert!(!signal.sleep(Duration::from_millis(2), Phase::Draining));
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| signal.sleep(Duration::from_secs(60), Phase::Draining));
            signal.advance(Phase::Draining);
            assert!(sleeper.join().unwrap());
        });
    }
}
