//! What the job table refuses by itself: half a claim, half an end.

use queue_table_core::JobId;

use super::super::prelude::*;

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            running_row_without_a_worker_is_refused,
            "The table itself refuses a running row without a worker",
            [C23],
        ),
        scenario!(
            running_row_without_a_deadline_is_refused,
            "The table itself refuses a running row without a deadline, which no reaper would ever see",
            [C23],
        ),
        scenario!(
            ready_row_with_a_worker_is_refused,
            "The table itself refuses a worker on a row that is ready",
            [C23],
        ),
        scenario!(
            ready_row_with_a_deadline_is_refused,
            "The table itself refuses a deadline on a row that is ready",
            [C23],
        ),
        scenario!(
            terminal_row_with_a_claim_is_refused,
            "The table itself refuses a worker and a deadline on a row that is succeeded or dead",
            [C23],
        ),
        scenario!(
            terminal_row_without_its_end_is_refused,
            "The table itself refuses a succeeded or dead row without finished_at",
            [C23],
        ),
        scenario!(
            end_on_a_row_that_is_not_terminal_is_refused,
            "The table itself refuses finished_at on a ready or running row",
            [C23],
        ),
        scenario!(
            half_a_change_of_state_is_refused,
            "The table itself refuses a change of the state alone",
            [C23],
        ),
    ]
}

/// Fails unless the table refuses the raw write and everything stays as it was.
#[track_caller]
pub(super) fn expect_refused<F: Fixture>(
    arena: &Arena<'_, F>,
    job: JobId,
    changes: &[Change],
) -> Check {
    let before = arena.snapshot()?;
    let written = arena.probe.write(job, changes)?;
    expect(
        matches!(written, Written::Refused(_)),
        format_args!("{changes:?}: expected the table to refuse it, got {written:?}"),
    )?;
    arena.expect_unchanged(&before)
}

// Report 33: half-reset rows that nothing ever picks up,
// https://github.com/CMSgov/dpc-app/pull/411.
fn running_row_without_a_worker_is_refused<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.enqueue_and_claim("worker-a")?.job_id();
    expect_refused(arena, job, &[Change::WorkerId(None)])
}

// Reports 33 and 41: a running row without a deadline that no reaper sees.
fn running_row_without_a_deadline_is_refused<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.enqueue_and_claim("worker-a")?.job_id();
    expect_refused(arena, job, &[Change::LeaseUntil(None)])
}

fn ready_row_with_a_worker_is_refused<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.enqueue_one()?;
    expect_refused(arena, job, &[Change::WorkerId(Some("worker-a"))])
}

fn ready_row_with_a_deadline_is_refused<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.enqueue_one()?;
    expect_refused(arena, job, &[Change::LeaseUntil(Some(60_000_000))])
}

fn terminal_row_with_a_claim_is_refused<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    for job in [arena.succeeded_job()?, arena.dead_job()?] {
        expect_refused(arena, job, &[Change::WorkerId(Some("worker-a"))])?;
        expect_refused(arena, job, &[Change::LeaseUntil(Some(60_000_000))])?;
    }
    Ok(())
}

fn terminal_row_without_its_end_is_refused<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    for job in [arena.succeeded_job()?, arena.dead_job()?] {
        expect_refused(arena, job, &[Change::FinishedAt(None)])?;
    }
    Ok(())
}

fn end_on_a_row_that_is_not_terminal_is_refused<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let running = arena.enqueue_and_claim("worker-a")?.job_id();
    for job in [running, arena.enqueue_one()?] {
        expect_refused(arena, job, &[Change::FinishedAt(Some(0))])?;
    }
    Ok(())
}

// Report 33.
fn half_a_change_of_state_is_refused<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let running = arena.enqueue_and_claim("worker-a")?.job_id();
    for word in ["ready", "succeeded", "dead"] {
        expect_refused(arena, running, &[Change::State(word)])?;
    }
    let ready = arena.enqueue_one()?;
    for word in ["running", "succeeded", "dead"] {
        expect_refused(arena, ready, &[Change::State(word)])?;
    }
    Ok(())
}
