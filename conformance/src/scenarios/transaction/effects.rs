//! Effects of a job that are recorded once, in the caller's transaction.

use queue_table_core::EffectName;

use crate::scenarios::prelude::*;
use crate::scenarios::tx::{Left, roll_back};

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            an_effect_is_recorded_once,
            "The first record of an effect says so, and every later one of the same claim says it is there",
            [C17],
        ),
        scenario!(
            an_effect_of_an_earlier_attempt_is_seen_by_the_replacement,
            "A replacement learns that the lost attempt has had the effect, and does not repeat it",
            [C17],
        ),
        scenario!(
            an_effect_that_rolled_back_was_not_had,
            "A recorded effect whose transaction rolled back is recorded for the first time again",
            [C17],
        ),
        scenario!(
            effects_of_other_names_and_jobs_are_apart,
            "An effect counts for its own job and its own name only, compared exactly",
            [C17, C25],
        ),
        scenario!(
            a_recorded_effect_leaves_the_claim_as_it_was,
            "Recording an effect changes nothing of the job's row",
            [C17],
        ),
    ]
}

/// Records the effect in a transaction of its own, with one row of the caller's.
fn record<F: Fixture>(arena: &Arena<'_, F>, receipt: &Receipt, name: &str) -> Check<bool> {
    let effect = EffectName::new(name)?;
    let first = arena.backend.transaction(|tx| {
        let first = arena.backend.record_effect_in(tx, receipt, &effect)?;
        if first {
            arena.probe.effect_in(tx, name)?;
        }
        Ok::<_, Left>(first)
    })?;
    Ok(first)
}

fn an_effect_is_recorded_once<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let held = arena.enqueue_and_claim("worker-a")?;

    for first in [true, false, false] {
        expect_that("first time", record(arena, &held.receipt, "paid")?, first)?;
    }

    expect_that("recorded effects", arena.probe.count("effect")?, 1)?;
    expect_eq(arena.probe.effects()?, ["paid"])
}

fn an_effect_of_an_earlier_attempt_is_seen_by_the_replacement<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    let first = arena.enqueue_and_claim("worker-a")?;
    record(arena, &first.receipt, "paid")?;
    let second = arena.reclaim(&first, "worker-b")?;

    let again = record(arena, &second.receipt, "paid")?;

    expect_that("first time", again, false)?;
    expect_eq(arena.probe.effects()?, ["paid"])?;
    Ok(arena.backend.ack_one(&second.receipt)?)
}

fn an_effect_that_rolled_back_was_not_had<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let held = arena.enqueue_and_claim("worker-a")?;
    let (effect, before) = (EffectName::new("paid")?, arena.snapshot()?);

    let rolled_back = arena.backend.transaction(|tx| {
        for first in [true, false] {
            let recorded = arena.backend.record_effect_in(tx, &held.receipt, &effect)?;
            expect_that("first time", recorded, first)?;
        }
        arena.probe.effect_in(tx, "paid")?;
        roll_back::<()>()
    });

    expect(rolled_back.is_err(), "the transaction's error is lost")?;
    arena.expect_unchanged(&before)?;
    expect_that("first time", record(arena, &held.receipt, "paid")?, true)
}

fn effects_of_other_names_and_jobs_are_apart<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let one = arena.enqueue_and_claim("worker-a")?;
    let two = arena.enqueue_and_claim("worker-a")?;

    for name in ["paid", "Paid", "païd", "paid twice"] {
        for held in [&one, &two] {
            let first = record(arena, &held.receipt, name)?;
            expect_that(format_args!("first time of {name}"), first, true)?;
        }
    }

    expect_that("recorded effects", arena.probe.count("effect")?, 8)
}

fn a_recorded_effect_leaves_the_claim_as_it_was<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let held = arena.enqueue_and_claim("worker-a")?;
    let before = arena.row(&held)?;

    record(arena, &held.receipt, "paid")?;

    expect_eq(arena.row(&held)?, before)?;
    Ok(arena.backend.ack_one(&held.receipt)?)
}
