//! Wake-up within one process: an enqueue rings, idle workers hear it.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::name::QueueName;

/// Wakes idle workers of this process when jobs were enqueued in it. Serves engines without a
/// wake-up of their own.
///
/// A ring between a worker's empty claim and its wait is not lost: the [`Waiter`] remembers what it
/// has heard.
///
/// ```
/// use std::time::Duration;
/// use queue_table_core::{Bell, QueueName, Waiter, Woken};
///
/// let bell = Bell::default();
/// let mail = QueueName::new("mail")?;
/// let mut waiter = Waiter::new([mail.clone()]);
/// bell.ring(&mail);
/// assert_eq!(bell.wait(&mut waiter, Duration::from_secs(60)), Woken::Rung);
/// assert_eq!(bell.wait(&mut waiter, Duration::ZERO), Woken::TimedOut);
/// # Ok::<(), queue_table_core::Invalid>(())
/// ```
#[derive(Debug, Default)]
pub struct Bell {
    rings: Mutex<Rings>,
    rung: Condvar,
}

#[derive(Debug, Default)]
struct Rings {
    /// By queue that somebody has waited for: an application may enqueue to any number of others.
    heard: HashMap<QueueName, u64>,
    /// Whether a queue was rung that nobody had waited for.
    unheard: bool,
}

impl Rings {
    /// Counts the rings of these queues from now on. One that may have been rung before starts
    /// with that ring, which every waiter then hears.
    fn listen(&mut self, queues: &[QueueName]) {
        let before = u64::from(self.unheard);
        for queue in queues {
            if !self.heard.contains_key(queue) {
                self.heard.insert(queue.clone(), before);
            }
        }
    }

    fn count(&self, queues: &[QueueName]) -> u64 {
        let counts = queues.iter().filter_map(|queue| self.heard.get(queue));
        counts.sum()
    }
}

/// One listener to a [`Bell`]: which queues, and how many rings it has heard.
#[derive(Debug, Clone)]
pub struct Waiter {
    queues: Vec<QueueName>,
    heard: u64,
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Woken {
    /// A job may be there.
    Rung,
    /// The time is up.
    TimedOut,
}

impl Waiter {
    /// Listens for these queues.
    #[must_use]
    pub fn new(queues: impl IntoIterator<Item = QueueName>) -> Self {
        Self {
            queues: queues.into_iter().collect(),
            heard: 0,
        }
    }

    /// The queues listened for.
    #[must_use]
    pub fn queues(&self) -> &[QueueName] {
        &self.queues
    }
}

impl Bell {
    /// Wakes everybody who waits for this queue, now or at their next wait.
    pub fn ring(&self, queue: &QueueName) {
        let mut rings = self.lock();
        match rings.heard.get_mut(queue) {
            Some(count) => *count += 1,
            None => rings.unheard = true,
        }
        drop(rings);
        self.rung.notify_all();
    }

    /// Waits for a ring that this waiter has not heard, or until `at_most` has passed.
    ///
    /// A waiter's first wait may be told of a ring that was another queue's: rings are counted by
    /// queue only once somebody has waited for it.
    pub fn wait(&self, waiter: &mut Waiter, at_most: Duration) -> Woken {
        let until = Instant::now().checked_add(at_most);
        let mut rings = self.lock();
        rings.listen(&waiter.queues);
        loop {
            let count = rings.count(&waiter.queues);
            if count != waiter.heard {
                waiter.heard = count;
                return Woken::Rung;
            }
            let left = until.map_or(at_most, |until| {
                until.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                return Woken::TimedOut;
            }
            rings = self
                .rung
                .wait_timeout(rings, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// A poisoned lock is taken all the same: counters cannot be left half-changed.
    fn lock(&self) -> MutexGuard<'_, Rings> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(name: &str) -> QueueName {
        QueueName::new(name).unwrap()
    }

    #[test]
    fn a_ring_of_another_queue_is_not_heard() {
        let bell = Bell::default();
        let mut waiter = Waiter::new([queue("mail")]);
        assert_eq!(bell.wait(&mut waiter, Duration::ZERO), Woken::TimedOut);
        bell.ring(&queue("sms"));
        assert_eq!(
            bell.wait(&mut waiter, Duration::from_millis(5)),
            Woken::TimedOut
        );
    }

    #[test]
    fn every_waiter_hears_a_ring_once() {
        let bell = Bell::default();
        bell.wait(&mut Waiter::new([queue("mail")]), Duration::ZERO);
        let mut waiters = [
            Waiter::new([queue("mail")]),
            Waiter::new([queue("sms"), queue("mail")]),
        ];
        bell.ring(&queue("mail"));
        for waiter in &mut waiters {
            assert_eq!(bell.wait(waiter, Duration::ZERO), Woken::Rung);
            assert_eq!(bell.wait(waiter, Duration::ZERO), Woken::TimedOut);
        }
    }

    #[test]
    fn a_ring_before_anybody_waited_is_heard_by_every_first_wait() {
        let bell = Bell::default();
        bell.ring(&queue("mail"));
        for name in ["mail", "mail", "sms"] {
            let waiter = &mut Waiter::new([queue(name)]);
            assert_eq!(bell.wait(waiter, Duration::ZERO), Woken::Rung);
            assert_eq!(bell.wait(waiter, Duration::ZERO), Woken::TimedOut);
        }
    }

    #[test]
    fn queues_that_nobody_waits_for_are_not_kept() {
        let bell = Bell::default();
        for tenant in 0..100 {
            bell.ring(&queue(&format!("tenant-{tenant}")));
        }
        bell.wait(&mut Waiter::new([queue("mail")]), Duration::ZERO);
        assert_eq!(bell.lock().heard.len(), 1);
    }

    #[test]
    fn a_ring_wakes_a_waiter_that_already_waits() {
        let bell = Bell::default();
        std::thread::scope(|scope| {
            let waiting = scope
                .spawn(|| bell.wait(&mut Waiter::new([queue("mail")]), Duration::from_secs(60)));
            bell.ring(&queue("mail"));
            assert_eq!(waiting.join().unwrap(), Woken::Rung);
        });
    }
}
