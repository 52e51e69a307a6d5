//! Enqueue, and who a dedup key belongs to.

use std::collections::BTreeSet;

use queue_table_core::{
    ColumnValue, Dedup, DedupScope, Delay, ENQUEUE_MAX, Enqueued, Error, Invalid, JobId, NewJob,
    QueueName, Rejected, Result, State, check_count,
};
use rusqlite::types::{Null, ToSqlOutput};
use rusqlite::{CachedStatement, Connection, OptionalExtension, ToSql, named_params};

use crate::decode;
use crate::error::map;
use crate::lifecycle::now;
use crate::queue::Tables;

/// Who has a dedup key, as stored.
struct Holder {
    job_id: JobId,
    scope: DedupScope,
    /// `None` when the job's row is gone.
    state: Option<State>,
}

impl Holder {
    /// Whether a job enqueued under the key is this one. Its own scope decides.
    fn keeps_key(&self) -> bool {
        match (self.scope, self.state) {
            (_, None) => false,
            (DedupScope::WhileRowExists, Some(_)) => true,
            (DedupScope::WhileUnfinished, Some(state)) => !state.is_terminal(),
        }
    }
}

/// Checks everything before any SQL: a wrong job must leave a caller's transaction as it was.
pub(crate) fn check(tables: &Tables, jobs: &[NewJob]) -> Result<Vec<Vec<ColumnValue>>, Invalid> {
    check_count("jobs", jobs.len(), ENQUEUE_MAX)?;
    let arranged = jobs.iter().map(|job| tables.table.arrange(job.columns()));
    arranged.collect()
}

/// The queues of the new jobs that are due at once.
pub(crate) fn woken<'j>(jobs: &'j [NewJob], enqueued: &[Enqueued]) -> BTreeSet<&'j QueueName> {
    let both = jobs.iter().zip(enqueued);
    let due = both.filter(|(job, enqueued)| enqueued.is_new() && job.delay() == Delay::ZERO);
    due.map(|(job, _)| job.queue()).collect()
}

/// Stores checked jobs in the order given.
pub(crate) fn enqueue(
    tx: &Connection,
    tables: &Tables,
    jobs: &[NewJob],
    columns: &[Vec<ColumnValue>],
) -> Result<Vec<Enqueued>> {
    let now = now(tx, tables, "enqueue")?;
    let all = || -> rusqlite::Result<Vec<Enqueued>> {
        let mut insert = tx.prepare_cached(&tables.sql.enqueue)?;
        let jobs = jobs.iter().zip(columns);
        jobs.map(|(job, columns)| enqueue_one(tx, tables, &mut insert, job, columns, now))
            .collect()
    };
    all().map_err(map("enqueue"))
}

fn enqueue_one(
    tx: &Connection,
    tables: &Tables,
    insert: &mut CachedStatement<'_>,
    job: &NewJob,
    columns: &[ColumnValue],
    now: i64,
) -> rusqlite::Result<Enqueued> {
    let Some(Dedup { key, scope }) = job.dedup() else {
        return store(tx, insert, job, columns, now).map(Enqueued::Inserted);
    };
    let holder = find(tx, tables, job.queue(), key.as_str())?;
    if let Some(holder) = holder.as_ref().filter(|holder| holder.keeps_key()) {
        return Ok(Enqueued::Existing(holder.job_id));
    }
    let job_id = store(tx, insert, job, columns, now)?;
    give(
        tx,
        tables,
        job.queue(),
        key.as_str(),
        job_id,
        *scope,
        holder,
    )?;
    Ok(Enqueued::Inserted(job_id))
}

fn store(
    tx: &Connection,
    insert: &mut CachedStatement<'_>,
    job: &NewJob,
    columns: &[ColumnValue],
    now: i64,
) -> rusqlite::Result<JobId> {
    let own = named_params! {
        ":queue": job.queue().as_str(),
        ":kind": job.kind().as_str(),
        ":payload": job.payload().as_str(),
        ":payload_version": job.payload_version(),
        ":priority": job.priority(),
        ":now": now,
        ":delay": job.delay().as_micros(),
        ":max_attempts": job.max_attempts().get(),
    };
    bind(insert, own)?;
    // The business columns' parameters come after the statement's own.
    for (position, value) in columns.iter().enumerate() {
        insert.raw_bind_parameter(own.len() + position + 1, Stored(value))?;
    }
    insert.raw_execute()?;
    Ok(JobId::new(tx.last_insert_rowid()))
}

fn bind(
    statement: &mut CachedStatement<'_>,
    params: &[(&str, &dyn ToSql)],
) -> rusqlite::Result<()> {
    for (name, value) in params {
        let missing = || rusqlite::Error::InvalidParameterName((*name).to_owned());
        let index = statement.parameter_index(name)?.ok_or_else(missing)?;
        statement.raw_bind_parameter(index, value)?;
    }
    Ok(())
}

/// A business column's value as SQLite stores it: a UUID as 36 characters of text.
struct Stored<'a>(&'a ColumnValue);

impl ToSql for Stored<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self.0 {
            ColumnValue::Null => Null.to_sql(),
            ColumnValue::Integer(number) => Ok((*number).into()),
            ColumnValue::Text(text) => Ok(text.as_str().into()),
            ColumnValue::Uuid(uuid) => Ok(uuid.to_string().into()),
        }
    }
}

fn find(
    tx: &Connection,
    tables: &Tables,
    queue: &QueueName,
    key: &str,
) -> rusqlite::Result<Option<Holder>> {
    let mut find = tx.prepare_cached(&tables.sql.dedup_find)?;
    let params = named_params! { ":queue": queue.as_str(), ":key": key };
    let decode = |row: &rusqlite::Row<'_>| {
        let state = decode::text_or_null(row, 2)?;
        Ok(Holder {
            job_id: decode::job_id(row, 0)?,
            scope: decode::scope(row, 1)?,
            state: state.map(|_| decode::state(row, 2)).transpose()?,
        })
    };
    find.query_row(params, decode).optional()
}

/// Gives the key to a job. A finished holder that stays is remembered, so that its replay finds
/// what it lost.
fn give(
    tx: &Connection,
    tables: &Tables,
    queue: &QueueName,
    key: &str,
    job_id: JobId,
    scope: DedupScope,
    before: Option<Holder>,
) -> rusqlite::Result<()> {
    if let Some(before) = before.filter(|before| before.state.is_some()) {
        tx.prepare_cached(&tables.sql.past_put)?
            .execute(named_params! {
                ":job_id": before.job_id.get(), ":key": key, ":scope": before.scope.as_str(),
            })?;
    }
    tx.prepare_cached(&tables.sql.dedup_put)?.execute(named_params! {
        ":queue": queue.as_str(), ":key": key, ":job_id": job_id.get(), ":scope": scope.as_str(),
    })?;
    Ok(())
}

/// Gives a dead job that is to be replayed the key back that another job took over.
///
/// # Errors
/// [`Rejected::DedupKeyTaken`] while that other job is unfinished.
pub(crate) fn take_back(
    tx: &Connection,
    tables: &Tables,
    queue: &QueueName,
    job_id: JobId,
) -> Result<()> {
    let fault = map("replay");
    let lost = || {
        let mut find = tx.prepare_cached(&tables.sql.past_find)?;
        let decode = |row: &rusqlite::Row<'_>| Ok((decode::text(row, 0)?, decode::scope(row, 1)?));
        find.query_row(named_params! { ":job_id": job_id.get() }, decode)
            .optional()
    };
    let Some((key, scope)) = lost().map_err(fault)? else {
        return Ok(());
    };
    let holder = find(tx, tables, queue, &key).map_err(fault)?;
    if let Some(holder) = &holder
        && holder.state.is_some_and(|state| !state.is_terminal())
    {
        let holder = holder.job_id;
        return Err(Error::Rejected(Rejected::DedupKeyTaken { job_id, holder }));
    }
    let take = || {
        give(tx, tables, queue, &key, job_id, scope, holder)?;
        let mut forget = tx.prepare_cached(&tables.sql.past_delete)?;
        forget.execute(named_params! { ":job_id": job_id.get() })
    };
    take().map(drop).map_err(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    use queue_table_core::{Kind, Payload};

    fn keeps(scope: DedupScope, state: Option<State>) -> bool {
        let job_id = JobId::new(1);
        let holder = Holder {
            job_id,
            scope,
            state,
        };
        holder.keeps_key()
    }

    #[test]
    fn the_holders_own_scope_decides_how_long_it_keeps_its_key() {
        for state in State::ALL {
            assert!(keeps(DedupScope::WhileRowExists, Some(state)));
            assert_eq!(
                keeps(DedupScope::WhileUnfinished, Some(state)),
                !state.is_terminal()
            );
        }
        assert!(!keeps(DedupScope::WhileRowExists, None));
        assert!(!keeps(DedupScope::WhileUnfinished, None));
    }

    #[test]
    fn only_new_jobs_that_are_due_wake_their_queue() {
        let job = |queue: &str| {
            let (kind, payload) = (Kind::new("k").unwrap(), Payload::from_json("1").unwrap());
            NewJob::new(&QueueName::new(queue).unwrap(), kind, payload)
        };
        let later = job("later")
            .with_delay(std::time::Duration::from_secs(1))
            .unwrap();
        let jobs = [job("new"), job("new"), job("known"), later];
        let id = JobId::new(1);
        let enqueued = [
            Enqueued::Inserted(id),
            Enqueued::Inserted(id),
            Enqueued::Existing(id),
            Enqueued::Inserted(id),
        ];
        let woken: Vec<_> = woken(&jobs, &enqueued)
            .into_iter()
            .map(QueueName::as_str)
            .collect();
        assert_eq!(woken, ["new"]);
    }
}
