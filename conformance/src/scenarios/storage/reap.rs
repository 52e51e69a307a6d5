//! Reap: overdue claims, and ready jobs without attempts.

use queue_table_core::{BatchSize, Disposition, FailureCause, ReapRequest, Reaped, RetryPolicy};

use super::super::prelude::*;
use crate::fixture::Row;

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            an_overdue_job_is_ready_after_its_retry_delay,
            "A running job whose lease is over is ready after the policy's delay, and recorded as reaped",
            [C18, C19, C24],
        ),
        scenario!(
            an_overdue_job_without_attempts_is_dead,
            "A running job whose lease is over and whose attempts are spent is dead",
            [C18, C20],
        ),
        scenario!(
            reap_leaves_everything_else_alone,
            "Reap touches no live claim, no ready job, no scheduled one and no finished one",
            [C18],
        ),
        scenario!(
            a_job_that_kills_its_workers_dies,
            "A job whose worker vanishes each time is dead after max_attempts claims",
            [C18, C19],
        ),
        scenario!(
            reap_delays_by_the_lost_attempt,
            "The delay after a lost lease grows with the attempts, is never zero and never beyond the cap",
            [C18, C19],
        ),
        scenario!(
            reap_is_bounded_and_takes_the_oldest_first,
            "Reap takes at most what it is asked for, the oldest deadlines first, from every queue",
            [C18],
        ),
        scenario!(
            ready_jobs_without_attempts_are_buried,
            "Reap makes ready jobs without attempts left dead, keeps their last error, and records no failure",
            [C18, C21],
        ),
        scenario!(
            burying_is_bounded_too,
            "Overdue claims and jobs without attempts together never exceed a reap's limit, and all go in the end",
            [C18, C21],
        ),
    ]
}

// Reports 33, 34 and 45: half-reset rows, and attempts that burn within one poll.
fn an_overdue_job_is_ready_after_its_retry_delay<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let claimed = arena.enqueue_and_claim("worker-a")?;
    arena.let_lease_expire(&claimed)?;
    let before = arena.row(&claimed)?;

    let (reaped, span) = Span::of(arena, || expect_one(arena.reap()?, "reaped job"))?;

    let row = arena.row(&claimed)?;
    span.expect("run_at", row.run_at, Duration::from_secs(60))?;
    let expected = Reaped {
        job_id: row.job_id,
        queue: arena.queue.clone(),
        attempt: 1,
        worker: Some(WorkerId::new("worker-a")?),
        disposition: Disposition::Ready { run_at: row.run_at },
    };
    expect_that("answer", reaped, expected)?;
    let expected = Row {
        state: State::Ready,
        run_at: row.run_at,
        worker_id: None,
        lease_until: None,
        last_error: Some("lease expired".to_owned()),
        ..before
    };
    expect_eq(&row, &expected)?;
    let record = expect_one(arena.backend.failures(row.job_id)?, "failure")?;
    span.expect("failure's time", record.at, Duration::ZERO)?;
    let told = (record.attempt, record.worker.as_str(), record.cause);
    expect_that("failure", told, (1, "worker-a", FailureCause::Reaped))?;
    expect_eq(arena.claim("worker-b", 1)?, [])
}

fn an_overdue_job_without_attempts_is_dead<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    arena.store(&arena.job()?.with_max_attempts(1)?)?;
    let claimed = arena.claim_one("worker-a")?;
    arena.let_lease_expire(&claimed)?;
    let before = arena.row(&claimed)?;

    let (reaped, span) = Span::of(arena, || expect_one(arena.reap()?, "reaped job"))?;

    expect_that("answer", reaped.disposition, Disposition::Dead)?;
    let row = arena.row(&claimed)?;
    span.expect("finished_at", row.finished_at, Duration::ZERO)?;
    let expected = Row {
        state: State::Dead,
        worker_id: None,
        lease_until: None,
        finished_at: row.finished_at,
        last_error: Some("lease expired".to_owned()),
        ..before
    };
    expect_eq(&row, &expected)?;
    let record = expect_one(arena.backend.failures(row.job_id)?, "failure")?;
    let told = (record.cause, record.error.as_deref());
    expect_that(
        "failure",
        told,
        (FailureCause::Reaped, Some("lease expired")),
    )
}

fn reap_leaves_everything_else_alone<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    arena.succeeded_job()?;
    arena.dead_job()?;
    arena.enqueue(2)?;
    arena.claim_one("worker-a")?;
    arena.store(&arena.job()?.with_delay(Duration::from_secs(3_600))?)?;
    for row in arena
        .rows()?
        .iter()
        .filter(|row| row.state != State::Running)
    {
        arena.probe.rewind(row.job_id, Duration::from_secs(600))?;
    }
    let before = arena.snapshot()?;

    let reaped = arena.reap()?;

    expect_eq(reaped, [])?;
    arena.expect_unchanged(&before)
}

// Reports 25 and 26: a job that kills its worker is redelivered for ever,
// https://github.com/ggozad/haiku.rag/pull/470.
fn a_job_that_kills_its_workers_dies<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.store(&arena.job()?.with_max_attempts(3)?)?;
    for attempt in 1..=3 {
        let claimed = arena.claim_one("worker-a")?;
        expect_that("attempt", claimed.attempt(), attempt)?;
        arena.let_lease_expire(&claimed)?;

        let reaped = arena.reap_one()?;

        expect_that("reaped attempt", reaped.attempt, attempt)?;
        expect_that("stored attempts", arena.row(job)?.attempts, attempt)?;
    }
    let row = arena.row(job)?;
    expect_that("state", row.state, State::Dead)?;
    expect(row.finished_at.is_some(), "it has no end")?;
    expect_that("failures", arena.backend.failures(job)?.len(), 3)?;
    expect_eq(arena.claim("worker-a", 1)?, [])
}

// Reports 42 and 45: delays that wrap to zero at high attempts,
// https://github.com/scylladb/latte/pull/208.
fn reap_delays_by_the_lost_attempt<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let seconds = Duration::from_secs;
    let policy = RetryPolicy::new(seconds(10), 2.0, seconds(3_600))?.with_jitter(0.0)?;
    let request = ReapRequest::new(BatchSize::MAX, policy);
    let budget = Change::MaxAttempts(2_000_000_000);
    for (attempts, expected) in [(1, 10), (3, 40), (70, 3_600), (1_999_999_999, 3_600)] {
        let claimed = arena.enqueue_and_claim("worker-a")?;
        let changes = [Change::Attempts(attempts), budget.clone()];
        let written = arena.probe.write(claimed.job_id(), &changes)?;
        expect_that("raw attempts", written, Written::Stored)?;
        arena.let_lease_expire(&claimed)?;

        let (reaped, span) = Span::of(arena, || Ok(arena.backend.reap(&request)?))?;

        expect_that(
            "reaped",
            expect_one(reaped, "job")?.job_id,
            claimed.job_id(),
        )?;
        let run_at = arena.row(&claimed)?.run_at;
        span.expect(
            &format!("run_at after {attempts}"),
            run_at,
            seconds(expected),
        )?;
    }
    Ok(())
}

fn reap_is_bounded_and_takes_the_oldest_first<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    arena.enqueue(3)?;
    let mut overdue = ids(&arena.claim("worker-a", 3)?);
    let other = job_for("billing")?;
    overdue.push(arena.store(&other)?);
    let worker = WorkerId::new("worker-b")?;
    let request = queue_table_core::ClaimRequest::new(other.queue().clone(), worker);
    arena.backend.claim(&request)?;
    for (job, minutes) in overdue.iter().zip([5, 20, 3, 30]) {
        arena
            .probe
            .rewind(*job, Duration::from_secs(minutes * 60))?;
    }
    let policy = RetryPolicy::fixed(Duration::from_secs(60))?;
    let request = ReapRequest::new(BatchSize::new(2)?, policy);
    let reap = || {
        let reaped = arena.backend.reap(&request)?;
        let jobs = reaped.into_iter().map(|one| one.job_id);
        Ok::<_, Failed>(jobs.collect::<Vec<_>>())
    };

    expect_that("first round", reap()?, [overdue[3], overdue[1]])?;
    arena.expect_state(overdue[0], State::Running)?;
    expect_that("second round", reap()?, [overdue[0], overdue[2]])?;
    expect_that("third round", reap()?, [])?;
    let rows = arena.rows()?;
    let ready = rows.iter().all(|row| row.state == State::Ready);
    expect(ready, format_args!("not all are ready: {rows:?}"))
}

// Report 27: ready rows at the limit sit for ever, https://github.com/oban-bg/oban/issues/532.
fn ready_jobs_without_attempts_are_buried<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let failed = arena.enqueue_and_claim("worker-a")?;
    arena
        .backend
        .fail_one(&retry(&failed, 3_600, "no route")?)?;
    let fresh = arena.enqueue_one()?;
    for (job, spent) in [(failed.job_id(), 1), (fresh, 5)] {
        let changes = [Change::Attempts(spent), Change::MaxAttempts(1)];
        let written = arena.probe.write(job, &changes)?;
        expect_that("raw attempts", written, Written::Stored)?;
    }
    let before = arena.rows()?;

    let (reaped, span) = Span::of(arena, || arena.reap())?;

    expect_that("reaped jobs", reaped.len(), 2)?;
    let errors = ["no route", "no attempts left"];
    for (before, error) in before.into_iter().zip(errors) {
        let answer = reaped.iter().find(|one| one.job_id == before.job_id);
        let answer = expect_some(answer, format_args!("answer for {}", before.job_id))?;
        expect_that("answer", answer.disposition, Disposition::Dead)?;
        expect_that("worker", &answer.worker, &None)?;
        let row = arena.row(&before)?;
        span.expect("finished_at", row.finished_at, Duration::ZERO)?;
        let expected = Row {
            state: State::Dead,
            finished_at: row.finished_at,
            last_error: Some(error.to_owned()),
            ..before
        };
        expect_eq(&row, &expected)?;
    }
    expect_that("failures", arena.probe.count("failure")?, 1)
}

fn burying_is_bounded_too<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let jobs = arena.enqueue(6)?;
    for claimed in arena.claim("worker-a", 3)? {
        arena.let_lease_expire(&claimed)?;
    }
    for job in &jobs[3..] {
        let spent = [Change::Attempts(1), Change::MaxAttempts(1)];
        arena.probe.write(*job, &spent)?;
    }
    let policy = RetryPolicy::fixed(Duration::from_secs(60))?;
    let request = ReapRequest::new(BatchSize::new(2)?, policy);

    for round in 1..=3 {
        let reaped = arena.backend.reap(&request)?;
        let moved = arena.rows()?.into_iter().filter(|row| {
            row.state == State::Dead || row.last_error.as_deref() == Some("lease expired")
        });
        expect_that("answered", reaped.len(), 2)?;
        expect_that("moved so far", moved.count(), 2 * round)?;
    }
    expect_eq(arena.backend.reap(&request)?, [])?;
    for job in &jobs[3..] {
        arena.expect_state(job, State::Dead)?;
    }
    Ok(())
}
