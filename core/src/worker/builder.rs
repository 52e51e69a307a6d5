//! How a worker is configured.

use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::Administration;
use crate::invalid::{Invalid, Problem};
use crate::job::{ClaimedJob, Job};
use crate::lease::{BatchSize, Delay, LeaseLength};
use crate::name::{Kind, QueueName};
use crate::retry::RetryPolicy;

use super::context::Context;
use super::handler::{Handler, Handlers};
use super::outcome::Outcome;
use super::promoter::Ageing;
#[cfg(feature = "periodic")]
use super::schedule::{self, Periodic};
use super::settings::{INTERVAL_MAX, SLOTS_MAX, Settings, in_duration, in_range, interval};
use super::upcast::Upcasters;
use super::{Shared, Worker};

/// Configures a [`Worker`]. What is wrong with a value is told by [`WorkerBuilder::start`].
#[must_use = "a worker does nothing until it is started"]
pub struct WorkerBuilder<B: Administration + ?Sized + 'static> {
    backend: Arc<B>,
    handlers: Handlers<B>,
    settings: Settings,
    problem: Option<Invalid>,
}

/// Why a worker was not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A setting is outside its limits, or missing.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The system gave no thread. Those that were started have been stopped.
    #[error("cannot start a thread of the worker")]
    Thread(#[source] io::Error),
}

impl<B: Administration + ?Sized + 'static> WorkerBuilder<B> {
    pub(super) fn new(backend: Arc<B>) -> Self {
        Self {
            backend,
            handlers: Handlers::new(),
            settings: Settings::default(),
            problem: None,
        }
    }

    /// Names the worker in the table and in logs: its id is this name, host, process and a random
    /// number. `worker` by default.
    pub fn name(self, name: &str) -> Self {
        self.checked(Ok(name.to_owned()), |settings, name| settings.name = name)
    }

    /// Works on this queue, with weight 1.
    pub fn queue(self, queue: impl AsRef<str>) -> Self {
        self.weighted_queue(queue, 1)
    }

    /// Works on this queue. While all its queues are full, a worker takes jobs in the ratio of
    /// their weights (1 to 1,000); while some are empty, the others get everything.
    pub fn weighted_queue(mut self, queue: impl AsRef<str>, weight: u32) -> Self {
        let added = in_range("queue weight", weight as usize, 1, 1_000)
            .and_then(|_| self.settings.queues.add(QueueName::new(queue)?, weight));
        self.noting(added)
    }

    /// Runs the function for jobs of the kind and version of `J`.
    ///
    /// The payload is decoded first; one that cannot be is left as it is and its job goes dead.
    /// Jobs of other versions are left alone: see [`WorkerBuilder::handle_versions`].
    pub fn handle<J, R, F>(self, function: F) -> Self
    where
        J: Job + 'static,
        R: Into<Outcome>,
        F: Fn(&J, &mut Context<'_, B>) -> R + Send + Sync + 'static,
    {
        self.handle_versions(Upcasters::new(), function)
    }

    /// Runs the function for jobs of the kind of `J`, whose older payloads the upcasters bring up
    /// to its version.
    pub fn handle_versions<J, R, F>(mut self, upcasters: Upcasters<J>, function: F) -> Self
    where
        J: Job + 'static,
        R: Into<Outcome>,
        F: Fn(&J, &mut Context<'_, B>) -> R + Send + Sync + 'static,
    {
        let added = Kind::new(J::KIND).and_then(|kind| {
            self.handlers
                .add(kind, Handler::typed(upcasters, function)?)
        });
        self.noting(added)
    }

    /// Runs the function for jobs of a kind and of these payload versions, with the payload as it
    /// is stored.
    pub fn handle_kind<R, F>(
        mut self,
        kind: &str,
        versions: RangeInclusive<u16>,
        function: F,
    ) -> Self
    where
        R: Into<Outcome>,
        F: Fn(&ClaimedJob, &mut Context<'_, B>) -> R + Send + Sync + 'static,
    {
        let added = Kind::new(kind).and_then(|kind| {
            self.handlers
                .add(kind, Handler::untyped(versions, function))
        });
        self.noting(added)
    }

    /// How long failed jobs wait, where their kind has no policy of its own; and jobs whose worker
    /// died. 5 s doubling to an hour by default.
    pub fn retry_policy(mut self, policy: RetryPolicy) -> Self {
        self.handlers.set_retry(None, policy);
        self
    }

    /// How long failed jobs of this kind wait.
    pub fn retry_policy_for(mut self, kind: &str, policy: RetryPolicy) -> Self {
        let set = Kind::new(kind).map(|kind| self.handlers.set_retry(Some(kind), policy));
        self.noting(set)
    }

    /// How many jobs run at a time, each on a thread of its own: 1 to 1,000, 4 by default.
    pub fn slots(self, slots: usize) -> Self {
        let checked = in_range("slots", slots, 1, SLOTS_MAX);
        self.checked(checked, |settings, slots| settings.slots = slots)
    }

    /// How many jobs may be claimed beyond the free slots: 0 to 1,000, none by default.
    ///
    /// Saves round trips where jobs are short. Fewer are claimed when, as long as jobs have taken
    /// of late, they would not start within half a lease; those that do not start in time are given
    /// back.
    pub fn prefetch(self, prefetch: usize) -> Self {
        let checked = in_range("prefetch", prefetch, 0, SLOTS_MAX);
        self.checked(checked, |settings, prefetch| settings.prefetch = prefetch)
    }

    /// How long a claim holds without renewal: 100 ms to 30 days, a minute by default.
    ///
    /// It is how long a job waits after its worker died. It is not how long a job may take: leases
    /// are renewed at a third of their length for as long as the handler runs. Much below 10
    /// seconds a slow database costs leases.
    pub fn lease(self, lease: Duration) -> Self {
        self.checked(LeaseLength::new(lease), |settings, lease| {
            settings.lease = lease
        })
    }

    /// How often an idle worker asks for jobs at least: 1 ms to a day, 2 seconds by default, times
    /// the number of its queues. Jobs enqueued in this process, or where the engine tells, are seen
    /// at once.
    pub fn poll_interval(self, every: Duration) -> Self {
        self.checked(interval("poll interval", every), |settings, every| {
            settings.poll_interval = every
        })
    }

    /// How many results are brought to the database in one call (1 to 1,000; 1,000 by default), and
    /// how long the first waits for others (up to a second; 2 ms by default).
    pub fn ack_batches(self, most: u32, linger: Duration) -> Self {
        let checked = in_duration("ack linger", linger, Duration::ZERO, Duration::from_secs(1))
            .and_then(|linger| Ok((BatchSize::new(most)?, linger)));
        self.checked(checked, |settings, (most, linger)| {
            settings.ack_batch = most;
            settings.ack_linger = linger;
        })
    }

    /// How often this worker brings back the jobs of workers that died. A third of the lease by
    /// default, between 2 and 10 seconds.
    pub fn reap_every(self, every: Duration) -> Self {
        self.checked(interval("reap interval", every), |settings, every| {
            settings.reap_every = Some(every)
        })
    }

    /// Gives jobs of the worker's queues that have been due for `waited` the priority `to`, if
    /// theirs is lower, so that a stream of that priority cannot starve them. Never by default.
    ///
    /// `waited` is a second to 36,500 days. It is looked for at a quarter of it, between a quarter
    /// of a second and a minute. Then the job stands before all of priority `to` that came due
    /// after it; jobs of still higher priorities go first as ever. It keeps the priority for its
    /// retries.
    ///
    /// Promoting a job moves it in the table's indexes: choose `waited` longer than jobs wait
    /// on a normal day. In a queue that is always behind, all jobs grow old, and priorities end at
    /// `to`.
    ///
    /// Measured with `cargo bench -p queue-table-sqlite --bench ageing` (SQLite 3.54.1, WAL and
    /// synchronous = FULL, 2 shared Xeon cores, 12 s runs, medians of 5): under a stream that never
    /// ran dry no job of low priority was run without it; after 3 s, they had waited 3.4 s (3.9 s
    /// at most). The worker ran 937 jobs a second without it and 1,040 with it: the cost is below
    /// what that machine's noise lets one see.
    pub fn promote_after(self, waited: Duration, to: i32) -> Self {
        self.checked(Ageing::new(waited, to), |settings, ageing| {
            settings.ageing = Some(ageing)
        })
    }

    /// Deletes succeeded jobs this long after they finished.
    ///
    /// **Kept for ever by default**: the table grows with every job, and a worker that deletes none
    /// warns of it when it starts. Once one worker of the table has a window, the others need
    /// none. A window of years stops the warning where jobs are deleted some other way.
    pub fn keep_succeeded_for(self, window: Duration) -> Self {
        self.checked(Delay::new(window), |settings, window| {
            settings.keep.succeeded = Some(window)
        })
    }

    /// Deletes dead jobs this long after they finished. Kept for ever by default, to be looked at
    /// and replayed.
    pub fn keep_dead_for(self, window: Duration) -> Self {
        self.checked(Delay::new(window), |settings, window| {
            settings.keep.dead = Some(window)
        })
    }

    /// How often old jobs are looked for: every minute by default.
    pub fn purge_every(self, every: Duration) -> Self {
        self.checked(interval("purge interval", every), |settings, every| {
            settings.purge_every = every
        })
    }

    /// Counts the jobs of the worker's queues this often, for the gauges in
    /// [`observe`](super::observe). Reads every row of the queues; never by default.
    pub fn sample_stats_every(self, every: Duration) -> Self {
        self.checked(interval("stats interval", every), |settings, every| {
            settings.sample_every = Some(every)
        })
    }

    /// How long [`Worker::stop`] waits for handlers after they were told to give up: up to a day, 5
    /// seconds by default. Their results then have as long again to be stored, at least a second.
    pub fn cancel_grace(self, grace: Duration) -> Self {
        let checked = in_duration("cancel grace", grace, Duration::ZERO, INTERVAL_MAX);
        self.checked(checked, |settings, grace| settings.grace = grace)
    }

    /// Enqueues a job at each tick of this schedule, exactly one however many workers have it.
    ///
    /// Its name must not be another schedule's, in this worker or in others on the same queue.
    /// Finished jobs must be kept longer than its catch-up looks back, and than workers' clocks can
    /// differ.
    #[cfg(feature = "periodic")]
    pub fn periodic(self, schedule: Periodic) -> Self {
        self.checked(Ok(schedule), |settings, schedule| {
            settings.schedules.push(schedule)
        })
    }

    /// Starts the worker's threads.
    ///
    /// # Errors
    /// [`StartError::Invalid`] for the first setting outside its limits, or when there is no queue
    /// or no handler; [`StartError::Thread`] when the system gives no thread.
    pub fn start(self) -> Result<Worker<B>, StartError> {
        Worker::start(self.build()?)
    }

    pub(super) fn build(self) -> Result<Shared<B>, Invalid> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        if self.settings.queues.is_empty() || self.handlers.is_empty() {
            let rule = "has no queue or no handler; at least one of each is needed";
            return Err(Invalid::new("worker", Problem::Other(rule)));
        }
        #[cfg(feature = "periodic")]
        schedule::check(&self.settings.schedules, self.settings.keep)?;
        Shared::new(self.backend, self.settings, self.handlers)
    }

    /// Sets a value that was found good, else notes what is wrong with it.
    fn checked<T>(mut self, value: Result<T, Invalid>, set: impl FnOnce(&mut Settings, T)) -> Self {
        let set = value.map(|value| set(&mut self.settings, value));
        self.noting(set)
    }

    /// Keeps the first problem, for [`WorkerBuilder::start`].
    fn noting(mut self, checked: Result<(), Invalid>) -> Self {
        if let Err(problem) = checked {
            self.problem.get_or_insert(problem);
        }
        self
    }
}

impl<B: Administration + ?Sized + 'static> fmt::Debug for WorkerBuilder<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerBuilder")
            .field("settings", &self.settings)
            .field("handlers", &self.handlers)
            .finish_non_exhaustive()
    }
}
