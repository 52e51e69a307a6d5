//! The proof of one claim, and what became of a claim that no longer holds.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::{JobId, State};
use crate::name::WorkerId;

/// The proof of one claim: which job, which attempt, which worker. The fencing token.
///
/// Only the receipt of the claim that holds a job can renew, acknowledge or fail it. It may be
/// serialised and handed to another process; it is no secret against somebody who may write to the
/// table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Receipt {
    job_id: JobId,
    attempt: u32,
    worker: WorkerId,
}

impl Receipt {
    /// The receipt of a claim. For backends, and for receipts that travelled.
    #[must_use]
    pub const fn new(job_id: JobId, attempt: u32, worker: WorkerId) -> Self {
        Self {
            job_id,
            attempt,
            worker,
        }
    }

    /// The job.
    #[must_use]
    pub const fn job_id(&self) -> JobId {
        self.job_id
    }

    /// The claim's generation: `attempts` as stored by the claim. It only ever grows.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Who claimed.
    #[must_use]
    pub const fn worker(&self) -> &WorkerId {
        &self.worker
    }
}

/// The answer for one receipt of a batch: a value, or the reason why its claim no longer holds.
pub type Fenced<T> = std::result::Result<T, LostClaim>;

/// The claim no longer holds the job, and nothing was changed.
///
/// Stop working on the job and drop its result: another worker has it, had it, or will have it.
/// Never try again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("claim of job {} at attempt {} by {} is lost: {reason}", receipt.job_id, receipt.attempt, receipt.worker)]
pub struct LostClaim {
    receipt: Receipt,
    reason: LostReason,
}

/// Why a claim no longer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LostReason {
    /// The lease ran out, or the claim was already given back; nobody has claimed the job since.
    Expired,
    /// The row carries another claim: a later attempt, or another worker's.
    Superseded,
    /// The job is succeeded or dead: finished by this claim earlier, by a later one, or cancelled.
    Finished,
    /// There is no such job: it was purged or deleted.
    Gone,
}

impl LostReason {
    /// Every reason.
    pub const ALL: [Self; 4] = [Self::Expired, Self::Superseded, Self::Finished, Self::Gone];

    /// The reason's word in messages and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Superseded => "superseded",
            Self::Finished => "finished",
            Self::Gone => "gone",
        }
    }
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The columns of a row that decide why a claim is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// The row's state.
    pub state: State,
    /// The row's attempts.
    pub attempts: u32,
    /// The row's worker, when it is running.
    pub worker: Option<WorkerId>,
}

impl LostClaim {
    /// The refusal of `receipt`, judged by the row as it was seen after the refusal; `None` when
    /// there is no row.
    ///
    /// Every backend asks this one function, so that the reason is the same on every engine.
    #[must_use]
    pub fn judge(receipt: &Receipt, row: Option<&Observed>) -> Self {
        let reason = match row {
            None => LostReason::Gone,
            Some(row) if row.state.is_terminal() => LostReason::Finished,
            Some(row) if row.attempts != receipt.attempt => LostReason::Superseded,
            Some(row)
                if row
                    .worker
                    .as_ref()
                    .is_some_and(|worker| worker != &receipt.worker) =>
            {
                LostReason::Superseded
            }
            Some(_) => LostReason::Expired,
        };
        Self {
            receipt: receipt.clone(),
            reason,
        }
    }

    /// The receipt that was refused.
    #[must_use]
    pub const fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    /// Why.
    #[must_use]
    pub const fn reason(&self) -> LostReason {
        self.reason
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt() -> Receipt {
        Receipt::new(JobId::new(7), 2, WorkerId::new("w1").unwrap())
    }

    fn reason(state: State, attempts: u32, worker: Option<&str>) -> LostReason {
        let worker = worker.map(|worker| WorkerId::new(worker).unwrap());
        LostClaim::judge(
            &receipt(),
            Some(&Observed {
                state,
                attempts,
                worker,
            }),
        )
        .reason()
    }

    #[test]
    fn a_missing_row_is_gone() {
        assert_eq!(
            LostClaim::judge(&receipt(), None).reason(),
            LostReason::Gone
        );
    }

    #[test]
    fn a_terminal_row_is_finished_whoever_finished_it() {
        assert_eq!(reason(State::Succeeded, 2, None), LostReason::Finished);
        assert_eq!(reason(State::Dead, 3, None), LostReason::Finished);
    }

    #[test]
    fn another_attempt_or_worker_is_superseded() {
        assert_eq!(
            reason(State::Running, 3, Some("w1")),
            LostReason::Superseded
        );
        assert_eq!(
            reason(State::Running, 2, Some("w2")),
            LostReason::Superseded
        );
        assert_eq!(reason(State::Ready, 0, None), LostReason::Superseded);
    }

    #[test]
    fn the_same_claim_running_or_given_back_is_expired() {
        assert_eq!(reason(State::Running, 2, Some("w1")), LostReason::Expired);
        assert_eq!(reason(State::Ready, 2, None), LostReason::Expired);
    }

    #[test]
    fn the_message_names_job_attempt_worker_and_reason() {
        let lost = LostClaim::judge(&receipt(), None);
        assert_eq!(
            lost.to_string(),
            "claim of job 7 at attempt 2 by w1 is lost: gone"
        );
    }
}
