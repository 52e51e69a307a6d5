//! Several versions of tables and payloads.

use super::prelude::*;

pub(crate) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            tables_that_were_never_migrated_are_told,
            "Without tables every operation says that they are missing",
            [C26],
        )
        .on(Setup {
            migrated: false,
            ..Setup::default()
        }),
    ]
}

fn tables_that_were_never_migrated_are_told<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    expect_kind(arena.backend.enqueue_one(&arena.job()?), "schema")?;
    expect_kind(arena.backend.claim(&arena.request("worker-a")?), "schema")?;

    arena.backend.migrate()?;

    arena.enqueue_and_claim("worker-a").map(|_| ())
}
