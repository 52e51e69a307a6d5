//! What operators do and see, on a transaction that somebody opened.

use std::collections::BTreeMap;
use std::time::Duration;

use mysql::Row;
use mysql::prelude::Queryable;
use queue_table_core::{
    DedupScope, ErrorText, FailureRecord, JobId, JobRecord, ListRequest, MaxAttempts, QueueName,
    QueueStats, Rejected, Result, State,
};

use crate::decode::{Reader, failure_record, job_record};
use crate::dedup::{self, Snapshot};
use crate::error::failed;
use crate::fence::locked_job;
use crate::sql::Statements;

/// Reads one job.
pub(crate) fn get<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    job: JobId,
) -> Result<Option<JobRecord>> {
    let row: Option<Row> = session
        .exec_first(sql.get(), (job.get(),))
        .map_err(failed(sql.engine, "get"))?;
    row.map(|row| job_record(row, sql, "get")).transpose()
}

/// Reads one page of jobs.
pub(crate) fn list<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    request: &ListRequest,
) -> Result<Vec<JobRecord>> {
    let queue = request.queue.as_ref().map(QueueName::as_str);
    let state = request.state.map(State::as_str);
    let kind = request.kind.as_ref().map(|kind| kind.as_str());
    let after = request.after.map_or(i64::MIN, JobId::get);
    let params = (
        after,
        queue,
        queue,
        state,
        state,
        kind,
        kind,
        request.limit.get(),
    );
    let rows: Vec<Row> = session
        .exec(sql.list(), params)
        .map_err(failed(sql.engine, "list"))?;
    rows.into_iter()
        .map(|row| job_record(row, sql, "list"))
        .collect()
}

/// Reads the failed attempts of a job.
pub(crate) fn failures<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    job: JobId,
) -> Result<Vec<FailureRecord>> {
    let rows: Vec<Row> = session
        .exec(sql.failures(), (job.get(),))
        .map_err(failed(sql.engine, "failures"))?;
    rows.into_iter()
        .map(|row| failure_record(row, sql, job))
        .collect()
}

/// Counts jobs per queue.
pub(crate) fn stats<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    queue: Option<&QueueName>,
) -> Result<Vec<QueueStats>> {
    let queue = queue.map(QueueName::as_str);
    let rows: Vec<Row> = session
        .exec(sql.stats(), (queue, queue, queue, queue))
        .map_err(failed(sql.engine, "stats"))?;
    rows.into_iter()
        .map(|row| queue_stats(Reader::new(row, sql, "stats")))
        .collect()
}

fn queue_stats(mut row: Reader) -> Result<QueueStats> {
    Ok(QueueStats {
        queue: QueueName::stored(&row.text("queue")?),
        due: row.take("due")?,
        scheduled: row.take("scheduled")?,
        running: row.take("running")?,
        overdue: row.take("overdue")?,
        succeeded: row.take("succeeded")?,
        dead: row.take("dead")?,
        oldest_due: row
            .take::<Option<u64>>("oldest_due")?
            .map(Duration::from_micros),
        paused: row.take::<i64>("paused")? > 0,
    })
}

/// Makes a dead job ready, and returns its queue and its new budget.
pub(crate) fn replay<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    job: JobId,
    extra: MaxAttempts,
) -> Result<(QueueName, u32)> {
    const OPERATION: &str = "replay";
    let enqueued: Option<Row> = session
        .exec_first(sql.replay_key(), (job.get(),))
        .map_err(failed(sql.engine, OPERATION))?;
    let mut enqueued = Reader::new(enqueued.ok_or(Rejected::NoSuchJob(job))?, sql, OPERATION);
    let queue = enqueued.text("queue")?;
    let key = enqueued.optional_text("dedup_key")?;

    // The key before the job: the order in which an enqueue locks them.
    let mut keys = BTreeMap::new();
    if let Some(key) = &key {
        // Where the key's row is missing or names another job, this job's scope was
        // `WhileUnfinished`: a key with the other scope stays with its job as long as the row is
        // there.
        keys.insert((queue.as_str(), key.as_str()), DedupScope::WhileUnfinished);
    }
    let holders = dedup::lock(session, sql, OPERATION, &keys, Snapshot::Latest)?;
    let locked = locked_job(session, sql, OPERATION, job)?;
    if locked.state != State::Dead {
        return Err(Rejected::WrongState {
            job_id: job,
            state: locked.state,
            operation: OPERATION,
            allowed: "dead",
        }
        .into());
    }
    for (key, holder) in holders {
        if holder.job_id == job {
            continue;
        }
        if let Some(holder) = holder.unfinished() {
            return Err(Rejected::DedupKeyTaken {
                job_id: job,
                holder,
            }
            .into());
        }
        dedup::take(
            session,
            sql,
            OPERATION,
            &[(key, job, DedupScope::WhileUnfinished)],
        )?;
    }
    session
        .exec_drop(sql.replay(), (extra.get(), job.get()))
        .map_err(failed(sql.engine, OPERATION))?;
    let budget = locked.attempts.saturating_add(extra.get());
    Ok((QueueName::stored(&queue), budget))
}

/// Makes a ready or running job dead.
pub(crate) fn cancel<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    job: JobId,
    reason: &ErrorText,
) -> Result<()> {
    const OPERATION: &str = "cancel";
    let locked = locked_job(session, sql, OPERATION, job)?;
    if locked.state.is_terminal() {
        return Err(Rejected::WrongState {
            job_id: job,
            state: locked.state,
            operation: OPERATION,
            allowed: "ready and running",
        }
        .into());
    }
    session
        .exec_drop(sql.cancel(), (reason.as_str(), job.get()))
        .map_err(failed(sql.engine, OPERATION))
}

/// Stops claims of a queue.
pub(crate) fn pause<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    queue: &QueueName,
) -> Result<()> {
    session
        .exec_drop(sql.pause(), (queue.as_str(),))
        .map_err(failed(sql.engine, "pause"))
}

/// Lets a queue be claimed again.
pub(crate) fn resume<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    queue: &QueueName,
) -> Result<()> {
    session
        .exec_drop(sql.resume(), (queue.as_str(),))
        .map_err(failed(sql.engine, "resume"))
}
