//! Claims jobs for the free slots, and waits when there are none.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::backend::QueueBackend;
use crate::bell::{Waiter, Woken};
use crate::error::Result;
use crate::lease::{BATCH_MAX, BatchSize};
use crate::name::QueueName;
use crate::request::ClaimRequest;

use super::held::Held;
use super::idle::{Backoff, jittered};
use super::queues::Queues;
use super::signal::Phase;
use super::{Shared, inbox, observe};

/// First pause after an empty poll.
const IDLE_FIRST: Duration = Duration::from_millis(10);

/// Pauses after an error.
const ERROR_FIRST: Duration = Duration::from_millis(100);
const ERROR_MOST: Duration = Duration::from_secs(5);

/// Longest pause between a ring that brought nothing and the next poll. Rings for jobs that this
/// worker cannot have (paused, of other kinds, taken by others) must not become one poll each.
const RING_GAP_MOST: Duration = Duration::from_millis(50);

/// Claims held beyond slots and prefetch while results cannot be stored: then no more are made.
const UNSETTLED_MAX: usize = 1_000;

/// Polls until the worker stops.
pub(super) fn run<B: QueueBackend + ?Sized>(shared: &Shared<B>) {
    let mut queues = shared.settings.queues.clone();
    let mut poller = Poller::new(shared, &queues);
    while shared.signal.phase() == Phase::Running {
        let room = room(shared);
        if room == 0 {
            continue;
        }
        match queues.round(room, |queue, most| poller.claim(queue, most)) {
            Ok(0) => poller.idle(),
            Ok(_) => poller.claimed(),
            Err(error) => {
                shared.error("claim", &error);
                let pause = poller.errors.pause();
                shared.signal.sleep(pause, Phase::Draining);
            }
        }
    }
}

/// How many jobs to claim; waits a while for the first free slot.
fn room<B: QueueBackend + ?Sized>(shared: &Shared<B>) -> usize {
    let settings = &shared.settings;
    let room = shared.slots.room(Duration::from_secs(60));
    let unsettled_max = settings.slots + settings.prefetch + UNSETTLED_MAX;
    let settled = unsettled_max.saturating_sub(shared.live.len());
    if room > 0 && settled == 0 {
        shared
            .signal
            .sleep(Duration::from_millis(20), Phase::Draining);
    }
    room.min(settled)
}

/// Makes the claims, and remembers what it has heard.
pub(super) struct Poller<'a, B: ?Sized> {
    shared: &'a Shared<B>,
    request: ClaimRequest,
    waiter: Waiter,
    idle: Backoff,
    errors: Backoff,
    rings: Backoff,
    rung: bool,
}

impl<'a, B: QueueBackend + ?Sized> Poller<'a, B> {
    pub(super) fn new(shared: &'a Shared<B>, queues: &Queues) -> Self {
        let settings = &shared.settings;
        let waiter = Waiter::new(queues.names().cloned());
        // Each queue costs a query per round: the more queues, the fewer rounds.
        let rounds_apart = u32::try_from(queues.len()).unwrap_or(u32::MAX);
        let idle_most = settings.poll_interval.saturating_mul(rounds_apart);
        let first = waiter.queues()[0].clone();
        Self {
            shared,
            request: ClaimRequest::new(first, shared.worker.clone())
                .with_lease(settings.lease)
                .accepting(shared.handlers.accepts()),
            waiter,
            idle: Backoff::new(IDLE_FIRST, idle_most),
            errors: Backoff::new(ERROR_FIRST, ERROR_MOST),
            rings: Backoff::new(Duration::from_millis(1), RING_GAP_MOST),
            rung: false,
        }
    }

    /// Claims at most `most` jobs of one queue and hands them to the slots.
    pub(super) fn claim(&mut self, queue: &QueueName, most: usize) -> Result<usize> {
        let most = u32::try_from(most).unwrap_or(BATCH_MAX).min(BATCH_MAX);
        self.request.queue = queue.clone();
        self.request.limit = BatchSize::new(most)?;
        let (shared, sent) = (self.shared, Instant::now());
        let jobs = shared.backend.claim(&self.request)?;
        let engine = shared.backend.engine();
        observe::claimed(engine, queue, &jobs, sent.elapsed());
        let claimed = jobs.len();
        shared.tally.note(|report| report.claimed += claimed as u64);
        let lease = shared.settings.lease.get();
        let held: Vec<Arc<Held>> = jobs
            .into_iter()
            .map(|job| Arc::new(Held::new(job, sent, lease)))
            .collect();
        for held in &held {
            shared.live.insert(Arc::clone(held));
        }
        for held in shared.slots.offer(held) {
            shared.send(inbox::Completion::unstarted(held));
        }
        Ok(claimed)
    }

    fn claimed(&mut self) {
        self.idle.reset();
        self.errors.reset();
        self.rings.reset();
        self.rung = false;
    }

    /// Nothing there: waits for a ring or for the next poll.
    fn idle(&mut self) {
        self.errors.reset();
        let signal = &self.shared.signal;
        if self.rung && signal.sleep(self.rings.pause(), Phase::Draining) {
            return;
        }
        match self
            .shared
            .backend
            .wait(&mut self.waiter, self.idle.pause())
        {
            Ok(woken) => self.rung = woken == Woken::Rung,
            Err(error) => {
                self.shared.error("wait", &error);
                self.rung = false;
                signal.sleep(
                    jittered(self.shared.settings.poll_interval),
                    Phase::Draining,
                );
            }
        }
    }
}
