//! Cancel: ready and running jobs.

use queue_table_core::{ErrorText, JobId, LeaseLength};

use super::super::prelude::*;
use crate::fixture::Row;

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            a_cancelled_ready_job_is_dead,
            "A ready job that is cancelled is dead of the reason given, without a failure recorded, and never claimed",
            [C20, C24],
        ),
        scenario!(
            a_cancelled_running_job_is_lost_to_its_holder,
            "A running job that is cancelled is dead, and its holder learns it as a lost claim",
            [C13, C15, C20],
        ),
        scenario!(
            cancel_of_a_finished_job_is_rejected,
            "Succeeded, dead and unknown jobs cannot be cancelled",
            [C20, C26],
        ),
    ]
}

fn a_cancelled_ready_job_is_dead<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let later = arena.job()?.with_delay(Duration::from_secs(3_600))?;
    for job in [arena.enqueue_one()?, arena.store(&later)?] {
        expect_cancelled(arena, job, 0)?;
    }
    Ok(())
}

/// Cancels the job, and fails unless its row is as before, but dead of the reason.
fn expect_cancelled<F: Fixture>(arena: &Arena<'_, F>, job: JobId, failures: usize) -> Check {
    let before = arena.row(job)?;
    let reason = ErrorText::new("not needed: \u{1f363}");

    let (_, span) = Span::of(arena, || Ok(arena.backend.cancel(job, &reason)?))?;

    let row = arena.row(job)?;
    span.expect("finished_at", row.finished_at, Duration::ZERO)?;
    let expected = Row {
        state: State::Dead,
        worker_id: None,
        lease_until: None,
        finished_at: row.finished_at,
        last_error: Some(reason.as_str().to_owned()),
        ..before
    };
    expect_eq(&row, &expected)?;
    expect_that("failures", arena.backend.failures(job)?.len(), failures)?;
    expect_eq(arena.claim("worker-b", 1)?, [])
}

fn a_cancelled_running_job_is_lost_to_its_holder<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let failed = arena.enqueue_and_claim("worker-a")?;
    arena.backend.fail_one(&retry(&failed, 0, "no route")?)?;
    let claimed = arena.claim_one("worker-a")?;

    expect_cancelled(arena, claimed.job_id(), 1)?;

    let before = arena.snapshot()?;
    let lease = LeaseLength::default();
    expect_lost(
        arena.backend.renew_one(&claimed.receipt, lease),
        LostReason::Finished,
    )?;
    expect_lost(
        arena.backend.ack_one(&claimed.receipt),
        LostReason::Finished,
    )?;
    let failure = retry(&claimed, 0, "again")?;
    expect_lost(arena.backend.fail_one(&failure), LostReason::Finished)?;
    arena.expect_unchanged(&before)
}

fn cancel_of_a_finished_job_is_rejected<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let (succeeded, dead) = (arena.succeeded_job()?, arena.dead_job()?);
    let (before, reason) = (arena.snapshot()?, ErrorText::new("too late"));

    for (job, state) in [(succeeded, State::Succeeded), (dead, State::Dead)] {
        let refused = expect_rejected(arena.backend.cancel(job, &reason))?;
        let told = matches!(refused, Rejected::WrongState { job_id, state: is, .. }
            if (job_id, is) == (job, state));
        expect(told, format_args!("another rejection: {refused}"))?;
    }
    let unknown = JobId::new(i64::MAX);
    let refused = expect_rejected(arena.backend.cancel(unknown, &reason))?;
    expect_that("rejection", refused, Rejected::NoSuchJob(unknown))?;
    arena.expect_unchanged(&before)
}
