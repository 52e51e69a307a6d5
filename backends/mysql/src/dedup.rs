//! Which job a dedup key names. The key's row is locked first; who holds it is read after.
//!
//! Locks are taken in one order everywhere: keys, ascending, then jobs. So an enqueue, a replay and
//! a purge never wait for each other in a circle.

use std::collections::BTreeMap;

use mysql::Row;
use mysql::prelude::Queryable;
use queue_table_core::{DedupScope, JobId, Result, State};
use serde_json::json;

use crate::decode::Reader;
use crate::error::{failed, undecodable};
use crate::json;
use crate::sql::Statements;

/// Queue and key.
pub(crate) type Key<'k> = (&'k str, &'k str);

/// What a plain read sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Snapshot {
    /// The latest committed rows: a transaction of our own, at READ COMMITTED.
    Latest,
    /// Perhaps an old state: a caller's transaction, at any level.
    Unknown,
}

/// The job that a key's row names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Holder {
    pub(crate) job_id: JobId,
    ends_with_job: bool,
    /// `None` when there is no such job: the key is new, or its job was deleted.
    state: Option<State>,
}

impl Holder {
    /// The job, unless the key is free.
    pub(crate) fn living(&self) -> Option<JobId> {
        let free = match self.state {
            None => true,
            Some(state) => self.ends_with_job && state.is_terminal(),
        };
        (!free).then_some(self.job_id)
    }

    /// The job, when it is there and not finished.
    pub(crate) fn unfinished(&self) -> Option<JobId> {
        let unfinished = self.state.is_some_and(|state| !state.is_terminal());
        unfinished.then_some(self.job_id)
    }
}

/// Locks the rows of the keys, making those that are missing, and reads who holds each.
pub(crate) fn lock<'k, Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    operation: &'static str,
    keys: &BTreeMap<Key<'k>, DedupScope>,
    snapshot: Snapshot,
) -> Result<Vec<(Key<'k>, Holder)>> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let ordered: Vec<_> = keys
        .iter()
        .enumerate()
        .map(|(at, ((queue, key), scope))| json!([at, queue, key, scope.as_str()]))
        .collect();
    let document = json::rows(sql, operation, &ordered)?;
    session
        .exec_drop(sql.dedup_lock(), (&document,))
        .map_err(failed(sql.engine, operation))?;
    let holders = match snapshot {
        Snapshot::Latest => sql.dedup_holders(),
        Snapshot::Unknown => sql.dedup_holders_in(),
    };
    let rows: Vec<Row> = session
        .exec(holders, (&document,))
        .map_err(failed(sql.engine, operation))?;
    let keys: Vec<Key<'k>> = keys.keys().copied().collect();
    rows.into_iter()
        .map(|row| holder(Reader::new(row, sql, operation), sql, operation, &keys))
        .collect()
}

fn holder<'k>(
    mut row: Reader,
    sql: &Statements,
    operation: &'static str,
    keys: &[Key<'k>],
) -> Result<(Key<'k>, Holder)> {
    let at: usize = row.take("ordinal")?;
    let key = keys.get(at).copied();
    let holder = Holder {
        job_id: row.job_id()?,
        ends_with_job: row.text("scope")? == DedupScope::WhileUnfinished.as_str(),
        state: row
            .optional_text("state")?
            .and_then(|word| State::parse(&word)),
    };
    let key = key.ok_or_else(|| undecodable(sql.engine, operation, "ordinal"))?;
    Ok((key, holder))
}

/// Makes locked keys name these jobs.
pub(crate) fn take<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    operation: &'static str,
    taken: &[(Key<'_>, JobId, DedupScope)],
) -> Result<()> {
    if taken.is_empty() {
        return Ok(());
    }
    let rows: Vec<_> = taken
        .iter()
        .map(|((queue, key), job_id, scope)| json!([queue, key, job_id.get(), scope.as_str()]))
        .collect();
    let document = json::rows(sql, operation, &rows)?;
    session
        .exec_drop(sql.dedup_take(), (document,))
        .map_err(failed(sql.engine, operation))
}
