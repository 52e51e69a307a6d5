//! The tables: migration, checks, names.

use super::prelude::*;

pub(crate) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![scenario!(
        running_row_without_a_worker_is_refused,
        "The table itself refuses a running row without a worker",
        [C23],
    )]
}

fn running_row_without_a_worker_is_refused<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let claimed = arena.enqueue_and_claim("worker-a")?;
    let before = arena.snapshot()?;

    let written = arena
        .probe
        .write(claimed.job_id(), &[Change::WorkerId(None)])?;

    expect(
        matches!(written, Written::Refused(_)),
        format_args!("expected the table to refuse it, got {written:?}"),
    )?;
    arena.expect_unchanged(&before)
}
