//! What brings jobs back or removes them, on a transaction that somebody opened: reap and purge.

use std::collections::HashSet;

use mysql::prelude::Queryable;
use mysql::{Row, Value};
use queue_table_core::{
    Delay, Disposition, FailureCause, JobId, PurgeCursor, PurgeRequest, Purged, QueueName,
    ReapRequest, Reaped, Result, RetryPolicy, State, Timestamp, WorkerId,
};
use serde_json::json;

use crate::decode::{Now, Reader, datetime};
use crate::error::{failed, undecodable};
use crate::json;
use crate::lifecycle::record_failures;
use crate::sql::Statements;

/// The user's own rules keep the row: a foreign key references it (1217 where the account may not
/// see by which table), or a trigger's SIGNAL refuses.
const ROW_IS_KEPT: [u16; 3] = [1451, 1217, 1644];

/// Before every row: the first instant a DATETIME holds, 1000-01-01.
const BEGINNING: PurgeCursor = PurgeCursor {
    finished_at: Timestamp::from_micros(-30_610_224_000_000_000),
    job_id: JobId::new(i64::MIN),
};

/// Whether a reap would find anything. Reads only.
pub(crate) fn is_any_overdue<Q: Queryable>(session: &mut Q, sql: &Statements) -> Result<bool> {
    let first: Option<i64> = session
        .exec_first(sql.reap_probe(), ())
        .map_err(failed(sql.engine, "reap"))?;
    Ok(first.is_some())
}

/// Brings back overdue jobs, and buries ready ones that have no attempt left.
pub(crate) fn reap<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    request: &ReapRequest,
) -> Result<Vec<Reaped>> {
    const OPERATION: &str = "reap";
    let rows: Vec<Row> = session
        .exec(sql.reap_select(), (request.limit.get(),))
        .map_err(failed(sql.engine, OPERATION))?;
    let (mut reaped, mut changes, mut records) = (Vec::new(), Vec::new(), Vec::new());
    let mut clock = None;
    for row in rows {
        let (job, now) = Overdue::read(Reader::new(row, sql, OPERATION))?;
        let delay = job.delay(&request.policy).map(Delay::as_micros);
        let state = if delay.is_some() {
            State::Ready
        } else {
            State::Dead
        };
        let id = job.job_id.get();
        match &job.worker {
            Some(worker) => {
                changes.push(json!([
                    id,
                    state.as_str(),
                    delay.unwrap_or(0),
                    1,
                    "lease expired"
                ]));
                records.push(json!([id, job.attempts, worker.as_str(), "lease expired"]));
            }
            None => changes.push(json!([id, state.as_str(), 0, 0, "no attempts left"])),
        }
        reaped.push(Reaped {
            job_id: job.job_id,
            queue: job.queue,
            attempt: job.attempts,
            worker: job.worker,
            disposition: delay.map_or(Disposition::Dead, |delay| Disposition::Ready {
                run_at: now.plus(delay),
            }),
        });
        clock = Some(now);
    }
    let Some(now) = clock else {
        return Ok(reaped);
    };
    let changes = json::rows(sql, OPERATION, &changes)?;
    session
        .exec_drop(sql.reap(), (changes, &now.value, &now.value))
        .map_err(failed(sql.engine, OPERATION))?;
    record_failures(
        session,
        sql,
        OPERATION,
        &now,
        FailureCause::Reaped,
        &records,
    )?;
    Ok(reaped)
}

/// A locked row of `reap_select.sql`.
struct Overdue {
    job_id: JobId,
    queue: QueueName,
    attempts: u32,
    max_attempts: u32,
    /// `None` when it is ready with no attempt left.
    worker: Option<WorkerId>,
}

impl Overdue {
    fn read(mut row: Reader) -> Result<(Self, Now)> {
        let job_id = row.job_id()?;
        let queue = QueueName::stored(&row.text("queue")?);
        row.state()?;
        let job = Self {
            job_id,
            queue,
            attempts: row.number("attempts")?,
            max_attempts: row.number("max_attempts")?,
            worker: row.worker()?,
        };
        Ok((job, Now::take(&mut row)?))
    }

    /// Until the next attempt; `None` when there is none.
    fn delay(&self, policy: &RetryPolicy) -> Option<Delay> {
        (self.attempts < self.max_attempts).then(|| policy.delay(self.attempts))
    }
}

/// Deletes one batch of old finished jobs, with what hangs on them.
pub(crate) fn purge<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    request: &PurgeRequest,
) -> Result<Purged> {
    let limit = request.limit.get() as usize;
    let mut old = Vec::new();
    let windows = [
        (State::Succeeded, request.succeeded_after),
        (State::Dead, request.dead_after),
    ];
    for (state, after) in windows {
        if let Some(after) = after {
            old.extend(select_old(session, sql, request, state, after)?);
        }
    }
    old.sort_unstable();
    old.truncate(limit);
    let cursor = old.last().copied().filter(|_| old.len() == limit);

    let ids: Vec<JobId> = old.iter().map(|row| row.job_id).collect();
    let free = without_busy_keys(session, sql, ids)?;
    let (deleted, kept) = delete(session, sql, free)?;
    let document = json::ids(deleted.iter().copied());
    if !deleted.is_empty() {
        for sister in [sql.purge_dedup(), sql.purge_effect(), sql.purge_failure()] {
            session
                .exec_drop(sister, (&document,))
                .map_err(failed(sql.engine, "purge"))?;
        }
    }
    Ok(Purged {
        deleted: u32::try_from(deleted.len()).unwrap_or(u32::MAX),
        kept,
        cursor,
    })
}

fn select_old<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    request: &PurgeRequest,
    state: State,
    after: Delay,
) -> Result<Vec<PurgeCursor>> {
    let from = request.cursor.unwrap_or(BEGINNING);
    let at: Value = datetime(from.finished_at)
        .ok_or_else(|| undecodable(sql.engine, "purge", "instant in the cursor"))?;
    let params = (
        state.as_str(),
        after.as_micros(),
        &at,
        &at,
        from.job_id.get(),
        request.limit.get(),
    );
    let rows: Vec<Row> = session
        .exec(sql.purge_select(), params)
        .map_err(failed(sql.engine, "purge"))?;
    let read = |row| {
        let mut row = Reader::new(row, sql, "purge");
        let job_id = row.job_id()?;
        Ok(PurgeCursor {
            finished_at: row.instant("finished_at")?,
            job_id,
        })
    };
    rows.into_iter().map(read).collect()
}

/// The jobs whose dedup keys, where they have any, this transaction has locked.
fn without_busy_keys<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    jobs: Vec<JobId>,
) -> Result<Vec<JobId>> {
    if jobs.is_empty() {
        return Ok(jobs);
    }
    let document = json::ids(jobs.iter().copied());
    let keyed: Vec<i64> = session
        .exec(sql.purge_keyed(), (&document,))
        .map_err(failed(sql.engine, "purge"))?;
    if keyed.is_empty() {
        return Ok(jobs);
    }
    let locked: Vec<i64> = session
        .exec(sql.purge_keys(), (&document,))
        .map_err(failed(sql.engine, "purge"))?;
    let mut busy: HashSet<i64> = keyed.into_iter().collect();
    for id in locked {
        busy.remove(&id);
    }
    Ok(jobs
        .into_iter()
        .filter(|job| !busy.contains(&job.get()))
        .collect())
}

/// Deletes all at once; where a constraint of the user's refuses that, one by one, to find out
/// which rows it keeps.
fn delete<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    jobs: Vec<JobId>,
) -> Result<(Vec<JobId>, Vec<JobId>)> {
    if jobs.is_empty() || delete_some(session, sql, &jobs)? {
        return Ok((jobs, Vec::new()));
    }
    let (mut deleted, mut kept) = (Vec::new(), Vec::new());
    for job in jobs {
        if delete_some(session, sql, &[job])? {
            deleted.push(job);
        } else {
            kept.push(job);
        }
    }
    Ok((deleted, kept))
}

/// `false` when a rule of the user's keeps one of them: the statement then has deleted none.
fn delete_some<Q: Queryable>(session: &mut Q, sql: &Statements, jobs: &[JobId]) -> Result<bool> {
    match session.exec_drop(sql.purge(), (json::ids(jobs.iter().copied()),)) {
        Ok(()) => Ok(true),
        Err(mysql::Error::MySqlError(error)) if ROW_IS_KEPT.contains(&error.code) => Ok(false),
        Err(error) => Err(failed(sql.engine, "purge")(error)),
    }
}
