//! The writer's turn: one at a time, and nobody waits for ever.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Hands out the turn.
#[derive(Debug, Default)]
pub(super) struct Turns {
    taken: Mutex<bool>,
    given_back: Condvar,
}

/// The turn, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn<'t> {
    turns: &'t Turns,
}

impl Turns {
    /// Waits for the turn; `None` when the time is up.
    pub(super) fn take(&self, at_most: Duration) -> Option<Turn<'_>> {
        let waiting = self
            .given_back
            .wait_timeout_while(self.lock(), at_most, |taken| *taken);
        let (mut taken, _) = waiting.unwrap_or_else(PoisonError::into_inner);
        if *taken {
            return None;
        }
        *taken = true;
        Some(Turn { turns: self })
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.turns.lock() = false;
        self.turns.given_back.notify_one();
    }
}
