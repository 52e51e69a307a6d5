//! Core's worker on this backend.

mod ageing;
mod beside;
mod effects;
mod recovery;
mod runs;
mod steps;
mod stopping;

use super::prelude::*;

pub(crate) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    [
        runs::scenarios(),
        effects::scenarios(),
        recovery::scenarios(),
        stopping::scenarios(),
        beside::scenarios(),
        ageing::scenarios(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
