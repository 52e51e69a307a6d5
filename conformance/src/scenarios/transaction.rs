//! Operations inside the caller's transaction.

use super::prelude::*;

pub(crate) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            a_job_of_a_rolled_back_transaction_never_appears,
            "A job enqueued in a transaction that rolls back never appears",
            [C1],
        ),
        scenario!(
            a_stale_ack_rolls_the_effect_back,
            "A worker that was replaced cannot commit its effect with an ack",
            [C15, C17],
        ),
    ]
}

fn a_job_of_a_rolled_back_transaction_never_appears<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let (job, before) = (arena.job()?, arena.snapshot()?);

    let rolled_back = arena.backend.transaction(|tx| {
        arena.probe.effect_in(tx, "order")?;
        arena.backend.enqueue_in(tx, &[job])?;
        Err::<(), Failed>(Failed::new("rolled back"))
    });

    expect(rolled_back.is_err(), "the transaction's error is lost")?;
    arena.expect_unchanged(&before)?;
    expect_eq(arena.claim("worker-a", 1)?, [])
}

fn a_stale_ack_rolls_the_effect_back<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let first = arena.enqueue_and_claim("worker-a")?;
    let second = arena.reclaim(&first, "worker-b")?;
    let before = arena.snapshot()?;

    let refused = arena.backend.transaction(|tx| {
        arena.probe.effect_in(tx, "paid by worker-a")?;
        arena.backend.ack_in(tx, &first.receipt)?;
        Ok::<(), Failed>(())
    });

    expect(refused.is_err(), "the stale ack was taken")?;
    arena.expect_unchanged(&before)?;
    Ok(arena.backend.ack_one(&second.receipt)?)
}
