//! A receipt whose claim no longer holds changes nothing: a full table of operations and ways to be
//! stale.

mod act;
mod alone;
mod batch;
mod in_tx;
mod learnt;
mod stale;

use super::prelude::*;

pub(crate) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    let mut all = alone::scenarios();
    all.extend(batch::scenarios());
    all.extend(in_tx::scenarios());
    all.extend(learnt::scenarios());
    all
}

/// One scenario per cell of the table: `name: operation, way to be stale, sentence;`.
macro_rules! cells {
    ($refused:ident, $rules:tt: $($name:ident: $act:ident, $stale:ident, $sentence:literal;)+) => {
        pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
            vec![$(scenario!($name, $sentence, $rules)),+]
        }

        $(fn $name<F: Fixture>(arena: &Arena<'_, F>) -> Check {
            $refused(arena, Act::$act, Stale::$stale)
        })+
    };
}
use cells;
