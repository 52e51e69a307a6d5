//! Each operation stores what the contract's table says, and nothing else.
//!
//! The row after an operation is compared whole with the row before it: a column that the table
//! does not name for the operation must not have changed.

mod cancel;
mod claim;
mod columns;
mod dedup;
mod dedup_end;
mod enqueue;
mod fail;
mod finish;
mod look;
mod pause;
mod promote;
mod purge;
mod reap;
mod replay;

use super::prelude::*;

pub(crate) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    [
        enqueue::scenarios(),
        columns::scenarios(),
        dedup::scenarios(),
        dedup_end::scenarios(),
        claim::scenarios(),
        finish::scenarios(),
        fail::scenarios(),
        reap::scenarios(),
        replay::scenarios(),
        cancel::scenarios(),
        promote::scenarios(),
        purge::scenarios(),
        pause::scenarios(),
        look::scenarios(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
