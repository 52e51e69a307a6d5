//! When a job of a transaction is there for others.

use crate::scenario::Need;
use crate::scenarios::prelude::*;
use crate::scenarios::tx::{Left, roll_back};

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            a_job_of_a_rolled_back_transaction_never_appears,
            "A job enqueued in a transaction that rolls back never appears",
            [C1, C2],
        ),
        scenario!(
            a_job_of_a_committed_transaction_is_there_with_the_effect,
            "A job enqueued in a transaction is there once it commits, in the same commit as the caller's row",
            [C1, C2],
        ),
        scenario!(
            a_job_of_an_open_transaction_is_not_waited_for,
            "A claim neither sees nor waits for a job whose transaction is still open",
            [C1, C10],
        )
        .needs(Need::RowLocks(true)),
        scenario!(
            a_job_of_an_open_transaction_is_not_read,
            "A reader neither sees nor waits for a job whose transaction is still open",
            [C1],
        )
        .needs(Need::RowLocks(false)),
        scenario!(
            a_claim_that_starts_during_a_transaction_gets_its_job_after_the_commit,
            "A claim that starts while the enqueuing transaction is open gets the job only after the commit",
            [C1, C10],
        ),
        scenario!(
            the_next_job_and_the_ack_are_one_commit,
            "An ack and the enqueue of the next job are stored together or not at all",
            [C1, C17],
        ),
        scenario!(
            failed_transactions_leave_the_session_clean,
            "After transactions that failed at every point, the same session works as before",
            [C17, C27],
        ),
    ]
}

fn a_job_of_a_rolled_back_transaction_never_appears<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let (job, before) = (arena.job()?, arena.snapshot()?);

    let rolled_back = arena.backend.transaction(|tx| {
        arena.probe.effect_in(tx, "order")?;
        arena.backend.enqueue_in(tx, &[job])?;
        roll_back::<()>()
    });

    expect(rolled_back.is_err(), "the transaction's error is lost")?;
    arena.expect_unchanged(&before)?;
    expect_eq(arena.claim("worker-a", 1)?, [])
}

fn a_job_of_a_committed_transaction_is_there_with_the_effect<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    let job = arena.job()?;

    let stored = arena.backend.transaction(|tx| {
        arena.probe.effect_in(tx, "order")?;
        Ok::<_, Left>(arena.backend.enqueue_in(tx, &[job])?)
    })?;

    let stored = expect_one(stored, "stored job")?;
    expect(stored.is_new(), "the job is said to exist already")?;
    expect_eq(arena.probe.effects()?, ["order"])?;
    arena.expect_state(stored, State::Ready)?;
    let claimed = expect_one(arena.session()?.claim(&arena.request("worker-a")?)?, "job")?;
    expect_that("the claimed job", claimed.job_id(), stored.job_id())
}

/// Report 15, where rows are locked one by one.
fn a_job_of_an_open_transaction_is_not_waited_for<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let (job, other) = (arena.job()?, arena.session()?);
    let request = arena.request("worker-a")?;

    let stored = arena.backend.transaction(|tx| {
        let stored = arena.backend.enqueue_in(tx, &[job])?;
        let start = std::time::Instant::now();
        expect_eq(other.claim(&request)?, [])?;
        expect_within(start, Duration::from_secs(3), "the claim")?;
        Ok::<_, Left>(stored)
    })?;

    let claimed = expect_one(other.claim(&request)?, "claimed job")?;
    expect_that(
        "claimed",
        Some(claimed.job_id()),
        stored.first().map(|job| job.job_id()),
    )
}

/// Report 15, where there is one writer: its readers go on.
fn a_job_of_an_open_transaction_is_not_read<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let (job, other) = (arena.job()?, arena.session()?);

    let stored = arena.backend.transaction(|tx| {
        let stored = expect_one(arena.backend.enqueue_in(tx, &[job])?, "stored job")?;
        expect_eq(other.get(stored.job_id())?, None)?;
        expect_eq(other.stats(Some(&arena.queue))?, [])?;
        expect_eq(arena.probe.ids()?, [])?;
        Ok::<_, Left>(stored)
    })?;

    let read = expect_some(other.get(stored.job_id())?, "committed job")?;
    expect_that("state", read.state, State::Ready)
}

/// Report 15 as a race, for every engine.
fn a_claim_that_starts_during_a_transaction_gets_its_job_after_the_commit<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    let (job, other) = (arena.job()?, arena.session()?);
    let request = arena.request("worker-a")?;
    let patience = Duration::from_secs(20);

    std::thread::scope(|scope| {
        let claimer = scope.spawn(|| {
            let start = std::time::Instant::now();
            loop {
                if let Some(claimed) = other.claim(&request)?.pop() {
                    return Check::Ok((claimed.job_id(), arena.probe.effects()?));
                }
                expect_within(start, patience, "the claim of the committed job")?;
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let stored = arena.backend.transaction(|tx| {
            let stored = arena.backend.enqueue_in(tx, &[job])?;
            std::thread::sleep(Duration::from_millis(50));
            arena.probe.effect_in(tx, "order")?;
            Ok::<_, Left>(expect_one(stored, "stored job")?)
        })?;
        let claimer = claimer.join();
        let (claimed, effects) = claimer.map_err(|_| Failed::new("the claimer panicked"))??;
        expect_that("the claimed job", claimed, stored.job_id())?;
        expect_that("effects seen by its worker", effects, ["order"])
    })
}

fn the_next_job_and_the_ack_are_one_commit<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let first = arena.enqueue_and_claim("worker-a")?;
    let (next, before) = (arena.job()?, arena.snapshot()?);
    let step = |commit: bool| {
        arena.backend.transaction(|tx| {
            arena.backend.ack_in(tx, &first.receipt)?;
            let next = arena.backend.enqueue_in(tx, std::slice::from_ref(&next))?;
            if commit { Ok(next) } else { roll_back() }
        })
    };

    expect(step(false).is_err(), "the transaction's error is lost")?;
    arena.expect_unchanged(&before)?;
    let next = expect_one(step(true)?, "next job")?;

    arena.expect_state(&first, State::Succeeded)?;
    arena.expect_state(next, State::Ready)
}

/// Report 63: an open transaction or a lock that is left behind would swallow or stop what comes
/// after it.
fn failed_transactions_leave_the_session_clean<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let held = arena.enqueue_and_claim("worker-a")?;
    let (job, before) = (arena.job()?, arena.snapshot()?);

    for steps in 0..12 {
        let rolled_back = arena.backend.transaction(|tx| {
            if steps % 4 > 0 {
                arena.backend.enqueue_in(tx, std::slice::from_ref(&job))?;
            }
            if steps % 4 > 1 {
                arena.backend.ack_in(tx, &held.receipt)?;
            }
            if steps % 4 > 2 {
                arena.backend.ack_in(tx, &held.receipt)?;
            }
            roll_back::<()>()
        });
        expect(rolled_back.is_err(), "the transaction's error is lost")?;
    }

    arena.expect_unchanged(&before)?;
    arena.session()?.ack_one(&held.receipt)?;
    arena.enqueue_and_claim("worker-b").map(|_| ())
}
