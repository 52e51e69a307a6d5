//! Dedup keys under races.

use queue_table_core::{DedupScope, Enqueued, NewJob};

use crate::scenarios::prelude::*;
use crate::scenarios::together::at_once;
use crate::scenarios::tx::{Left, roll_back, told};

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            one_key_enqueued_by_many_sessions_at_once_is_one_job,
            "Of many sessions that enqueue the same keys at once one stores each job, and all get its id",
            [C5],
        ),
        scenario!(
            one_key_enqueued_in_many_transactions_at_once_is_one_job,
            "Of many transactions that enqueue the same key at once one stores the job, and all commit",
            [C5],
        ),
        scenario!(
            a_finished_jobs_key_is_taken_over_once,
            "Of many sessions that take over a finished job's key at once one stores a new job",
            [C5],
        ),
        scenario!(
            an_enqueue_beside_an_open_transaction_with_its_key_waits_for_the_end,
            "An enqueue whose key an open transaction holds gets that job after a commit and its own after a rollback",
            [C1, C5],
        ),
    ]
}

fn keyed<F: Fixture>(arena: &Arena<'_, F>, key: &str) -> Check<NewJob> {
    Ok(arena.job()?.with_dedup(key, DedupScope::WhileUnfinished)?)
}

/// Fails unless all name the same job and one of them stored it.
fn expect_one_stored(answers: &[Enqueued]) -> Check {
    let new = answers.iter().filter(|answer| answer.is_new()).count();
    expect_that("enqueues that stored the job", new, 1)?;
    let id = answers[0].job_id();
    expect(
        answers.iter().all(|answer| answer.job_id() == id),
        format_args!("one key names several jobs: {answers:?}"),
    )
}

fn one_key_enqueued_by_many_sessions_at_once_is_one_job<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let keys: Vec<_> = (0..5).map(|number| format!("order-{number}")).collect();

    let answers = at_once(arena, 6, |_, session| {
        let enqueue = |key: &String| Ok(session.enqueue_one(&keyed(arena, key)?)?);
        keys.iter().map(enqueue).collect::<Check<Vec<_>>>()
    })?;

    for (at, key) in keys.iter().enumerate() {
        let of_key: Vec<_> = answers.iter().map(|answers| answers[at]).collect();
        expect_one_stored(&of_key)
            .map_err(|failed| Failed::new(format_args!("{key}: {failed}")))?;
    }
    expect_that("rows", arena.probe.ids()?.len(), keys.len())?;
    expect_that("keys", arena.probe.count("dedup")?, 5)
}

fn one_key_enqueued_in_many_transactions_at_once_is_one_job<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    let job = keyed(arena, "order-1")?;

    let answers = at_once(arena, 4, |_, session| {
        // A caller whose isolation is stricter than READ COMMITTED may be told to run it again.
        for _ in 0..10 {
            let ended = session.transaction(|tx| {
                arena.probe.effect_in(tx, "order")?;
                Ok::<_, Left>(session.enqueue_in(tx, std::slice::from_ref(&job))?)
            });
            match told(ended)? {
                Ok(stored) => return expect_one(stored, "answer"),
                Err(error) => expect_that("error", error.kind(), "contention")?,
            }
        }
        Err(Failed::new("still in the way after ten runs"))
    })?;

    expect_one_stored(&answers)?;
    expect_that("rows", arena.probe.ids()?.len(), 1)?;
    expect_that("committed transactions", arena.probe.effects()?.len(), 4)
}

fn a_finished_jobs_key_is_taken_over_once<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = keyed(arena, "order-1")?;
    let first = arena.store(&job)?;
    arena
        .backend
        .ack_one(&arena.claim_one("worker-a")?.receipt)?;

    let answers = at_once(arena, 6, |_, session| Ok(session.enqueue_one(&job)?))?;

    expect_one_stored(&answers)?;
    expect_eq(arena.probe.ids()?, [first, answers[0].job_id()])?;
    expect_that("keys", arena.probe.count("dedup")?, 1)
}

fn an_enqueue_beside_an_open_transaction_with_its_key_waits_for_the_end<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    for commit in [false, true] {
        let job = keyed(arena, if commit { "committed" } else { "rolled back" })?;
        let (other, holds) = (arena.session()?, std::sync::Barrier::new(2));
        let (beside, ended) = std::thread::scope(|scope| {
            let beside = scope.spawn(|| {
                holds.wait();
                other.enqueue_one(&job)
            });
            let ended = arena.backend.transaction(|tx| {
                let stored = arena.backend.enqueue_in(tx, std::slice::from_ref(&job));
                holds.wait();
                let stored = expect_one(stored?, "stored job")?;
                std::thread::sleep(Duration::from_millis(60));
                if commit {
                    Ok(stored.job_id())
                } else {
                    roll_back()
                }
            });
            let beside = beside.join();
            Ok::<_, Failed>((
                beside.map_err(|_| Failed::new("a session panicked"))??,
                ended,
            ))
        })?;

        match ended {
            Ok(stored) => expect_eq(beside, Enqueued::Existing(stored))?,
            Err(_) => expect(beside.is_new(), "the key of a rolled back job is taken")?,
        }
        expect_that("committed", commit, !beside.is_new())?;
        arena.expect_state(beside, State::Ready)?;
    }
    Ok(())
}
