//! Replay: dead jobs only, with a budget of their own.

use queue_table_core::{DedupScope, Disposition, ErrorText, JobId, MaxAttempts};

use super::super::prelude::*;
use super::dedup::{expect_existing, keyed};
use crate::fixture::Row;

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            a_replayed_job_is_due_at_once,
            "A replayed job is ready and due, has lost its end and its error, and keeps everything else",
            [C19, C20, C24],
        ),
        scenario!(
            replay_gives_a_dead_job_a_new_budget,
            "A replayed job keeps its id and attempts, refuses old receipts, and dies when the extra budget is spent",
            [C13, C19, C20],
        ),
        scenario!(
            only_dead_jobs_are_replayed,
            "Ready, running, succeeded and unknown jobs are not replayed",
            [C20, C26],
        ),
        scenario!(
            replay_is_refused_while_another_job_has_its_key,
            "A dead job is not replayed while its dedup key names another unfinished job",
            [C5, C20],
        ),
        scenario!(
            a_replayed_job_takes_its_key_back,
            "A replayed job has its dedup key again, when the job that took it is finished or purged",
            [C5, C20],
        ),
        scenario!(
            a_key_taken_back_has_its_jobs_own_scope,
            "A dedup key that a replayed job takes back names it as long as its own scope says, and no other replay",
            [C5, C20],
        ),
    ]
}

// Report 28: a replay that dies at once or resets the counter,
// https://github.com/garrytan/gbrain/pull/2974.
fn a_replayed_job_is_due_at_once<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.dead_job()?;
    arena.probe.rewind(job, Duration::from_secs(3_600))?;
    let before = arena.row(job)?;

    let replay = || Ok(arena.backend.replay(job, MaxAttempts::new(3)?)?);
    let (budget, span) = Span::of(arena, replay)?;

    expect_that("budget", budget, 4)?;
    let row = arena.row(job)?;
    span.expect("run_at", row.run_at, Duration::ZERO)?;
    let expected = Row {
        state: State::Ready,
        run_at: row.run_at,
        max_attempts: 4,
        finished_at: None,
        last_error: None,
        ..before
    };
    expect_eq(&row, &expected)?;
    expect_that("failures", arena.backend.failures(job)?.len(), 1)
}

fn replay_gives_a_dead_job_a_new_budget<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.store(&arena.job()?.with_max_attempts(1)?)?;
    let old = arena.claim_one("worker-a")?;
    arena.backend.fail_one(&retry(&old, 0, "no route")?)?;

    arena.backend.replay(job, MaxAttempts::new(2)?)?;

    for attempt in 2..=3 {
        arena.expect_state(job, State::Ready)?;
        let claimed = arena.claim_one("worker-a")?;
        expect_that("attempt", claimed.attempt(), attempt)?;
        let before = arena.snapshot()?;
        expect_lost(arena.backend.ack_one(&old.receipt), LostReason::Superseded)?;
        arena.expect_unchanged(&before)?;
        arena.backend.fail_one(&retry(&claimed, 0, "no route")?)?;
    }
    let row = arena.row(job)?;
    expect_eq(
        (row.state, row.attempts, row.max_attempts),
        (State::Dead, 3, 3),
    )
}

fn only_dead_jobs_are_replayed<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let succeeded = arena.succeeded_job()?;
    let running = arena.enqueue_and_claim("worker-a")?.job_id();
    let ready = arena.enqueue_one()?;
    let before = arena.snapshot()?;

    for (job, state) in [
        (succeeded, State::Succeeded),
        (running, State::Running),
        (ready, State::Ready),
    ] {
        let refused = expect_rejected(arena.backend.replay(job, MaxAttempts::default()))?;
        let told = matches!(refused, Rejected::WrongState { job_id, state: is, .. }
            if (job_id, is) == (job, state));
        expect(told, format_args!("another rejection: {refused}"))?;
    }
    let unknown = JobId::new(i64::MAX);
    let refused = expect_rejected(arena.backend.replay(unknown, MaxAttempts::default()))?;
    expect_that("rejection", refused, Rejected::NoSuchJob(unknown))?;
    arena.expect_unchanged(&before)
}

fn replay_is_refused_while_another_job_has_its_key<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = keyed(arena, DedupScope::WhileUnfinished)?;
    let first = arena.store(&job)?;
    arena
        .backend
        .cancel(first, &ErrorText::new("wrong address"))?;
    let second = arena.store(&job)?;
    for running in [false, true] {
        if running {
            expect_that("claimed", arena.claim_one("worker-a")?.job_id(), second)?;
        }
        let before = arena.snapshot()?;

        let refused = expect_rejected(arena.backend.replay(first, MaxAttempts::default()))?;

        let taken = Rejected::DedupKeyTaken {
            job_id: first,
            holder: second,
        };
        expect_that("rejection", refused, taken)?;
        arena.expect_unchanged(&before)?;
    }
    Ok(())
}

fn a_replayed_job_takes_its_key_back<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = keyed(arena, DedupScope::WhileUnfinished)?;
    let first = arena.store(&job)?;
    arena
        .backend
        .cancel(first, &ErrorText::new("wrong address"))?;
    let second = arena.store(&job)?;
    arena
        .backend
        .ack_one(&arena.claim_one("worker-a")?.receipt)?;

    arena.backend.replay(first, MaxAttempts::new(1)?)?;

    expect_existing(arena, &job, first)?;
    let claimed = arena.claim_one("worker-a")?;
    expect_that("claimed", claimed.job_id(), first)?;
    let disposition = arena.backend.fail_one(&retry(&claimed, 0, "again")?)?;
    expect_that("answer", disposition, Disposition::Dead)?;
    arena.probe.delete(second)?;
    arena.backend.replay(first, MaxAttempts::new(1)?)?;
    expect_existing(arena, &job, first)?;
    expect_that("keys", arena.probe.count("dedup")?, 1)
}

fn a_key_taken_back_has_its_jobs_own_scope<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let first = arena.store(&keyed(arena, DedupScope::WhileUnfinished)?)?;
    arena
        .backend
        .cancel(first, &ErrorText::new("wrong address"))?;
    let while_row = keyed(arena, DedupScope::WhileRowExists)?;
    let second = arena.store(&while_row)?;
    arena
        .backend
        .cancel(second, &ErrorText::new("wrong address"))?;
    expect_existing(arena, &while_row, second)?;

    arena.backend.replay(first, MaxAttempts::new(1)?)?;

    let refused = expect_rejected(arena.backend.replay(second, MaxAttempts::default()))?;
    let taken = Rejected::DedupKeyTaken {
        job_id: second,
        holder: first,
    };
    expect_that("rejection", refused, taken)?;
    arena
        .backend
        .ack_one(&arena.claim_one("worker-a")?.receipt)?;
    let third = arena.store(&while_row)?;
    expect_existing(arena, &while_row, third)
}
