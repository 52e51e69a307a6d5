//! Fail: retry, dead, release, and the record of failures.

use queue_table_core::{Disposition, ErrorText, FailAction, Failure, FailureCause};

use super::super::prelude::*;
use crate::fixture::Row;

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            a_failed_job_waits_for_its_retry_delay,
            "A job that failed is ready again, due at the database's now plus its delay, and not before",
            [C7, C13, C19, C24],
        ),
        scenario!(
            a_job_that_failed_its_last_attempt_is_dead,
            "A job that fails with no attempt left is dead, whatever delay was asked for",
            [C13, C19, C20],
        ),
        scenario!(
            a_job_given_up_for_good_is_dead,
            "A job that is given up as dead is dead, however many attempts are left",
            [C13, C20],
        ),
        scenario!(
            a_released_job_is_ready_with_a_larger_budget,
            "A released job is ready after its delay, its budget one larger, its last error kept, no failure recorded",
            [C13, C19, C24],
        ),
        scenario!(
            a_release_may_say_why,
            "A release with a text stores it as the last error, and still records no failure",
            [C13, C19],
        ),
        scenario!(
            releases_never_spend_the_budget,
            "A job with one attempt survives any number of releases, and dies of its first failure",
            [C19],
        ),
        scenario!(
            a_failure_may_have_no_text,
            "A failure without a text is recorded without one, and leaves no older error standing",
            [C13, C26],
        ),
        scenario!(
            every_failed_attempt_is_recorded,
            "Each failed and reaped attempt of a job is recorded with its worker, time, cause and error",
            [C18, C19],
        ),
        scenario!(
            failures_in_a_batch_go_their_own_ways,
            "In one batch, one job is retried, one dies, one is released, each with its own delay and text",
            [C13, C16],
        ),
    ]
}

// Report 34: SET evaluates from left to right on some engines,
// https://github.com/dolthub/doltgresql/issues/3092.
fn a_failed_job_waits_for_its_retry_delay<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let claimed = arena.enqueue_and_claim("worker-a")?;
    let (before, failure) = (arena.row(&claimed)?, retry(&claimed, 60, "no route")?);

    let (answer, span) = Span::of(arena, || Ok(arena.backend.fail_one(&failure)?))?;

    let row = arena.row(&claimed)?;
    span.expect("run_at", row.run_at, Duration::from_secs(60))?;
    expect_that("answer", answer, Disposition::Ready { run_at: row.run_at })?;
    let expected = Row {
        state: State::Ready,
        run_at: row.run_at,
        worker_id: None,
        lease_until: None,
        last_error: Some("no route".to_owned()),
        ..before
    };
    expect_eq(&row, &expected)?;
    expect_eq(arena.claim("worker-a", 1)?, [])?;
    arena.let_come_due(&claimed)?;
    expect_that("attempt", arena.claim_one("worker-a")?.attempt(), 2)
}

// Reports 34 and 25: the same for the last attempt.
fn a_job_that_failed_its_last_attempt_is_dead<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    arena.store(&arena.job()?.with_max_attempts(1)?)?;
    let claimed = arena.claim_one("worker-a")?;
    let (before, failure) = (arena.row(&claimed)?, retry(&claimed, 60, "no route")?);

    let (answer, span) = Span::of(arena, || Ok(arena.backend.fail_one(&failure)?))?;

    expect_that("answer", answer, Disposition::Dead)?;
    expect_dead(arena, before, span, "no route")
}

fn a_job_given_up_for_good_is_dead<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let claimed = arena.enqueue_and_claim("worker-a")?;
    let before = arena.row(&claimed)?;
    let failure = Failure::dead(claimed.receipt, ErrorText::new("no such address"));

    let (answer, span) = Span::of(arena, || Ok(arena.backend.fail_one(&failure)?))?;

    expect_that("answer", answer, Disposition::Dead)?;
    expect_dead(arena, before, span, "no such address")
}

/// Fails unless the row is as before, but dead of this error and recorded as failed.
fn expect_dead<F: Fixture>(arena: &Arena<'_, F>, before: Row, span: Span, error: &str) -> Check {
    let row = arena.row(&before)?;
    span.expect("finished_at", row.finished_at, Duration::ZERO)?;
    let expected = Row {
        state: State::Dead,
        worker_id: None,
        lease_until: None,
        finished_at: row.finished_at,
        last_error: Some(error.to_owned()),
        ..before
    };
    expect_eq(&row, &expected)?;
    let record = expect_one(arena.backend.failures(row.job_id)?, "failure")?;
    expect_that("cause", record.cause, FailureCause::Failed)?;
    expect_that("error", record.error.as_deref(), Some(error))?;
    expect_eq(arena.claim("worker-b", 1)?, [])
}

fn a_released_job_is_ready_with_a_larger_budget<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let failed = arena.enqueue_and_claim("worker-a")?;
    arena.backend.fail_one(&retry(&failed, 0, "no route")?)?;
    let claimed = arena.claim_one("worker-a")?;
    let before = arena.row(&claimed)?;
    let release = Failure::release(claimed.receipt.clone(), delay(Duration::from_secs(60))?);

    let (answer, span) = Span::of(arena, || Ok(arena.backend.fail_one(&release)?))?;

    let row = arena.row(&claimed)?;
    span.expect("run_at", row.run_at, Duration::from_secs(60))?;
    expect_that("answer", answer, Disposition::Ready { run_at: row.run_at })?;
    let expected = Row {
        state: State::Ready,
        run_at: row.run_at,
        max_attempts: before.max_attempts + 1,
        worker_id: None,
        lease_until: None,
        ..before
    };
    expect_eq(&row, &expected)?;
    expect_that("last error", row.last_error.as_deref(), Some("no route"))?;
    let failures = arena.backend.failures(row.job_id)?;
    expect_that("failures", failures.len(), 1)
}

fn a_release_may_say_why<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let claimed = arena.enqueue_and_claim("worker-a")?;
    let after = delay(Duration::from_secs(60))?;
    let release = Failure {
        error: Some(ErrorText::new("shutting down")),
        ..Failure::release(claimed.receipt.clone(), after)
    };

    arena.backend.fail_one(&release)?;

    let row = arena.row(&claimed)?;
    expect_that(
        "last error",
        row.last_error.as_deref(),
        Some("shutting down"),
    )?;
    expect_that("state", row.state, State::Ready)?;
    expect_that("failures", arena.probe.count("failure")?, 0)
}

fn releases_never_spend_the_budget<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    arena.store(&arena.job()?.with_max_attempts(1)?)?;
    for attempt in 1..=5 {
        let claimed = arena.claim_one("worker-a")?;
        expect_that("attempt", claimed.attempt(), attempt)?;
        let release = Failure::release(claimed.receipt, delay(Duration::ZERO)?);
        arena.backend.fail_one(&release)?;
    }
    let last = arena.claim_one("worker-a")?;

    arena.backend.fail_one(&retry(&last, 0, "no route")?)?;

    let row = arena.row(&last)?;
    expect_that("state", row.state, State::Dead)?;
    expect_that("attempts", (row.attempts, row.max_attempts), (6, 6))
}

fn a_failure_may_have_no_text<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let first = arena.enqueue_and_claim("worker-a")?;
    arena.backend.fail_one(&retry(&first, 0, "no route")?)?;
    let second = arena.claim_one("worker-a")?;
    let failure = Failure {
        error: None,
        ..retry(&second, 0, "")?
    };

    arena.backend.fail_one(&failure)?;

    expect_that("last error", arena.row(&second)?.last_error, None::<String>)?;
    let records = arena.backend.failures(second.job_id())?;
    let errors: Vec<_> = records.into_iter().map(|record| record.error).collect();
    expect_that("failures", errors, [Some("no route".to_owned()), None])
}

fn every_failed_attempt_is_recorded<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let first = arena.enqueue_and_claim("worker-a")?;
    let (_, span) = Span::of(arena, || {
        Ok(arena.backend.fail_one(&retry(&first, 0, "no route")?)?)
    })?;
    let second = arena.claim_one("worker-b")?;
    let third = arena.reclaim(&second, "worker-c")?;
    let dead = Failure::dead(third.receipt, ErrorText::new("no such address"));
    arena.backend.fail_one(&dead)?;

    let records = arena.backend.failures(first.job_id())?;

    span.expect(
        "at",
        records.first().map(|record| record.at),
        Duration::ZERO,
    )?;
    let ordered = records.is_sorted_by_key(|record| record.at);
    expect(ordered, format_args!("out of order: {records:?}"))?;
    let told: Vec<_> = records
        .iter()
        .map(|record| {
            let error = record.error.as_deref().unwrap_or_default();
            (record.attempt, record.worker.as_str(), record.cause, error)
        })
        .collect();
    let expected = [
        (1, "worker-a", FailureCause::Failed, "no route"),
        (2, "worker-b", FailureCause::Reaped, "lease expired"),
        (3, "worker-c", FailureCause::Failed, "no such address"),
    ];
    expect_that("failures", told, expected)?;
    let of_job = records.iter().all(|one| one.job_id == first.job_id());
    expect(of_job, "a failure names another job")
}

fn failures_in_a_batch_go_their_own_ways<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    arena.enqueue(4)?;
    let claimed = arena.claim("worker-a", 4)?;
    let minute = delay(Duration::from_secs(60))?;
    let batch = [
        Failure::dead(claimed[3].receipt.clone(), ErrorText::new("third")),
        retry(&claimed[0], 3_600, "first")?,
        Failure::release(claimed[1].receipt.clone(), minute),
        retry(&claimed[2], 0, "second")?,
    ];

    let (answers, span) = Span::of(arena, || Ok(arena.backend.fail(&batch)?))?;

    expect_that("answers", answers.len(), 4)?;
    for (answer, failure) in answers.into_iter().zip(&batch) {
        let row = arena.row(&failure.receipt)?;
        let expected = match failure.action {
            FailAction::Dead => Disposition::Dead,
            FailAction::Retry { after } | FailAction::Release { after } => {
                span.expect("run_at", row.run_at, after.get())?;
                Disposition::Ready { run_at: row.run_at }
            }
        };
        expect_that("answer", answer?, expected)?;
        let given = failure.error.as_ref().map(ErrorText::as_str);
        expect_that("last error", row.last_error.as_deref(), given)?;
    }
    expect_that("failures", arena.probe.count("failure")?, 3)
}
