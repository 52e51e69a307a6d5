//! What operators do: look at jobs, bring them back, stop them, pause queues.

use queue_table_core::{
    Error, ErrorText, FailureRecord, JobId, JobRecord, ListRequest, MaxAttempts, PromoteRequest,
    QueueName, QueueStats, Rejected, Result, State,
};
use rusqlite::{Connection, OptionalExtension, named_params};

use crate::error::map;
use crate::lifecycle::now;
use crate::queue::Tables;
use crate::{decode, enqueue};

pub(crate) fn get(
    reader: &Connection,
    tables: &Tables,
    job: JobId,
) -> rusqlite::Result<Option<JobRecord>> {
    let mut statement = reader.prepare_cached(&tables.sql.get)?;
    let decode = |row: &rusqlite::Row<'_>| decode::record(row, tables.table.columns());
    statement
        .query_row(named_params! { ":job_id": job.get() }, decode)
        .optional()
}

pub(crate) fn list(
    reader: &Connection,
    tables: &Tables,
    request: &ListRequest,
) -> rusqlite::Result<Vec<JobRecord>> {
    let mut statement = reader.prepare_cached(&tables.sql.list)?;
    let rows = statement.query_map(
        named_params! {
            ":after": request.after.map_or(i64::MIN, JobId::get),
            ":queue": request.queue.as_ref().map(QueueName::as_str),
            ":state": request.state.map(State::as_str),
            ":kind": request.kind.as_ref().map(AsRef::<str>::as_ref),
            ":limit": request.limit.get(),
        },
        |row| decode::record(row, tables.table.columns()),
    )?;
    rows.collect()
}

pub(crate) fn failures(
    reader: &Connection,
    tables: &Tables,
    job: JobId,
) -> rusqlite::Result<Vec<FailureRecord>> {
    let mut statement = reader.prepare_cached(&tables.sql.failures)?;
    let decode = |row: &rusqlite::Row<'_>| decode::failure(row, job);
    statement
        .query_map(named_params! { ":job_id": job.get() }, decode)?
        .collect()
}

pub(crate) fn stats(
    reader: &Connection,
    tables: &Tables,
    queue: Option<&QueueName>,
) -> rusqlite::Result<Vec<QueueStats>> {
    let mut statement = reader.prepare_cached(&tables.sql.stats)?;
    let params = named_params! { ":queue": queue.map(QueueName::as_str) };
    statement.query_map(params, decode::stats)?.collect()
}

/// Makes a dead job ready, and returns its queue and its new budget.
pub(crate) fn replay(
    tx: &Connection,
    tables: &Tables,
    job: JobId,
    extra: MaxAttempts,
) -> Result<(QueueName, u32)> {
    let now = now(tx, tables, "replay")?;
    let queue = expect_state(tx, tables, job, "replay", &[State::Dead])?;
    enqueue::take_back(tx, tables, &queue, job)?;
    let update = || {
        let params = named_params! { ":job_id": job.get(), ":now": now, ":extra": extra.get() };
        let mut replay = tx.prepare_cached(&tables.sql.replay)?;
        replay.query_row(params, |row| row.get(0))
    };
    Ok((queue, update().map_err(map("replay"))?))
}

pub(crate) fn cancel(
    tx: &Connection,
    tables: &Tables,
    job: JobId,
    reason: &ErrorText,
) -> Result<()> {
    let now = now(tx, tables, "cancel")?;
    expect_state(tx, tables, job, "cancel", &[State::Ready, State::Running])?;
    let update = || {
        let params = named_params! { ":job_id": job.get(), ":now": now, ":error": reason.as_str() };
        tx.prepare_cached(&tables.sql.cancel)?.execute(params)
    };
    update().map(drop).map_err(map("cancel"))
}

/// The job's queue, when the operation is for its state.
fn expect_state(
    tx: &Connection,
    tables: &Tables,
    job: JobId,
    operation: &'static str,
    allowed: &[State],
) -> Result<QueueName> {
    let found = get(tx, tables, job).map_err(map(operation))?;
    let record = found.ok_or(Error::Rejected(Rejected::NoSuchJob(job)))?;
    if allowed.contains(&record.state) {
        return Ok(record.queue);
    }
    Err(Error::Rejected(Rejected::WrongState {
        job_id: job,
        state: record.state,
        operation,
        allowed: if operation == "replay" {
            "dead"
        } else {
            "ready and running"
        },
    }))
}

/// Tells how many jobs it has promoted.
pub(crate) fn promote(tx: &Connection, tables: &Tables, request: &PromoteRequest) -> Result<u32> {
    let now = now(tx, tables, "promote")?;
    let update = || {
        let params = named_params! {
            ":queue": request.queue.as_str(),
            ":to": request.to,
            ":now": now,
            ":waited": request.waited.as_micros(),
            ":limit": request.limit.get(),
        };
        tx.prepare_cached(&tables.sql.promote)?.execute(params)
    };
    let promoted = update().map_err(map("promote"))?;
    Ok(u32::try_from(promoted).unwrap_or(u32::MAX))
}

pub(crate) fn pause(tx: &Connection, tables: &Tables, queue: &QueueName) -> Result<()> {
    let now = now(tx, tables, "pause")?;
    let store = || {
        let params = named_params! { ":queue": queue.as_str(), ":now": now };
        tx.prepare_cached(&tables.sql.pause)?.execute(params)
    };
    store().map(drop).map_err(map("pause"))
}

pub(crate) fn resume(tx: &Connection, tables: &Tables, queue: &QueueName) -> Result<()> {
    let delete = || {
        let params = named_params! { ":queue": queue.as_str() };
        tx.prepare_cached(&tables.sql.resume)?.execute(params)
    };
    delete().map(drop).map_err(map("resume"))
}
