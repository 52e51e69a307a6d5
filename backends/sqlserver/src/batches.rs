//! Batches of receipts in transactions of our own: a row that somebody keeps locked holds up no
//! other claim's.

use std::time::Duration;

use queue_table_core::{
    Disposition, Error, Failure, Fenced, LeaseLength, Receipt, Result, State, free_first,
};

use crate::ENGINE;
use crate::connection::{Client, batch};
use crate::lifecycle::{self, Rows};
use crate::queue::SqlServerQueue;

/// How long one try waits for a row at most while the answers of its neighbours are due.
const WAIT_IN_A_BATCH: Duration = Duration::from_secs(2);

/// The part of a lease that one try of its renewal may wait: all tries together leave time for
/// another.
const WAITS_PER_LEASE: u32 = 32;

impl SqlServerQueue {
    pub(crate) fn renew_free_first(
        &self,
        receipts: &[Receipt],
        lease: LeaseLength,
    ) -> Result<Vec<Fenced<()>>> {
        const OPERATION: &str = "renew";
        let run = |which, patience, receipts: &[&Receipt]| {
            self.in_transaction(OPERATION, async |client, sql| {
                self.wait_for_rows(client, OPERATION, patience).await?;
                let receipts = receipts.to_vec();
                let renewed = lifecycle::renew_rows(client, sql, which, receipts, lease).await?;
                Ok(renewed.of_the_free())
            })
        };
        let patience = Some((lease.get() / WAITS_PER_LEASE).min(WAIT_IN_A_BATCH));
        let receipts: Vec<_> = receipts.iter().collect();
        free_first(
            ENGINE,
            OPERATION,
            &receipts,
            Receipt::job_id,
            |receipts| run(Rows::Free, None, receipts),
            |receipts| run(Rows::All, patience, receipts).map(all_answers),
        )
    }

    pub(crate) fn ack_free_first(&self, receipts: &[Receipt]) -> Result<Vec<Fenced<()>>> {
        let patience = (receipts.len() > 1).then_some(WAIT_IN_A_BATCH);
        let receipts: Vec<_> = receipts.iter().collect();
        free_first(
            ENGINE,
            "ack",
            &receipts,
            Receipt::job_id,
            |receipts| self.ack_rows(Rows::Free, None, receipts),
            |receipts| {
                self.ack_rows(Rows::All, patience, receipts)
                    .map(all_answers)
            },
        )
    }

    pub(crate) fn fail_free_first(&self, failures: &[Failure]) -> Result<Vec<Fenced<Disposition>>> {
        const OPERATION: &str = "fail";
        let run = |which, patience, failures: &[&Failure]| {
            self.in_transaction(OPERATION, async |client, sql| {
                self.wait_for_rows(client, OPERATION, patience).await?;
                let failed = lifecycle::fail_rows(client, sql, which, failures).await?;
                Ok(failed.of_the_free())
            })
        };
        let patience = (failures.len() > 1).then_some(WAIT_IN_A_BATCH);
        let failures: Vec<_> = failures.iter().collect();
        free_first(
            ENGINE,
            OPERATION,
            &failures,
            |failure| failure.receipt.job_id(),
            |failures| run(Rows::Free, None, failures),
            |failures| run(Rows::All, patience, failures).map(all_answers),
        )
    }

    /// Bounds the waits of this use of the session, whose own setting is put back when it is next
    /// taken from the pool.
    async fn wait_for_rows(
        &self,
        client: &mut Client,
        operation: &'static str,
        patience: Option<Duration>,
    ) -> Result<()> {
        let Some(patience) = patience else {
            return Ok(());
        };
        let millis = patience.min(self.pools.lock_timeout()).as_millis();
        batch(client, operation, &format!("SET LOCK_TIMEOUT {millis}")).await
    }

    /// Acks in a transaction of its own, whose COMMIT may stay unanswered.
    fn ack_rows(
        &self,
        which: Rows,
        patience: Option<Duration>,
        receipts: &[&Receipt],
    ) -> Result<Vec<Option<Fenced<()>>>> {
        let held = std::cell::RefCell::new(Vec::new());
        let result = self.in_transaction("ack", async |client, sql| {
            self.wait_for_rows(client, "ack", patience).await?;
            let answers = lifecycle::ack_rows(client, sql, which, receipts.to_vec()).await?;
            let answers = answers.of_the_free();
            held.replace(answers.clone());
            Ok(answers)
        });
        match result {
            Err(unknown @ Error::OutcomeUnknown(_)) => self
                .ack_again(which, receipts, &held.into_inner())
                .map_err(|error| {
                    // To say that nothing changed would be wrong: the first COMMIT is still open.
                    tracing::warn!(%error, "an ack whose commit was not answered stays undecided");
                    unknown
                }),
            result => result,
        }
    }

    /// Decides an ack whose COMMIT was not answered by its rows: it was stored as a whole or not at
    /// all.
    ///
    /// The rows' locks are had only once the lost transaction is over. It was stored when every row
    /// that still has the attempt this ack held has succeeded; else the receipts are sent again.
    fn ack_again(
        &self,
        which: Rows,
        receipts: &[&Receipt],
        held: &[Option<Fenced<()>>],
    ) -> Result<Vec<Option<Fenced<()>>>> {
        self.in_transaction("ack", async |client, sql| {
            let both = || receipts.iter().zip(held);
            let tried = both().filter(|(_, answer)| answer.is_some());
            let tried: Vec<_> = tried.map(|(receipt, _)| *receipt).collect();
            let seen = lifecycle::lock_receipts(client, sql, &tried).await?;
            let held_rows = both().filter(|(_, answer)| matches!(answer, Some(Ok(()))));
            let mut theirs = held_rows
                .filter_map(|(receipt, _)| {
                    let row = seen.get(&receipt.job_id())?;
                    (row.attempts == receipt.attempt()).then_some(row.state)
                })
                .peekable();
            let stored = theirs.peek().is_some() && theirs.all(|state| state == State::Succeeded);
            if stored {
                return Ok(held.to_vec());
            }
            let answers = lifecycle::ack_rows(client, sql, which, receipts.to_vec()).await?;
            Ok(answers.of_the_free())
        })
    }
}

/// Where every row was waited for, every receipt has an answer.
fn all_answers<T>(answers: Vec<Option<Fenced<T>>>) -> Vec<Fenced<T>> {
    answers.into_iter().flatten().collect()
}
