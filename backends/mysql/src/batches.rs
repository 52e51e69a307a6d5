//! Batches of receipts in transactions of our own: a row that somebody keeps locked holds up no
//! other claim's.

use std::time::Duration;

use mysql::Conn;
use queue_table_core::{Fenced, JobId, LeaseLength, QueueBackend, Receipt, Result, free_first};

use crate::connection::Connection;
use crate::fence::Rows;
use crate::lifecycle::{self, Answers};
use crate::pool::SHORT_WAIT;
use crate::queue::MysqlQueue;
use crate::sql::Statements;

/// The part of a lease that its renewal may wait for a locked row, the last try included: there is
/// time for another renewal.
const PATIENCE_PER_LEASE: u32 = 4;

/// How long an ack or failure waits for a locked row while its neighbours' answers are due.
const PATIENCE_IN_A_BATCH: Duration = Duration::from_secs(2);

impl MysqlQueue {
    /// Acts on a batch in transactions of our own, the free rows first.
    pub(crate) fn free_first<I: Copy, T>(
        &self,
        operation: &'static str,
        items: &[I],
        job_of: impl Fn(I) -> JobId,
        act: impl Fn(&mut Conn, &Statements, Rows, &[I]) -> Answers<T>,
    ) -> Result<Vec<Fenced<T>>> {
        let free = |items: &[I]| {
            self.in_transaction(operation, |session, sql| {
                act(session, sql, Rows::Free, items)
            })
        };
        // Whoever has no neighbours has the usual wait.
        let patience = if items.len() > 1 {
            PATIENCE_IN_A_BATCH
        } else {
            Duration::MAX
        };
        let rest = |rest: &[I]| {
            let act = |connection: &mut Connection| {
                let sql = self.statements(connection.session())?;
                let work = |session: &mut Conn| act(session, sql, Rows::All, rest);
                if items.len() > 1 {
                    connection.short_transaction(sql.engine, operation, SHORT_WAIT, work)
                } else {
                    connection.transaction(sql.engine, operation, work)
                }
            };
            let answers =
                self.connections
                    .pooled_within(patience, self.engine(), operation, act)?;
            Ok(all_answers(answers))
        };
        free_first(self.engine(), operation, items, job_of, free, rest)
    }

    /// The same for renewals, on the connection kept for them.
    pub(crate) fn renew_free_first(
        &self,
        receipts: &[Receipt],
        lease: LeaseLength,
    ) -> Result<Vec<Fenced<()>>> {
        const OPERATION: &str = "renew";
        let receipts: Vec<&Receipt> = receipts.iter().collect();
        let patience = (lease.get() / PATIENCE_PER_LEASE).saturating_sub(SHORT_WAIT);
        let run = |rows, receipts: &[&Receipt]| {
            let renew = |connection: &mut Connection| {
                let sql = self.statements(connection.session())?;
                connection.transaction(sql.engine, OPERATION, |session| {
                    lifecycle::renew(session, sql, rows, receipts, lease)
                })
            };
            self.connections
                .renewing(self.engine(), OPERATION, patience, renew)
        };
        free_first(
            self.engine(),
            OPERATION,
            &receipts,
            Receipt::job_id,
            |receipts| run(Rows::Free, receipts),
            |receipts| run(Rows::All, receipts).map(all_answers),
        )
    }
}

/// Where every row was waited for, every receipt has an answer.
pub(crate) fn all_answers<T>(answers: Vec<Option<Fenced<T>>>) -> Vec<Fenced<T>> {
    answers.into_iter().flatten().collect()
}
