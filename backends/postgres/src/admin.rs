//! The operators' statements, run on a transaction that somebody else opened.

use diesel::pg::PgConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Integer, Text};
use queue_table_core::{
    ErrorText, FailureRecord, JobId, JobRecord, ListRequest, MaxAttempts, PromoteRequest,
    QueueName, QueueStats, Rejected, Result, State,
};

use crate::decode::{
    FailureRow, FailureShape, ObservedRow, ObservedShape, RecordRow, RecordShape, StatsRow,
    StatsShape, state,
};
use crate::error::failed;
use crate::lifecycle::Protocol;
use crate::sql::{SqlText, Texts};
use crate::statement::{Bind, Statement};

pub(crate) fn get(
    tx: &mut PgConnection,
    protocol: &Protocol,
    job: JobId,
) -> Result<Option<JobRecord>> {
    let binds = vec![Bind::BigInt(job.get())];
    let row: Option<RecordRow> = Statement::<RecordShape>::new(&protocol.texts.get, binds)
        .get_result(tx)
        .optional()
        .map_err(failed("get"))?;
    row.map(|row| row.decode(protocol.table.columns()))
        .transpose()
}

pub(crate) fn list(
    tx: &mut PgConnection,
    protocol: &Protocol,
    request: &ListRequest,
) -> Result<Vec<JobRecord>> {
    let binds = vec![
        Bind::TextOrNull(request.queue.as_ref().map(AsRef::as_ref)),
        Bind::TextOrNull(request.state.map(State::as_str)),
        Bind::TextOrNull(request.kind.as_ref().map(AsRef::as_ref)),
        Bind::BigInt(request.after.map_or(i64::MIN, JobId::get)),
        Bind::BigInt(i64::from(request.limit.get())),
    ];
    let rows: Vec<RecordRow> = Statement::<RecordShape>::new(&protocol.texts.list, binds)
        .load(tx)
        .map_err(failed("list"))?;
    let decode = |row: RecordRow| row.decode(protocol.table.columns());
    rows.into_iter().map(decode).collect()
}

pub(crate) fn failures(
    tx: &mut PgConnection,
    protocol: &Protocol,
    job: JobId,
) -> Result<Vec<FailureRecord>> {
    let binds = vec![Bind::BigInt(job.get())];
    let rows: Vec<FailureRow> = Statement::<FailureShape>::new(&protocol.texts.failures, binds)
        .load(tx)
        .map_err(failed("failures"))?;
    rows.into_iter().map(FailureRow::decode).collect()
}

pub(crate) fn stats(
    tx: &mut PgConnection,
    protocol: &Protocol,
    queue: Option<&QueueName>,
) -> Result<Vec<QueueStats>> {
    let binds = vec![Bind::TextOrNull(queue.map(AsRef::as_ref))];
    let rows: Vec<StatsRow> = Statement::<StatsShape>::new(&protocol.texts.stats, binds)
        .load(tx)
        .map_err(failed("stats"))?;
    Ok(rows.into_iter().map(StatsRow::decode).collect())
}

pub(crate) fn replay(
    tx: &mut PgConnection,
    protocol: &Protocol,
    job: JobId,
    extra: MaxAttempts,
) -> Result<u32> {
    let texts = &protocol.texts;
    lock_in_state(tx, texts, "replay", job, &[State::Dead], "dead")?;
    take_key_back(tx, texts, job)?;
    let binds = vec![
        Bind::BigInt(job.get()),
        Bind::Integer(i32::try_from(extra.get()).unwrap_or(i32::MAX)),
    ];
    let budget: i32 = Statement::<Integer>::new(&texts.replay, binds)
        .get_result(tx)
        .map_err(failed("replay"))?;
    Ok(budget.unsigned_abs())
}

/// Lets the dedup key that was taken from a job name it again, unless its new holder is unfinished.
fn take_key_back(tx: &mut PgConnection, texts: &Texts, job: JobId) -> Result<()> {
    let operation = "replay";
    let this = || vec![Bind::BigInt(job.get())];
    let held: Option<i64> = Statement::<BigInt>::new(&texts.replay_hold, this())
        .get_result(tx)
        .optional()
        .map_err(failed(operation))?;
    if held.is_some() {
        return Ok(());
    }
    let past: Option<(String, String, String)> =
        Statement::<(Text, Text, Text)>::new(&texts.past_find, this())
            .get_result(tx)
            .optional()
            .map_err(failed(operation))?;
    let Some((queue, key, scope)) = past else {
        return Ok(());
    };
    let binds = vec![
        Bind::Text(&queue),
        Bind::Text(&key),
        Bind::BigInt(job.get()),
        Bind::Text(&scope),
    ];
    let holder: i64 = Statement::<BigInt>::new(&texts.dedup_name, binds)
        .get_result(tx)
        .map_err(failed(operation))?;
    if holder != job.get() {
        refuse_unfinished(tx, texts, job, JobId::new(holder))?;
        let binds = vec![
            Bind::Texts(vec![&queue]),
            Bind::Texts(vec![&key]),
            Bind::BigInts(vec![job.get()]),
            Bind::Texts(vec![&scope]),
        ];
        run(tx, operation, &texts.dedup_take, binds)?;
    }
    let forgotten = vec![Bind::BigInts(vec![job.get()])];
    run(tx, operation, &texts.past_forget, forgotten)
}

fn refuse_unfinished(
    tx: &mut PgConnection,
    texts: &Texts,
    job_id: JobId,
    holder: JobId,
) -> Result<()> {
    let binds = vec![Bind::BigInt(holder.get())];
    let found: Option<String> = Statement::<Text>::new(&texts.state, binds)
        .get_result(tx)
        .optional()
        .map_err(failed("replay"))?;
    match found.as_deref().map(state).transpose()? {
        Some(state) if !state.is_terminal() => {
            Err(Rejected::DedupKeyTaken { job_id, holder }.into())
        }
        _ => Ok(()),
    }
}

pub(crate) fn cancel(
    tx: &mut PgConnection,
    protocol: &Protocol,
    job: JobId,
    reason: &ErrorText,
) -> Result<()> {
    let allowed = [State::Ready, State::Running];
    lock_in_state(
        tx,
        &protocol.texts,
        "cancel",
        job,
        &allowed,
        "ready and running",
    )?;
    let binds = vec![Bind::BigInt(job.get()), Bind::Text(reason.as_str())];
    run(tx, "cancel", &protocol.texts.cancel, binds)
}

/// Locks a row and refuses it when it is in another state than those allowed.
fn lock_in_state(
    tx: &mut PgConnection,
    texts: &Texts,
    operation: &'static str,
    job_id: JobId,
    allowed: &[State],
    allowed_words: &'static str,
) -> Result<()> {
    let binds = vec![Bind::BigInts(vec![job_id.get()])];
    let row: Option<ObservedRow> = Statement::<ObservedShape>::new(&texts.lock, binds)
        .get_result(tx)
        .optional()
        .map_err(failed(operation))?;
    let row = row.ok_or(Rejected::NoSuchJob(job_id))?;
    let (_, observed) = row.decode()?;
    if allowed.contains(&observed.state) {
        return Ok(());
    }
    Err(Rejected::WrongState {
        job_id,
        state: observed.state,
        operation,
        allowed: allowed_words,
    }
    .into())
}

/// Tells how many jobs it has promoted.
pub(crate) fn promote(
    tx: &mut PgConnection,
    protocol: &Protocol,
    request: &PromoteRequest,
) -> Result<u32> {
    let text = protocol.texts.promote.with_limit(request.limit.get());
    let binds = vec![
        Bind::Text(request.queue.as_str()),
        Bind::Integer(request.to),
        Bind::BigInt(request.waited.as_micros()),
    ];
    let promoted = Statement::<()>::new(&text, binds)
        .execute(tx)
        .map_err(failed("promote"))?;
    Ok(u32::try_from(promoted).unwrap_or(u32::MAX))
}

pub(crate) fn pause(tx: &mut PgConnection, protocol: &Protocol, queue: &QueueName) -> Result<()> {
    let binds = vec![Bind::Text(queue.as_str())];
    run(tx, "pause", &protocol.texts.pause, binds)
}

pub(crate) fn resume(tx: &mut PgConnection, protocol: &Protocol, queue: &QueueName) -> Result<()> {
    let binds = vec![Bind::Text(queue.as_str())];
    run(tx, "resume", &protocol.texts.resume, binds)
}

/// Runs a statement without rows.
pub(crate) fn run(
    tx: &mut PgConnection,
    operation: &'static str,
    text: &SqlText,
    binds: Vec<Bind<'_>>,
) -> Result<()> {
    Statement::<()>::new(text, binds)
        .execute(tx)
        .map(|_| ())
        .map_err(failed(operation))
}
