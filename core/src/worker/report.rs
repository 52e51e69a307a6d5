//! What a worker has done so far.

use std::sync::Mutex;

use crate::id::JobId;
use crate::receipt::LostReason;

use super::lock;

/// What a worker has done since it was started. Attempts are counted, not jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Report {
    /// Claims made.
    pub claimed: u64,
    /// Handlers begun.
    pub started: u64,
    /// Jobs succeeded.
    pub succeeded: u64,
    /// Attempts that failed and left the job to be tried again.
    pub retried: u64,
    /// Attempts that failed and left the job dead.
    pub dead: u64,
    /// Of the failed attempts, those whose handler panicked.
    pub panicked: u64,
    /// Of the failed attempts, those whose payload could not be decoded.
    pub undecodable: u64,
    /// Claims that a handler gave back with a snooze.
    pub snoozed: u64,
    /// Claims given back at once: by a handler, or because the job was never started.
    pub released: u64,
    /// Results that the database refused, because the claim no longer held.
    pub lost: Lost,
    /// Results that could not be brought to the database: not before the lease was over, or their
    /// outcome stayed unknown for a lease, or it refused one again and again for a reason that does
    /// not pass. The jobs are tried again, if the results were not stored after all.
    pub unconfirmed: u64,
    /// Jobs that the reaper brought back or buried.
    pub reaped: u64,
    /// Jobs that were promoted because they had waited long.
    pub promoted: u64,
    /// Rows that retention deleted.
    pub purged: u64,
    /// Jobs that a schedule enqueued.
    pub ticks: u64,
    /// Operations that failed, and were gone on from.
    pub errors: u64,
    /// Jobs whose handlers had not returned when the worker stopped waiting for them, or whose
    /// results were then still on their way in a call that hung. Their leases run out; what their
    /// handlers still say is dropped. Empty while the worker runs.
    pub abandoned: Vec<JobId>,
}

/// Results that the database refused, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Lost {
    /// The lease had run out.
    pub expired: u64,
    /// Another claim had the job.
    pub superseded: u64,
    /// The job was finished already, or cancelled.
    pub finished: u64,
    /// The row was gone.
    pub gone: u64,
}

impl Lost {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.expired + self.superseded + self.finished + self.gone
    }

    pub(super) fn add(&mut self, reason: LostReason) {
        *match reason {
            LostReason::Expired => &mut self.expired,
            LostReason::Superseded => &mut self.superseded,
            LostReason::Finished => &mut self.finished,
            LostReason::Gone => &mut self.gone,
        } += 1;
    }
}

/// The report while it grows.
#[derive(Debug, Default)]
pub(super) struct Tally(Mutex<Report>);

impl Tally {
    pub(super) fn note(&self, change: impl FnOnce(&mut Report)) {
        change(&mut lock(&self.0));
    }

    pub(super) fn report(&self) -> Report {
        lock(&self.0).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_of_a_lost_claim_is_counted_on_its_own() {
        let mut lost = Lost::default();
        for reason in LostReason::ALL {
            lost.add(reason);
        }
        assert_eq!((lost.expired, lost.superseded), (1, 1));
        assert_eq!((lost.finished, lost.gone, lost.total()), (1, 1, 4));
    }
}
