//! The window between looking and locking that some faults have, held open until somebody else is
//! in it too.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How long one waits in the window for another.
const OPEN: Duration = Duration::from_millis(20);

/// How many times the window is held open: later races are lost anyway.
const TIMES: u32 = 25;

/// Where two statements meet, each having looked before either has locked.
#[derive(Debug, Default)]
pub(super) struct Race {
    window: Mutex<Window>,
    met: Condvar,
}

#[derive(Debug, Default)]
struct Window {
    entered: u32,
    times: u32,
}

impl Race {
    /// Waits until another statement has looked too, or a short while.
    pub(super) fn meet(&self) {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        window.entered += 1;
        window.times += 1;
        if window.entered.is_multiple_of(2) {
            self.met.notify_all();
        } else if window.times <= TIMES {
            let mine = window.entered;
            let waited = self
                .met
                .wait_timeout_while(window, OPEN, |window| window.entered == mine);
            let (mut window, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            if timeout.timed_out() {
                // Left alone: the next one is the first of a pair again.
                window.entered += 1;
            }
        }
    }
}
