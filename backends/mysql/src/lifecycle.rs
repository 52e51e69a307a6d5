//! What only the holder of a claim may do, on a transaction that somebody opened.
//!
//! Binds, runs, decodes. Both the trait methods and the `_in` methods end here.

use mysql::prelude::Queryable;
use mysql::{Params, Value};
use queue_table_core::{
    Disposition, EffectName, FailAction, Failure, FailureCause, Fenced, JobId, LeaseLength,
    Receipt, Rejected, Result, State,
};
use serde_json::json;

use crate::connection::run_all;
use crate::decode::Now;
use crate::error::failed;
use crate::fence::{Bench, Job, Kept, Rows};
use crate::json;
use crate::sql::Statements;

/// Refuses a session without an open transaction, where locks would end with their statement.
///
/// The driver's type says that a transaction was begun; a deadlock or DDL since may have ended it,
/// and what followed would be committed statement by statement. Neither server has a cheap question
/// for it that works on both, but a savepoint set outside a transaction is gone at once.
pub(crate) fn check_in_transaction<Q: Queryable>(
    session: &mut Q,
    engine: &'static str,
    operation: &'static str,
) -> Result<()> {
    let guarded = run_all(
        session,
        "SAVEPOINT queue_table_guard; RELEASE SAVEPOINT queue_table_guard",
    );
    match guarded {
        Err(mysql::Error::MySqlError(error)) if error.code == 1305 => {
            Err(Rejected::NotInTransaction { engine, operation }.into())
        }
        other => other.map_err(failed(engine, operation)),
    }
}

/// The answers to a batch; `None` for receipts whose rows somebody else has locked.
pub(crate) type Answers<T> = Result<Vec<Option<Fenced<T>>>>;

/// Moves the deadlines of the claims that hold.
pub(crate) fn renew<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    rows: Rows,
    receipts: &[&Receipt],
    lease: LeaseLength,
) -> Answers<()> {
    let update = |ids: Value| (ids, lease.as_micros()).into();
    let statement = (sql.renew(), "renew");
    act_in_time(session, sql, rows, receipts, statement, update, None)
}

/// Finishes the jobs whose claims hold.
pub(crate) fn ack<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    rows: Rows,
    receipts: &[&Receipt],
) -> Answers<()> {
    let left = Some(State::Succeeded);
    let statement = (sql.ack(), "ack");
    act_in_time(
        session,
        sql,
        rows,
        receipts,
        statement,
        |ids| (ids,).into(),
        left,
    )
}

/// Updates the jobs whose claims hold, by a statement that judges the deadlines itself: it starts
/// when the locks are had. Only if a lease was over by then, it is looked which.
fn act_in_time<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    rows: Rows,
    receipts: &[&Receipt],
    (statement, operation): (&str, &'static str),
    params: impl FnOnce(Value) -> Params,
    left: Option<State>,
) -> Answers<()> {
    let mut bench = Bench::lock(session, sql, operation, rows, ids_of(receipts))?;
    let held = bench.held(receipts);
    if !held.is_empty() {
        let expected = held.len() as u64;
        let updated = session
            .exec_iter(statement, params(json::ids(held).into()))
            .map(|updated| updated.affected_rows())
            .map_err(failed(sql.engine, operation))?;
        if updated != expected {
            bench.look_at_leases(session, sql, operation)?;
        }
    }
    Ok(bench.judge(receipts, |_, _| ((), left)))
}

/// Gives up the jobs whose claims hold, and records the failures.
pub(crate) fn fail<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    rows: Rows,
    failures: &[&Failure],
) -> Answers<Disposition> {
    let receipts: Vec<&Receipt> = failures.iter().map(|failure| &failure.receipt).collect();
    let mut bench = Bench::lock(session, sql, "fail", rows, ids_of(&receipts))?;
    let Some(now) = bench.look_at_leases(session, sql, "fail")? else {
        return Ok(bench.judge(&receipts, |_, _| (Disposition::Dead, None)));
    };
    let (mut changes, mut records) = (Vec::new(), Vec::new());
    let answers = bench.judge(&receipts, |at, job| {
        let (change, record, kept) = give_up(failures[at], job, &now);
        changes.push(change);
        records.extend(record);
        kept
    });
    if !changes.is_empty() {
        let changes = json::rows(sql, "fail", &changes)?;
        session
            .exec_drop(sql.fail(), (changes, &now.value, &now.value))
            .map_err(failed(sql.engine, "fail"))?;
    }
    record_failures(session, sql, "fail", &now, FailureCause::Failed, &records)?;
    Ok(answers)
}

/// The job's row in fail's JSON, the failure's row in failure's, and the answer.
fn give_up(
    failure: &Failure,
    job: &Job,
    now: &Now,
) -> (
    serde_json::Value,
    Option<serde_json::Value>,
    Kept<Disposition>,
) {
    let error = failure.error.as_ref().map(|text| text.as_str());
    let (id, attempt) = (failure.receipt.job_id().get(), failure.receipt.attempt());
    let (delay, more) = match failure.action {
        FailAction::Retry { after } if attempt < job.max_attempts => (Some(after), 0),
        FailAction::Retry { .. } | FailAction::Dead => (None, 0),
        FailAction::Release { after } => (Some(after), 1),
    };
    let delay = delay.map(|delay| delay.as_micros());
    let state = if delay.is_some() {
        State::Ready
    } else {
        State::Dead
    };
    let replaces = i32::from(more == 0 || error.is_some());
    let change = json!([
        id,
        state.as_str(),
        delay.unwrap_or(0),
        more,
        replaces,
        error
    ]);
    let worker = failure.receipt.worker().as_str();
    let record = (more == 0).then(|| json!([id, attempt, worker, error]));
    let disposition = delay.map_or(Disposition::Dead, |delay| Disposition::Ready {
        run_at: now.plus(delay),
    });
    (change, record, (disposition, Some(state)))
}

/// Stores failed attempts, each as `[job id, attempt, worker, error]`.
pub(crate) fn record_failures<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    operation: &'static str,
    now: &Now,
    cause: FailureCause,
    records: &[serde_json::Value],
) -> Result<()> {
    if records.is_empty() {
        return Ok(());
    }
    let records = json::rows(sql, operation, records)?;
    session
        .exec_drop(sql.failure(), (&now.value, cause.as_str(), records))
        .map_err(failed(sql.engine, operation))
}

/// Records an effect if the claim holds; `false` when it was recorded before.
pub(crate) fn record_effect<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    receipt: &Receipt,
    name: &EffectName,
) -> Result<bool> {
    const OPERATION: &str = "record_effect";
    let mut bench = Bench::lock(session, sql, OPERATION, Rows::All, [receipt.job_id()])?;
    bench.look_at_leases(session, sql, OPERATION)?;
    for answer in bench.judge(&[receipt], |_, _| ((), None)) {
        answer.transpose()?;
    }
    // Two records of one effect queue for the job's row, so a duplicate is always one that is
    // already there.
    match session.exec_drop(sql.effect(), (receipt.job_id().get(), name.as_str())) {
        Ok(()) => Ok(true),
        Err(mysql::Error::MySqlError(error)) if error.code == 1062 => Ok(false),
        Err(error) => Err(failed(sql.engine, OPERATION)(error)),
    }
}

fn ids_of(receipts: &[&Receipt]) -> impl Iterator<Item = JobId> {
    receipts.iter().map(|receipt| receipt.job_id())
}
