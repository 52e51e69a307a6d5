//! What brings jobs back or ends them from outside: reap, replay, cancel, purge.

use std::collections::HashMap;

use queue_table_core::{
    DedupScope, Disposition, Error, ErrorText, FailureCause, JobId, MaxAttempts, PurgeCursor,
    PurgeRequest, QueueName, ReapRequest, Reaped, Rejected, Result, State, Timestamp, WorkerId,
};
use serde_json::{Value, json};

use crate::connection::{Client, batch, rows};
use crate::decode::{self, Cells};
use crate::dedup::{self, Naming};
use crate::error::unexpected;
use crate::lifecycle::{attempt_json, ids_json, lock, record_attempts};
use crate::sql::Statements;

/// The last error of a job whose lease ran out.
const LEASE_EXPIRED: &str = "lease expired";

/// The last error of a ready job that had no attempt left, unless it has one.
const NO_ATTEMPTS_LEFT: &str = "no attempts left";

/// Brings back running jobs whose lease has run out, and buries ready jobs that have no attempt
/// left.
///
/// # Errors
/// Transient ones.
pub async fn reap(
    client: &mut Client,
    sql: &Statements,
    request: &ReapRequest,
) -> Result<Vec<Reaped>> {
    let limit = request.limit.get();
    let mut reaped = reap_running(client, sql, request).await?;
    let left = limit.saturating_sub(u32::try_from(reaped.len()).unwrap_or(limit));
    if left > 0 {
        reaped.extend(bury(client, sql, left).await?);
    }
    Ok(reaped)
}

/// A running job that was found overdue and is locked.
struct Overdue {
    job_id: JobId,
    queue: QueueName,
    attempt: u32,
    worker: WorkerId,
}

async fn reap_running(
    client: &mut Client,
    sql: &Statements,
    request: &ReapRequest,
) -> Result<Vec<Reaped>> {
    let found = rows(
        client,
        "reap",
        &sql.reap_select,
        &[&limit(request.limit.get())],
    )
    .await?;
    let overdue = found.iter().map(|row| {
        let row = Cells::of(row, "reap");
        Ok(Overdue {
            job_id: row.job_id()?,
            queue: QueueName::stored(row.string("queue")?),
            attempt: row.number("attempts")?,
            worker: WorkerId::stored(row.string("worker_id")?),
        })
    });
    let overdue = overdue.collect::<Result<Vec<_>>>()?;
    if overdue.is_empty() {
        return Ok(Vec::new());
    }
    let given = overdue.iter().map(|job| {
        let delay = request.policy.delay(job.attempt).as_micros();
        json!([job.job_id.get(), job.attempt, delay, LEASE_EXPIRED])
    });
    let given = Value::from_iter(given).to_string();
    let mut moved = HashMap::new();
    for row in rows(client, "reap", &sql.reap, &[&given]).await? {
        let row = Cells::of(&row, "reap");
        moved.insert(row.job_id()?, decode::disposition(&row)?);
    }
    let overdue: Vec<_> = overdue
        .into_iter()
        .filter(|job| moved.contains_key(&job.job_id))
        .collect();
    let attempts = overdue.iter().map(|job| {
        let (cause, error) = (FailureCause::Reaped, Some(LEASE_EXPIRED));
        attempt_json(job.job_id, job.attempt, job.worker.as_str(), cause, error)
    });
    record_attempts(client, sql, "reap", attempts.collect()).await?;
    let reaped = overdue.into_iter().map(|job| Reaped {
        job_id: job.job_id,
        queue: job.queue,
        attempt: job.attempt,
        worker: Some(job.worker),
        disposition: moved[&job.job_id],
    });
    Ok(reaped.collect())
}

async fn bury(client: &mut Client, sql: &Statements, at_most: u32) -> Result<Vec<Reaped>> {
    let found = rows(client, "reap", &sql.bury_select, &[&limit(at_most)]).await?;
    let mut exhausted = HashMap::new();
    for row in &found {
        let row = Cells::of(row, "reap");
        let queue = QueueName::stored(row.string("queue")?);
        exhausted.insert(row.job_id()?, (queue, row.number("attempts")?));
    }
    if exhausted.is_empty() {
        return Ok(Vec::new());
    }
    let given = ids_json(exhausted.keys().copied());
    let buried = rows(client, "reap", &sql.bury, &[&given, &NO_ATTEMPTS_LEFT]).await?;
    let mut reaped = Vec::new();
    for row in &buried {
        let job_id = Cells::of(row, "reap").job_id()?;
        if let Some((queue, attempt)) = exhausted.remove(&job_id) {
            reaped.push(Reaped {
                job_id,
                queue,
                attempt,
                worker: None,
                disposition: Disposition::Dead,
            });
        }
    }
    reaped.sort_unstable_by_key(|reaped| reaped.job_id);
    Ok(reaped)
}

/// A batch size as T-SQL's TOP takes it.
pub(crate) fn limit(size: u32) -> i32 {
    i32::try_from(size).unwrap_or(i32::MAX)
}

/// Makes a dead job ready again; its dedup key is locked before its row, as by an enqueue.
pub(crate) async fn replay(
    client: &mut Client,
    sql: &Statements,
    job_id: JobId,
    extra: MaxAttempts,
) -> Result<u32> {
    let operation = "replay";
    let queue = match rows(client, operation, &sql.get, &[&job_id.get()])
        .await?
        .first()
    {
        Some(row) => Cells::of(row, operation).string("queue")?.to_owned(),
        None => return Err(Rejected::NoSuchJob(job_id).into()),
    };
    let key = dedup_of(client, sql, job_id).await?;
    let namings: Vec<_> = key
        .iter()
        .map(|(key, scope)| Naming {
            key: (&queue, key),
            scope: scope.as_str(),
        })
        .collect();
    let held = dedup::hold(client, sql, operation, namings.clone()).await?;
    must_be(client, sql, operation, job_id, "dead", |state| {
        state == State::Dead
    })
    .await?;
    for held in held.values() {
        let unfinished = held.state.is_some_and(|state| !state.is_terminal());
        if let Some(holder) = held.holder.filter(|holder| unfinished && *holder != job_id) {
            return Err(Rejected::DedupKeyTaken { job_id, holder }.into());
        }
    }
    let named = namings.into_iter().map(|naming| (naming, job_id)).collect();
    dedup::put(client, sql, operation, &held, named).await?;
    rows(client, operation, &sql.past_delete, &[&ids_json([job_id])]).await?;
    let extra = limit(extra.get());
    let found = rows(client, operation, &sql.replay, &[&job_id.get(), &extra]).await?;
    let row = found.first().map(|row| Cells::of(row, operation));
    row.ok_or_else(|| unexpected(operation, "a locked row was not found"))?
        .number("max_attempts")
}

async fn dedup_of(
    client: &mut Client,
    sql: &Statements,
    job_id: JobId,
) -> Result<Option<(String, DedupScope)>> {
    let found = rows(client, "replay", &sql.dedup_of, &[&job_id.get()]).await?;
    let Some(row) = found.first().map(|row| Cells::of(row, "replay")) else {
        return Ok(None);
    };
    let scope = match row.string("scope")? {
        word if word == DedupScope::WhileRowExists.as_str() => DedupScope::WhileRowExists,
        _ => DedupScope::WhileUnfinished,
    };
    Ok(Some((row.string("dedup_key")?.to_owned(), scope)))
}

/// Locks a job's row and refuses a state that the operation is not for.
async fn must_be(
    client: &mut Client,
    sql: &Statements,
    operation: &'static str,
    job_id: JobId,
    allowed: &'static str,
    is_allowed: fn(State) -> bool,
) -> Result<()> {
    let seen = lock(client, sql, operation, vec![job_id]).await?;
    let Some(observed) = seen.get(&job_id) else {
        return Err(Rejected::NoSuchJob(job_id).into());
    };
    if is_allowed(observed.state) {
        return Ok(());
    }
    let state = observed.state;
    Err(Rejected::WrongState {
        job_id,
        state,
        operation,
        allowed,
    }
    .into())
}

pub(crate) async fn cancel(
    client: &mut Client,
    sql: &Statements,
    job_id: JobId,
    reason: &ErrorText,
) -> Result<()> {
    let unfinished = |state: State| !state.is_terminal();
    must_be(
        client,
        sql,
        "cancel",
        job_id,
        "ready and running",
        unfinished,
    )
    .await?;
    let params: [&dyn tiberius::ToSql; 2] = [&job_id.get(), &reason.as_str()];
    rows(client, "cancel", &sql.cancel, &params).await?;
    Ok(())
}

/// Finds one batch of old finished jobs, oldest first. Needs no transaction.
pub(crate) async fn purge_select(
    client: &mut Client,
    sql: &Statements,
    request: &PurgeRequest,
) -> Result<Vec<PurgeCursor>> {
    let micros =
        |delay: Option<queue_table_core::Delay>| delay.map(queue_table_core::Delay::as_micros);
    let (succeeded, dead) = (micros(request.succeeded_after), micros(request.dead_after));
    let from = request.cursor.unwrap_or(PurgeCursor {
        finished_at: Timestamp::from_micros(0),
        job_id: JobId::new(0),
    });
    let params: [&dyn tiberius::ToSql; 5] = [
        &limit(request.limit.get()),
        &succeeded,
        &dead,
        &from.finished_at.as_micros(),
        &from.job_id.get(),
    ];
    let found = rows(client, "purge", &sql.purge_select, &params).await?;
    let cursor = |row| {
        let row = Cells::of(row, "purge");
        Ok(PurgeCursor {
            finished_at: Timestamp::from_micros(row.number("finished_at")?),
            job_id: row.job_id()?,
        })
    };
    found.iter().map(cursor).collect()
}

/// Deletes jobs that `purge_select` found and everything that is kept about them; tells how many
/// were still there.
pub(crate) async fn purge(
    client: &mut Client,
    sql: &Statements,
    jobs: &[PurgeCursor],
) -> Result<u32> {
    batch(client, "purge", &sql.purge_yield).await?;
    let given = jobs
        .iter()
        .map(|job| json!([job.job_id.get(), job.finished_at.as_micros()]));
    let given = Value::from_iter(given).to_string();
    let deleted = rows(client, "purge", &sql.purge, &[&given]).await?;
    let ids = deleted.iter().map(|row| Cells::of(row, "purge").job_id());
    let ids = ids.collect::<Result<Vec<_>>>()?;
    if !ids.is_empty() {
        let given = ids_json(ids.iter().copied());
        let sisters = [
            &sql.purge_dedup,
            &sql.past_delete,
            &sql.purge_effect,
            &sql.purge_failure,
        ];
        for text in sisters {
            rows(client, "purge", text, &[&given]).await?;
        }
    }
    u32::try_from(ids.len())
        .map_err(|_| unexpected("purge", "more rows were deleted than asked for"))
}

/// Whether a constraint of the user's kept a row.
pub(crate) fn is_kept(error: &Error) -> bool {
    matches!(error, Error::Rejected(Rejected::Constraint { .. }))
}
