//! Deletes old finished jobs, where the application has said how long it keeps them.

use std::time::Duration;

use crate::backend::Administration;
use crate::error::Result;
use crate::lease::{BatchSize, Delay};
use crate::request::PurgeRequest;

use super::idle::jittered;
use super::signal::Phase;
use super::{Shared, observe};

/// Pause between two batches of one round: others want the table too.
const BETWEEN_BATCHES: Duration = Duration::from_millis(20);

/// How long finished jobs are kept; `None` for ever.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Windows {
    pub(super) succeeded: Option<Delay>,
    pub(super) dead: Option<Delay>,
}

impl Windows {
    pub(super) fn is_set(self) -> bool {
        self.succeeded.is_some() || self.dead.is_some()
    }
}

/// Purges in rounds until the worker stops; a round ends when nothing old is left.
pub(super) fn run<B: Administration + ?Sized>(shared: &Shared<B>) {
    let every = shared.settings.purge_every;
    let mut pause = every.mul_f64(fastrand::f64());
    while !shared.signal.sleep(pause, Phase::Draining) {
        if let Err(error) = round(shared) {
            shared.error("purge", &error);
        }
        pause = jittered(every);
    }
}

fn round<B: Administration + ?Sized>(shared: &Shared<B>) -> Result<()> {
    let windows = shared.settings.keep;
    let mut request = PurgeRequest {
        succeeded_after: windows.succeeded,
        dead_after: windows.dead,
        limit: BatchSize::MAX,
        cursor: None,
    };
    loop {
        let purged = shared.backend.purge(&request)?;
        observe::purged(shared.backend.engine(), purged.deleted);
        shared
            .tally
            .note(|report| report.purged += u64::from(purged.deleted));
        if !purged.kept.is_empty() {
            tracing::info!(
                jobs = purged.kept.len(),
                "old jobs are kept by a constraint of another table"
            );
        }
        request.cursor = purged.cursor;
        if request.cursor.is_none() || shared.signal.sleep(BETWEEN_BATCHES, Phase::Draining) {
            return Ok(());
        }
    }
}
