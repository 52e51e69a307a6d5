//! Batches of receipts in transactions of our own: a row that somebody keeps locked holds up no
//! other claim's.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::pg::PgConnection;
use queue_table_core::{
    Disposition, Failure, Fenced, JobId, LeaseLength, Receipt, Result, free_first,
};

use crate::error::{ENGINE, failed};
use crate::lifecycle::{self, Protocol};
use crate::pool::{Connection, Pool};
use crate::transact::{again, kept, own};

/// How long one try waits for the rows that are locked, before the answer of the others is due.
const WAIT: Duration = Duration::from_secs(2);

/// The part of a lease that one try of its renewal may wait: all tries together leave time for
/// another.
const WAITS_PER_LEASE: u32 = 32;

/// Renews on the connection in `slot`.
pub(crate) fn renew(
    slot: &Mutex<Option<Connection>>,
    pool: &Pool,
    protocol: &Protocol,
    receipts: &[Receipt],
    lease: LeaseLength,
) -> Result<Vec<Fenced<()>>> {
    const OPERATION: &str = "renew";
    let receipts: Vec<_> = receipts.iter().collect();
    let wait = (lease.get() / WAITS_PER_LEASE).min(WAIT);
    let free = |receipts: &[&Receipt]| {
        let renewed = again(|| {
            kept(slot, pool, OPERATION, |tx| {
                lifecycle::renew_free(tx, protocol, receipts, lease)
            })
        })?;
        Ok(answers(receipts.iter().map(|one| one.job_id()), renewed))
    };
    let rest = |receipts: &[&Receipt]| {
        again(|| {
            kept(slot, pool, OPERATION, |tx| {
                wait_at_most(tx, OPERATION, wait)?;
                lifecycle::renew(tx, protocol, receipts, lease)
            })
        })
    };
    free_first(ENGINE, OPERATION, &receipts, Receipt::job_id, free, rest)
}

pub(crate) fn ack(
    pool: &Pool,
    protocol: &Protocol,
    receipts: &[Receipt],
) -> Result<Vec<Fenced<()>>> {
    const OPERATION: &str = "ack";
    let receipts: Vec<_> = receipts.iter().collect();
    let free = |receipts: &[&Receipt]| {
        let acked = own(pool, OPERATION, |tx| {
            lifecycle::ack_free(tx, protocol, receipts)
        })?;
        Ok(answers(receipts.iter().map(|one| one.job_id()), acked))
    };
    let rest = |receipts: &[&Receipt]| {
        own(pool, OPERATION, |tx| {
            wait_at_most(tx, OPERATION, WAIT)?;
            lifecycle::ack(tx, protocol, receipts)
        })
    };
    free_first(ENGINE, OPERATION, &receipts, Receipt::job_id, free, rest)
}

pub(crate) fn fail(
    pool: &Pool,
    protocol: &Protocol,
    failures: &[Failure],
) -> Result<Vec<Fenced<Disposition>>> {
    const OPERATION: &str = "fail";
    let failures: Vec<_> = failures.iter().collect();
    let job_of = |failure: &Failure| failure.receipt.job_id();
    let free = |failures: &[&Failure]| {
        let failed = own(pool, OPERATION, |tx| {
            lifecycle::fail_free(tx, protocol, failures)
        })?;
        Ok(answers(failures.iter().copied().map(job_of), failed))
    };
    let rest = |failures: &[&Failure]| {
        own(pool, OPERATION, |tx| {
            wait_at_most(tx, OPERATION, WAIT)?;
            lifecycle::fail(tx, protocol, failures)
        })
    };
    free_first(ENGINE, OPERATION, &failures, job_of, free, rest)
}

/// Bounds the wait for each row of this transaction, so that the answer of the free rows comes in
/// time. A shorter `lock_timeout` of the session stays.
fn wait_at_most(tx: &mut PgConnection, operation: &'static str, wait: Duration) -> Result<()> {
    let millis = wait.as_millis().max(1);
    let bound = format!(
        "SELECT set_config('lock_timeout', LEAST(
           NULLIF(EXTRACT(EPOCH FROM current_setting('lock_timeout')::INTERVAL) * 1000, 0), {millis}
         )::INTEGER::TEXT, TRUE)"
    );
    tx.batch_execute(&bound).map_err(failed(operation))
}

/// The answers to claims of different jobs; `None` for those that did not hold or were locked.
fn answers<T>(
    jobs: impl Iterator<Item = JobId>,
    mut held: HashMap<JobId, T>,
) -> Vec<Option<Fenced<T>>> {
    jobs.map(|job| held.remove(&job).map(Ok)).collect()
}
