//! Transactions of the caller's.

use std::collections::BTreeSet;

use queue_table_core::{
    ClaimRequest, ClaimedJob, Disposition, EffectName, Enqueued, Error, Failed, Failure, NewJob,
    QueueBackend, QueueName, Receipt, Result, TransactionalBackend,
};

use super::fault::Fault;
use super::open::Open;
use super::queue::{new_jobs, swallowed_disposition};
use super::state::Tables;
use super::turn::Turn;
use super::{ENGINE, Model};

/// A transaction of the caller's: the writer's turn and a copy of the tables. Dropping it rolls
/// back.
#[derive(Debug)]
pub struct ModelTx<'t> {
    _turn: Turn<'t>,
    pub(super) tables: Tables,
    enqueued_to: BTreeSet<QueueName>,
    /// Nothing works in it any more. Only in a mutant.
    pub(super) poisoned: bool,
}

impl Model {
    /// Runs a statement on the transaction's copy. A mutant runs it on a connection of its own,
    /// too.
    fn in_tx<R>(
        &self,
        tx: &mut ModelTx<'_>,
        apart: Fault,
        statement: impl Fn(&mut Open<'_>) -> Result<R>,
    ) -> Result<R> {
        if tx.poisoned {
            let aborted = Failed::new(ENGINE, "transaction", "the transaction is aborted");
            return Err(Error::Engine(aborted));
        }
        tx.tables.check_version()?;
        if self.has(apart) {
            statement(&mut self.open(&mut self.shared.stored()))?;
        }
        let done = statement(&mut self.open(&mut tx.tables));
        let rejected = matches!(done, Err(Error::Rejected(_)));
        tx.poisoned = rejected && self.has(Fault::RejectionPoisonsTransaction);
        done
    }
}

impl TransactionalBackend for Model {
    type Tx<'t> = ModelTx<'t>;

    fn enqueue_in(&self, tx: &mut ModelTx<'_>, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        let apart = Fault::EnqueueOnAnotherConnection;
        let stored = self.in_tx(tx, apart, |open| open.enqueue(jobs))?;
        let queues = new_jobs(jobs, &stored).map(|job| job.queue().clone());
        tx.enqueued_to.extend(queues);
        let taken = stored.iter().any(|one| !one.is_new());
        tx.poisoned = taken && self.has(Fault::DedupPoisonsTransaction);
        if self.has(Fault::EnqueueCommitsTheCaller) {
            *self.shared.stored() = tx.tables.clone();
        }
        Ok(stored)
    }

    fn claim_in(&self, tx: &mut ModelTx<'_>, request: &ClaimRequest) -> Result<Vec<ClaimedJob>> {
        self.in_tx(tx, Fault::ClaimInCommits, |open| open.claim(request))
    }

    fn ack_in(&self, tx: &mut ModelTx<'_>, receipt: &Receipt) -> Result<()> {
        let acked = self.in_tx(
            tx,
            Fault::AckInOwnTransaction,
            |open| Ok(open.ack(receipt)?),
        );
        match acked {
            Err(Error::LostClaim(_)) if self.has(Fault::LostClaimSwallowedInTx) => Ok(()),
            other => other,
        }
    }

    fn fail_in(&self, tx: &mut ModelTx<'_>, failure: &Failure) -> Result<Disposition> {
        let failed = self.in_tx(tx, Fault::AckInOwnTransaction, |open| {
            Ok(open.fail(failure)?)
        });
        match failed {
            Err(Error::LostClaim(_)) if self.has(Fault::LostClaimSwallowedInTx) => {
                Ok(swallowed_disposition())
            }
            other => other,
        }
    }

    fn record_effect_in(
        &self,
        tx: &mut ModelTx<'_>,
        receipt: &Receipt,
        name: &EffectName,
    ) -> Result<bool> {
        self.in_tx(tx, Fault::EffectCommitsAtOnce, |open| {
            Ok(open.record_effect(receipt, name)?)
        })
    }

    fn transaction<R, E, F>(&self, work: F) -> std::result::Result<R, E>
    where
        E: From<Error>,
        F: for<'t> FnOnce(&mut ModelTx<'t>) -> std::result::Result<R, E>,
    {
        let stale = self.has(Fault::TransactionOfStaleTables).then(|| {
            let seen = self.shared.stored().clone();
            self.shared.race.meet();
            seen
        });
        let turn = self.shared.turn("transaction")?;
        let tables = stale.unwrap_or_else(|| self.shared.stored().clone());
        let mut tx = ModelTx {
            _turn: turn,
            tables,
            enqueued_to: BTreeSet::new(),
            poisoned: false,
        };
        let done = work(&mut tx);
        if done.is_ok() || self.has(Fault::TransactionCommitsErrors) {
            *self.shared.stored() = std::mem::take(&mut tx.tables);
            tx.enqueued_to.iter().for_each(|queue| self.ring(queue));
        }
        done
    }
}
