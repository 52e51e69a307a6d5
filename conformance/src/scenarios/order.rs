//! What is claimed, and in which order.

use super::prelude::*;

pub(crate) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![scenario!(
        a_batch_comes_in_claim_order,
        "A batch comes back by priority from high to low, then due time, then id",
        [C9],
    )]
}

fn a_batch_comes_in_claim_order<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    for priority in [0, 7, -3, 7, i32::MIN, i32::MAX, 0] {
        arena.store(&arena.job()?.with_priority(priority))?;
    }
    let late = arena.enqueue_one()?;
    arena.probe.rewind(late, Duration::from_secs(3_600))?;
    let mut rows = arena.rows()?;
    rows.sort_by_key(|row| (std::cmp::Reverse(row.priority), row.run_at, row.job_id));

    let claimed = arena.claim("worker-a", 100)?;

    let ids: Vec<_> = claimed.iter().map(|job| job.job_id()).collect();
    let expected: Vec<_> = rows.iter().map(|row| row.job_id).collect();
    expect_that("claimed jobs", ids, expected)
}
