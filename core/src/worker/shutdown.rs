//! The worker's threads: started together, ended in order, and none forgotten.

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::backend::QueueBackend;

use super::report::Report;
use super::signal::{Phase, Signal};
use super::{Shared, inbox, lock, wait};

/// Pause before a loop that panicked is entered again.
const AFTER_PANIC: Duration = Duration::from_secs(1);

/// What a thread is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    Poller,
    Handler,
    Completer,
    Heartbeat,
    Reaper,
    Retention,
    Sampler,
    #[cfg(feature = "periodic")]
    Periodic,
}

impl Role {
    /// The thread's name; Linux shows 15 bytes of it.
    fn thread_name(self) -> &'static str {
        match self {
            Self::Poller => "qt-poller",
            Self::Handler => "qt-handler",
            Self::Completer => "qt-completer",
            Self::Heartbeat => "qt-heartbeat",
            Self::Reaper => "qt-reaper",
            Self::Retention => "qt-retention",
            Self::Sampler => "qt-sampler",
            #[cfg(feature = "periodic")]
            Self::Periodic => "qt-periodic",
        }
    }
}

/// The threads of one worker.
#[derive(Debug, Default)]
pub(super) struct Crew {
    handles: Mutex<Vec<(Role, JoinHandle<()>)>>,
    running: Arc<Running>,
}

/// How many threads of each role have not ended.
#[derive(Debug, Default)]
struct Running {
    threads: Mutex<BTreeMap<Role, usize>>,
    ended: Condvar,
}

impl Crew {
    /// Starts a thread whose loop is entered again when it panics, until the worker stops.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn spawn(
        &self,
        role: Role,
        signal: Arc<Signal>,
        body: impl Fn() + Send + 'static,
    ) -> io::Result<()> {
        let running = Arc::clone(&self.running);
        *lock(&running.threads).entry(role).or_default() += 1;
        let thread = std::thread::Builder::new().name(role.thread_name().to_owned());
        let spawned = thread.spawn(move || {
            while catch_unwind(AssertUnwindSafe(&body)).is_err() {
                tracing::error!(thread = role.thread_name(), "panicked; goes on");
                if signal.sleep(AFTER_PANIC, Phase::Draining) && role != Role::Completer {
                    break;
                }
            }
            running.end(role);
        });
        match spawned {
            Ok(handle) => lock(&self.handles).push((role, handle)),
            Err(error) => {
                self.running.end(role);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Waits until no thread of the role runs; `false` when one still does at `until`.
    fn wait(&self, role: Role, until: Instant) -> bool {
        let mut threads = lock(&self.running.threads);
        while threads.get(&role).is_some_and(|running| *running > 0) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            threads = wait(&self.running.ended, threads, left);
        }
        true
    }

    /// Joins the threads of every role that has ended by `until`. The others are left to
    /// themselves.
    fn join(&self, until: Instant) {
        let handles: Vec<_> = lock(&self.handles).drain(..).collect();
        for (role, handle) in handles {
            if !self.wait(role, until) {
                tracing::error!(
                    thread = role.thread_name(),
                    "has not ended, and is left to itself"
                );
            } else if handle.join().is_err() {
                tracing::error!(thread = role.thread_name(), "panicked while ending");
            }
        }
    }
}

impl Running {
    fn end(&self, role: Role) {
        if let Some(running) = lock(&self.threads).get_mut(&role) {
            *running -= 1;
        }
        self.ended.notify_all();
    }
}

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
    crew.wait(Role::Poller, in_future(grace));
    let stored_by = in_future(grace);
    shared.inbox.close(stored_by);
    crew.wait(Role::Completer, stored_by + Duration::from_secs(1));
    shared.signal.advance(Phase::Ended);
    crew.join(in_future(Duration::from_secs(1)));
    let mut report = shared.tally.report();
    report.abandoned = shared
        .live
        .all()
        .iter()
        .map(|held| held.job.job_id())
        .collect();
    for job_id in &report.abandoned {
        tracing::error!(%job_id, "the handler has not returned; its lease runs out");
    }
    report
}

fn in_future(duration: Duration) -> Instant {
    let now = Instant::now();
    // A drain "for ever" is one of a hundred years.
    now.checked_add(duration)
        .unwrap_or(now + Duration::from_secs(100 * 365 * 86_400))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_loop_that_panics_is_entered_again() {
        let (crew, signal) = (Crew::default(), Arc::new(Signal::new()));
        let entered = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&entered);
        crew.spawn(Role::Reaper, Arc::clone(&signal), move || {
            assert!(counter.fetch_add(1, Ordering::SeqCst) > 0, "the first time");
        })
        .unwrap();
        assert!(crew.wait(Role::Reaper, in_future(Duration::from_secs(20))));
        assert_eq!(entered.load(Ordering::SeqCst), 2);
        crew.join(Instant::now());
    }

    #[test]
    fn a_thread_that_does_not_end_is_waited_for_until_the_deadline_only() {
        let (crew, signal) = (Crew::default(), Arc::new(Signal::new()));
        let watched = Arc::clone(&signal);
        crew.spawn(Role::Handler, Arc::clone(&signal), move || {
            watched.sleep(Duration::from_secs(60), Phase::Ended);
        })
        .unwrap();
        assert!(!crew.wait(Role::Handler, Instant::now()));
        signal.advance(Phase::Ended);
        crew.join(in_future(Duration::from_secs(20)));
        assert!(crew.wait(Role::Handler, Instant::now()));
    }
}
