//! Crashed holders, killed processes, cut connections.

mod commit;
mod kill;
mod network;
mod process;
mod rolling;
mod session;

use super::prelude::*;

pub(crate) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    let mut all = session::scenarios();
    all.extend(process::scenarios());
    all.extend(network::scenarios());
    all.extend(commit::scenarios());
    all.extend(kill::scenarios());
    all.extend(rolling::scenarios());
    all
}
