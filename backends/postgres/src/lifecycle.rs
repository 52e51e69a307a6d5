//! The statements of a claim's life, run on a transaction that somebody else opened: bind, run,
//! decode.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use diesel::pg::PgConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Integer, Text};
use queue_table_core::{
    ClaimRequest, ClaimedJob, Disposition, EffectName, FailAction, Failure, Fenced, JobId,
    LeaseLength, LostClaim, ReapRequest, Reaped, Receipt, Result, Table,
};

use crate::decode::{
    ClaimedRow, ClaimedShape, MovedRow, MovedShape, ObservedRow, ObservedShape, ReapedRow,
    ReapedShape, buried,
};
use crate::error::failed;
use crate::sql::Texts;
use crate::statement::{Bind, Statement};

/// The first version whose B-tree scans skip over the priorities without due jobs by themselves.
const SKIP_SCAN_SINCE: i32 = 180_000;

/// The statements of one queue, and what they need to know.
#[derive(Debug)]
pub(crate) struct Protocol {
    pub(crate) table: Table,
    pub(crate) texts: Texts,
    stepping: OnceLock<bool>,
}

impl Protocol {
    pub(crate) fn of(table: Table) -> Self {
        Self {
            texts: Texts::of(&table),
            table,
            stepping: OnceLock::new(),
        }
    }

    /// Whether a claim has to step over priorities; asks the server once.
    pub(crate) fn is_stepping(&self, tx: &mut PgConnection) -> Result<bool> {
        if let Some(stepping) = self.stepping.get() {
            return Ok(*stepping);
        }
        let version = server_version(tx, "claim")?;
        Ok(*self.stepping.get_or_init(|| version < SKIP_SCAN_SINCE))
    }
}

/// The server's version as a number, such as 180006.
pub(crate) fn server_version(tx: &mut PgConnection, operation: &'static str) -> Result<i32> {
    diesel::select(diesel::dsl::sql::<Integer>(
        "current_setting('server_version_num')::INTEGER",
    ))
    .get_result(tx)
    .map_err(failed(operation))
}

pub(crate) fn claim(
    tx: &mut PgConnection,
    protocol: &Protocol,
    request: &ClaimRequest,
) -> Result<Vec<ClaimedJob>> {
    let text = if protocol.is_stepping(tx)? {
        &protocol.texts.claim_stepping
    } else {
        &protocol.texts.claim
    };
    let mut binds = vec![
        Bind::Text(request.worker.as_str()),
        Bind::BigInt(request.lease.as_micros()),
        Bind::Text(request.queue.as_str()),
    ];
    binds.extend(kind_binds(request));
    let text = text.with_limit(request.limit.get());
    let rows: Vec<ClaimedRow> = Statement::<ClaimedShape>::new(&text, binds)
        .load(tx)
        .map_err(failed("claim"))?;
    let columns = protocol.table.columns();
    let mut jobs: Vec<_> = rows.into_iter().map(|row| row.decode(columns)).collect();
    jobs.sort_unstable_by_key(ClaimedJob::claim_order);
    Ok(jobs)
}

/// The accepted kinds with the lowest and highest of their payload versions, or three NULLs.
pub(crate) fn kind_binds(request: &ClaimRequest) -> [Bind<'_>; 3] {
    let accepts = request.accepts.as_ref();
    let kinds = accepts.map(|kinds| kinds.keys().map(AsRef::as_ref).collect());
    let lowest = accepts.map(|kinds| kinds.values().map(|v| i32::from(*v.start())).collect());
    let highest = accepts.map(|kinds| kinds.values().map(|v| i32::from(*v.end())).collect());
    [
        Bind::TextsOrNull(kinds),
        Bind::IntegersOrNull(lowest),
        Bind::IntegersOrNull(highest),
    ]
}

/// Renews the claims that hold, after waiting for their rows.
pub(crate) fn renew(
    tx: &mut PgConnection,
    protocol: &Protocol,
    receipts: &[&Receipt],
    lease: LeaseLength,
) -> Result<Vec<Fenced<()>>> {
    judge(tx, protocol, "renew", receipts, |tx, places| {
        renew_free(tx, protocol, &chosen(receipts, places), lease)
    })
}

/// Renews, of claims of different jobs, those that hold and whose rows are not locked.
pub(crate) fn renew_free(
    tx: &mut PgConnection,
    protocol: &Protocol,
    receipts: &[&Receipt],
    lease: LeaseLength,
) -> Result<HashMap<JobId, ()>> {
    let mut binds = receipt_binds(receipts.iter().copied());
    binds.push(Bind::BigInt(lease.as_micros()));
    held(tx, Statement::new(&protocol.texts.renew, binds), "renew")
}

/// Finishes the jobs whose claims hold, after waiting for their rows.
pub(crate) fn ack(
    tx: &mut PgConnection,
    protocol: &Protocol,
    receipts: &[&Receipt],
) -> Result<Vec<Fenced<()>>> {
    if let [receipt] = receipts {
        return judge_group(tx, protocol, "ack", receipts, &[0], &mut |tx, _| {
            let statement = Statement::new(&protocol.texts.ack_one, claim_binds(receipt));
            held(tx, statement, "ack")
        });
    }
    judge(tx, protocol, "ack", receipts, |tx, places| {
        ack_free(tx, protocol, &chosen(receipts, places))
    })
}

/// Finishes, of claims of different jobs, those that hold and whose rows are not locked.
pub(crate) fn ack_free(
    tx: &mut PgConnection,
    protocol: &Protocol,
    receipts: &[&Receipt],
) -> Result<HashMap<JobId, ()>> {
    let binds = receipt_binds(receipts.iter().copied());
    held(tx, Statement::new(&protocol.texts.ack, binds), "ack")
}

/// Gives up the jobs whose claims hold, after waiting for their rows.
pub(crate) fn fail(
    tx: &mut PgConnection,
    protocol: &Protocol,
    failures: &[&Failure],
) -> Result<Vec<Fenced<Disposition>>> {
    let receipts: Vec<_> = failures.iter().map(|failure| &failure.receipt).collect();
    judge(tx, protocol, "fail", &receipts, |tx, places| {
        fail_free(tx, protocol, &chosen(failures, places))
    })
}

/// Gives up, of claims of different jobs, those that hold and whose rows are not locked.
pub(crate) fn fail_free(
    tx: &mut PgConnection,
    protocol: &Protocol,
    failures: &[&Failure],
) -> Result<HashMap<JobId, Disposition>> {
    let mut binds = receipt_binds(failures.iter().map(|failure| &failure.receipt));
    let actions = failures.iter().map(|failure| action(failure.action));
    let (words, delays) = actions.unzip();
    let errors = failures
        .iter()
        .map(|failure| failure.error.as_ref().map(|error| error.as_str()));
    binds.extend([
        Bind::Texts(words),
        Bind::BigInts(delays),
        Bind::TextsOrNulls(errors.collect()),
    ]);
    let rows: Vec<MovedRow> = Statement::<MovedShape>::new(&protocol.texts.fail, binds)
        .load(tx)
        .map_err(failed("fail"))?;
    rows.into_iter().map(MovedRow::decode).collect()
}

fn chosen<'a, I>(items: &[&'a I], places: &[usize]) -> Vec<&'a I> {
    places.iter().map(|place| items[*place]).collect()
}

/// Records an effect; `Err` inside is the lost claim.
pub(crate) fn record_effect(
    tx: &mut PgConnection,
    protocol: &Protocol,
    receipt: &Receipt,
    name: &EffectName,
) -> Result<Fenced<bool>> {
    let operation = "record_effect";
    let mut binds = claim_binds(receipt);
    binds.push(Bind::Text(name.as_str()));
    let statement = Statement::<(Bool, Bool)>::new(&protocol.texts.effect, binds);
    let (holds, new): (bool, bool) = statement.get_result(tx).map_err(failed(operation))?;
    if holds {
        return Ok(Ok(new));
    }
    Ok(Err(lost(tx, protocol, operation, receipt)?))
}

pub(crate) fn reap(
    tx: &mut PgConnection,
    protocol: &Protocol,
    request: &ReapRequest,
) -> Result<Vec<Reaped>> {
    let limit = request.limit.get();
    let text = protocol.texts.reap_select.with_limit(limit);
    let overdue: Vec<(i64, i32)> = Statement::<(BigInt, Integer)>::new(&text, vec![])
        .load(tx)
        .map_err(failed("reap"))?;
    let mut reaped = Vec::with_capacity(overdue.len());
    if !overdue.is_empty() {
        let delay = |attempts: i32| request.policy.delay(attempts.unsigned_abs()).as_micros();
        let binds = vec![
            Bind::BigInts(overdue.iter().map(|(job_id, _)| *job_id).collect()),
            Bind::BigInts(overdue.iter().map(|(_, lost)| delay(*lost)).collect()),
        ];
        let rows: Vec<ReapedRow> = Statement::<ReapedShape>::new(&protocol.texts.reap, binds)
            .load(tx)
            .map_err(failed("reap"))?;
        for row in rows {
            reaped.push(row.decode()?);
        }
    }
    let moved = u32::try_from(reaped.len()).unwrap_or(limit);
    if moved < limit {
        let text = protocol.texts.bury.with_limit(limit - moved);
        let rows: Vec<(i64, String, i32)> =
            Statement::<(BigInt, Text, Integer)>::new(&text, vec![])
                .load(tx)
                .map_err(failed("reap"))?;
        reaped.extend(rows.into_iter().map(buried));
    }
    Ok(reaped)
}

/// Waits for the rows of a batch of receipts, applies an operation to them, and tells for each what
/// became of it, as if one came after the other.
fn judge<T>(
    tx: &mut PgConnection,
    protocol: &Protocol,
    operation: &'static str,
    receipts: &[&Receipt],
    mut apply: impl FnMut(&mut PgConnection, &[usize]) -> Result<HashMap<JobId, T>>,
) -> Result<Vec<Fenced<T>>> {
    // In the order of their ids, and before any is judged: the operation itself passes locked rows.
    observe(tx, protocol, operation, receipts.iter().copied())?;
    let mut seen = HashSet::new();
    let places: Vec<_> = (0..receipts.len()).collect();
    if receipts.iter().all(|receipt| seen.insert(receipt.job_id())) {
        return judge_group(tx, protocol, operation, receipts, &places, &mut apply);
    }
    // A job stands twice: its later receipt meets what the earlier one did.
    let mut answers = Vec::with_capacity(receipts.len());
    for place in &places {
        let place = std::slice::from_ref(place);
        answers.extend(judge_group(
            tx, protocol, operation, receipts, place, &mut apply,
        )?);
    }
    Ok(answers)
}

/// Judges receipts of different jobs at once.
fn judge_group<T>(
    tx: &mut PgConnection,
    protocol: &Protocol,
    operation: &'static str,
    receipts: &[&Receipt],
    places: &[usize],
    apply: &mut impl FnMut(&mut PgConnection, &[usize]) -> Result<HashMap<JobId, T>>,
) -> Result<Vec<Fenced<T>>> {
    let chosen = || places.iter().map(|place| receipts[*place]);
    let mut applied = apply(tx, places)?;
    let refused = chosen().filter(|receipt| !applied.contains_key(&receipt.job_id()));
    let refused: Vec<_> = refused.collect();
    let observed = if refused.is_empty() {
        HashMap::new()
    } else {
        observe(tx, protocol, operation, refused.into_iter())?
    };
    let answer = |receipt: &Receipt| {
        let lost = || LostClaim::judge(receipt, observed.get(&receipt.job_id()));
        applied.remove(&receipt.job_id()).ok_or_else(lost)
    };
    Ok(chosen().map(answer).collect())
}

/// Why one claim is lost.
fn lost(
    tx: &mut PgConnection,
    protocol: &Protocol,
    operation: &'static str,
    receipt: &Receipt,
) -> Result<LostClaim> {
    let observed = observe(tx, protocol, operation, std::iter::once(receipt))?;
    Ok(LostClaim::judge(receipt, observed.get(&receipt.job_id())))
}

/// Locks rows in the order of their ids and reads what decides why a claim is lost.
fn observe<'a>(
    tx: &mut PgConnection,
    protocol: &Protocol,
    operation: &'static str,
    receipts: impl Iterator<Item = &'a Receipt>,
) -> Result<HashMap<JobId, queue_table_core::Observed>> {
    let ids = receipts.map(|receipt| receipt.job_id().get()).collect();
    let binds = vec![Bind::BigInts(ids)];
    let rows: Vec<ObservedRow> = Statement::<ObservedShape>::new(&protocol.texts.lock, binds)
        .load(tx)
        .map_err(failed(operation))?;
    rows.into_iter().map(ObservedRow::decode).collect()
}

/// Runs a statement that returns the ids of the claims that hold.
fn held(
    tx: &mut PgConnection,
    statement: Statement<'_, BigInt>,
    operation: &'static str,
) -> Result<HashMap<JobId, ()>> {
    let ids: Vec<i64> = statement.load(tx).map_err(failed(operation))?;
    Ok(ids.into_iter().map(|id| (JobId::new(id), ())).collect())
}

fn claim_binds(receipt: &Receipt) -> Vec<Bind<'_>> {
    vec![
        Bind::BigInt(receipt.job_id().get()),
        Bind::Integer(attempt(receipt)),
        Bind::Text(receipt.worker().as_str()),
    ]
}

fn receipt_binds<'a>(receipts: impl Iterator<Item = &'a Receipt> + Clone) -> Vec<Bind<'a>> {
    let ids = receipts.clone().map(|receipt| receipt.job_id().get());
    vec![
        Bind::BigInts(ids.collect()),
        Bind::Integers(receipts.clone().map(attempt).collect()),
        Bind::Texts(receipts.map(|receipt| receipt.worker().as_str()).collect()),
    ]
}

/// The attempt as the column holds it. A forged receipt with a larger one than fits is no row's.
fn attempt(receipt: &Receipt) -> i32 {
    i32::try_from(receipt.attempt()).unwrap_or(-1)
}

fn action(action: FailAction) -> (&'static str, i64) {
    match action {
        FailAction::Retry { after } => ("retry", after.as_micros()),
        FailAction::Dead => ("dead", 0),
        FailAction::Release { after } => ("release", after.as_micros()),
    }
}
