//! Operations inside the caller's transaction.

mod claims;
mod dedup;
mod effects;
mod input;
mod visible;

use super::prelude::*;

pub(crate) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    let mut all = visible::scenarios();
    all.extend(claims::scenarios());
    all.extend(effects::scenarios());
    all.extend(dedup::scenarios());
    all.extend(input::scenarios());
    all
}
