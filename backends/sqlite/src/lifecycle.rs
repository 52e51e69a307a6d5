//! The operations that move jobs, on a transaction that somebody opened and that holds the file's
//! writer lock.

use queue_table_core::{
    BATCH_MAX, ClaimRequest, ClaimedJob, Disposition, EffectName, Error, ErrorText, FailAction,
    Failure, FailureCause, Fenced, LeaseLength, LostClaim, ReapRequest, Reaped, Receipt, Result,
    State, check_count,
};
use rusqlite::{Connection, OptionalExtension, Row, named_params};

use crate::decode;
use crate::error::map;
use crate::queue::Tables;

/// The last error of a job whose lease ran out.
const LEASE_EXPIRED: &str = "lease expired";

/// The last error of a ready job that had no attempt left, unless it has one.
const NO_ATTEMPTS_LEFT: &str = "no attempts left";

/// Takes the writer lock of a caller's transaction that may not have it yet. Fails at once when the
/// transaction has read a state that is no longer the newest.
pub(crate) fn lock(tx: &Connection, tables: &Tables, operation: &'static str) -> Result<()> {
    let mut statement = tx
        .prepare_cached(&tables.sql.lock)
        .map_err(map(operation))?;
    statement.execute([]).map(drop).map_err(map(operation))
}

/// Reads the database's clock. To be asked after the writer lock is held.
pub(crate) fn now(tx: &Connection, tables: &Tables, operation: &'static str) -> Result<i64> {
    let mut statement = tx.prepare_cached(&tables.sql.now).map_err(map(operation))?;
    statement
        .query_row([], |row| row.get(0))
        .map_err(map(operation))
}

/// Whether a claim would find anything. For a reader: takes no lock.
pub(crate) fn claim_probe(
    reader: &Connection,
    tables: &Tables,
    request: &ClaimRequest,
) -> rusqlite::Result<bool> {
    reader.prepare_cached(&tables.sql.claim_probe)?.query_row(
        named_params! { ":queue": request.queue.as_str(), ":accepts": accepts(request) },
        |row| row.get(0),
    )
}

pub(crate) fn claim(
    tx: &Connection,
    tables: &Tables,
    request: &ClaimRequest,
) -> Result<Vec<ClaimedJob>> {
    let now = now(tx, tables, "claim")?;
    claim_at(tx, tables, request, now).map_err(map("claim"))
}

fn claim_at(
    tx: &Connection,
    tables: &Tables,
    request: &ClaimRequest,
    now: i64,
) -> rusqlite::Result<Vec<ClaimedJob>> {
    let mut select = tx.prepare_cached(&tables.sql.claim_select)?;
    let mut update = tx.prepare_cached(&tables.sql.claim)?;
    let found = select.query_map(
        named_params! {
            ":queue": request.queue.as_str(),
            ":now": now,
            ":accepts": accepts(request),
            ":limit": request.limit.get(),
        },
        |row| decode::claimed(row, request, now, tables.table.columns()),
    )?;
    // The rows are read to the end before the first is changed: a scan must not meet its own
    // changes.
    let mut jobs = found.collect::<rusqlite::Result<Vec<_>>>()?;
    jobs.sort_by_key(ClaimedJob::claim_order);
    for job in &jobs {
        update.execute(named_params! {
            ":job_id": job.job_id().get(),
            ":worker": request.worker.as_str(),
            ":now": now,
            ":lease": request.lease.as_micros(),
        })?;
    }
    Ok(jobs)
}

/// The accepted kinds and versions as the JSON array that the statements read; `None` for all.
fn accepts(request: &ClaimRequest) -> Option<String> {
    let accepts = request.accepts.as_ref()?;
    let entries = accepts.iter().map(|(kind, versions)| {
        serde_json::json!([kind.as_str(), versions.start(), versions.end()])
    });
    Some(serde_json::Value::Array(entries.collect()).to_string())
}

pub(crate) fn renew(
    tx: &Connection,
    tables: &Tables,
    receipts: &[Receipt],
    lease: LeaseLength,
) -> Result<Vec<Fenced<()>>> {
    check_batch(receipts.len())?;
    let now = now(tx, tables, "renew")?;
    let renew_one = |receipt: &Receipt| {
        let held = tx
            .prepare_cached(&tables.sql.renew)?
            .execute(named_params! {
                ":job_id": receipt.job_id().get(),
                ":attempt": receipt.attempt(),
                ":worker": receipt.worker().as_str(),
                ":now": now,
                ":lease": lease.as_micros(),
            })?;
        fence(tx, tables, receipt, (held == 1).then_some(()))
    };
    let answers = receipts.iter().map(renew_one);
    answers
        .collect::<rusqlite::Result<_>>()
        .map_err(map("renew"))
}

pub(crate) fn ack(
    tx: &Connection,
    tables: &Tables,
    receipts: &[Receipt],
) -> Result<Vec<Fenced<()>>> {
    check_batch(receipts.len())?;
    let now = now(tx, tables, "ack")?;
    let ack_one = |receipt: &Receipt| {
        let held = tx.prepare_cached(&tables.sql.ack)?.execute(named_params! {
            ":job_id": receipt.job_id().get(),
            ":attempt": receipt.attempt(),
            ":worker": receipt.worker().as_str(),
            ":now": now,
        })?;
        fence(tx, tables, receipt, (held == 1).then_some(()))
    };
    let answers = receipts.iter().map(ack_one);
    answers.collect::<rusqlite::Result<_>>().map_err(map("ack"))
}

pub(crate) fn fail(
    tx: &Connection,
    tables: &Tables,
    failures: &[Failure],
) -> Result<Vec<Fenced<Disposition>>> {
    check_batch(failures.len())?;
    let now = now(tx, tables, "fail")?;
    let answers = failures.iter().map(|failure| {
        let receipt = &failure.receipt;
        let disposition = give_up(tx, tables, failure, now)?;
        if disposition.is_some() && !matches!(failure.action, FailAction::Release { .. }) {
            let error = failure.error.as_ref().map(ErrorText::as_str);
            record(tx, tables, receipt, now, FailureCause::Failed, error)?;
        }
        fence(tx, tables, receipt, disposition)
    });
    answers
        .collect::<rusqlite::Result<_>>()
        .map_err(map("fail"))
}

/// Stores what becomes of the job; `None` when the claim does not hold.
fn give_up(
    tx: &Connection,
    tables: &Tables,
    failure: &Failure,
    now: i64,
) -> rusqlite::Result<Option<Disposition>> {
    let receipt = &failure.receipt;
    let (job_id, attempt) = (receipt.job_id().get(), receipt.attempt());
    let worker = receipt.worker().as_str();
    let error = failure.error.as_ref().map(ErrorText::as_str);
    let (dead, delay) = match failure.action {
        FailAction::Retry { after } => (false, after.as_micros()),
        FailAction::Dead => (true, 0),
        FailAction::Release { after } => {
            let mut release = tx.prepare_cached(&tables.sql.release)?;
            let params = named_params! {
                ":job_id": job_id, ":attempt": attempt, ":worker": worker, ":now": now,
                ":delay": after.as_micros(), ":error": error,
            };
            return release.query_row(params, disposition).optional();
        }
    };
    let mut fail = tx.prepare_cached(&tables.sql.fail)?;
    let params = named_params! {
        ":job_id": job_id, ":attempt": attempt, ":worker": worker, ":now": now,
        ":dead": dead, ":delay": delay, ":error": error,
    };
    fail.query_row(params, disposition).optional()
}

/// Decodes (state, run_at) of a row that is no longer running.
fn disposition(row: &Row<'_>) -> rusqlite::Result<Disposition> {
    Ok(match decode::state(row, 0)? {
        State::Ready => Disposition::Ready {
            run_at: decode::instant(row, 1)?,
        },
        State::Running | State::Succeeded | State::Dead => Disposition::Dead,
    })
}

fn record(
    tx: &Connection,
    tables: &Tables,
    receipt: &Receipt,
    now: i64,
    cause: FailureCause,
    error: Option<&str>,
) -> rusqlite::Result<()> {
    let mut statement = tx.prepare_cached(&tables.sql.failure)?;
    let params = named_params! {
        ":job_id": receipt.job_id().get(), ":attempt": receipt.attempt(), ":worker": receipt.worker().as_str(),
        ":now": now, ":cause": cause.as_str(), ":error": error,
    };
    statement.execute(params).map(drop)
}

/// The answer for one receipt: the value when its claim held, else the reason read from the row.
fn fence<T>(
    tx: &Connection,
    tables: &Tables,
    receipt: &Receipt,
    value: Option<T>,
) -> rusqlite::Result<Fenced<T>> {
    if let Some(value) = value {
        return Ok(Ok(value));
    }
    let mut observe = tx.prepare_cached(&tables.sql.observe)?;
    let params = named_params! { ":job_id": receipt.job_id().get() };
    let row = observe.query_row(params, decode::observed).optional()?;
    Ok(Err(LostClaim::judge(receipt, row.as_ref())))
}

pub(crate) fn record_effect(
    tx: &Connection,
    tables: &Tables,
    receipt: &Receipt,
    name: &EffectName,
) -> Result<bool> {
    let now = now(tx, tables, "record_effect")?;
    let judge = || -> rusqlite::Result<Fenced<()>> {
        let params = named_params! {
            ":job_id": receipt.job_id().get(), ":attempt": receipt.attempt(),
            ":worker": receipt.worker().as_str(), ":now": now,
        };
        let mut hold = tx.prepare_cached(&tables.sql.hold)?;
        let holds: bool = hold.query_row(params, |row| row.get(0))?;
        fence(tx, tables, receipt, holds.then_some(()))
    };
    judge()
        .map_err(map("record_effect"))?
        .map_err(Error::LostClaim)?;
    let store = || {
        let params = named_params! { ":job_id": receipt.job_id().get(), ":name": name.as_str() };
        tx.prepare_cached(&tables.sql.effect)?.execute(params)
    };
    Ok(store().map_err(map("record_effect"))? == 1)
}

pub(crate) fn reap(tx: &Connection, tables: &Tables, request: &ReapRequest) -> Result<Vec<Reaped>> {
    let now = now(tx, tables, "reap")?;
    let all = || -> rusqlite::Result<Vec<Reaped>> {
        let mut reaped = reap_overdue(tx, tables, request, now)?;
        let left = request.limit.get() as usize - reaped.len();
        reaped.extend(bury_exhausted(tx, tables, left, now)?);
        Ok(reaped)
    };
    all().map_err(map("reap"))
}

fn reap_overdue(
    tx: &Connection,
    tables: &Tables,
    request: &ReapRequest,
    now: i64,
) -> rusqlite::Result<Vec<Reaped>> {
    let mut select = tx.prepare_cached(&tables.sql.reap_select)?;
    let params = named_params! { ":now": now, ":limit": request.limit.get() };
    let overdue = select.query_map(params, decode::overdue)?;
    let mut update = tx.prepare_cached(&tables.sql.reap)?;
    let mut reaped = Vec::new();
    for overdue in overdue.collect::<rusqlite::Result<Vec<_>>>()? {
        let (queue, receipt) = overdue;
        let params = named_params! {
            ":job_id": receipt.job_id().get(), ":now": now,
            ":delay": request.policy.delay(receipt.attempt()).as_micros(), ":error": LEASE_EXPIRED,
        };
        let disposition = update.query_row(params, disposition)?;
        record(
            tx,
            tables,
            &receipt,
            now,
            FailureCause::Reaped,
            Some(LEASE_EXPIRED),
        )?;
        reaped.push(Reaped {
            job_id: receipt.job_id(),
            queue,
            attempt: receipt.attempt(),
            worker: Some(receipt.worker().clone()),
            disposition,
        });
    }
    Ok(reaped)
}

fn bury_exhausted(
    tx: &Connection,
    tables: &Tables,
    limit: usize,
    now: i64,
) -> rusqlite::Result<Vec<Reaped>> {
    let mut select = tx.prepare_cached(&tables.sql.bury_select)?;
    let found = select.query_map(named_params! { ":limit": limit as i64 }, decode::exhausted)?;
    let buried = found.collect::<rusqlite::Result<Vec<_>>>()?;
    let mut update = tx.prepare_cached(&tables.sql.bury)?;
    for job in &buried {
        update.execute(named_params! {
            ":job_id": job.job_id.get(), ":now": now, ":error": NO_ATTEMPTS_LEFT,
        })?;
    }
    Ok(buried)
}

pub(crate) fn check_batch(receipts: usize) -> Result<()> {
    Ok(check_count("receipts", receipts, BATCH_MAX as usize)?)
}
