//! Cost that must not grow.

use super::prelude::*;

pub(crate) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![scenario!(
        a_due_job_behind_future_ones_of_higher_priority_is_claimed,
        "A due job is found behind 1,000 jobs of higher priority that are not due yet",
        [C7, C12],
    )]
}

fn a_due_job_behind_future_ones_of_higher_priority_is_claimed<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    let future = arena.job()?.with_priority(10);
    let future = future.with_delay(Duration::from_secs(3_600))?;
    arena.backend.enqueue(&vec![future; 1_000])?;
    let due = arena.enqueue_one()?;

    let claimed = arena.claim("worker-a", 10)?;

    let ids: Vec<_> = claimed.iter().map(|job| job.job_id()).collect();
    expect_that("claimed jobs", ids, [due])
}
