//! The tables: migration, checks, names.

mod migration;
mod shape;
mod values;

use super::prelude::*;

pub(crate) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    let mut scenarios = shape::scenarios();
    scenarios.extend(values::scenarios());
    scenarios.extend(migration::scenarios());
    scenarios
}
