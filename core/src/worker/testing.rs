//! For the tests of applications: a worker without threads, which runs jobs when told to.

use std::fmt;
use std::sync::Arc;

use crate::backend::Administration;
use crate::error::{Error, Failed, Result};
use crate::invalid::Invalid;
use crate::job::JobRecord;
use crate::lease::Delay;
use crate::request::FailAction;

use super::builder::WorkerBuilder;
use super::held::Held;
use super::inbox::{Completion, Wish};
use super::poller::Poller;
use super::report::Report;
use super::{Shared, completer, run, time_travel};

/// How often a result is offered to a database that does not take it.
const STORE_TRIES: usize = 5;

/// Runs jobs on the calling thread, one after the other, as a worker would.
///
/// Leases are not renewed, nothing is reaped, promoted or purged, and no schedule ticks. Delays can
/// be passed over: see [`TestWorker::fast_forward`].
///
/// ```
/// use std::sync::Arc;
/// use queue_table_core::worker::{Outcome, TestWorker};
/// use queue_table_core::{Kind, NewJob, Payload, QueueBackendExt, QueueName, State, Worker};
/// # use queue_table_conformance::{Fixture, ModelFixture, Setup};
/// # let fresh = ModelFixture::new().fresh(&Setup::default())?;
/// # let queue = Arc::new(fresh.backend);
///
/// let mail = QueueName::new("mail")?;
/// queue.enqueue_one(&NewJob::new(&mail, Kind::new("greet")?, Payload::from_json("{}")?))?;
///
/// let builder = Worker::builder(queue).queue(&mail).handle_kind("greet", 1..=1, |job, _| {
///     if job.attempt() == 1 { Outcome::retry("no route") } else { Outcome::Done }
/// });
/// let mut worker = TestWorker::new(builder)?.fast_forward();
/// let first = worker.run_one()?.ok_or("no job")?;
/// assert_eq!((first.state, first.last_error.as_deref()), (State::Ready, Some("no route")));
/// assert_eq!(worker.drain(10)?.succeeded, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TestWorker<B: Administration + ?Sized + 'static> {
    shared: Shared<B>,
    fast_forward: bool,
}

impl<B: Administration + ?Sized + 'static> TestWorker<B> {
    /// A worker as it is configured, but without threads.
    ///
    /// # Errors
    /// As for [`WorkerBuilder::start`].
    pub fn new(builder: WorkerBuilder<B>) -> std::result::Result<Self, Invalid> {
        Ok(Self {
            shared: builder.build()?,
            fast_forward: false,
        })
    }

    /// Passes over every wait: retries and snoozes are due at once, and when nothing is due, the
    /// next job of the worker's queues and kinds that was enqueued with a delay is.
    ///
    /// There is no clock to be set: every instant is the database's. A delayed job is cancelled and
    /// replayed, which makes it due with the budget it had; its last error, where it had one, is
    /// cleared, and a job that somebody else changes at that moment may stay dead. For tables that
    /// only the test uses.
    #[must_use]
    pub fn fast_forward(self) -> Self {
        Self {
            fast_forward: true,
            ..self
        }
    }

    /// Claims one due job, runs it, and returns its row as it is afterwards; `None` when no job is
    /// due.
    ///
    /// # Errors
    /// Those of claiming the job, storing its result and reading its row.
    pub fn run_one(&mut self) -> Result<Option<JobRecord>> {
        let mut held = self.claim_one()?;
        if held.is_none() && self.fast_forward && time_travel::to_next_job(&self.shared)? {
            held = self.claim_one()?;
        }
        let Some(held) = held else {
            return Ok(None);
        };
        let job_id = held.job.job_id();
        let took = run::one(&self.shared, held);
        self.shared.slots.done(took);
        self.store()?;
        self.shared.backend.get(job_id)
    }

    fn claim_one(&self) -> Result<Option<Arc<Held>>> {
        let mut queues = self.shared.settings.queues.clone();
        let mut poller = Poller::new(&self.shared, &queues);
        queues.round(1, |queue, most| poller.claim(queue, most))?;
        Ok(self.shared.slots.try_next())
    }

    /// Runs due jobs until there are none, or `most` have been run, and reports what was done since
    /// the worker was made. Jobs that are enqueued meanwhile are run too.
    ///
    /// # Errors
    /// As for [`TestWorker::run_one`].
    pub fn drain(&mut self, most: usize) -> Result<Report> {
        for _ in 0..most {
            if self.run_one()?.is_none() {
                break;
            }
        }
        Ok(self.report())
    }

    /// What was done since the worker was made.
    #[must_use]
    pub fn report(&self) -> Report {
        self.shared.tally.report()
    }

    /// Stores the result of the job that has run, if its handler has not done so.
    fn store(&self) -> Result<()> {
        let mut unsettled = self.shared.inbox.rest();
        if self.fast_forward {
            unsettled.iter_mut().for_each(without_delay);
        }
        for _ in 0..STORE_TRIES {
            unsettled = completer::settle(&self.shared, unsettled);
            if unsettled.is_empty() {
                return Ok(());
            }
        }
        let engine = self.shared.backend.engine();
        let failed = Failed::new(engine, "ack", "the result could not be stored");
        Err(Error::Unavailable(failed))
    }
}

fn without_delay(completion: &mut Completion) {
    if let Wish::Fail {
        action: FailAction::Retry { after } | FailAction::Release { after },
        ..
    } = &mut completion.wish
    {
        *after = Delay::ZERO;
    }
}

impl<B: Administration + ?Sized + 'static> fmt::Debug for TestWorker<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestWorker")
            .field("settings", &self.shared.settings)
            .field("fast_forward", &self.fast_forward)
            .finish_non_exhaustive()
    }
}
