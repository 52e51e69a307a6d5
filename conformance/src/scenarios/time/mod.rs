//! Clocks and deadlines.

mod clock;
mod edges;
mod long;
mod waits;

use super::prelude::*;

pub(crate) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    let mut all = waits::scenarios();
    all.extend(clock::scenarios());
    all.extend(edges::scenarios());
    all.extend(long::scenarios());
    all
}
