//! The worker's threads: started together, and each waited for.

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::backend::Administration;

#[cfg(feature = "periodic")]
use super::periodic;
use super::signal::{Phase, Signal};
use super::{
    Shared, completer, heartbeat, lock, poller, promoter, reaper, retention, run, sampler, wait,
};

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
    Promoter,
    Retention,
    Sampler,
    #[cfg(feature = "periodic")]
    Periodic,
}

impl Role {
    pub(super) const ALL: &[Self] = &[
        Self::Poller,
        Self::Handler,
        Self::Completer,
        Self::Heartbeat,
        Self::Reaper,
        Self::Promoter,
        Self::Retention,
        Self::Sampler,
        #[cfg(feature = "periodic")]
        Self::Periodic,
    ];

    /// Until when the loop is entered again after a panic. While handlers end, their leases are
    /// renewed and their results stored.
    fn needed_until(self) -> Phase {
        match self {
            Self::Completer | Self::Heartbeat => Phase::Ended,
            _ => Phase::Draining,
        }
    }

    /// The thread's name; Linux shows 15 bytes of it.
    fn thread_name(self) -> &'static str {
        match self {
            Self::Poller => "qt-poller",
            Self::Handler => "qt-handler",
            Self::Completer => "qt-completer",
            Self::Heartbeat => "qt-heartbeat",
            Self::Reaper => "qt-reaper",
            Self::Promoter => "qt-promoter",
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
    /// Starts a thread whose loop is entered again when it panics, until the role is not needed.
    ///
    /// # Errors
    /// When the system gives no thread.
    fn spawn(
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
                if signal.sleep(AFTER_PANIC, role.needed_until()) {
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
    pub(super) fn wait(&self, role: Role, until: Instant) -> bool {
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

    /// Joins the threads of a role that have ended by `until`. The others are left to themselves.
    pub(super) fn join(&self, role: Role, until: Instant) {
        let ended = self.wait(role, until);
        let handles: Vec<_> = lock(&self.handles)
            .extract_if(.., |(of, _)| *of == role)
            .collect();
        for (_, handle) in handles {
            if !ended && !handle.is_finished() {
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

/// Starts every thread of a worker.
pub(super) fn spawn<B: Administration + ?Sized + 'static>(
    shared: &Arc<Shared<B>>,
    crew: &Crew,
) -> io::Result<()> {
    let start = |role: Role, body: fn(&Shared<B>)| {
        let mine = Arc::clone(shared);
        crew.spawn(role, Arc::clone(&shared.signal), move || body(&mine))
    };
    start(Role::Heartbeat, heartbeat::run)?;
    start(Role::Completer, completer::run)?;
    for _ in 0..shared.settings.slots {
        start(Role::Handler, run::run)?;
    }
    start(Role::Reaper, reaper::run)?;
    if shared.settings.ageing.is_some() {
        start(Role::Promoter, promoter::run)?;
    }
    if shared.settings.keep.is_set() {
        start(Role::Retention, retention::run)?;
    }
    if shared.settings.sample_every.is_some() {
        start(Role::Sampler, sampler::run)?;
    }
    #[cfg(feature = "periodic")]
    if !shared.settings.schedules.is_empty() {
        start(Role::Periodic, periodic::run)?;
    }
    start(Role::Poller, poller::run)
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
        assert!(crew.wait(Role::Reaper, Instant::now() + Duration::from_secs(20)));
        assert_eq!(entered.load(Ordering::SeqCst), 2);
        crew.join(Role::Reaper, Instant::now());
    }

    #[test]
    fn the_heartbeat_and_the_completer_outlive_a_panic_while_the_worker_drains() {
        for role in [Role::Heartbeat, Role::Completer] {
            let (crew, signal) = (Crew::default(), Arc::new(Signal::new()));
            signal.advance(Phase::Draining);
            let entered = Arc::new(AtomicUsize::new(0));
            let counter = Arc::clone(&entered);
            let begun = Instant::now();
            crew.spawn(role, Arc::clone(&signal), move || {
                assert!(counter.fetch_add(1, Ordering::SeqCst) > 0, "the first time");
            })
            .unwrap();
            assert!(crew.wait(role, begun + Duration::from_secs(20)));
            assert_eq!(entered.load(Ordering::SeqCst), 2);
            assert!(begun.elapsed() >= AFTER_PANIC, "it did not pause");
        }
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
        crew.join(Role::Handler, Instant::now() + Duration::from_secs(20));
        assert!(crew.wait(Role::Handler, Instant::now()));
    }
}
