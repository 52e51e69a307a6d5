//! Claiming, running, and what becomes of a handler's outcome.

use queue_table_core::{Kind, NewJob, Outcome, Waiter, Woken};

use super::super::prelude::*;
use super::steps::{Diary, OFTEN, start, wait_for_state, wait_until, worker};

pub(crate) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            a_waiting_worker_is_woken_by_an_enqueue,
            "An enqueue wakes a worker of the same backend that waits for its queue",
            [C11],
        ),
        scenario!(
            a_worker_runs_each_job_once,
            "A worker runs every job of its queue once and acks it",
            [C8, C10, C13],
        ),
        scenario!(
            a_worker_leaves_unknown_kinds_alone,
            "A worker does not claim jobs of kinds it has no handler for",
            [C7],
        ),
        scenario!(
            a_worker_leaves_a_paused_queue_alone,
            "A worker runs no job of a paused queue, and goes on when it is resumed",
            [C7],
        ),
        scenario!(
            a_panicking_handler_fails_its_own_job_only,
            "A handler that panics fails its job, and the worker runs the next",
            [C13, C19],
        ),
        scenario!(
            a_payload_that_no_handler_can_read_goes_dead,
            "A job whose payload cannot be decoded goes dead with its bytes as they were, its neighbours run",
            [C4, C13],
        ),
        scenario!(
            a_snoozed_job_keeps_its_budget,
            "A handler that snoozes its job gives it back without spending the budget",
            [C13, C19],
        ),
    ]
}

fn a_waiting_worker_is_woken_by_an_enqueue<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let mut waiter = Waiter::new([arena.queue.clone()]);
    expect_eq(arena.claim("worker-a", 1)?, [])?;

    let woken = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| arena.backend.wait(&mut waiter, Duration::from_secs(30)));
        arena.enqueue_one()?;
        waiting
            .join()
            .map_err(|_| Failed::new("the waiter panicked"))
    })?;

    expect_eq(woken?, Woken::Rung)?;
    arena.claim_one("worker-a").map(|_| ())
}

fn a_worker_runs_each_job_once<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let jobs = arena.enqueue(20)?;
    let diary = Diary::default();
    let notes = diary.clone();
    let builder = worker(arena)?.slots(4);

    let worker = start::<F>(builder.handle_kind("note", 1..=1, move |job, _| notes.note(job)))?;
    for job in &jobs {
        wait_for_state(arena, *job, State::Succeeded)?;
    }
    let report = worker.stop(Duration::from_secs(5));

    let mut seen = diary.seen();
    seen.sort_unstable();
    let once: Vec<_> = jobs.iter().map(|job| (*job, 1)).collect();
    expect_that("runs", seen, once)?;
    expect_that("jobs reported as succeeded", report.succeeded, 20)
}

fn a_worker_leaves_unknown_kinds_alone<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let payload = arena.job()?.payload().clone();
    let other = NewJob::new(&arena.queue, Kind::new("unknown")?, payload);
    let unknown = arena.store(&other.with_priority(9))?;
    let known = arena.enqueue_one()?;

    let worker = start::<F>(worker(arena)?.handle_kind("note", 1..=1, |_, _| ()))?;
    wait_for_state(arena, known, State::Succeeded)?;
    worker.stop(Duration::from_secs(5));

    let row = arena.row(unknown)?;
    expect_that("state", row.state, State::Ready)?;
    expect_that("attempts", row.attempts, 0)
}

fn a_worker_leaves_a_paused_queue_alone<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    arena.backend.pause(&arena.queue)?;
    let job = arena.enqueue_one()?;

    let worker = start::<F>(worker(arena)?.handle_kind("note", 1..=1, |_, _| ()))?;
    std::thread::sleep(5 * OFTEN);
    expect_that("attempts while paused", arena.row(job)?.attempts, 0)?;
    arena.backend.resume(&arena.queue)?;

    wait_for_state(arena, job, State::Succeeded)?;
    worker.stop(Duration::from_secs(5));
    Ok(())
}

fn a_panicking_handler_fails_its_own_job_only<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let bad = arena.store(&arena.job_with("\"bad\"")?.with_max_attempts(1)?)?;
    let good = arena.store(&arena.job_with("\"good\"")?)?;

    let builder = worker(arena)?.slots(1);
    let worker = start::<F>(builder.handle_kind("note", 1..=1, |job, _| {
        if job.payload.as_bytes() == b"\"bad\"" {
            // Unwinds as a panic does, without its message on the test's output.
            std::panic::resume_unwind(Box::new("no disk"));
        }
    }))?;
    wait_for_state(arena, good, State::Succeeded)?;
    wait_for_state(arena, bad, State::Dead)?;
    let report = worker.stop(Duration::from_secs(5));

    expect_that("panics", report.panicked, 1)?;
    let error = arena.row(bad)?.last_error.unwrap_or_default();
    expect(
        error.contains("no disk"),
        format_args!("last error: {error}"),
    )
}

fn a_payload_that_no_handler_can_read_goes_dead<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let jobs = arena.enqueue(3)?;
    let (broken, text) = (jobs[1], "\"text where a number should be\"");
    let written = arena.probe.write(broken, &[Change::Payload(text)])?;
    expect_eq(written, Written::Stored)?;

    let builder = worker(arena)?;
    let worker = start::<F>(builder.handle::<Number, (), _>(|_, _| ()))?;
    wait_for_state(arena, jobs[0], State::Succeeded)?;
    wait_for_state(arena, jobs[2], State::Succeeded)?;
    wait_for_state(arena, broken, State::Dead)?;
    worker.stop(Duration::from_secs(5));

    expect_eq(arena.row(broken)?.payload, text.as_bytes())
}

/// The payload of [`Arena::enqueue`].
#[derive(serde::Serialize, serde::Deserialize)]
struct Number(u32);

impl queue_table_core::Job for Number {
    const KIND: &'static str = "note";
}

fn a_snoozed_job_keeps_its_budget<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.store(&arena.job()?.with_max_attempts(1)?)?;
    let hour = Duration::from_secs(3_600);

    let builder = worker(arena)?;
    let worker = start::<F>(builder.handle_kind("note", 1..=1, move |_, _| Outcome::snooze(hour)))?;
    wait_until("the worker has snoozed it", || {
        Ok(worker.report().snoozed == 1)
    })?;
    worker.stop(Duration::from_secs(5));

    let row = arena.row(job)?;
    expect_that("state", row.state, State::Ready)?;
    expect_that(
        "attempts and budget",
        (row.attempts, row.max_attempts),
        (1, 2),
    )?;
    let left = row.run_at.since(arena.probe.now()?);
    expect(left > hour / 2, format_args!("due in {left:?}"))
}
