//! Waiting for another process at the file: short jittered sleeps until a deadline.
//!
//! SQLite's own busy timeout sleeps up to 100 ms at a time while the holder takes the lock again at
//! once, so that one waiter can starve for seconds. Here every waiter looks again within a few
//! milliseconds.

use std::cell::Cell;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rusqlite::Connection;

/// Looks of about 0.3 ms each before a waiter slows down.
const QUICK_LOOKS: i32 = 100;

thread_local! {
    /// Until when this thread's current operation may wait. SQLite's callback is a plain function.
    static DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// The time within which the operations of this thread may wait; the one before comes back when it
/// is dropped.
#[derive(Debug)]
pub(crate) struct Patience {
    before: Option<Instant>,
}

impl Patience {
    pub(crate) fn until(deadline: Instant) -> Self {
        Self {
            before: DEADLINE.replace(Some(deadline)),
        }
    }
}

impl Drop for Patience {
    fn drop(&mut self) {
        DEADLINE.set(self.before);
    }
}

/// Makes a connection of ours wait.
pub(crate) fn install(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.busy_handler(Some(look_again as fn(i32) -> bool))
}

/// Sleeps a little and says whether to look again. Without a deadline nobody waits.
fn look_again(looks: i32) -> bool {
    let left = DEADLINE
        .get()
        .and_then(|deadline| deadline.checked_duration_since(Instant::now()));
    let Some(left) = left else {
        return false;
    };
    let micros = if looks < QUICK_LOOKS {
        fastrand::u64(100..500)
    } else {
        fastrand::u64(1_000..5_000)
    };
    sleep(Duration::from_micros(micros).min(left));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_without_a_deadline_or_past_it() {
        assert!(!look_again(0));
        let _patience = Patience::until(Instant::now());
        sleep(Duration::from_millis(1));
        assert!(!look_again(0));
    }

    #[test]
    fn the_deadline_before_comes_back() {
        let far = Instant::now() + Duration::from_secs(60);
        let outer = Patience::until(far);
        drop(Patience::until(Instant::now()));
        assert_eq!(DEADLINE.get(), Some(far));
        assert!(look_again(0));
        drop(outer);
        assert_eq!(DEADLINE.get(), None);
    }
}
