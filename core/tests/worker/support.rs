//! A backend in memory whose calls can be made to fail, and what the tests of the worker have in
//! common.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use queue_table_conformance::{
    Fixture, Model, ModelFixture, ModelProbe, ModelTx, Probe, Row, Setup,
};
use queue_table_core::{
    Administration, ClaimRequest, ClaimedJob, Disposition, EffectName, Enqueued, Error, ErrorText,
    Failed, Failure, FailureRecord, Fenced, Finding, JobId, JobRecord, Kind, LeaseLength,
    ListRequest, MaxAttempts, Migrated, NewJob, Payload, PromoteRequest, PurgeRequest, Purged,
    QueueBackend, QueueBackendExt, QueueName, QueueStats, ReapRequest, Reaped, Receipt, Result,
    RetryPolicy, State, TransactionalBackend, Waiter, Woken, WorkerBuilder,
};

pub(crate) const QUEUE: &str = "mail";
pub(crate) const KIND: &str = "mail.send";

/// How a call fails.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    Contention,
    Unavailable,
    /// An error that no retry is known to help against.
    Engine,
    /// The call is carried out, and its reply lost.
    ReplyLost,
    /// The call is not carried out, and the caller does not know.
    RequestLost,
    Panic,
    /// The call takes a second and a half.
    Slow,
}

/// The model with faults on demand, and a count of its calls.
pub(crate) struct Faulty {
    model: Model,
    faults: Mutex<BTreeMap<&'static str, VecDeque<Fault>>>,
    calls: Mutex<BTreeMap<&'static str, usize>>,
    down: AtomicBool,
    poisoned: Mutex<Option<JobId>>,
    locked: Mutex<BTreeMap<JobId, Duration>>,
    doubted: Mutex<Option<JobId>>,
    tripped: Mutex<BTreeSet<&'static str>>,
    largest_claim: Mutex<u32>,
}

impl Faulty {
    /// The next calls of this operation fail like this, one after the other.
    pub(crate) fn fail(&self, operation: &'static str, faults: impl IntoIterator<Item = Fault>) {
        let mut all = self.faults.lock().unwrap();
        all.entry(operation).or_default().extend(faults);
    }

    /// No more calls of this operation fail.
    pub(crate) fn heal(&self, operation: &'static str) {
        self.faults.lock().unwrap().remove(operation);
    }

    /// Takes the database down: every call is Unavailable until it is up again.
    pub(crate) fn take_down(&self) {
        self.down.store(true, Ordering::SeqCst);
    }

    /// Every ack with this job in it fails from now on, and no retry helps.
    pub(crate) fn poison(&self, job: JobId) {
        *self.poisoned.lock().unwrap() = Some(job);
    }

    /// Somebody keeps this job's row locked from now on: renewals of it fail after so long, and of
    /// its neighbours in a batch nobody tells that they were made.
    pub(crate) fn lock(&self, job: JobId, wait: Duration) {
        self.locked.lock().unwrap().insert(job, wait);
    }

    /// The outcome of every ack with this job in it is unknown from now on, and none is carried
    /// out.
    pub(crate) fn doubt(&self, job: JobId) {
        *self.doubted.lock().unwrap() = Some(job);
    }

    pub(crate) fn heal_doubt(&self) {
        *self.doubted.lock().unwrap() = None;
    }

    /// The next call of this operation, which cannot fail, panics: `ring`, or `engine` when a
    /// handler thread asks.
    pub(crate) fn trip(&self, operation: &'static str) {
        self.tripped.lock().unwrap().insert(operation);
    }

    fn stumble(&self, operation: &'static str) {
        let tripped = self.tripped.lock().unwrap().remove(operation);
        assert!(!tripped, "a bug of the backend");
    }

    pub(crate) fn bring_up(&self) {
        self.down.store(false, Ordering::SeqCst);
    }

    pub(crate) fn calls(&self, operation: &str) -> usize {
        self.calls
            .lock()
            .unwrap()
            .get(operation)
            .copied()
            .unwrap_or(0)
    }

    /// Calls of all operations, which a server would see as queries.
    pub(crate) fn queries(&self) -> usize {
        let calls = self.calls.lock().unwrap();
        calls
            .iter()
            .filter(|(operation, _)| **operation != "wait")
            .map(|(_, calls)| calls)
            .sum()
    }

    pub(crate) fn largest_claim(&self) -> u32 {
        *self.largest_claim.lock().unwrap()
    }

    fn call<R>(&self, operation: &'static str, run: impl FnOnce() -> Result<R>) -> Result<R> {
        *self.calls.lock().unwrap().entry(operation).or_default() += 1;
        let fault = self
            .faults
            .lock()
            .unwrap()
            .get_mut(operation)
            .and_then(VecDeque::pop_front);
        let failed = || Failed::new("faulty", operation, "on demand");
        let down = self
            .down
            .load(Ordering::SeqCst)
            .then_some(Fault::Unavailable);
        match down.or(fault) {
            None => run(),
            Some(Fault::Contention) => Err(Error::Contention(failed())),
            Some(Fault::Unavailable) => Err(Error::Unavailable(failed())),
            Some(Fault::Engine) => Err(Error::Engine(failed())),
            Some(Fault::ReplyLost) => run().and_then(|_| Err(Error::OutcomeUnknown(failed()))),
            Some(Fault::RequestLost) => Err(Error::OutcomeUnknown(failed())),
            Some(Fault::Slow) => {
                std::thread::sleep(ms(1_500));
                run()
            }
            Some(Fault::Panic) => panic!("a bug of the backend"),
        }
    }
}

impl QueueBackend for Faulty {
    fn engine(&self) -> &'static str {
        if std::thread::current().name() == Some("qt-handler") {
            self.stumble("engine");
        }
        "faulty"
    }

    fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        self.call("enqueue", || self.model.enqueue(jobs))
    }

    fn claim(&self, request: &ClaimRequest) -> Result<Vec<ClaimedJob>> {
        let mut largest = self.largest_claim.lock().unwrap();
        *largest = request.limit.get().max(*largest);
        drop(largest);
        self.call("claim", || self.model.claim(request))
    }

    fn renew(&self, receipts: &[Receipt], lease: LeaseLength) -> Result<Vec<Fenced<()>>> {
        let locked = self.locked.lock().unwrap().clone();
        let is_free = |receipt: &&Receipt| !locked.contains_key(&receipt.job_id());
        self.call("renew", || {
            let free: Vec<_> = receipts.iter().filter(is_free).cloned().collect();
            let answers = self.model.renew(&free, lease)?;
            let waits = receipts.iter().filter_map(|one| locked.get(&one.job_id()));
            std::thread::sleep(waits.max().copied().unwrap_or_default());
            let failed = Failed::new("faulty", "renew", "a row is locked");
            match free.len() {
                all if all == receipts.len() => Ok(answers),
                0 => Err(Error::Contention(failed)),
                _ => Err(Error::OutcomeUnknown(failed)),
            }
        })
    }

    fn ack(&self, receipts: &[Receipt]) -> Result<Vec<Fenced<()>>> {
        let poisoned = *self.poisoned.lock().unwrap();
        let doubted = *self.doubted.lock().unwrap();
        let names = |job| receipts.iter().any(|receipt| Some(receipt.job_id()) == job);
        self.call("ack", || {
            let failed = |why: &str| Failed::new("faulty", "ack", why);
            if names(poisoned) {
                return Err(Error::Engine(failed("poisoned")));
            }
            if names(doubted) {
                return Err(Error::OutcomeUnknown(failed("no reply")));
            }
            self.model.ack(receipts)
        })
    }

    fn fail(&self, failures: &[Failure]) -> Result<Vec<Fenced<Disposition>>> {
        self.call("fail", || self.model.fail(failures))
    }

    fn reap(&self, request: &ReapRequest) -> Result<Vec<Reaped>> {
        self.call("reap", || self.model.reap(request))
    }

    fn wait(&self, waiter: &mut Waiter, at_most: Duration) -> Result<Woken> {
        self.call("wait", || self.model.wait(waiter, at_most))
    }

    fn ring(&self, queue: &QueueName) {
        self.stumble("ring");
        self.model.ring(queue);
    }
}

impl Administration for Faulty {
    fn migrate(&self) -> Result<Migrated> {
        self.call("migrate", || self.model.migrate())
    }

    fn check(&self) -> Result<Vec<Finding>> {
        self.call("check", || self.model.check())
    }

    fn get(&self, job: JobId) -> Result<Option<JobRecord>> {
        self.call("get", || self.model.get(job))
    }

    fn list(&self, request: &ListRequest) -> Result<Vec<JobRecord>> {
        self.call("list", || self.model.list(request))
    }

    fn failures(&self, job: JobId) -> Result<Vec<FailureRecord>> {
        self.call("failures", || self.model.failures(job))
    }

    fn stats(&self, queue: Option<&QueueName>) -> Result<Vec<QueueStats>> {
        self.call("stats", || self.model.stats(queue))
    }

    fn replay(&self, job: JobId, extra: MaxAttempts) -> Result<u32> {
        self.call("replay", || self.model.replay(job, extra))
    }

    fn cancel(&self, job: JobId, reason: &ErrorText) -> Result<()> {
        self.call("cancel", || self.model.cancel(job, reason))
    }

    fn promote(&self, request: &PromoteRequest) -> Result<u32> {
        self.call("promote", || self.model.promote(request))
    }

    fn purge(&self, request: &PurgeRequest) -> Result<Purged> {
        self.call("purge", || self.model.purge(request))
    }

    fn pause(&self, queue: &QueueName) -> Result<()> {
        self.call("pause", || self.model.pause(queue))
    }

    fn resume(&self, queue: &QueueName) -> Result<()> {
        self.call("resume", || self.model.resume(queue))
    }
}

impl TransactionalBackend for Faulty {
    type Tx<'t> = ModelTx<'t>;

    fn enqueue_in(&self, tx: &mut ModelTx<'_>, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        self.model.enqueue_in(tx, jobs)
    }

    fn claim_in(&self, tx: &mut ModelTx<'_>, request: &ClaimRequest) -> Result<Vec<ClaimedJob>> {
        self.model.claim_in(tx, request)
    }

    fn ack_in(&self, tx: &mut ModelTx<'_>, receipt: &Receipt) -> Result<()> {
        self.model.ack_in(tx, receipt)
    }

    fn fail_in(&self, tx: &mut ModelTx<'_>, failure: &Failure) -> Result<Disposition> {
        self.model.fail_in(tx, failure)
    }

    fn record_effect_in(
        &self,
        tx: &mut ModelTx<'_>,
        receipt: &Receipt,
        name: &EffectName,
    ) -> Result<bool> {
        self.model.record_effect_in(tx, receipt, name)
    }

    fn transaction<R, E, F>(&self, work: F) -> std::result::Result<R, E>
    where
        E: From<Error>,
        F: for<'t> FnOnce(&mut ModelTx<'t>) -> std::result::Result<R, E>,
    {
        let mut ended = None;
        let outer = self.call("transaction", || {
            ended = Some(self.model.transaction(work));
            Ok(())
        });
        match (outer, ended) {
            (Err(error), _) => Err(error.into()),
            (Ok(()), Some(ended)) => ended,
            (Ok(()), None) => unreachable!("a call without a fault runs"),
        }
    }
}

/// One set of tables, and two ways to them.
pub(crate) struct Bench {
    pub(crate) backend: Arc<Faulty>,
    pub(crate) probe: Arc<ModelProbe>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let fresh = ModelFixture::new().fresh(&Setup::default()).unwrap();
        let backend = Faulty {
            model: fresh.backend,
            faults: Mutex::default(),
            calls: Mutex::default(),
            down: AtomicBool::new(false),
            poisoned: Mutex::default(),
            locked: Mutex::default(),
            doubted: Mutex::default(),
            tripped: Mutex::default(),
            largest_claim: Mutex::default(),
        };
        Self {
            backend: Arc::new(backend),
            probe: Arc::new(fresh.probe),
        }
    }

    /// A worker of [`QUEUE`] that is quick about everything, with a lease of ten seconds.
    pub(crate) fn worker(&self) -> WorkerBuilder<Faulty> {
        queue_table_core::Worker::builder(Arc::clone(&self.backend))
            .queue(QUEUE)
            .slots(2)
            .lease(Duration::from_secs(10))
            .poll_interval(Duration::from_millis(20))
            .reap_every(Duration::from_millis(20))
            .retry_policy(RetryPolicy::fixed(Duration::from_millis(1)).unwrap())
            .cancel_grace(Duration::from_secs(2))
    }

    pub(crate) fn enqueue(&self, job: &NewJob) -> JobId {
        self.backend.model.enqueue_one(job).unwrap().job_id()
    }

    /// Enqueues so many jobs of [`KIND`].
    pub(crate) fn jobs(&self, count: usize) -> Vec<JobId> {
        (0..count).map(|_| self.enqueue(&job())).collect()
    }

    pub(crate) fn row(&self, id: JobId) -> Row {
        self.probe.row(id).unwrap().expect("the row is there")
    }

    pub(crate) fn state(&self, id: JobId) -> State {
        self.row(id).state
    }

    /// Waits until all jobs are in this state.
    pub(crate) fn until_all(&self, ids: &[JobId], state: State) {
        until(&format!("{} jobs are {state}", ids.len()), || {
            ids.iter().all(|id| self.state(*id) == state)
        });
    }
}

/// A job of [`KIND`] in [`QUEUE`].
pub(crate) fn job() -> NewJob {
    job_in(QUEUE, KIND)
}

pub(crate) fn job_in(queue: &str, kind: &str) -> NewJob {
    let payload = Payload::from_json("{}").unwrap();
    NewJob::new(
        &QueueName::new(queue).unwrap(),
        Kind::new(kind).unwrap(),
        payload,
    )
}

/// Waits until it is so, and fails after 20 seconds.
pub(crate) fn until(what: &str, so: impl Fn() -> bool) {
    let started = Instant::now();
    while !so() {
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "in 20 s it did not come to this: {what}"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
