//! What a lost reply did: judged by the row and its failures, as they are read afterwards.

use crate::id::State;
use crate::job::{FailureCause, FailureRecord, JobRecord};
use crate::receipt::{LostClaim, Observed, Receipt};

/// What was asked for when the reply was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// An ack.
    Ack,
    /// A failure that is recorded with its attempt: retry or dead.
    Fail,
    /// A release, which records nothing.
    Release,
}

/// What became of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Aftermath {
    /// It is stored.
    Stored,
    /// The claim still holds: it was not stored, or is still on its way. Ask again; the database
    /// settles which.
    Open,
    /// It was not stored, and can no longer be.
    Lost(LostClaim),
}

/// Judges by the row, and by the failed attempts of the job.
///
/// An attempt ends once, and leaves a mark of its own: an ack leaves the row succeeded at that
/// attempt; a retry or dead leaves a failure with the cause failed; a reaped attempt leaves one
/// with the cause reaped; a release leaves none.
pub(super) fn judge(
    asked: Asked,
    receipt: &Receipt,
    row: Option<&JobRecord>,
    failures: &[FailureRecord],
) -> Aftermath {
    let lost = || Aftermath::Lost(LostClaim::judge(receipt, row.map(observed).as_ref()));
    let Some(row) = row else { return lost() };
    let same_attempt = row.attempts == receipt.attempt();
    if row.state == State::Running && same_attempt && row.worker.as_ref() == Some(receipt.worker())
    {
        return Aftermath::Open;
    }
    let mark = failures
        .iter()
        .find(|failure| failure.attempt == receipt.attempt())
        .map(|failure| failure.cause);
    let acked = row.state == State::Succeeded && same_attempt;
    let cancelled = row.state == State::Dead && same_attempt && mark.is_none();
    let stored = match asked {
        Asked::Ack => acked,
        Asked::Fail => mark == Some(FailureCause::Failed),
        Asked::Release => mark.is_none() && !cancelled,
    };
    if stored { Aftermath::Stored } else { lost() }
}

fn observed(row: &JobRecord) -> Observed {
    Observed {
        state: row.state,
        attempts: row.attempts,
        worker: row.worker.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::held::tests::claimed;
    use super::*;
    use crate::{LostReason, Timestamp, WorkerId};

    fn row(state: State, attempts: u32) -> JobRecord {
        let job = claimed(7, 2);
        let running = state == State::Running;
        JobRecord {
            job_id: job.job_id(),
            queue: job.queue,
            kind: job.kind,
            payload: job.payload,
            payload_version: 1,
            state,
            priority: 0,
            run_at: job.run_at,
            attempts,
            max_attempts: 3,
            worker: running.then(|| job.receipt.worker().clone()),
            lease_until: running.then_some(job.lease_until),
            enqueued_at: job.enqueued_at,
            claimed_at: Some(job.claimed_at),
            finished_at: state.is_terminal().then_some(job.claimed_at),
            last_error: None,
            columns: Vec::new(),
        }
    }

    fn mark(attempt: u32, cause: FailureCause) -> Vec<FailureRecord> {
        vec![FailureRecord {
            job_id: crate::JobId::new(7),
            attempt,
            worker: WorkerId::new("w").unwrap(),
            at: Timestamp::from_micros(0),
            cause,
            error: None,
        }]
    }

    fn after(asked: Asked, row: Option<&JobRecord>, failures: &[FailureRecord]) -> Aftermath {
        judge(asked, &claimed(7, 2).receipt, row, failures)
    }

    fn reason(aftermath: Aftermath) -> LostReason {
        match aftermath {
            Aftermath::Lost(lost) => lost.reason(),
            other => panic!("not lost: {other:?}"),
        }
    }

    const EVERY: [Asked; 3] = [Asked::Ack, Asked::Fail, Asked::Release];

    #[test]
    fn a_row_that_still_carries_the_claim_is_open() {
        for asked in EVERY {
            assert_eq!(
                after(asked, Some(&row(State::Running, 2)), &[]),
                Aftermath::Open
            );
        }
    }

    #[test]
    fn the_same_attempt_of_another_worker_is_not_open() {
        let mut taken = row(State::Running, 2);
        taken.worker = Some(WorkerId::new("other").unwrap());
        assert_eq!(
            reason(after(Asked::Ack, Some(&taken), &[])),
            LostReason::Superseded
        );
    }

    #[test]
    fn an_ack_is_stored_only_when_this_attempt_succeeded() {
        let ack = |row: &JobRecord, failures: &[_]| after(Asked::Ack, Some(row), failures);
        assert_eq!(ack(&row(State::Succeeded, 2), &[]), Aftermath::Stored);
        assert_eq!(
            reason(ack(&row(State::Succeeded, 3), &[])),
            LostReason::Finished
        );
        assert_eq!(reason(ack(&row(State::Dead, 2), &[])), LostReason::Finished);
        let reaped = mark(2, FailureCause::Reaped);
        assert_eq!(
            reason(ack(&row(State::Ready, 2), &reaped)),
            LostReason::Expired
        );
    }

    #[test]
    fn a_failure_is_stored_when_its_attempt_is_marked_failed_whatever_came_after() {
        let fail = |row: &JobRecord, failures: &[_]| after(Asked::Fail, Some(row), failures);
        let (failed, reaped) = (mark(2, FailureCause::Failed), mark(2, FailureCause::Reaped));
        for state in [State::Ready, State::Dead] {
            assert_eq!(fail(&row(state, 2), &failed), Aftermath::Stored);
        }
        assert_eq!(fail(&row(State::Running, 3), &failed), Aftermath::Stored);
        assert_eq!(
            reason(fail(&row(State::Ready, 2), &reaped)),
            LostReason::Expired
        );
        let earlier = mark(1, FailureCause::Failed);
        assert_eq!(
            reason(fail(&row(State::Dead, 2), &earlier)),
            LostReason::Finished
        );
    }

    #[test]
    fn a_release_is_stored_when_its_attempt_left_no_mark() {
        let release = |row: &JobRecord, failures: &[_]| after(Asked::Release, Some(row), failures);
        assert_eq!(release(&row(State::Ready, 2), &[]), Aftermath::Stored);
        assert_eq!(release(&row(State::Succeeded, 3), &[]), Aftermath::Stored);
        let reaped = mark(2, FailureCause::Reaped);
        assert_eq!(
            reason(release(&row(State::Running, 3), &reaped)),
            LostReason::Superseded
        );
        assert_eq!(
            reason(release(&row(State::Dead, 2), &[])),
            LostReason::Finished
        );
    }

    #[test]
    fn a_row_that_is_gone_is_lost() {
        for asked in EVERY {
            assert_eq!(reason(after(asked, None, &[])), LostReason::Gone);
        }
    }
}
