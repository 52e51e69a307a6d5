//! Workers beside each other, beside locks, and what becomes of jobs that fail again and again.

use queue_table_core::Outcome;

use super::super::prelude::*;
use super::steps::{Diary, start, wait_for_state, wait_until, worker};
use crate::scenario::Need;

pub(crate) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            two_workers_share_the_jobs,
            "Two workers on sessions of their own run the jobs of one queue once each",
            [C8, C10, C13],
        ),
        scenario!(
            a_job_that_always_fails_dies_when_its_budget_is_spent,
            "A handler's errors are recorded attempt by attempt, and the last one leaves the job dead",
            [C13, C19],
        ),
        scenario!(
            a_handler_can_give_its_job_up,
            "A job that its handler gives up for good is dead at once, with attempts left",
            [C13, C19],
        ),
        scenario!(
            a_worker_outwaits_a_lock_on_its_jobs,
            "A worker whose jobs are locked by somebody else stays alive, and runs them all when they are let go",
            [C10, C11],
        ),
        scenario!(
            handlers_in_long_transactions_keep_their_leases,
            "Handlers that hold a transaction open for three leases are renewed beside it, and commit",
            [C13, C17],
        )
        .needs(Need::RowLocks(true)),
        scenario!(
            a_handler_that_holds_the_writer_is_not_taken_over_while_it_does,
            "A handler that holds the one writer past its lease cannot be replaced meanwhile, and either commits or learns it",
            [C14, C17],
        )
        .needs(Need::RowLocks(false)),
    ]
}

/// Report 17, with the whole worker.
fn two_workers_share_the_jobs<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let jobs = arena.enqueue(40)?;
    let diary = Diary::default();
    let begin = || {
        let notes = diary.clone();
        start::<F>(worker(arena)?.handle_kind("note", 1..=1, move |job, _| {
            notes.note(job);
            std::thread::sleep(Duration::from_millis(2));
        }))
    };

    let both = [begin()?, begin()?];
    wait_until("all jobs are done", || {
        let succeeded = |row: &crate::fixture::Row| row.state == State::Succeeded;
        Ok(arena.rows()?.iter().all(succeeded))
    })?;
    let reports = both.map(|worker| worker.stop(Duration::from_secs(5)));

    let mut seen = diary.seen();
    seen.sort_unstable();
    let each_once: Vec<_> = jobs.into_iter().map(|job| (job, 1)).collect();
    expect_that("runs", seen, each_once)?;
    let lost: u64 = reports.iter().map(|report| report.lost.total()).sum();
    expect_that("lost claims", lost, 0)
}

fn a_job_that_always_fails_dies_when_its_budget_is_spent<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    let job = arena.store(&arena.job()?.with_max_attempts(3)?)?;

    let worker = start::<F>(worker(arena)?.handle_kind("note", 1..=1, |job, _| {
        Err::<(), String>(format!("no route at attempt {}", job.attempt()))
    }))?;
    wait_for_state(arena, job, State::Dead)?;
    let report = worker.stop(Duration::from_secs(5));

    expect_that("retried and dead", (report.retried, report.dead), (2, 1))?;
    let failures = arena.backend.failures(job)?;
    let recorded = failures
        .iter()
        .map(|one| (one.attempt, one.error.as_deref()));
    let text = [1, 2, 3].map(|attempt| format!("no route at attempt {attempt}"));
    let expected = (1..).zip(text.iter().map(|text| Some(text.as_str())));
    expect_eq(recorded.collect::<Vec<_>>(), expected.collect::<Vec<_>>())?;
    expect_that("attempts", arena.row(job)?.attempts, 3)
}

fn a_handler_can_give_its_job_up<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.enqueue_one()?;

    let worker = start::<F>(
        worker(arena)?.handle_kind("note", 1..=1, |_, _| Outcome::dead("no such address\0 🍺")),
    )?;
    wait_until("the job is given up", || Ok(worker.report().dead == 1))?;
    worker.stop(Duration::from_secs(5));

    let row = arena.row(job)?;
    expect_eq((row.state, row.attempts), (State::Dead, 1))?;
    let stored = row.last_error.as_deref();
    expect_that("last error", stored, Some("no such address\u{fffd} 🍺"))
}

/// Report 16: an empty poll is not the end of the queue.
fn a_worker_outwaits_a_lock_on_its_jobs<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.enqueue_one()?;
    let held = arena.hold(job, Duration::from_millis(400))?;

    let worker = start::<F>(worker(arena)?.handle_kind("note", 1..=1, |_, _| ()))?;
    wait_for_state(arena, job, State::Succeeded)?;
    let report = worker.stop(Duration::from_secs(5));

    held.released()?;
    expect_that("errors", report.errors, 0)?;
    expect_that("attempts", arena.row(job)?.attempts, 1)
}

/// Report 31: a renewal that waits for a connection which the handlers hold comes too late.
fn handlers_in_long_transactions_keep_their_leases<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let jobs = arena.enqueue(8)?;
    let builder = worker(arena)?.slots(8).lease(Duration::from_secs(1));

    let worker = start::<F>(builder.handle_kind("note", 1..=1, |_, context| {
        context.transaction(|_| {
            std::thread::sleep(Duration::from_secs(3));
            Ok::<(), queue_table_core::Error>(())
        })
    }))?;
    for job in &jobs {
        wait_for_state(arena, *job, State::Succeeded)?;
    }
    let report = worker.stop(Duration::from_secs(5));

    expect_that("lost claims", report.lost.total(), 0)?;
    for job in jobs {
        expect_that("attempts", arena.row(job)?.attempts, 1)?;
    }
    Ok(())
}

/// Where there is one writer a renewal waits for it too. What counts is that the job is done once.
fn a_handler_that_holds_the_writer_is_not_taken_over_while_it_does<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    let job = arena.enqueue_one()?;
    let probe = arena.shared_probe();
    let builder = worker(arena)?.lease(Duration::from_millis(300));
    let builder = builder.reap_every(Duration::from_millis(50));

    let worker = start::<F>(builder.handle_kind("note", 1..=1, move |job, context| {
        context.transaction(|tx| {
            let first = job.attempt() == 1;
            let held = Duration::from_millis(if first { 450 } else { 1 });
            std::thread::sleep(held);
            let effect = format!("paid at attempt {}", job.attempt());
            probe
                .effect_in(tx, &effect)
                .map_err(|_| lost_connection())?;
            Ok::<(), queue_table_core::Error>(())
        })
    }))?;
    wait_for_state(arena, job, State::Succeeded)?;
    let report = worker.stop(Duration::from_secs(5));

    expect_that("succeeded", report.succeeded, 1)?;
    let attempts = arena.row(job)?.attempts;
    expect_eq(
        arena.probe.effects()?,
        [format!("paid at attempt {attempts}")],
    )
}

fn lost_connection() -> queue_table_core::Error {
    let failed = queue_table_core::Failed::new("the test", "effect", "the transaction is over");
    queue_table_core::Error::Unavailable(failed)
}
