//! The same operations inside a transaction that the caller owns.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use queue_table_core::worker::observe::{self, EnqueuedBy};
use queue_table_core::{
    Bell, ClaimRequest, ClaimedJob, Disposition, EffectName, Enqueued, Error, Failure, Fenced,
    NewJob, QueueName, Receipt, Rejected, Result, TransactionalBackend,
};
use rusqlite::{Connection, Transaction, TransactionBehavior, TransactionState};

use crate::error;
use crate::queue::SqliteQueue;
use crate::{ENGINE, enqueue, lifecycle};

/// Queues with new jobs, each with the bell of its table.
type ToRing = Vec<(Arc<Bell>, QueueName)>;

thread_local! {
    /// What to ring after the commit of the `transaction` this thread is in; `None` outside one.
    static TO_RING: RefCell<Option<ToRing>> = const { RefCell::new(None) };
}

/// Collects rings until the commit; what was collected before comes back when it is dropped.
struct Rings {
    before: Option<ToRing>,
}

impl Rings {
    fn collect() -> Self {
        Self {
            before: TO_RING.replace(Some(Vec::new())),
        }
    }

    fn add(bell: &Arc<Bell>, queue: &QueueName) {
        TO_RING.with_borrow_mut(|rings| {
            let Some(rings) = rings else { return };
            let known =
                |(other, name): &(Arc<Bell>, QueueName)| Arc::ptr_eq(other, bell) && name == queue;
            if !rings.iter().any(known) {
                rings.push((Arc::clone(bell), queue.clone()));
            }
        });
    }

    fn ring(self) {
        for (bell, queue) in TO_RING.take().unwrap_or_default() {
            bell.ring(&queue);
        }
    }
}

impl Drop for Rings {
    fn drop(&mut self) {
        TO_RING.set(self.before.take());
    }
}

/// Makes sure that the transaction is one and holds the writer lock, so that no later statement
/// waits.
fn enter(queue: &SqliteQueue, tx: &Transaction<'_>, operation: &'static str) -> Result<()> {
    if tx.is_autocommit() {
        return Err(Error::Rejected(Rejected::NotInTransaction {
            engine: ENGINE,
            operation,
        }));
    }
    let state = tx.transaction_state(Some("main"));
    if state.map_err(error::map(operation))? == TransactionState::Write {
        return Ok(());
    }
    lifecycle::lock(tx, queue.tables(), operation)
}

/// The answer for the only receipt of a batch; a lost claim is an error.
fn only<T>(operation: &'static str, answers: Vec<Fenced<T>>) -> Result<T> {
    let missing = || Error::Engine(error::failed(operation, "no answer for the receipt"));
    Ok(answers.into_iter().next().ok_or_else(missing)??)
}

impl TransactionalBackend for SqliteQueue {
    type Tx<'t> = Transaction<'t>;

    fn enqueue_in(&self, tx: &mut Self::Tx<'_>, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        let columns = enqueue::check(self.tables(), jobs)?;
        enter(self, tx, "enqueue")?;
        let enqueued = enqueue::enqueue(tx, self.tables(), jobs, &columns)?;
        observe::enqueued(ENGINE, EnqueuedBy::EnqueueIn, jobs, &enqueued);
        for queue in enqueue::woken(jobs, &enqueued) {
            Rings::add(self.bell(), queue);
        }
        Ok(enqueued)
    }

    fn claim_in(&self, tx: &mut Self::Tx<'_>, request: &ClaimRequest) -> Result<Vec<ClaimedJob>> {
        enter(self, tx, "claim")?;
        lifecycle::claim(tx, self.tables(), request)
    }

    fn ack_in(&self, tx: &mut Self::Tx<'_>, receipt: &Receipt) -> Result<()> {
        enter(self, tx, "ack")?;
        let receipts = std::slice::from_ref(receipt);
        only("ack", lifecycle::ack(tx, self.tables(), receipts)?)
    }

    fn fail_in(&self, tx: &mut Self::Tx<'_>, failure: &Failure) -> Result<Disposition> {
        enter(self, tx, "fail")?;
        let failures = std::slice::from_ref(failure);
        only("fail", lifecycle::fail(tx, self.tables(), failures)?)
    }

    fn record_effect_in(
        &self,
        tx: &mut Self::Tx<'_>,
        receipt: &Receipt,
        name: &EffectName,
    ) -> Result<bool> {
        enter(self, tx, "record_effect")?;
        lifecycle::record_effect(tx, self.tables(), receipt, name)
    }

    /// Holds the file's writer while `work` runs: every other write waits, renewals among them.
    /// Keep it short, and write through the transaction only: another connection would wait for
    /// this one.
    fn transaction<R, E, F>(&self, work: F) -> std::result::Result<R, E>
    where
        E: From<Error>,
        F: for<'t> FnOnce(&mut Self::Tx<'t>) -> std::result::Result<R, E>,
    {
        let rings = Rings::collect();
        // `E` may hide the error, so BEGIN and COMMIT tell themselves whether the connection is
        // done for.
        let lost = Cell::new(false);
        let note = |error: Error| {
            let gone = matches!(error, Error::Unavailable(_) | Error::OutcomeUnknown(_));
            lost.set(lost.get() || gone);
            error
        };
        let run = |connection: &mut Connection| {
            let mut tx = connection
                .transaction_with_behavior(TransactionBehavior::Immediate)
                .map_err(error::map("transaction"))
                .map_err(note)?;
            let value = work(&mut tx)?;
            tx.commit()
                .map_err(error::commit("transaction"))
                .map_err(note)?;
            Ok(value)
        };
        let unsound = |_: &E| lost.get();
        let value = self
            .writer()
            .with("transaction", self.deadline(), unsound, run)?;
        rings.ring();
        Ok(value)
    }
}
