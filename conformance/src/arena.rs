//! The fresh tables of one scenario, and the steps that scenarios share.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use queue_table_core::{
    BatchSize, ClaimRequest, ClaimedJob, Delay, Enqueued, ErrorText, Failure, JobId, Kind, NewJob,
    Payload, QueueBackend, QueueBackendExt, QueueName, ReapRequest, Reaped, Receipt, RetryPolicy,
    State, WorkerId,
};

use crate::check::{Check, Failed, expect_eq, expect_one, expect_some, expect_that};
use crate::fixture::{Capabilities, Fixture, Held, Probe, Row};
use crate::proxy::Proxy;

/// The sister tables that [`Probe::count`] knows.
pub(crate) const SISTERS: [&str; 4] = ["dedup", "effect", "queue", "failure"];

/// The fresh tables of one scenario: nobody else sees them, and nothing is in them.
///
/// Threads of a scenario share it by reference.
pub struct Arena<'a, F: Fixture> {
    /// The backend under test.
    pub backend: &'a F::Backend,
    /// The other route to the same tables.
    pub probe: &'a F::Probe,
    /// What the fixture declares.
    pub capabilities: Capabilities,
    /// The queue that the helpers use: `mail`.
    pub queue: QueueName,
    shared_probe: &'a Arc<F::Probe>,
}

impl<F: Fixture> fmt::Debug for Arena<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena").finish_non_exhaustive()
    }
}

/// Every row and effect, and the sister tables' sizes: what a refused operation must leave as it
/// was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Snapshot {
    rows: Vec<Row>,
    sisters: Vec<(&'static str, u64)>,
    effects: Vec<String>,
}

/// What belongs to one job.
pub(crate) trait OfJob {
    /// The job.
    fn of_job(&self) -> JobId;
}

macro_rules! of_job {
    ($($type:ty: |$this:ident| $id:expr),* $(,)?) => {$(
        impl OfJob for $type {
            fn of_job(&self) -> JobId {
                let $this = self;
                $id
            }
        }
    )*};
}

of_job!(
    JobId: |this| *this,
    Row: |this| this.job_id,
    Receipt: |this| this.job_id(),
    ClaimedJob: |this| this.job_id(),
    Enqueued: |this| this.job_id(),
);

impl<T: OfJob + ?Sized> OfJob for &T {
    fn of_job(&self) -> JobId {
        (**self).of_job()
    }
}

impl<'a, F: Fixture> Arena<'a, F> {
    pub(crate) fn new(
        backend: &'a F::Backend,
        probe: &'a Arc<F::Probe>,
        capabilities: Capabilities,
    ) -> Check<Self> {
        Ok(Self {
            backend,
            probe,
            capabilities,
            queue: QueueName::new("mail")?,
            shared_probe: probe,
        })
    }
}

/// Enqueue.
impl<F: Fixture> Arena<'_, F> {
    /// A job of the kind `note` with the payload `{}`, due at once, with the default budget.
    pub(crate) fn job(&self) -> Check<NewJob> {
        self.job_with("{}")
    }

    /// The same with another payload.
    pub(crate) fn job_with(&self, json: &str) -> Check<NewJob> {
        let payload = Payload::from_json(json)?;
        Ok(NewJob::new(&self.queue, Kind::new("note")?, payload))
    }

    /// Stores one job that must be new.
    pub(crate) fn store(&self, job: &NewJob) -> Check<JobId> {
        match self.backend.enqueue_one(job)? {
            Enqueued::Inserted(id) => Ok(id),
            Enqueued::Existing(id) => Err(Failed::new(format_args!(
                "expected a new job, got the existing job {id}"
            ))),
        }
    }

    /// Stores so many jobs in one batch, their number as payload, and returns their ids in that
    /// order.
    pub(crate) fn enqueue(&self, count: usize) -> Check<Vec<JobId>> {
        let jobs: Vec<_> = (0..count)
            .map(|number| self.job_with(&number.to_string()))
            .collect::<Check<_>>()?;
        let stored = self.backend.enqueue(&jobs)?;
        expect_that("ids of the batch", stored.len(), count)?;
        Ok(stored.into_iter().map(Enqueued::job_id).collect())
    }

    /// Stores one job.
    pub(crate) fn enqueue_one(&self) -> Check<JobId> {
        self.store(&self.job()?)
    }
}

/// Claim.
impl<F: Fixture> Arena<'_, F> {
    /// Asks for one job of the arena's queue for a minute.
    pub(crate) fn request(&self, worker: &str) -> Check<ClaimRequest> {
        Ok(ClaimRequest::new(
            self.queue.clone(),
            WorkerId::new(worker)?,
        ))
    }

    /// Claims up to so many jobs of the arena's queue for a minute.
    pub(crate) fn claim(&self, worker: &str, limit: u32) -> Check<Vec<ClaimedJob>> {
        let request = self.request(worker)?.with_limit(BatchSize::new(limit)?);
        Ok(self.backend.claim(&request)?)
    }

    /// Claims one job, which must be there.
    pub(crate) fn claim_one(&self, worker: &str) -> Check<ClaimedJob> {
        expect_one(self.claim(worker, 1)?, "claimed job")
    }

    /// Stores one job and claims it. The queue must be empty.
    pub(crate) fn enqueue_and_claim(&self, worker: &str) -> Check<ClaimedJob> {
        let job = self.enqueue_one()?;
        let claimed = self.claim_one(worker)?;
        expect_that("the claimed job", claimed.job_id(), job)?;
        Ok(claimed)
    }

    /// Lets the claim's lease run out, has the job reaped, and claims it again.
    pub(crate) fn reclaim(&self, lost: &ClaimedJob, worker: &str) -> Check<ClaimedJob> {
        self.let_lease_expire(lost)?;
        self.reap_one()?;
        let claimed = self.claim_one(worker)?;
        expect_that("the claimed job", claimed.job_id(), lost.job_id())?;
        Ok(claimed)
    }

    /// Stores, claims and acks one job. The queue must be empty.
    pub(crate) fn succeeded_job(&self) -> Check<JobId> {
        let claimed = self.enqueue_and_claim("finisher")?;
        self.backend.ack_one(&claimed.receipt)?;
        Ok(claimed.job_id())
    }

    /// Stores, claims and gives up one job. The queue must be empty.
    pub(crate) fn dead_job(&self) -> Check<JobId> {
        let claimed = self.enqueue_and_claim("undertaker")?;
        let failure = Failure::dead(claimed.receipt.clone(), ErrorText::new("given up"));
        self.backend.fail_one(&failure)?;
        Ok(claimed.job_id())
    }
}

/// Time, without waiting for it.
impl<F: Fixture> Arena<'_, F> {
    /// Moves the row's instants back until its lease has been over for a second.
    pub(crate) fn let_lease_expire(&self, claimed: impl OfJob) -> Check {
        let row = self.row(claimed)?;
        let until = expect_some(row.lease_until, "lease on the row")?;
        let left = until.since(self.probe.now()?);
        Ok(self
            .probe
            .rewind(row.job_id, left + Duration::from_secs(1))?)
    }

    /// Moves the row's instants back until it has been due for a second.
    pub(crate) fn let_come_due(&self, job: impl OfJob) -> Check {
        let row = self.row(job)?;
        let left = row.run_at.since(self.probe.now()?);
        Ok(self
            .probe
            .rewind(row.job_id, left + Duration::from_secs(1))?)
    }

    /// Reaps up to 100 jobs, with a retry delay of a minute without jitter.
    pub(crate) fn reap(&self) -> Check<Vec<Reaped>> {
        let policy = RetryPolicy::fixed(Duration::from_secs(60))?;
        let request = ReapRequest::new(BatchSize::new(100)?, policy);
        Ok(self.backend.reap(&request)?)
    }

    /// Reaps one job, which must be there, and lets its retry delay pass.
    pub(crate) fn reap_one(&self) -> Check<Reaped> {
        let reaped = expect_one(self.reap()?, "reaped job")?;
        if self.row(reaped.job_id)?.state == State::Ready {
            self.let_come_due(reaped.job_id)?;
        }
        Ok(reaped)
    }
}

/// Looking at the tables by the other route, and disturbing them.
impl<F: Fixture> Arena<'_, F> {
    /// The stored row, which must be there.
    pub(crate) fn row(&self, job: impl OfJob) -> Check<Row> {
        let id = job.of_job();
        expect_some(self.probe.row(id)?, format_args!("row of job {id}"))
    }

    /// Every stored row, by id.
    pub(crate) fn rows(&self) -> Check<Vec<Row>> {
        let ids = self.probe.ids()?;
        ids.into_iter().map(|id| self.row(id)).collect()
    }

    /// Fails unless the row is in this state.
    #[track_caller]
    pub(crate) fn expect_state(&self, job: impl OfJob, state: State) -> Check {
        let row = self.row(job)?;
        expect_that(
            format_args!("state of job {}", row.job_id),
            row.state,
            state,
        )
    }

    /// Everything that is stored.
    pub(crate) fn snapshot(&self) -> Check<Snapshot> {
        let count = |sister| Ok((sister, self.probe.count(sister)?));
        Ok(Snapshot {
            rows: self.rows()?,
            sisters: SISTERS.into_iter().map(count).collect::<Check<_>>()?,
            effects: self.probe.effects()?,
        })
    }

    /// Fails unless everything that is stored is as it was.
    #[track_caller]
    pub(crate) fn expect_unchanged(&self, before: &Snapshot) -> Check {
        let after = self.snapshot()?;
        for (old, new) in before.rows.iter().zip(&after.rows) {
            expect_that("a row that must not change", new, old)?;
        }
        expect_that("number of rows", after.rows.len(), before.rows.len())?;
        expect_that("sister tables' rows", after.sisters, &*before.sisters)?;
        expect_eq(after.effects, &*before.effects)
    }

    /// A second backend on the same tables, with connections of its own.
    pub(crate) fn session(&self) -> Check<F::Backend> {
        Ok(self.probe.session()?)
    }

    /// A network before the server, and a session through it.
    pub(crate) fn through_a_network(&self) -> Check<(Proxy, F::Backend)> {
        let proxy = Proxy::before(self.probe.server()?)?;
        let session = self.probe.session_through(proxy.address())?;
        Ok((proxy, session))
    }

    /// The probe for threads that may outlive the scenario, such as a worker's.
    pub(crate) fn shared_probe(&self) -> Arc<F::Probe> {
        Arc::clone(self.shared_probe)
    }

    /// Locks the row for so long (where there is one writer: holds the writer), and returns once it
    /// is locked.
    pub(crate) fn hold(&self, job: impl OfJob, hold: Duration) -> Check<Held> {
        Ok(self.probe.hold(job.of_job(), hold)?)
    }
}

/// A delay for requests.
pub(crate) fn delay(length: Duration) -> Check<Delay> {
    Ok(Delay::new(length)?)
}
