//! Runs jobs: claims them, keeps their leases, calls a handler for each, and brings the results to
//! the database.
//!
//! A worker has a fixed number of handler slots, each a plain thread. It claims no more jobs than
//! can start at once, renews the leases of all it holds from a thread of its own, brings back the
//! jobs of workers that died, and stops without losing any. Handlers are functions by kind of job;
//! what they return, or that they panic, decides what becomes of the job: see [`Outcome`].
//!
//! Jobs run at least once. A lease that runs out (a machine that stood still, a database that was
//! away) lets another worker have the job while the first still works on it. The database refuses
//! the first one's result, but effects outside the database need the job's id as their key
//! ([`Context::effect_key`]), and effects inside it belong into
//! [`Context::transaction`] or [`Context::once`].
//!
//! Signals are the application's: on SIGTERM it calls [`Worker::stop`].
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use queue_table_core::worker::{HandlerError, Outcome};
//! use queue_table_core::{Context, Job, NewJob, QueueBackendExt, QueueName, Worker};
//! use serde::{Deserialize, Serialize};
//! # use queue_table_conformance::{Fixture, ModelFixture, Setup};
//!
//! #[derive(Serialize, Deserialize)]
//! struct SendInvoice {
//!     order_id: i64,
//! }
//!
//! impl Job for SendInvoice {
//!     const KIND: &'static str = "invoice.send";
//! }
//!
//! # type Queue = queue_table_conformance::Model;
//! fn send(
//!     invoice: &SendInvoice,
//!     context: &mut Context<'_, Queue>,
//! ) -> Result<Outcome, HandlerError> {
//!     if invoice.order_id < 0 {
//!         return Ok(Outcome::dead("there is no such order"));
//!     }
//!     let file = format!("invoice of job {}", context.effect_key());
//!     assert!(!file.is_empty() && context.is_current());
//!     Ok(Outcome::Done)
//! }
//!
//! # let fresh = ModelFixture::new().fresh(&Setup::default())?;
//! # let queue = Arc::new(fresh.backend);
//! let invoices = QueueName::new("invoices")?;
//! for order_id in [1, 2, -3] {
//!     queue.enqueue_one(&NewJob::of(&invoices, &SendInvoice { order_id })?)?;
//! }
//!
//! let worker = Worker::builder(Arc::clone(&queue))
//!     .queue(&invoices)
//!     .slots(2)
//!     .lease(Duration::from_secs(30))
//!     .handle(send)
//!     .start()?;
//! # while worker.report().succeeded + worker.report().dead < 3 {
//! #     std::thread::sleep(Duration::from_millis(1));
//! # }
//! let report = worker.stop(Duration::from_secs(20));
//! assert_eq!((report.succeeded, report.dead), (2, 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod aftermath;
mod builder;
mod completer;
mod context;
mod crew;
mod handler;
mod heartbeat;
mod held;
mod idle;
mod inbox;
pub mod observe;
mod outcome;
#[cfg(feature = "periodic")]
mod periodic;
mod poller;
mod promoter;
mod queues;
mod reaper;
mod report;
mod retention;
mod run;
mod sampler;
#[cfg(feature = "periodic")]
mod schedule;
mod settings;
mod shutdown;
mod signal;
mod slots;
mod testing;
mod time_travel;
mod upcast;

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::backend::{Administration, QueueBackend};
use crate::error::Error;
use crate::invalid::Invalid;
use crate::name::WorkerId;
use crate::receipt::LostReason;

pub use builder::{StartError, WorkerBuilder};
pub use context::{Cancellation, Context};
pub use outcome::{HandlerError, Outcome};
pub use report::{Lost, Report};
#[cfg(feature = "periodic")]
pub use schedule::{CatchUp, Periodic, ScheduleError};
pub use settings::SLOTS_MAX;
pub use testing::TestWorker;
pub use upcast::Upcasters;

use crew::Crew;
use handler::Handlers;
use held::{Held, Live};
use inbox::Inbox;
use report::Tally;
use settings::Settings;

use signal::Signal;
use slots::Slots;

/// A running worker. Dropping it stops it, without time to drain.
///
/// Made by [`Worker::builder`]. It may be shared: [`Worker::stop`] can be called from any thread,
/// and any number of times.
pub struct Worker<B: Administration + ?Sized + 'static> {
    shared: Arc<Shared<B>>,
    crew: Crew,
    end: Mutex<End>,
    ended: Condvar,
}

/// How far the worker's end has come.
#[derive(Debug)]
enum End {
    NotYet,
    Stopping,
    Stopped(Report),
}

impl<B: Administration + ?Sized + 'static> Worker<B> {
    /// Configures a worker on this queue. `B` may be `dyn Administration`.
    pub fn builder(backend: Arc<B>) -> WorkerBuilder<B> {
        WorkerBuilder::new(backend)
    }

    fn start(shared: Shared<B>) -> Result<Self, StartError> {
        let worker = Self {
            shared: Arc::new(shared),
            crew: Crew::default(),
            end: Mutex::new(End::NotYet),
            ended: Condvar::new(),
        };
        if worker.shared.settings.keep.succeeded.is_none() {
            tracing::warn!(
                worker = %worker.shared.worker,
                "this worker deletes no succeeded jobs: without another that does, the table grows for ever; see keep_succeeded_for"
            );
        }
        // On an error the worker is dropped, which stops the threads that were started.
        crew::spawn(&worker.shared, &worker.crew).map_err(StartError::Thread)?;
        Ok(worker)
    }

    /// Who this worker is in the table.
    #[must_use]
    pub fn id(&self) -> &WorkerId {
        &self.shared.worker
    }

    /// What the worker has done so far.
    #[must_use]
    pub fn report(&self) -> Report {
        match &*lock(&self.end) {
            End::Stopped(report) => report.clone(),
            End::NotYet | End::Stopping => self.shared.tally.report(),
        }
    }

    /// Stops the worker and says what it has done.
    ///
    /// It claims no more, gives back at once what no handler has begun (no attempt is spent), and
    /// waits up to `drain` for running handlers, which see [`Context::is_stopping`]. Those that
    /// still run then see
    /// [`Context::is_cancelled`], and are waited for during the grace period
    /// ([`WorkerBuilder::cancel_grace`]). When this returns, every thread has ended but those that
    /// are still in a call, of a handler or of the backend, which did not return even then: such
    /// a thread ends when its call does. Jobs that hang on one are in [`Report::abandoned`], and
    /// come back when their leases run out.
    ///
    /// A second call waits for the first and returns the same report. Do not call it from a
    /// handler: it would wait for itself until the time is up.
    pub fn stop(&self, drain: Duration) -> Report {
        let mut end = lock(&self.end);
        match &*end {
            End::Stopped(report) => return report.clone(),
            End::Stopping => {
                drop(end);
                return self.join();
            }
            End::NotYet => *end = End::Stopping,
        }
        drop(end);
        let ending = Ending(self);
        let report = shutdown::stop(&self.shared, &self.crew, drain);
        ending.0.stopped(&report);
        report
    }

    fn stopped(&self, report: &Report) {
        *lock(&self.end) = End::Stopped(report.clone());
        self.ended.notify_all();
    }

    /// Waits until another thread has stopped the worker.
    pub fn join(&self) -> Report {
        let mut end = lock(&self.end);
        loop {
            if let End::Stopped(report) = &*end {
                return report.clone();
            }
            end = wait_for(&self.ended, end);
        }
    }
}

/// A stop on its way. Should it panic, the worker has stopped all the same: whoever waits for its
/// end (its own drop, above all) would wait for ever.
struct Ending<'a, B: Administration + ?Sized + 'static>(&'a Worker<B>);

impl<B: Administration + ?Sized + 'static> Drop for Ending<'_, B> {
    fn drop(&mut self) {
        if std::thread::panicking() && matches!(*lock(&self.0.end), End::Stopping) {
            let report = shutdown::abort(&self.0.shared);
            self.0.stopped(&report);
        }
    }
}

impl<B: Administration + ?Sized + 'static> Drop for Worker<B> {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}

impl<B: Administration + ?Sized + 'static> fmt::Debug for Worker<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("settings", &self.shared.settings)
            .field("handlers", &self.shared.handlers)
            .finish_non_exhaustive()
    }
}

/// What the threads of a worker have in common.
struct Shared<B: ?Sized> {
    backend: Arc<B>,
    worker: WorkerId,
    settings: Settings,
    handlers: Handlers<B>,
    slots: Slots,
    live: Live,
    inbox: Inbox,
    signal: Arc<Signal>,
    tally: Tally,
}

impl<B: QueueBackend + ?Sized> Shared<B> {
    fn new(backend: Arc<B>, settings: Settings, handlers: Handlers<B>) -> Result<Self, Invalid> {
        Ok(Self {
            backend,
            worker: WorkerId::unique(&settings.name)?,
            slots: Slots::new(settings.slots, settings.prefetch, settings.lease.get()),
            live: Live::default(),
            inbox: Inbox::new(settings.ack_batch.get() as usize, settings.ack_linger),
            signal: Arc::new(Signal::new()),
            tally: Tally::default(),
            settings,
            handlers,
        })
    }

    /// Passes a result on to the completer.
    fn send(&self, result: inbox::Completion) {
        if let Err(result) = self.inbox.push(result) {
            self.unconfirmed(&result.held);
        }
    }

    /// The claim's lease is left to run out: whoever claims the job next decides.
    fn let_go(&self, held: &Held) {
        if self.live.remove(held) {
            self.tally.note(|report| report.unconfirmed += 1);
        }
    }

    /// The database did not take the result in time, or at all.
    fn unconfirmed(&self, held: &Held) {
        self.let_go(held);
        let job = &held.job;
        observe::lost(self.backend.engine(), job, "unconfirmed");
        tracing::error!(
            job_id = %job.job_id(),
            attempt = job.attempt(),
            "the result could not be stored; the lease runs out and the job is tried again"
        );
    }

    /// The claim is over: the database said that it no longer held.
    fn lost(&self, held: &Held, reason: LostReason) {
        self.live.remove(held);
        self.tally.note(|report| report.lost.add(reason));
        let job = &held.job;
        observe::lost(self.backend.engine(), job, reason.as_str());
        tracing::warn!(job_id = %job.job_id(), attempt = job.attempt(), %reason, "claim lost; its result is dropped");
    }

    /// The claim is over: the handler acknowledged it.
    fn acked_in_transaction(&self, held: &Held) {
        self.live.remove(held);
        self.tally.note(|report| report.succeeded += 1);
        observe::margin(self.backend.engine(), held);
        observe::acked(self.backend.engine(), &held.job);
    }

    /// An operation failed, and the loop it belongs to goes on.
    fn error(&self, operation: &'static str, error: &Error) {
        observe::error(&*self.backend, operation, error);
        self.tally.note(|report| report.errors += 1);
    }
}

/// A lock poisoned by a panic is taken all the same: no state here is left half-changed by one.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a change, at most so long.
fn wait<'a, T>(
    condvar: &Condvar,
    guard: MutexGuard<'a, T>,
    at_most: Duration,
) -> MutexGuard<'a, T> {
    condvar
        .wait_timeout(guard, at_most)
        .unwrap_or_else(PoisonError::into_inner)
        .0
}

/// Waits for a change.
fn wait_for<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
}
