//! A receipt whose claim no longer holds changes nothing.

use super::prelude::*;

pub(crate) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            ack_after_reclaim_is_refused,
            "A worker that was replaced cannot finish the replacement's job, even under the same worker id",
            [C13, C15, C19],
        ),
        scenario!(
            ack_by_another_worker_is_refused,
            "A receipt with another worker's name acks nothing",
            [C13, C15],
        ),
    ]
}

fn ack_after_reclaim_is_refused<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let first = arena.enqueue_and_claim("worker-a")?;
    let second = arena.reclaim(&first, "worker-a")?;
    let before = arena.snapshot()?;

    expect_lost(
        arena.backend.ack_one(&first.receipt),
        LostReason::Superseded,
    )?;

    arena.expect_unchanged(&before)?;
    expect_eq(arena.row(&second)?.attempts, second.attempt())?;
    Ok(arena.backend.ack_one(&second.receipt)?)
}

fn ack_by_another_worker_is_refused<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let held = arena.enqueue_and_claim("worker-a")?;
    let forged = Receipt::new(held.job_id(), held.attempt(), WorkerId::new("worker-b")?);
    let before = arena.snapshot()?;

    expect_lost(arena.backend.ack_one(&forged), LostReason::Superseded)?;

    arena.expect_unchanged(&before)?;
    Ok(arena.backend.ack_one(&held.receipt)?)
}
