//! The ways in which a receipt is no proof of a claim that holds.

use queue_table_core::{BatchSize, Delay, ErrorText, Failure, FailureRecord, JobId, PurgeRequest};

use crate::arena::Snapshot;
use crate::scenarios::prelude::*;

/// Who holds the claims of this tier.
pub(super) const WORKER: &str = "worker-a";

/// Why a receipt does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stale {
    /// The claim holds, but at another attempt.
    WrongAttempt,
    /// The claim holds, but for another worker.
    WrongWorker,
    /// The lease is over, and nobody has claimed the job since.
    Expired,
    /// The job was reaped and claimed again under the same worker's name.
    Superseded,
    /// The job has succeeded.
    Finished,
    /// The job is dead.
    Dead,
    /// The job's row is gone.
    Purged,
    /// The job is ready and was never claimed.
    NeverClaimed,
}

/// A stale receipt, and the receipt of the claim that holds its job, where there is one.
pub(super) struct Arranged {
    pub(super) receipt: Receipt,
    pub(super) holder: Option<Receipt>,
}

impl Stale {
    /// Every way, in an order in which one can be arranged after the other: what purges, reaps or
    /// claims comes before what it would find.
    pub(super) const ALL: [Self; 8] = [
        Self::Superseded,
        Self::Purged,
        Self::WrongAttempt,
        Self::WrongWorker,
        Self::Finished,
        Self::Dead,
        Self::Expired,
        Self::NeverClaimed,
    ];

    /// What the refusal says.
    pub(super) const fn reason(self) -> LostReason {
        match self {
            Self::WrongAttempt | Self::WrongWorker | Self::Superseded => LostReason::Superseded,
            Self::Expired | Self::NeverClaimed => LostReason::Expired,
            Self::Finished | Self::Dead => LostReason::Finished,
            Self::Purged => LostReason::Gone,
        }
    }

    /// Brings a job of its own into this state.
    pub(super) fn arrange<F: Fixture>(self, arena: &Arena<'_, F>) -> Check<Arranged> {
        if self == Self::NeverClaimed {
            let receipt = Receipt::new(arena.enqueue_one()?, 0, WorkerId::new(WORKER)?);
            return Ok(Arranged::alone(receipt));
        }
        let claimed = arena.enqueue_and_claim(WORKER)?;
        let held = claimed.receipt.clone();
        let (job, attempt) = (held.job_id(), held.attempt());
        match self {
            Self::WrongAttempt => {
                let forged = Receipt::new(job, attempt + 1, held.worker().clone());
                return Ok(Arranged::beside(held, forged));
            }
            Self::WrongWorker => {
                let forged = Receipt::new(job, attempt, WorkerId::new("worker-b")?);
                return Ok(Arranged::beside(held, forged));
            }
            Self::Superseded => {
                let replacement = arena.reclaim(&claimed, WORKER)?;
                return Ok(Arranged::beside(replacement.receipt, held));
            }
            Self::Expired => arena.let_lease_expire(&claimed)?,
            Self::Finished => arena.backend.ack_one(&held)?,
            Self::Purged => purge(arena, &held)?,
            Self::Dead | Self::NeverClaimed => {
                let failure = Failure::dead(held.clone(), ErrorText::new("given up"));
                arena.backend.fail_one(&failure)?;
            }
        }
        Ok(Arranged::alone(held))
    }
}

impl Arranged {
    fn alone(receipt: Receipt) -> Self {
        let holder = None;
        Self { receipt, holder }
    }

    fn beside(holder: Receipt, receipt: Receipt) -> Self {
        let holder = Some(holder);
        Self { receipt, holder }
    }
}

impl Arranged {
    /// Fails unless the claim that holds the job, if there is one, can finish it: its own row was
    /// left alone.
    pub(super) fn holder_can_ack<F: Fixture>(&self, arena: &Arena<'_, F>) -> Check {
        let Some(holder) = &self.holder else {
            return Ok(());
        };
        arena.backend.ack_one(holder)?;
        arena.expect_state(holder, State::Succeeded)
    }
}

/// Finishes the job and deletes its row, with those of the other jobs that have succeeded.
fn purge<F: Fixture>(arena: &Arena<'_, F>, held: &Receipt) -> Check {
    arena.backend.ack_one(held)?;
    let request = PurgeRequest {
        succeeded_after: Some(Delay::ZERO),
        dead_after: None,
        limit: BatchSize::MAX,
        cursor: None,
    };
    arena.backend.purge(&request)?;
    expect_that("the purged row", arena.probe.row(held.job_id())?, None)
}

/// Everything that is stored, with the failed attempts of one job in full.
pub(super) struct Stored {
    job: JobId,
    everything: Snapshot,
    failures: Vec<FailureRecord>,
}

impl Stored {
    pub(super) fn now<F: Fixture>(arena: &Arena<'_, F>, job: JobId) -> Check<Self> {
        Ok(Self {
            job,
            everything: arena.snapshot()?,
            failures: arena.backend.failures(job)?,
        })
    }

    /// Fails unless every row of every table is as it was.
    #[track_caller]
    pub(super) fn expect_unchanged<F: Fixture>(&self, arena: &Arena<'_, F>) -> Check {
        arena.expect_unchanged(&self.everything)?;
        let failures = arena.backend.failures(self.job)?;
        expect_that("failed attempts", failures, &*self.failures)
    }
}
