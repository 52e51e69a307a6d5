//! Clocks and deadlines.

use queue_table_core::LeaseLength;

use super::prelude::*;

pub(crate) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![scenario!(
        a_lease_that_ends_while_ack_waits_for_the_row_is_over,
        "An ack that waits for the row's lock until after the deadline is refused",
        [C14, C15],
    )]
}

fn a_lease_that_ends_while_ack_waits_for_the_row_is_over<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    arena.enqueue_one()?;
    let lease = LeaseLength::new(Duration::from_millis(400))?;
    let request = arena.request("worker-a")?.with_lease(lease);
    let claimed = expect_one(arena.backend.claim(&request)?, "claimed job")?;
    let before = arena.snapshot()?;
    let held = arena.hold(&claimed, Duration::from_millis(800))?;

    let answer = arena.backend.ack_one(&claimed.receipt);

    held.released()?;
    expect_lost(answer, LostReason::Expired)?;
    arena.expect_unchanged(&before)
}
