//! Effects of handlers in the database.

use queue_table_core::Outcome;

use super::super::prelude::*;
use super::steps::{Diary, start, wait_for_state, worker};

pub(crate) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            a_handlers_effect_is_committed_with_its_ack,
            "What a handler writes in its transaction is committed together with the ack",
            [C17],
        ),
        scenario!(
            a_failed_handlers_effect_is_rolled_back,
            "What a handler writes in a transaction that fails is not stored, and the job is tried again",
            [C17, C19],
        ),
        scenario!(
            an_effect_recorded_once_is_not_repeated,
            "An effect that an earlier attempt committed is not run again by the next",
            [C17],
        ),
    ]
}

fn a_handlers_effect_is_committed_with_its_ack<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.enqueue_one()?;
    let probe = arena.shared_probe();

    let worker = start::<F>(
        worker(arena)?.handle_kind("note", 1..=1, move |_, context| {
            context
                .transaction(|tx| probe.effect_in(tx, "paid").map_err(Failed::from))
                .map(|()| Outcome::DoneInTransaction)
        }),
    )?;
    wait_for_state(arena, job, State::Succeeded)?;
    let report = worker.stop(Duration::from_secs(5));

    expect_eq(arena.probe.effects()?, ["paid"])?;
    expect_that("lost claims", report.lost.total(), 0)
}

fn a_failed_handlers_effect_is_rolled_back<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.enqueue_one()?;
    let probe = arena.shared_probe();

    let worker = start::<F>(
        worker(arena)?.handle_kind("note", 1..=1, move |job, context| {
            let attempt = job.attempt();
            context
                .transaction(|tx| {
                    probe.effect_in(tx, &format!("attempt {attempt}"))?;
                    expect(attempt > 1, "the first attempt fails")
                })
                .map(|()| Outcome::DoneInTransaction)
        }),
    )?;
    wait_for_state(arena, job, State::Succeeded)?;
    worker.stop(Duration::from_secs(5));

    expect_eq(arena.probe.effects()?, ["attempt 2"])?;
    expect_that("failures", arena.backend.failures(job)?.len(), 1)
}

fn an_effect_recorded_once_is_not_repeated<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.enqueue_one()?;
    let (probe, diary) = (arena.shared_probe(), Diary::default());
    let notes = diary.clone();

    let worker = start::<F>(
        worker(arena)?.handle_kind("note", 1..=1, move |job, context| {
            notes.note(job);
            let paid = context.once("pay", |tx| {
                probe.effect_in(tx, "paid").map_err(Failed::from)
            });
            match paid {
                Err(failed) => Outcome::retry(failed),
                Ok(_) if job.attempt() == 1 => Outcome::retry("failed after it had paid"),
                Ok(_) => Outcome::Done,
            }
        }),
    )?;
    wait_for_state(arena, job, State::Succeeded)?;
    worker.stop(Duration::from_secs(5));

    expect_that("runs", diary.seen(), [(job, 1), (job, 2)])?;
    expect_eq(arena.probe.effects()?, ["paid"])
}
