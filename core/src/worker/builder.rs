//! How a worker is configured, with its limits.

use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::Administration;
use crate::invalid::{Invalid, Problem};
use crate::job::{ClaimedJob, Job};
use crate::lease::{BatchSize, Delay, LeaseLength};
use crate::name::{Kind, QueueName, WorkerId};
use crate::retry::RetryPolicy;

use super::context::Context;
use super::handler::{Handler, Handlers};
use super::held::Live;
use super::inbox::Inbox;
use super::outcome::Outcome;
#[cfg(feature = "periodic")]
use super::periodic::{self, Periodic};
use super::queues::Queues;
use super::report::Tally;
use super::retention::{self, Windows};
use super::shutdown::{Crew, Role};
use super::signal::Signal;
use super::slots::Slots;
use super::upcast::Upcasters;
use super::{Shared, Worker, completer, heartbeat, poller, reaper, run, sampler};

/// Most handler slots of a worker: each is a thread.
pub const SLOTS_MAX: usize = 1_000;

/// Shortest interval of anything a worker does at intervals.
const INTERVAL_MIN: Duration = Duration::from_millis(1);

/// Longest interval: a day.
const INTERVAL_MAX: Duration = Duration::from_secs(86_400);

/// What a worker is set to, checked.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) worker: WorkerId,
    pub(super) queues: Queues,
    pub(super) slots: usize,
    pub(super) prefetch: usize,
    pub(super) lease: LeaseLength,
    pub(super) poll_interval: Duration,
    pub(super) reap_every: Duration,
    pub(super) keep: Windows,
    pub(super) purge_every: Duration,
    pub(super) sample_every: Option<Duration>,
    pub(super) grace: Duration,
    #[cfg(feature = "periodic")]
    pub(super) schedules: Vec<Periodic>,
}

/// Configures a [`Worker`]. What is wrong with a value is told by [`WorkerBuilder::start`].
#[must_use = "a worker does nothing until it is started"]
pub struct WorkerBuilder<B: Administration + ?Sized + 'static> {
    backend: Arc<B>,
    handlers: Handlers<B>,
    name: String,
    queues: Vec<(QueueName, u32)>,
    slots: usize,
    prefetch: usize,
    lease: LeaseLength,
    poll_interval: Duration,
    ack_batch: BatchSize,
    ack_linger: Duration,
    reap_every: Option<Duration>,
    keep: Windows,
    purge_every: Duration,
    sample_every: Option<Duration>,
    grace: Duration,
    #[cfg(feature = "periodic")]
    schedules: Vec<Periodic>,
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
            name: "worker".to_owned(),
            queues: Vec::new(),
            slots: 4,
            prefetch: 0,
            lease: LeaseLength::default(),
            poll_interval: Duration::from_secs(2),
            ack_batch: BatchSize::MAX,
            ack_linger: Duration::from_millis(2),
            reap_every: None,
            keep: Windows::default(),
            purge_every: Duration::from_secs(60),
            sample_every: None,
            grace: Duration::from_secs(5),
            #[cfg(feature = "periodic")]
            schedules: Vec::new(),
            problem: None,
        }
    }

    /// Names the worker in the table and in logs: its id is this name, host, process and a random
    /// number. `worker` by default.
    pub fn name(self, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..self
        }
    }

    /// Works on this queue, with weight 1.
    pub fn queue(self, queue: impl AsRef<str>) -> Self {
        self.weighted_queue(queue, 1)
    }

    /// Works on this queue. While all its queues are full, a worker takes jobs in the ratio of
    /// their weights (1 to 1,000); while some are empty, the others get everything.
    pub fn weighted_queue(mut self, queue: impl AsRef<str>, weight: u32) -> Self {
        let checked = in_range("queue weight", weight as usize, 1, 1_000)
            .and_then(|_| QueueName::new(queue))
            .map(|queue| self.queues.push((queue, weight)));
        self.noting(checked)
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
        Self { slots, ..self }.noting(checked.map(drop))
    }

    /// How many jobs may be claimed beyond the free slots: 0 to 1,000, none by default.
    ///
    /// Saves round trips where jobs are short. Fewer are claimed when, as long as jobs have taken
    /// of late, they would not start within half a lease; those that do not start in time are given
    /// back.
    pub fn prefetch(self, prefetch: usize) -> Self {
        let checked = in_range("prefetch", prefetch, 0, SLOTS_MAX);
        Self { prefetch, ..self }.noting(checked.map(drop))
    }

    /// How long a claim holds without renewal: 100 ms to 30 days, a minute by default.
    ///
    /// It is how long a job waits after its worker died. It is not how long a job may take: leases
    /// are renewed at a third of their length for as long as the handler runs. Much below 10
    /// seconds a slow database costs leases.
    pub fn lease(mut self, lease: Duration) -> Self {
        let checked = LeaseLength::new(lease).map(|lease| self.lease = lease);
        self.noting(checked)
    }

    /// How often an idle worker asks for jobs at least: 1 ms to a day, 2 seconds by default, times
    /// the number of its queues. Jobs enqueued in this process, or where the engine tells, are seen
    /// at once.
    pub fn poll_interval(self, poll_interval: Duration) -> Self {
        let checked = interval("poll interval", poll_interval);
        Self {
            poll_interval,
            ..self
        }
        .noting(checked)
    }

    /// How many results are brought to the database in one call (1 to 1,000; 1,000 by default), and
    /// how long the first waits for others (up to a second; 2 ms by default).
    pub fn ack_batches(mut self, most: u32, linger: Duration) -> Self {
        let checked = in_duration("ack linger", linger, Duration::ZERO, Duration::from_secs(1))
            .and_then(|()| BatchSize::new(most))
            .map(|most| (self.ack_batch, self.ack_linger) = (most, linger));
        self.noting(checked)
    }

    /// How often this worker brings back the jobs of workers that died. A third of the lease by
    /// default, between 2 and 10 seconds.
    pub fn reap_every(self, every: Duration) -> Self {
        let checked = interval("reap interval", every);
        Self {
            reap_every: Some(every),
            ..self
        }
        .noting(checked)
    }

    /// Deletes succeeded jobs this long after they finished. Kept for ever by default.
    pub fn keep_succeeded_for(mut self, window: Duration) -> Self {
        let checked = Delay::new(window).map(|window| self.keep.succeeded = Some(window));
        self.noting(checked)
    }

    /// Deletes dead jobs this long after they finished. Kept for ever by default.
    pub fn keep_dead_for(mut self, window: Duration) -> Self {
        let checked = Delay::new(window).map(|window| self.keep.dead = Some(window));
        self.noting(checked)
    }

    /// How often old jobs are looked for: every minute by default.
    pub fn purge_every(self, every: Duration) -> Self {
        let checked = interval("purge interval", every);
        Self {
            purge_every: every,
            ..self
        }
        .noting(checked)
    }

    /// Counts the jobs of the worker's queues this often, for the gauges in
    /// [`observe`](super::observe). Reads every row of the queues; never by default.
    pub fn sample_stats_every(self, every: Duration) -> Self {
        let checked = interval("stats interval", every);
        Self {
            sample_every: Some(every),
            ..self
        }
        .noting(checked)
    }

    /// How long [`Worker::stop`] waits for handlers after they were told to give up, and for their
    /// results to be stored: up to a day, 5 seconds by default.
    pub fn cancel_grace(self, grace: Duration) -> Self {
        let checked = in_duration("cancel grace", grace, Duration::ZERO, INTERVAL_MAX);
        Self { grace, ..self }.noting(checked)
    }

    /// Enqueues a job at each tick of this schedule, exactly one however many workers have it.
    ///
    /// Its name must not be another schedule's, in this worker or in others on the same queue.
    /// Finished jobs must be kept longer than its catch-up looks back, and than workers' clocks can
    /// differ.
    #[cfg(feature = "periodic")]
    pub fn periodic(mut self, schedule: Periodic) -> Self {
        self.schedules.push(schedule);
        self
    }

    /// Starts the worker's threads.
    ///
    /// # Errors
    /// [`StartError::Invalid`] for the first setting outside its limits, or when there is no queue or no handler;
    /// [`StartError::Thread`] when the system gives no thread.
    pub fn start(self) -> Result<Worker<B>, StartError> {
        Worker::start(self.build()?)
    }

    pub(super) fn build(self) -> Result<Shared<B>, Invalid> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        #[cfg(feature = "periodic")]
        periodic::check(&self.schedules, self.keep)?;
        if self.queues.is_empty() || self.handlers.is_empty() {
            let rule = "has no queue or no handler; at least one of each is needed";
            return Err(Invalid::new("worker", Problem::Other(rule)));
        }
        let settings = Settings {
            worker: WorkerId::unique(&self.name)?,
            queues: Queues::new(self.queues),
            slots: self.slots,
            prefetch: self.prefetch,
            lease: self.lease,
            poll_interval: self.poll_interval,
            reap_every: self.reap_every.unwrap_or_else(|| reap_every(self.lease)),
            keep: self.keep,
            purge_every: self.purge_every,
            sample_every: self.sample_every,
            grace: self.grace,
            #[cfg(feature = "periodic")]
            schedules: self.schedules,
        };
        Ok(Shared {
            backend: self.backend,
            handlers: self.handlers,
            slots: Slots::new(settings.slots, settings.prefetch, settings.lease.get()),
            live: Live::default(),
            inbox: Inbox::new(self.ack_batch.get() as usize, self.ack_linger),
            signal: Arc::new(Signal::new()),
            tally: Tally::default(),
            settings,
        })
    }

    /// Keeps the first problem, for [`WorkerBuilder::start`].
    fn noting(mut self, checked: Result<(), Invalid>) -> Self {
        if let Err(problem) = checked {
            self.problem.get_or_insert(problem);
        }
        self
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

fn reap_every(lease: LeaseLength) -> Duration {
    (lease.get() / 3).clamp(Duration::from_secs(2), Duration::from_secs(10))
}

fn interval(what: &'static str, given: Duration) -> Result<(), Invalid> {
    in_duration(what, given, INTERVAL_MIN, INTERVAL_MAX)
}

fn in_duration(
    what: &'static str,
    given: Duration,
    min: Duration,
    max: Duration,
) -> Result<(), Invalid> {
    if given < min || given > max {
        let problem = Problem::DurationOutOfRange { given, min, max };
        return Err(Invalid::new(what, problem));
    }
    Ok(())
}

fn in_range(what: &'static str, given: usize, min: usize, max: usize) -> Result<usize, Invalid> {
    if given < min || given > max {
        let as_i64 = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let problem = Problem::OutOfRange {
            given: as_i64(given),
            min: as_i64(min),
            max: as_i64(max),
        };
        return Err(Invalid::new(what, problem));
    }
    Ok(given)
}

impl<B: Administration + ?Sized + 'static> fmt::Debug for WorkerBuilder<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerBuilder")
            .field("name", &self.name)
            .field("queues", &self.queues)
            .field("handlers", &self.handlers)
            .finish_non_exhaustive()
    }
}
