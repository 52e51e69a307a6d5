//! Promoting jobs that have been due for long, on a transaction that somebody opened.

use std::collections::BTreeMap;

use mysql::Row;
use mysql::prelude::Queryable;
use queue_table_core::{JobId, PromoteRequest, Result, Timestamp};

use crate::decode::Reader;
use crate::error::failed;
use crate::json;
use crate::sql::Statements;

const OPERATION: &str = "promote";

/// Tells how many jobs it has promoted.
///
/// It looks first, without locks, how many of the oldest jobs each priority has, and then takes
/// the free ones of each priority in the order of the index, as a claim does: what it locks is what
/// it changes.
pub(crate) fn promote<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    request: &PromoteRequest,
) -> Result<u32> {
    let mut ids: Vec<i64> = Vec::new();
    for (priority, jobs) in shares(session, sql, request)? {
        let params = (
            request.queue.as_str(),
            priority,
            request.waited.as_micros(),
            jobs,
        );
        let locked: Vec<i64> = session
            .exec(sql.promote_select(), params)
            .map_err(failed(sql.engine, OPERATION))?;
        ids.extend(locked);
    }
    if !ids.is_empty() {
        let document = json::ids(ids.iter().copied().map(JobId::new));
        session
            .exec_drop(sql.promote(), (document, request.to))
            .map_err(failed(sql.engine, OPERATION))?;
    }
    Ok(u32::try_from(ids.len()).unwrap_or(u32::MAX))
}

/// How many of the oldest jobs, up to the limit, each lower priority has.
fn shares<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    request: &PromoteRequest,
) -> Result<BTreeMap<i32, u64>> {
    let limit = request.limit.get();
    let mut oldest: Vec<(Timestamp, JobId, i32)> = Vec::new();
    let mut below = request.to;
    while let Some(priority) = session
        .exec_first(sql.promote_step(), (request.queue.as_str(), below))
        .map_err(failed(sql.engine, OPERATION))?
    {
        let params = (
            request.queue.as_str(),
            priority,
            request.waited.as_micros(),
            limit,
        );
        let rows: Vec<Row> = session
            .exec(sql.promote_probe(), params)
            .map_err(failed(sql.engine, OPERATION))?;
        for row in rows {
            let mut row = Reader::new(row, sql, OPERATION);
            let job_id = row.job_id()?;
            oldest.push((row.instant("run_at")?, job_id, priority));
        }
        oldest.sort_unstable();
        oldest.truncate(limit as usize);
        below = priority;
    }
    let mut shares = BTreeMap::new();
    for (_, _, priority) in oldest {
        *shares.entry(priority).or_default() += 1;
    }
    Ok(shares)
}
