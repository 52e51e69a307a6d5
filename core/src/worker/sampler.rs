//! Reads the counts of the worker's queues into gauges, where the application has asked for it.

use crate::backend::Administration;

use super::idle::jittered;
use super::signal::Phase;
use super::{Shared, observe};

/// Samples until the worker stops.
pub(super) fn run<B: Administration + ?Sized>(shared: &Shared<B>) {
    let Some(every) = shared.settings.sample_every else {
        return;
    };
    while !shared.signal.sleep(jittered(every), Phase::Draining) {
        for queue in shared.settings.queues.names() {
            match shared.backend.stats(Some(queue)) {
                Ok(all) => all
                    .iter()
                    .for_each(|stats| observe::stats(shared.backend.engine(), stats)),
                Err(error) => shared.error("stats", &error),
            }
        }
    }
}
