//! Jobs that are promoted when they have waited long, in the order of claims.

use queue_table_core::{Delay, JobId, PromoteRequest};

use super::prelude::*;

pub(crate) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            a_starved_job_is_claimed_once_it_is_promoted,
            "A job that a stream of higher priority holds back is claimed after a promotion, before all that came due later",
            [C9, C28],
        ),
        scenario!(
            a_job_is_starved_as_long_as_it_is_not_promoted,
            "Without a promotion a stream of higher priority holds an old job back for ever",
            [C9],
        ),
        scenario!(
            promoted_jobs_stand_among_their_new_equals_by_due_time,
            "Promoted jobs and those that had the priority are claimed in the order in which they came due",
            [C9, C28],
        ),
    ]
}

const HOUR: Duration = Duration::from_secs(3_600);

fn promote<F: Fixture>(arena: &Arena<'_, F>, to: i32) -> Check<u32> {
    let request = PromoteRequest::new(arena.queue.clone(), Delay::new(HOUR)?, to);
    Ok(arena.backend.promote(&request)?)
}

/// A job of priority 0 that has waited for two hours, and a stream of priority 9 that has kept
/// it back: three come for each two that are worked.
fn starved<F: Fixture>(arena: &Arena<'_, F>) -> Check<JobId> {
    let old = arena.enqueue_one()?;
    arena.probe.rewind(old, 2 * HOUR)?;
    for _ in 0..10 {
        arena
            .backend
            .enqueue(&vec![arena.job()?.with_priority(9); 3])?;
        for claimed in arena.claim("worker-a", 2)? {
            expect_that("priority of the claimed job", claimed.priority, 9)?;
            arena.backend.ack_one(&claimed.receipt)?;
        }
    }
    Ok(old)
}

fn a_starved_job_is_claimed_once_it_is_promoted<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let old = starved(arena)?;

    expect_that("promoted", promote(arena, 9)?, 1)?;
    arena
        .backend
        .enqueue(&vec![arena.job()?.with_priority(9); 3])?;

    let claimed = arena.claim_one("worker-a")?;
    expect_that("claimed", claimed.job_id(), old)?;
    arena.backend.ack_one(&claimed.receipt)?;
    arena.expect_state(old, State::Succeeded)
}

fn a_job_is_starved_as_long_as_it_is_not_promoted<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let old = starved(arena)?;

    let row = arena.row(old)?;

    let seen = (row.state, row.attempts, row.priority);
    expect_eq(seen, (State::Ready, 0, 0))?;
    let left = arena.claim("worker-a", 100)?;
    expect_that("the last of all", ids(&left).last(), Some(&old))
}

fn promoted_jobs_stand_among_their_new_equals_by_due_time<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    let mut by_wait = Vec::new();
    for (priority, hours) in [(9, 3), (0, 5), (-4, 2), (9, 6), (9, 0), (3, 4)] {
        let job = arena.store(&arena.job()?.with_priority(priority))?;
        arena.probe.rewind(job, HOUR * hours)?;
        by_wait.push((hours, job));
    }
    by_wait.sort_unstable_by_key(|(hours, _)| std::cmp::Reverse(*hours));
    let expected: Vec<_> = by_wait.into_iter().map(|(_, job)| job).collect();
    let urgent = arena.store(&arena.job()?.with_priority(10))?;

    expect_that("promoted", promote(arena, 9)?, 3)?;

    expect_that("first", arena.claim_one("worker-a")?.job_id(), urgent)?;
    expect_that("the rest", ids(&arena.claim("worker-a", 100)?), expected)
}
