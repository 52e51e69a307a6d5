//! What somebody with a receipt can try.

use queue_table_core::{Disposition, Error, ErrorText, Failure, Fenced, LeaseLength};

use crate::scenarios::prelude::*;

/// One operation of a claim's holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Renew,
    Ack,
    Retry,
    Dead,
    Release,
}

impl Act {
    pub(super) const ALL: [Self; 5] = [
        Self::Renew,
        Self::Ack,
        Self::Retry,
        Self::Dead,
        Self::Release,
    ];

    /// The state of a job after it.
    pub(super) const fn leaves(self) -> State {
        match self {
            Self::Renew => State::Running,
            Self::Ack => State::Succeeded,
            Self::Dead => State::Dead,
            Self::Retry | Self::Release => State::Ready,
        }
    }

    /// What a second receipt of the same claim is told after it; `None` when the claim still holds.
    pub(super) const fn leaves_lost(self) -> Option<LostReason> {
        match self {
            Self::Renew => None,
            Self::Ack | Self::Dead => Some(LostReason::Finished),
            Self::Retry | Self::Release => Some(LostReason::Expired),
        }
    }

    /// Does it with one receipt.
    pub(super) fn alone<B: QueueBackend>(
        self,
        backend: &B,
        receipt: &Receipt,
    ) -> Result<(), Error> {
        match self {
            Self::Renew => backend.renew_one(receipt, two_minutes()?),
            Self::Ack => backend.ack_one(receipt),
            _ => backend.fail_one(&self.failure(receipt)?).map(drop),
        }
    }

    /// Does it with a batch of receipts.
    pub(super) fn batch<B: QueueBackend>(
        self,
        backend: &B,
        receipts: &[Receipt],
    ) -> Result<Vec<Fenced<()>>, Error> {
        match self {
            Self::Renew => backend.renew(receipts, two_minutes()?),
            Self::Ack => backend.ack(receipts),
            _ => {
                let failures = receipts.iter().map(|receipt| self.failure(receipt));
                let failures = failures.collect::<Result<Vec<_>, _>>()?;
                let forget = |answer: Fenced<Disposition>| answer.map(drop);
                Ok(backend.fail(&failures)?.into_iter().map(forget).collect())
            }
        }
    }

    /// Does it in the caller's transaction. There is no renewal in one: there an ack is tried.
    pub(super) fn in_tx<B: TransactionalBackend>(
        self,
        backend: &B,
        tx: &mut B::Tx<'_>,
        receipt: &Receipt,
    ) -> Result<(), Error> {
        match self {
            Self::Renew | Self::Ack => backend.ack_in(tx, receipt),
            _ => backend.fail_in(tx, &self.failure(receipt)?).map(drop),
        }
    }

    fn failure(self, receipt: &Receipt) -> Result<Failure, Error> {
        let (receipt, error) = (receipt.clone(), ErrorText::new("from the receipt's holder"));
        let after = queue_table_core::Delay::new(Duration::from_secs(5))?;
        Ok(match self {
            Self::Dead => Failure::dead(receipt, error),
            Self::Release => Failure::release(receipt, after),
            _ => Failure::retry(receipt, after, error),
        })
    }
}

/// Another lease than the claim's, so that a renewal shows.
fn two_minutes() -> Result<LeaseLength, Error> {
    Ok(LeaseLength::new(Duration::from_secs(120))?)
}
