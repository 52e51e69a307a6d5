//! A backend with one fault, around one that has none.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use queue_table_core::{
    Administration, ClaimRequest, ClaimedJob, Delay, Disposition, EffectName, Enqueued, Error,
    Failed, Failure, Fenced, JobId, LeaseLength, LostClaim, LostReason, MaxAttempts, NewJob,
    QueueBackend, QueueName, ReapRequest, Reaped, Receipt, Result, State, Timestamp,
    TransactionalBackend, Waiter, Woken,
};

use super::Seed;
use crate::proxy::Proxy;

/// What a fault answers in place of the truth.
const NOT_DEAD: Disposition = Disposition::Ready {
    run_at: Timestamp::from_micros(0),
};

/// A backend that does one thing wrong.
#[derive(Debug)]
pub struct Broken<B: QueueBackend> {
    pub(super) inner: B,
    pub(super) seed: Seed,
    seen: Seen,
    /// Kept as long as the backend that goes by it.
    _network: Option<Proxy>,
}

/// What a faulty session remembers.
#[derive(Debug, Default)]
struct Seen {
    lost: AtomicBool,
    highest: AtomicI64,
    held: Mutex<Vec<Receipt>>,
    collected: Mutex<Vec<Receipt>>,
    claimed: Mutex<Vec<ClaimedJob>>,
    own: Mutex<BTreeSet<JobId>>,
    working: Mutex<()>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<B: Administration + TransactionalBackend> Broken<B> {
    pub(super) fn with(inner: B, seed: Seed) -> Self {
        Self {
            inner,
            seed,
            seen: Seen::default(),
            _network: None,
        }
    }

    /// A session by a network of its own.
    pub(super) fn by(network: Proxy, inner: B, seed: Seed) -> Self {
        Self {
            inner,
            seed,
            seen: Seen::default(),
            _network: Some(network),
        }
    }

    pub(super) fn has(&self, seed: Seed) -> bool {
        self.seed == seed
    }

    fn failed(&self, operation: &'static str) -> Failed {
        Failed::new(self.inner.engine(), operation, "the connection is gone")
    }

    /// Runs an operation, and answers its error as this session would.
    pub(super) fn answer<T>(
        &self,
        operation: &'static str,
        run: impl Fn() -> Result<T>,
        nothing: impl FnOnce() -> Option<T>,
    ) -> Result<T> {
        if self.has(Seed::NeverReconnects) && self.seen.lost.load(Ordering::SeqCst) {
            return Err(Error::Unavailable(self.failed(operation)));
        }
        let error = match run() {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let lost = matches!(error, Error::Unavailable(_) | Error::OutcomeUnknown(_));
        self.seen.lost.fetch_or(lost, Ordering::SeqCst);
        match (self.seed, error) {
            (Seed::RepeatsTheUnknown, Error::OutcomeUnknown(_)) => run(),
            (Seed::UnknownIsUnavailable, Error::OutcomeUnknown(failed)) => {
                Err(Error::Unavailable(failed))
            }
            (Seed::SwallowsErrors, error @ (Error::Unavailable(_) | Error::OutcomeUnknown(_)))
            | (Seed::MissingIsEmpty, error @ Error::Schema { .. }) => nothing().ok_or(error),
            (_, error) => Err(error),
        }
    }

    /// Waits until nobody holds these jobs' rows: recording an effect locks the row before it finds
    /// that the claim is nobody's.
    fn wait_for(&self, jobs: &[JobId]) -> Result<()> {
        let (worker, effect) = (
            queue_table_core::WorkerId::new("nobody").map_err(queue_table_core::Rejected::from)?,
            EffectName::new("nothing").map_err(queue_table_core::Rejected::from)?,
        );
        for job in jobs {
            let receipt = Receipt::new(*job, 1, worker.clone());
            let locked = self.inner.transaction(|tx| {
                self.inner.record_effect_in(tx, &receipt, &effect)?;
                Ok::<(), Error>(())
            });
            match locked {
                Ok(()) | Err(Error::LostClaim(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(super) fn wait_if(&self, seed: Seed, state: State, but: &[Receipt]) -> Result<()> {
        if !self.has(seed) {
            return Ok(());
        }
        // Enough for what holds a lock: more would only be slow.
        let jobs = self.first_rows(10)?.into_iter();
        let jobs = jobs.filter(|row| row.state == state);
        let jobs = jobs.map(|row| row.job_id);
        let others = jobs.filter(|job| but.iter().all(|receipt| receipt.job_id() != *job));
        self.wait_for(&others.collect::<Vec<_>>())
    }

    /// What a claim of this session hands out.
    fn hand_out(&self, mut claimed: Vec<ClaimedJob>) -> Result<Vec<ClaimedJob>> {
        if self.has(Seed::ClaimsUpwards) {
            let highest = self.seen.highest.load(Ordering::SeqCst);
            claimed.retain(|job| job.job_id().get() > highest);
            let most = claimed.iter().map(|job| job.job_id().get()).max();
            self.seen
                .highest
                .fetch_max(most.unwrap_or(highest), Ordering::SeqCst);
        }
        if self.has(Seed::RepeatsTheClaim) {
            let mut before = lock(&self.seen.claimed);
            if claimed.is_empty() {
                return Ok(std::mem::take(&mut before));
            }
            before.clone_from(&claimed);
        }
        let receipts: Vec<_> = claimed.iter().map(|job| job.receipt.clone()).collect();
        if self.has(Seed::AcksAtClaim) {
            self.inner.ack(&receipts)?;
        }
        lock(&self.seen.own).extend(receipts.iter().map(Receipt::job_id));
        if self.has(Seed::ClaimsEndWithTheSession) {
            lock(&self.seen.held).extend(receipts);
        }
        Ok(claimed)
    }

    /// The receipts that an ack sends now.
    fn to_send(&self, receipts: &[Receipt]) -> Vec<Receipt> {
        if !self.has(Seed::AcksAreCollected) {
            return receipts.to_vec();
        }
        let mut collected = lock(&self.seen.collected);
        std::mem::replace(&mut *collected, receipts.to_vec())
    }

    fn know(&self, receipts: &[Receipt]) -> Result<()> {
        let own = lock(&self.seen.own);
        let foreign = receipts.iter().any(|one| !own.contains(&one.job_id()));
        if self.has(Seed::ReceiptsStayAtHome) && foreign {
            return Err(Error::Engine(self.failed("ack")));
        }
        Ok(())
    }

    fn acked(&self, receipts: &[Receipt]) -> Result<Vec<Fenced<()>>> {
        let sent = self.to_send(receipts);
        let run = || self.inner.ack(&sent);
        let answers = self.answer("ack", run, || Some(vec![Ok(()); sent.len()]))?;
        if self.has(Seed::AcksAreCollected) {
            return Ok(vec![Ok(()); receipts.len()]);
        }
        let forgive = |answer: Fenced<()>| match answer {
            Err(_) if self.has(Seed::LostIsFinished) => Ok(()),
            Err(lost) if self.has(Seed::AcksAtClaim) && is_finished(&lost) => Ok(()),
            answer => answer,
        };
        Ok(answers.into_iter().map(forgive).collect())
    }

    fn another_attempt(&self, job: JobId, disposition: &mut Disposition) -> Result<()> {
        if *disposition == Disposition::Dead {
            let one = MaxAttempts::new(1).map_err(queue_table_core::Rejected::from)?;
            self.inner.replay(job, one)?;
            *disposition = NOT_DEAD;
        }
        Ok(())
    }
}

fn is_finished(lost: &LostClaim) -> bool {
    lost.reason() == LostReason::Finished
}

impl<B: QueueBackend> Drop for Broken<B> {
    fn drop(&mut self) {
        let held = std::mem::take(&mut *lock(&self.seen.held)).into_iter();
        let released: Vec<_> = held.map(|one| Failure::release(one, Delay::ZERO)).collect();
        // A fault may fail: what it could not give back stays held.
        let _ = self.inner.fail(&released);
    }
}

impl<B: Administration + TransactionalBackend> QueueBackend for Broken<B> {
    fn engine(&self) -> &'static str {
        self.inner.engine()
    }

    fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        self.wait_if(Seed::EnqueueWaits, State::Ready, &[])?;
        self.answer("enqueue", || self.inner.enqueue(jobs), || Some(Vec::new()))
    }

    fn claim(&self, request: &ClaimRequest) -> Result<Vec<ClaimedJob>> {
        self.wait_if(Seed::ClaimWaits, State::Ready, &[])?;
        let mut request = request.clone();
        if self.has(Seed::AcceptsAnything) {
            request.accepts = None;
        }
        if self.has(Seed::LooksAtFew) && !self.sees_a_claimable(&request)? {
            return Ok(Vec::new());
        }
        let run = || self.inner.claim(&request);
        let claimed = self.answer("claim", run, || Some(Vec::new()))?;
        self.hand_out(claimed)
    }

    fn renew(&self, receipts: &[Receipt], lease: LeaseLength) -> Result<Vec<Fenced<()>>> {
        self.wait_if(Seed::BatchWaits, State::Running, &[])?;
        let _waits = self.has(Seed::RenewWaits).then(|| lock(&self.seen.working));
        let run = || self.inner.renew(receipts, lease);
        self.answer("renew", run, || Some(vec![Ok(()); receipts.len()]))
    }

    fn ack(&self, receipts: &[Receipt]) -> Result<Vec<Fenced<()>>> {
        self.wait_if(Seed::AckWaits, State::Running, receipts)?;
        self.wait_if(Seed::BatchWaits, State::Running, &[])?;
        self.know(receipts)?;
        self.acked(receipts)
    }

    fn fail(&self, failures: &[Failure]) -> Result<Vec<Fenced<Disposition>>> {
        self.wait_if(Seed::BatchWaits, State::Running, &[])?;
        let run = || self.inner.fail(failures);
        let swallowed = || Some(vec![Ok(NOT_DEAD); failures.len()]);
        let mut answers = self.answer("fail", run, swallowed)?;
        if self.has(Seed::NeverDies) {
            for (failure, answer) in failures.iter().zip(&mut answers) {
                if let Ok(disposition) = answer {
                    self.another_attempt(failure.receipt.job_id(), disposition)?;
                }
            }
        }
        Ok(answers)
    }

    fn reap(&self, request: &ReapRequest) -> Result<Vec<Reaped>> {
        self.wait_if(Seed::ReapWaits, State::Running, &[])?;
        if self.has(Seed::LooksAtFew) && !self.sees_an_overdue()? {
            return Ok(Vec::new());
        }
        let run = || self.inner.reap(request);
        let mut reaped = self.answer("reap", run, || Some(Vec::new()))?;
        if self.has(Seed::BuriedIsReplayed) {
            for one in &mut reaped {
                self.another_attempt(one.job_id, &mut one.disposition)?;
            }
        }
        Ok(reaped)
    }

    fn wait(&self, waiter: &mut Waiter, at_most: Duration) -> Result<Woken> {
        self.inner.wait(waiter, at_most)
    }

    fn ring(&self, queue: &QueueName) {
        self.inner.ring(queue);
    }
}

impl<B: Administration + TransactionalBackend> TransactionalBackend for Broken<B> {
    type Tx<'t> = B::Tx<'t>;

    fn enqueue_in(&self, tx: &mut Self::Tx<'_>, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        if self.has(Seed::EnqueuesApart) {
            return self.inner.enqueue(jobs);
        }
        match self.inner.enqueue_in(tx, jobs) {
            Err(Error::Schema { .. }) if self.has(Seed::MissingIsEmpty) => Ok(Vec::new()),
            Err(Error::Unavailable(_)) if self.has(Seed::SwallowsErrors) => Ok(Vec::new()),
            stored => stored,
        }
    }

    fn claim_in(&self, tx: &mut Self::Tx<'_>, request: &ClaimRequest) -> Result<Vec<ClaimedJob>> {
        let claimed = self.inner.claim_in(tx, request)?;
        lock(&self.seen.own).extend(claimed.iter().map(ClaimedJob::job_id));
        Ok(claimed)
    }

    fn ack_in(&self, tx: &mut Self::Tx<'_>, receipt: &Receipt) -> Result<()> {
        self.inner.ack_in(tx, receipt)
    }

    fn fail_in(&self, tx: &mut Self::Tx<'_>, failure: &Failure) -> Result<Disposition> {
        self.inner.fail_in(tx, failure)
    }

    fn record_effect_in(
        &self,
        tx: &mut Self::Tx<'_>,
        receipt: &Receipt,
        name: &EffectName,
    ) -> Result<bool> {
        let recorded = self.inner.record_effect_in(tx, receipt, name);
        match recorded {
            Ok(_) if self.has(Seed::EffectsAreForgotten) => Ok(true),
            Err(Error::Contention(_)) if self.has(Seed::VictimIsSilent) => Ok(true),
            recorded => recorded,
        }
    }

    fn transaction<R, E, F>(&self, work: F) -> std::result::Result<R, E>
    where
        E: From<Error>,
        F: for<'t> FnOnce(&mut Self::Tx<'t>) -> std::result::Result<R, E>,
    {
        let _works = self.has(Seed::RenewWaits).then(|| lock(&self.seen.working));
        if self.has(Seed::NeverReconnects) && self.seen.lost.load(Ordering::SeqCst) {
            return Err(Error::Unavailable(self.failed("transaction")).into());
        }
        if !self.has(Seed::PanicsCommit) {
            return self.inner.transaction(work);
        }
        let ended =
            self.inner
                .transaction(|tx| match catch_unwind(AssertUnwindSafe(|| work(tx))) {
                    Ok(Ok(value)) => Ok(Ok(value)),
                    Ok(Err(error)) => Err(error),
                    Err(panic) => Ok(Err(panic)),
                })?;
        ended.or_else(|panic| resume_unwind(panic))
    }
}
