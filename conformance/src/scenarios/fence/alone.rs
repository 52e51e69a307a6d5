//! Every operation with one receipt, for every way in which the receipt can be stale: reports 24
//! and 29.

use super::act::Act;
use super::cells;
use super::stale::{Stale, Stored};
use crate::scenarios::prelude::*;

cells! {
    refused_alone, [C13, C15]:
    renew_with_another_attempt_is_refused: Renew, WrongAttempt,
        "A renewal with another attempt than the claim's is refused";
    renew_by_another_worker_is_refused: Renew, WrongWorker,
        "A renewal by another worker than the claim's is refused";
    renew_after_the_lease_is_refused: Renew, Expired,
        "A renewal after the lease is over is refused";
    renew_after_reclaim_is_refused: Renew, Superseded,
        "A renewal after the job was claimed again, even under the same worker id, is refused";
    renew_of_a_succeeded_job_is_refused: Renew, Finished,
        "A renewal of a succeeded job is refused";
    renew_of_a_dead_job_is_refused: Renew, Dead,
        "A renewal of a dead job is refused";
    renew_of_a_purged_job_is_refused: Renew, Purged,
        "A renewal of a purged job is refused";
    renew_of_an_unclaimed_job_is_refused: Renew, NeverClaimed,
        "A renewal of a job that was never claimed is refused";
    ack_with_another_attempt_is_refused: Ack, WrongAttempt,
        "An ack with another attempt than the claim's is refused";
    ack_by_another_worker_is_refused: Ack, WrongWorker,
        "An ack by another worker than the claim's is refused";
    ack_after_the_lease_is_refused: Ack, Expired,
        "An ack after the lease is over is refused";
    ack_after_reclaim_is_refused: Ack, Superseded,
        "An ack after the job was claimed again, even under the same worker id, is refused";
    ack_of_a_succeeded_job_is_refused: Ack, Finished,
        "An ack of a succeeded job is refused";
    ack_of_a_dead_job_is_refused: Ack, Dead,
        "An ack of a dead job is refused";
    ack_of_a_purged_job_is_refused: Ack, Purged,
        "An ack of a purged job is refused";
    ack_of_an_unclaimed_job_is_refused: Ack, NeverClaimed,
        "An ack of a job that was never claimed is refused";
    retry_with_another_attempt_is_refused: Retry, WrongAttempt,
        "A failure to be tried again with another attempt than the claim's is refused";
    retry_by_another_worker_is_refused: Retry, WrongWorker,
        "A failure to be tried again by another worker than the claim's is refused";
    retry_after_the_lease_is_refused: Retry, Expired,
        "A failure to be tried again after the lease is over is refused";
    retry_after_reclaim_is_refused: Retry, Superseded,
        "A failure to be tried again after the job was claimed again, even under the same worker id, is refused";
    retry_of_a_succeeded_job_is_refused: Retry, Finished,
        "A failure to be tried again of a succeeded job is refused";
    retry_of_a_dead_job_is_refused: Retry, Dead,
        "A failure to be tried again of a dead job is refused";
    retry_of_a_purged_job_is_refused: Retry, Purged,
        "A failure to be tried again of a purged job is refused";
    retry_of_an_unclaimed_job_is_refused: Retry, NeverClaimed,
        "A failure to be tried again of a job that was never claimed is refused";
    bury_with_another_attempt_is_refused: Dead, WrongAttempt,
        "A failure for good with another attempt than the claim's is refused";
    bury_by_another_worker_is_refused: Dead, WrongWorker,
        "A failure for good by another worker than the claim's is refused";
    bury_after_the_lease_is_refused: Dead, Expired,
        "A failure for good after the lease is over is refused";
    bury_after_reclaim_is_refused: Dead, Superseded,
        "A failure for good after the job was claimed again, even under the same worker id, is refused";
    bury_of_a_succeeded_job_is_refused: Dead, Finished,
        "A failure for good of a succeeded job is refused";
    bury_of_a_dead_job_is_refused: Dead, Dead,
        "A failure for good of a dead job is refused";
    bury_of_a_purged_job_is_refused: Dead, Purged,
        "A failure for good of a purged job is refused";
    bury_of_an_unclaimed_job_is_refused: Dead, NeverClaimed,
        "A failure for good of a job that was never claimed is refused";
    release_with_another_attempt_is_refused: Release, WrongAttempt,
        "A release with another attempt than the claim's is refused";
    release_by_another_worker_is_refused: Release, WrongWorker,
        "A release by another worker than the claim's is refused";
    release_after_the_lease_is_refused: Release, Expired,
        "A release after the lease is over is refused";
    release_after_reclaim_is_refused: Release, Superseded,
        "A release after the job was claimed again, even under the same worker id, is refused";
    release_of_a_succeeded_job_is_refused: Release, Finished,
        "A release of a succeeded job is refused";
    release_of_a_dead_job_is_refused: Release, Dead,
        "A release of a dead job is refused";
    release_of_a_purged_job_is_refused: Release, Purged,
        "A release of a purged job is refused";
    release_of_an_unclaimed_job_is_refused: Release, NeverClaimed,
        "A release of a job that was never claimed is refused";
}

/// The refusal tells the right reason and changes nothing; the claim that holds the job, if there
/// is one, still does.
fn refused_alone<F: Fixture>(arena: &Arena<'_, F>, act: Act, stale: Stale) -> Check {
    let arranged = stale.arrange(arena)?;
    let before = Stored::now(arena, arranged.receipt.job_id())?;

    let answer = act.alone(arena.backend, &arranged.receipt);

    expect_lost(answer, stale.reason())?;
    before.expect_unchanged(arena)?;
    arranged.holder_can_ack(arena)
}
