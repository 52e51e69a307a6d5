//! First come, first served: the order in which the threads of one process write to one file.
//!
//! A plain mutex has no order and no deadline; under load one thread can take it again and again.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Instant;

/// Hands out turns in the order they were asked for.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    line: Mutex<Line>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct Line {
    holder: Option<ThreadId>,
    waiting: VecDeque<u64>,
    last_ticket: u64,
}

/// Held while it is one thread's turn.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
}

/// Why there was no turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoTurn {
    /// The deadline passed first.
    TooLate,
    /// This very thread holds the turn: waiting for itself would never end.
    Own,
}

impl Turns {
    pub(crate) fn wait(&self, deadline: Instant) -> Result<Turn<'_>, NoTurn> {
        let me = thread::current().id();
        let mut line = self.lock();
        if line.holder == Some(me) {
            return Err(NoTurn::Own);
        }
        line.last_ticket += 1;
        let ticket = line.last_ticket;
        line.waiting.push_back(ticket);
        loop {
            if line.holder.is_none() && line.waiting.front() == Some(&ticket) {
                line.waiting.pop_front();
                line.holder = Some(me);
                return Ok(Turn { turns: self });
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                line.waiting.retain(|other| *other != ticket);
                drop(line);
                self.moved.notify_all();
                return Err(NoTurn::TooLate);
            }
            let waited = self.moved.wait_timeout(line, left);
            line = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A poisoned lock is taken all the same: no code can panic between two changes of the line.
    fn lock(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.lock().holder = None;
        self.turns.moved.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(20)
    }

    fn far() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn a_thread_that_holds_the_turn_is_told_so_at_once() {
        let turns = Turns::default();
        let turn = turns.wait(far()).unwrap();
        assert_eq!(turns.wait(far()).unwrap_err(), NoTurn::Own);
        drop(turn);
        assert!(turns.wait(far()).is_ok());
    }

    #[test]
    fn a_waiter_gives_up_at_its_deadline_and_leaves_the_line() {
        let turns = Turns::default();
        let turn = turns.wait(far()).unwrap();
        thread::scope(|scope| {
            let late = scope.spawn(|| turns.wait(soon()).map(drop).unwrap_err());
            assert_eq!(late.join().unwrap(), NoTurn::TooLate);
        });
        drop(turn);
        assert!(turns.lock().waiting.is_empty());
        assert!(turns.wait(far()).is_ok());
    }

    #[test]
    fn turns_come_in_the_order_they_were_asked_for() {
        let turns = Turns::default();
        let order = Mutex::new(Vec::new());
        thread::scope(|scope| {
            let turn = turns.wait(far()).unwrap();
            for number in 0..4 {
                let (turns, order) = (&turns, &order);
                scope.spawn(move || {
                    let _turn = turns.wait(far()).unwrap();
                    order.lock().unwrap().push(number);
                });
                while turns.lock().waiting.len() <= number {
                    thread::yield_now();
                }
            }
            drop(turn);
        });
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3]);
    }

    #[test]
    fn a_panic_ends_the_turn() {
        let turns = Turns::default();
        thread::scope(|scope| {
            let panicked = scope.spawn(|| {
                let _turn = turns.wait(far()).unwrap();
                panic!("in its turn");
            });
            assert!(panicked.join().is_err());
        });
        assert!(turns.wait(soon()).is_ok());
    }
}
