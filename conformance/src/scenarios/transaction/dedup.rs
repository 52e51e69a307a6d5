//! Dedup keys inside the caller's transaction.

use queue_table_core::{DedupScope, Enqueued, NewJob};

use crate::scenarios::prelude::*;
use crate::scenarios::tx::{Left, roll_back};

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            a_known_key_does_not_poison_the_transaction,
            "An enqueue that finds its key taken leaves the caller's transaction usable",
            [C5],
        ),
        scenario!(
            a_key_twice_in_one_transaction_names_one_job,
            "The same key twice in one transaction, in one batch and in two, names one job",
            [C5, C6],
        ),
        scenario!(
            a_key_of_a_rolled_back_transaction_is_free,
            "A key that was enqueued in a transaction that rolled back names nothing",
            [C1, C5],
        ),
        scenario!(
            a_key_taken_over_in_a_rolled_back_transaction_goes_back,
            "A key that a rolled back transaction took over from a finished job names that job as before",
            [C1, C5],
        ),
        scenario!(
            a_key_is_free_in_the_transaction_that_finishes_its_job,
            "An ack and an enqueue with the same key in one transaction hand the key on",
            [C5, C17],
        ),
    ]
}

fn keyed<F: Fixture>(arena: &Arena<'_, F>, key: &str) -> Check<NewJob> {
    Ok(arena.job()?.with_dedup(key, DedupScope::WhileUnfinished)?)
}

fn a_known_key_does_not_poison_the_transaction<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let (known, other) = (keyed(arena, "order-1")?, keyed(arena, "order-2")?);
    let first = arena.store(&known)?;

    let (again, new) = arena.backend.transaction(|tx| {
        arena.probe.effect_in(tx, "before")?;
        let again = arena.backend.enqueue_in(tx, &[known])?;
        arena.probe.effect_in(tx, "after")?;
        let new = arena.backend.enqueue_in(tx, &[other])?;
        Ok::<_, Left>((again, new))
    })?;

    expect_eq(again, [Enqueued::Existing(first)])?;
    expect(new[0].is_new(), "the other key is said to be known")?;
    expect_eq(arena.probe.effects()?, ["before", "after"])?;
    expect_eq(arena.probe.ids()?, [first, new[0].job_id()])
}

fn a_key_twice_in_one_transaction_names_one_job<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = keyed(arena, "order-1")?;

    let stored = arena.backend.transaction(|tx| {
        let both = [job.clone(), job.clone()];
        let mut stored = arena.backend.enqueue_in(tx, &both)?;
        stored.extend(arena.backend.enqueue_in(tx, &[job])?);
        Ok::<_, Left>(stored)
    })?;

    let id = expect_one(arena.probe.ids()?, "stored row")?;
    let existing = Enqueued::Existing(id);
    expect_eq(stored, [Enqueued::Inserted(id), existing, existing])
}

fn a_key_of_a_rolled_back_transaction_is_free<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let (job, before) = (keyed(arena, "order-1")?, arena.snapshot()?);

    let rolled_back = arena.backend.transaction(|tx| {
        arena.backend.enqueue_in(tx, std::slice::from_ref(&job))?;
        roll_back::<()>()
    });

    expect(rolled_back.is_err(), "the transaction's error is lost")?;
    arena.expect_unchanged(&before)?;
    arena.store(&job).map(|_| ())
}

fn a_key_taken_over_in_a_rolled_back_transaction_goes_back<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    let job = keyed(arena, "order-1")?;
    let first = arena.store(&job)?;
    arena
        .backend
        .ack_one(&arena.claim_one("worker-a")?.receipt)?;
    let before = arena.snapshot()?;

    let rolled_back = arena.backend.transaction(|tx| {
        let taken_over = arena.backend.enqueue_in(tx, std::slice::from_ref(&job))?;
        expect(taken_over[0].is_new(), "a finished job still has its key")?;
        roll_back::<()>()
    });

    expect(rolled_back.is_err(), "the transaction's error is lost")?;
    arena.expect_unchanged(&before)?;
    let second = arena.store(&job)?;
    expect_eq(arena.probe.ids()?, [first, second])?;
    expect_eq(arena.backend.enqueue_one(&job)?, Enqueued::Existing(second))
}

fn a_key_is_free_in_the_transaction_that_finishes_its_job<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    let job = keyed(arena, "order-1")?;
    let first = arena.store(&job)?;
    let held = arena.claim_one("worker-a")?;

    let stored = arena.backend.transaction(|tx| {
        let same = std::slice::from_ref(&job);
        let before = arena.backend.enqueue_in(tx, same)?;
        expect_eq(before, [Enqueued::Existing(first)])?;
        arena.backend.ack_in(tx, &held.receipt)?;
        Ok::<_, Left>(arena.backend.enqueue_in(tx, same)?)
    })?;

    let second = expect_one(stored, "stored job")?;
    expect(second.is_new(), "a finished job still has its key")?;
    expect_eq(arena.probe.ids()?, [first, second.job_id()])
}
