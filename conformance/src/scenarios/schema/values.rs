//! What the job table refuses by itself: values that are none; and what it takes.

use queue_table_core::JobId;

use super::super::prelude::*;
use super::shape::expect_refused;

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            unknown_state_is_refused,
            "The table itself refuses a state that is none",
            [C23],
        ),
        scenario!(
            state_words_are_exact,
            "The table itself refuses a state in other letters or with a blank at its end",
            [C23, C25],
        ),
        scenario!(
            negative_attempts_are_refused,
            "The table itself refuses negative attempts",
            [C23],
        ),
        scenario!(
            a_budget_below_one_is_refused,
            "The table itself refuses max_attempts below 1",
            [C23],
        ),
        scenario!(
            payload_that_is_not_json_is_refused,
            "The table itself refuses a payload that is not JSON",
            [C4, C23],
        ),
        scenario!(
            well_formed_rows_are_taken,
            "The table takes every well-formed row that somebody writes by hand",
            [C4, C23],
        ),
        scenario!(
            a_raw_update_of_one_column_changes_no_other,
            "An operator's update of one column moves no instant and changes no other column",
            [C23, C24],
        ),
        scenario!(
            an_id_is_never_given_twice,
            "The id of a deleted job, the highest one too, never names another job",
            [C5, C20],
        ),
    ]
}

#[track_caller]
fn expect_taken<F: Fixture>(arena: &Arena<'_, F>, job: JobId, changes: &[Change]) -> Check {
    let written = arena.probe.write(job, changes)?;
    expect_that(format_args!("{changes:?}"), written, Written::Stored)
}

fn unknown_state_is_refused<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let ready = arena.enqueue_one()?;
    for word in ["done", "failed", "", "0"] {
        expect_refused(arena, ready, &[Change::State(word)])?;
    }
    Ok(())
}

// A collation that folds case or pads with blanks takes these for the states they look like.
fn state_words_are_exact<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let (dead, ready) = (arena.dead_job()?, arena.enqueue_one()?);
    for word in ["Ready", "READY", "ready ", " ready"] {
        expect_refused(arena, ready, &[Change::State(word)])?;
    }
    for word in ["Dead", "dead "] {
        expect_refused(arena, dead, &[Change::State(word)])?;
    }
    Ok(())
}

fn negative_attempts_are_refused<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.enqueue_one()?;
    expect_refused(arena, job, &[Change::Attempts(-1)])
}

fn a_budget_below_one_is_refused<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.enqueue_one()?;
    expect_refused(arena, job, &[Change::MaxAttempts(0)])?;
    expect_refused(arena, job, &[Change::MaxAttempts(-5)])
}

fn payload_that_is_not_json_is_refused<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.enqueue_one()?;
    for text in ["", "{", "nul", "{'a':1}", "[1,]", "{\"a\":1}x"] {
        expect_refused(arena, job, &[Change::Payload(text)])?;
    }
    Ok(())
}

fn well_formed_rows_are_taken<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.enqueue_one()?;
    for text in ["null", "1", "\"text\"", "[]", "{\"a\":[1.5e3]}"] {
        expect_taken(arena, job, &[Change::Payload(text)])?;
        expect_that("payload", arena.row(job)?.payload, text.as_bytes())?;
    }
    expect_taken(arena, job, &[Change::Attempts(7), Change::MaxAttempts(1)])?;
    let claimed = [
        Change::State("running"),
        Change::WorkerId(Some("worker-a")),
        Change::LeaseUntil(Some(-1)),
    ];
    expect_taken(arena, job, &claimed)?;
    for word in ["succeeded", "dead"] {
        let finished = [
            Change::State(word),
            Change::WorkerId(None),
            Change::LeaseUntil(None),
            Change::FinishedAt(Some(-1)),
        ];
        expect_taken(arena, job, &finished)?;
    }
    let ready_again = [Change::State("ready"), Change::FinishedAt(None)];
    expect_taken(arena, job, &ready_again)?;
    let row = arena.row(job)?;
    expect_eq(
        (row.state, row.attempts, row.max_attempts),
        (State::Ready, 7, 1),
    )
}

// Report 61: a stale receipt acks a different, newer job,
// https://github.com/yesodweb/persistent/issues/1598.
fn an_id_is_never_given_twice<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let claimed = arena.enqueue_and_claim("worker-a")?;
    arena.probe.delete(claimed.job_id())?;

    let next = arena.enqueue_and_claim("worker-a")?;

    expect(
        next.job_id() > claimed.job_id(),
        format_args!("{} came after {}", next.job_id(), claimed.job_id()),
    )?;
    let before = arena.snapshot()?;
    expect_lost(arena.backend.ack_one(&claimed.receipt), LostReason::Gone)?;
    arena.expect_unchanged(&before)
}

// Report 37: run_at changes by itself when other columns are updated,
// https://github.com/kagkarlsson/db-scheduler/issues/258.
fn a_raw_update_of_one_column_changes_no_other<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let claimed = arena.enqueue_and_claim("worker-a")?;
    let before = arena.row(&claimed)?;

    let written = arena.probe.write(before.job_id, &[Change::Priority(7)])?;

    expect_that("raw priority", written, Written::Stored)?;
    let expected = crate::fixture::Row {
        priority: 7,
        ..before
    };
    expect_eq(arena.row(&claimed)?, expected)?;
    Ok(arena.backend.ack_one(&claimed.receipt)?)
}
