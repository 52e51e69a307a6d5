//! Several sessions at once.

mod claims;
mod dedup;
mod locks;
mod neighbours;
mod races;
mod soak;

use super::prelude::*;

pub(crate) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    let mut all = claims::scenarios();
    all.extend(locks::scenarios());
    all.extend(neighbours::scenarios());
    all.extend(dedup::scenarios());
    all.extend(races::scenarios());
    all.extend(soak::scenarios());
    all
}
