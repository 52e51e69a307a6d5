//! Crashed holders, killed processes, cut connections.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::prelude::*;

pub(crate) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![scenario!(
        a_panic_inside_a_transaction_leaves_nothing,
        "Work that panics inside a transaction leaves no job, no effect and no open transaction",
        [C1, C17, C27],
    )]
}

fn a_panic_inside_a_transaction_leaves_nothing<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let (job, before) = (arena.job()?, arena.snapshot()?);

    let unwound = catch_unwind(AssertUnwindSafe(|| {
        arena.backend.transaction(|tx| {
            arena.probe.effect_in(tx, "order")?;
            arena.backend.enqueue_in(tx, &[job])?;
            // Unwinds as a panic does, without its message on the test's output.
            resume_unwind(Box::new("unwound"));
            #[expect(unreachable_code, reason = "it gives the closure its type")]
            Ok::<(), Failed>(())
        })
    }));

    expect(unwound.is_err(), "the panic was swallowed")?;
    arena.expect_unchanged(&before)?;
    arena.enqueue_and_claim("worker-a").map(|_| ())
}
