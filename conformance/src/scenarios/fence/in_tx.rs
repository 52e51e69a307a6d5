//! Every operation in the caller's transaction, for every way in which the receipt can be stale:
//! reports 24 and 29.

use super::act::Act;
use super::cells;
use super::stale::{Stale, Stored};
use crate::scenarios::prelude::*;
use crate::scenarios::tx::Left;

cells! {
    refused_in_tx, [C13, C15, C17]:
    ack_in_tx_with_another_attempt_is_refused: Ack, WrongAttempt,
        "An ack in the caller's transaction with another attempt than the claim's is refused";
    ack_in_tx_by_another_worker_is_refused: Ack, WrongWorker,
        "An ack in the caller's transaction by another worker than the claim's is refused";
    ack_in_tx_after_the_lease_is_refused: Ack, Expired,
        "An ack in the caller's transaction after the lease is over is refused";
    ack_in_tx_after_reclaim_is_refused: Ack, Superseded,
        "An ack in the caller's transaction after the job was claimed again, even under the same worker id, is refused";
    ack_in_tx_of_a_succeeded_job_is_refused: Ack, Finished,
        "An ack in the caller's transaction of a succeeded job is refused";
    ack_in_tx_of_a_dead_job_is_refused: Ack, Dead,
        "An ack in the caller's transaction of a dead job is refused";
    ack_in_tx_of_a_purged_job_is_refused: Ack, Purged,
        "An ack in the caller's transaction of a purged job is refused";
    ack_in_tx_of_an_unclaimed_job_is_refused: Ack, NeverClaimed,
        "An ack in the caller's transaction of a job that was never claimed is refused";
    retry_in_tx_with_another_attempt_is_refused: Retry, WrongAttempt,
        "A failure to be tried again in the caller's transaction with another attempt than the claim's is refused";
    retry_in_tx_by_another_worker_is_refused: Retry, WrongWorker,
        "A failure to be tried again in the caller's transaction by another worker than the claim's is refused";
    retry_in_tx_after_the_lease_is_refused: Retry, Expired,
        "A failure to be tried again in the caller's transaction after the lease is over is refused";
    retry_in_tx_after_reclaim_is_refused: Retry, Superseded,
        "A failure to be tried again in the caller's transaction after the job was claimed again, even under the same worker id, is refused";
    retry_in_tx_of_a_succeeded_job_is_refused: Retry, Finished,
        "A failure to be tried again in the caller's transaction of a succeeded job is refused";
    retry_in_tx_of_a_dead_job_is_refused: Retry, Dead,
        "A failure to be tried again in the caller's transaction of a dead job is refused";
    retry_in_tx_of_a_purged_job_is_refused: Retry, Purged,
        "A failure to be tried again in the caller's transaction of a purged job is refused";
    retry_in_tx_of_an_unclaimed_job_is_refused: Retry, NeverClaimed,
        "A failure to be tried again in the caller's transaction of a job that was never claimed is refused";
    bury_in_tx_with_another_attempt_is_refused: Dead, WrongAttempt,
        "A failure for good in the caller's transaction with another attempt than the claim's is refused";
    bury_in_tx_by_another_worker_is_refused: Dead, WrongWorker,
        "A failure for good in the caller's transaction by another worker than the claim's is refused";
    bury_in_tx_after_the_lease_is_refused: Dead, Expired,
        "A failure for good in the caller's transaction after the lease is over is refused";
    bury_in_tx_after_reclaim_is_refused: Dead, Superseded,
        "A failure for good in the caller's transaction after the job was claimed again, even under the same worker id, is refused";
    bury_in_tx_of_a_succeeded_job_is_refused: Dead, Finished,
        "A failure for good in the caller's transaction of a succeeded job is refused";
    bury_in_tx_of_a_dead_job_is_refused: Dead, Dead,
        "A failure for good in the caller's transaction of a dead job is refused";
    bury_in_tx_of_a_purged_job_is_refused: Dead, Purged,
        "A failure for good in the caller's transaction of a purged job is refused";
    bury_in_tx_of_an_unclaimed_job_is_refused: Dead, NeverClaimed,
        "A failure for good in the caller's transaction of a job that was never claimed is refused";
    release_in_tx_with_another_attempt_is_refused: Release, WrongAttempt,
        "A release in the caller's transaction with another attempt than the claim's is refused";
    release_in_tx_by_another_worker_is_refused: Release, WrongWorker,
        "A release in the caller's transaction by another worker than the claim's is refused";
    release_in_tx_after_the_lease_is_refused: Release, Expired,
        "A release in the caller's transaction after the lease is over is refused";
    release_in_tx_after_reclaim_is_refused: Release, Superseded,
        "A release in the caller's transaction after the job was claimed again, even under the same worker id, is refused";
    release_in_tx_of_a_succeeded_job_is_refused: Release, Finished,
        "A release in the caller's transaction of a succeeded job is refused";
    release_in_tx_of_a_dead_job_is_refused: Release, Dead,
        "A release in the caller's transaction of a dead job is refused";
    release_in_tx_of_a_purged_job_is_refused: Release, Purged,
        "A release in the caller's transaction of a purged job is refused";
    release_in_tx_of_an_unclaimed_job_is_refused: Release, NeverClaimed,
        "A release in the caller's transaction of a job that was never claimed is refused";
}

/// The refusal ends the caller's transaction with the right reason, and neither its effect nor
/// anything else is stored.
fn refused_in_tx<F: Fixture>(arena: &Arena<'_, F>, act: Act, stale: Stale) -> Check {
    let arranged = stale.arrange(arena)?;
    let before = Stored::now(arena, arranged.receipt.job_id())?;

    let answer = arena.backend.transaction(|tx| {
        arena.probe.effect_in(tx, "of a claim that is lost")?;
        act.in_tx(arena.backend, tx, &arranged.receipt)?;
        Ok::<(), Left>(())
    });

    expect_lost(answer, stale.reason())?;
    before.expect_unchanged(arena)?;
    arranged.holder_can_ack(arena)
}
