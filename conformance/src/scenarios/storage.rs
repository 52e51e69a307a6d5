//! Each operation stores what the contract's table says.

use queue_table_core::{ErrorText, Failure, MaxAttempts};

use super::prelude::*;

pub(crate) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            ack_finishes_the_job,
            "An acked job is succeeded, has its end, and carries neither worker nor lease",
            [C8, C13],
        ),
        scenario!(
            a_failed_job_waits_for_its_retry_delay,
            "A job that failed is ready again, but not due before its delay",
            [C7, C13, C19],
        ),
        scenario!(
            replay_gives_a_dead_job_a_new_budget,
            "A replayed job keeps its id and attempts, and may be claimed as often as the extra budget says",
            [C19, C20],
        ),
        scenario!(
            cancel_of_a_finished_job_is_rejected,
            "A succeeded job cannot be cancelled",
            [C20, C26],
        ),
    ]
}

fn ack_finishes_the_job<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let claimed = arena.enqueue_and_claim("worker-a")?;

    arena.backend.ack_one(&claimed.receipt)?;

    let row = arena.row(&claimed)?;
    expect_that("state", row.state, State::Succeeded)?;
    expect_that("attempts", row.attempts, 1)?;
    expect_that("worker", row.worker_id, None::<String>)?;
    expect_that("lease", row.lease_until, None)?;
    expect(
        row.finished_at >= Some(claimed.claimed_at),
        format_args!("finished at {:?}, before its claim", row.finished_at),
    )
}

fn a_failed_job_waits_for_its_retry_delay<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let claimed = arena.enqueue_and_claim("worker-a")?;
    let after = delay(Duration::from_secs(60))?;
    let failure = Failure::retry(claimed.receipt.clone(), after, ErrorText::new("no route"));

    arena.backend.fail_one(&failure)?;

    let row = arena.row(&claimed)?;
    expect_that("state", row.state, State::Ready)?;
    expect_that("attempts", row.attempts, 1)?;
    expect_that("last error", row.last_error.as_deref(), Some("no route"))?;
    expect_eq(arena.claim("worker-a", 1)?, [])?;
    arena.let_come_due(&claimed)?;
    expect_that("attempt", arena.claim_one("worker-a")?.attempt(), 2)
}

fn replay_gives_a_dead_job_a_new_budget<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.dead_job()?;

    let budget = arena.backend.replay(job, MaxAttempts::new(3)?)?;

    expect_that("budget", budget, 4)?;
    arena.expect_state(job, State::Ready)?;
    let row = arena.row(job)?;
    expect_that("attempts", row.attempts, 1)?;
    expect_that("last error", row.last_error, None::<String>)?;
    expect_that("attempt", arena.claim_one("worker-a")?.attempt(), 2)
}

fn cancel_of_a_finished_job_is_rejected<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.succeeded_job()?;
    let before = arena.snapshot()?;

    let refused = expect_rejected(arena.backend.cancel(job, &ErrorText::new("too late")))?;

    let wrong_state = matches!(refused, Rejected::WrongState { job_id, .. } if job_id == job);
    expect(wrong_state, format_args!("another rejection: {refused}"))?;
    arena.expect_unchanged(&before)
}
