//! Crashed holders, killed processes, cut connections.

mod commit;
mod network;
mod process;
mod session;

use super::prelude::*;

pub(crate) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    let mut all = session::scenarios();
    all.extend(process::scenarios());
    all.extend(network::scenarios());
    all.extend(commit::scenarios());
    all
}
