//! The protocol's operations on a transaction that somebody opened: the only place that binds and
//! decodes.
//!
//! They are public for services that hold a client of tiberius' own. Such a client must be inside a
//! transaction at READ COMMITTED (or REPEATABLE READ), best with `XACT_ABORT ON`; the functions
//! begin nothing and commit nothing, and after any error but
//! [`Error::LostClaim`](queue_table_core::Error::LostClaim) the caller rolls back. Outside a
//! transaction locks would not last from one statement to the next, and a claim would not be safe.

use std::collections::HashMap;

use queue_table_core::{
    BATCH_MAX, Disposition, EffectName, FailAction, Failure, FailureCause, Fenced, JobId,
    LeaseLength, LostClaim, Observed, Receipt, Result, check_count,
};
use serde_json::{Value, json};
use tiberius::Row;

use crate::answers::{Answers, receipt_json};
use crate::connection::{Client, insert, rows};
use crate::decode::{self, Cells};
use crate::sql::Statements;

pub use crate::claim::claim;
pub use crate::enqueue::enqueue;
pub use crate::recovery::reap;

/// Which rows of a batch are acted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    /// Those that nobody else has locked.
    Free,
    /// All: locked ones are waited for.
    All,
}

/// Moves the deadlines of the claims that hold to now + `lease`.
///
/// # Errors
/// [`Error::Rejected`](queue_table_core::Error::Rejected) for more than 1,000 receipts, and
/// transient ones.
pub async fn renew(
    client: &mut Client,
    sql: &Statements,
    receipts: &[Receipt],
    lease: LeaseLength,
) -> Result<Vec<Fenced<()>>> {
    check_count("receipts", receipts.len(), BATCH_MAX as usize)?;
    let answers = renew_rows(client, sql, Rows::All, receipts.iter().collect(), lease).await?;
    Ok(answers.finish())
}

pub(crate) async fn renew_rows<'a>(
    client: &mut Client,
    sql: &Statements,
    which: Rows,
    receipts: Vec<&'a Receipt>,
    lease: LeaseLength,
) -> Result<Answers<'a, ()>> {
    let mut answers = Answers::to(receipts);
    for mut round in answers.rounds() {
        let seen = lock_round(client, sql, "renew", which, &answers, &mut round).await?;
        if round.is_empty() {
            continue;
        }
        let given = answers.json(&round);
        let held = rows(client, "renew", &sql.renew, &[&given, &lease.as_micros()]).await?;
        answers.settle(&round, ids("renew", &held)?, &seen);
    }
    Ok(answers)
}

/// Finishes the claims that hold as succeeded.
///
/// # Errors
/// As for [`renew`].
pub async fn ack(
    client: &mut Client,
    sql: &Statements,
    receipts: &[Receipt],
) -> Result<Vec<Fenced<()>>> {
    check_count("receipts", receipts.len(), BATCH_MAX as usize)?;
    let answers = ack_rows(client, sql, Rows::All, receipts.iter().collect()).await?;
    Ok(answers.finish())
}

pub(crate) async fn ack_rows<'a>(
    client: &mut Client,
    sql: &Statements,
    which: Rows,
    receipts: Vec<&'a Receipt>,
) -> Result<Answers<'a, ()>> {
    let mut answers = Answers::to(receipts);
    for mut round in answers.rounds() {
        let seen = lock_round(client, sql, "ack", which, &answers, &mut round).await?;
        if round.is_empty() {
            continue;
        }
        let given = answers.json(&round);
        let held = rows(client, "ack", &sql.ack, &[&given]).await?;
        answers.settle(&round, ids("ack", &held)?, &seen);
    }
    Ok(answers)
}

/// The rows of an ack whose COMMIT was not answered, read under their locks: the lost transaction
/// is over by then.
pub(crate) async fn lock_receipts(
    client: &mut Client,
    sql: &Statements,
    receipts: &[&Receipt],
) -> Result<HashMap<JobId, Observed>> {
    let mut ids: Vec<_> = receipts.iter().map(|receipt| receipt.job_id()).collect();
    ids.sort_unstable();
    ids.dedup();
    lock(client, sql, "ack", ids).await
}

/// Gives the claims up that hold, and records the failed attempts.
///
/// # Errors
/// As for [`renew`].
pub async fn fail(
    client: &mut Client,
    sql: &Statements,
    failures: &[Failure],
) -> Result<Vec<Fenced<Disposition>>> {
    check_count("failures", failures.len(), BATCH_MAX as usize)?;
    let failures: Vec<_> = failures.iter().collect();
    let answers = fail_rows(client, sql, Rows::All, &failures).await?;
    Ok(answers.finish())
}

pub(crate) async fn fail_rows<'a>(
    client: &mut Client,
    sql: &Statements,
    which: Rows,
    failures: &[&'a Failure],
) -> Result<Answers<'a, Disposition>> {
    let mut answers = Answers::to(failures.iter().map(|failure| &failure.receipt).collect());
    for mut round in answers.rounds() {
        let seen = lock_round(client, sql, "fail", which, &answers, &mut round).await?;
        if round.is_empty() {
            continue;
        }
        let given = round.iter().map(|&index| failure_json(failures[index]));
        let given = Value::from_iter(given).to_string();
        let mut held = HashMap::new();
        for row in rows(client, "fail", &sql.fail, &[&given]).await? {
            let row = Cells::of(&row, "fail");
            held.insert(row.job_id()?, decode::disposition(&row)?);
        }
        let holds = |index: &&usize| held.contains_key(&failures[**index].receipt.job_id());
        let failed = round.iter().filter(holds).map(|&index| failures[index]);
        record_failures(client, sql, failed).await?;
        answers.settle(&round, held, &seen);
    }
    Ok(answers)
}

/// Locks a round's rows. Of the free ones only, the round keeps those it could lock.
async fn lock_round<T>(
    client: &mut Client,
    sql: &Statements,
    operation: &'static str,
    which: Rows,
    answers: &Answers<'_, T>,
    round: &mut Vec<usize>,
) -> Result<HashMap<JobId, Observed>> {
    if which == Rows::All {
        return lock(client, sql, operation, answers.ids(round)).await;
    }
    let seen = read_locked(client, operation, &sql.lock_free, answers.ids(round)).await?;
    round.retain(|&index| seen.contains_key(&answers.job_id(index)));
    Ok(seen)
}

fn failure_json(failure: &Failure) -> Value {
    let (action, delay) = match failure.action {
        FailAction::Retry { after } => ("retry", after.as_micros()),
        FailAction::Dead => ("dead", 0),
        FailAction::Release { after } => ("release", after.as_micros()),
    };
    let receipt = &failure.receipt;
    let error = failure.error.as_ref().map(|error| error.as_str());
    json!([
        receipt.job_id().get(),
        receipt.attempt(),
        receipt.worker().as_str(),
        action,
        delay,
        error
    ])
}

async fn record_failures(
    client: &mut Client,
    sql: &Statements,
    failures: impl Iterator<Item = &Failure>,
) -> Result<()> {
    let failed = failures.filter(|failure| !matches!(failure.action, FailAction::Release { .. }));
    let given: Vec<_> = failed
        .map(|failure| {
            let receipt = &failure.receipt;
            let error = failure.error.as_ref().map(|error| error.as_str());
            let cause = FailureCause::Failed;
            attempt_json(
                receipt.job_id(),
                receipt.attempt(),
                receipt.worker().as_str(),
                cause,
                error,
            )
        })
        .collect();
    record_attempts(client, sql, "fail", given).await
}

pub(crate) fn attempt_json(
    job_id: JobId,
    attempt: u32,
    worker: &str,
    cause: FailureCause,
    error: Option<&str>,
) -> Value {
    json!([job_id.get(), attempt, worker, cause.as_str(), error])
}

pub(crate) async fn record_attempts(
    client: &mut Client,
    sql: &Statements,
    operation: &'static str,
    given: Vec<Value>,
) -> Result<()> {
    if !given.is_empty() {
        let given = Value::Array(given).to_string();
        insert(client, operation, &sql.failure, &given).await?;
    }
    Ok(())
}

/// Records an effect of the claim's job; `false` when an earlier attempt has committed it.
///
/// # Errors
/// [`Error::LostClaim`](queue_table_core::Error::LostClaim) when the claim no longer holds, and
/// transient ones.
pub async fn record_effect(
    client: &mut Client,
    sql: &Statements,
    receipt: &Receipt,
    name: &EffectName,
) -> Result<bool> {
    let operation = "record_effect";
    let job_id = receipt.job_id();
    let seen = lock(client, sql, operation, vec![job_id]).await?;
    let given = Value::from_iter([receipt_json(receipt)]).to_string();
    if rows(client, operation, &sql.hold, &[&given])
        .await?
        .is_empty()
    {
        return Err(LostClaim::judge(receipt, seen.get(&job_id)).into());
    }
    let params: [&dyn tiberius::ToSql; 2] = [&job_id.get(), &name.as_str()];
    let first = rows(client, operation, &sql.effect, &params).await?;
    Ok(!first.is_empty())
}

/// Locks the rows of jobs, given from low to high, and tells who holds them.
pub(crate) async fn lock(
    client: &mut Client,
    sql: &Statements,
    operation: &'static str,
    ids: Vec<JobId>,
) -> Result<HashMap<JobId, Observed>> {
    read_locked(client, operation, &sql.lock, ids).await
}

async fn read_locked(
    client: &mut Client,
    operation: &'static str,
    text: &str,
    ids: Vec<JobId>,
) -> Result<HashMap<JobId, Observed>> {
    let given = ids_json(ids);
    let found = rows(client, operation, text, &[&given]).await?;
    found
        .iter()
        .map(|row| decode::observed(&Cells::of(row, operation)))
        .collect()
}

pub(crate) fn ids_json(ids: impl IntoIterator<Item = JobId>) -> String {
    Value::from_iter(ids.into_iter().map(JobId::get)).to_string()
}

fn ids(operation: &'static str, found: &[Row]) -> Result<HashMap<JobId, ()>> {
    let id = |row| Ok((Cells::of(row, operation).job_id()?, ()));
    found.iter().map(id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_can_be_spawned_on_a_runtime_with_threads() {
        fn sendable<T: Send>(_: T) {}
        let _ = |client: &'static mut Client, sql: &'static Statements| {
            sendable(ack(client, sql, &[]));
        };
        let _ = |client: &'static mut Client, sql: &'static Statements| {
            sendable(enqueue(client, sql, &[]));
        };
        let _ = |client: &'static mut Client,
                 sql: &'static Statements,
                 failures: &'static [Failure]| {
            sendable(fail(client, sql, failures));
        };
    }
}
