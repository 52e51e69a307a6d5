//! Claims on a transaction that somebody opened.

use mysql::prelude::Queryable;
use queue_table_core::{
    Accepts, ClaimRequest, ClaimedJob, Kind, QueueName, Receipt, Result, StoredPayload,
};
use serde_json::json;

use crate::decode::{Now, Reader};
use crate::error::failed;
use crate::json;
use crate::sql::Statements;

/// Above every priority.
const TOP: i64 = i32::MAX as i64 + 1;

/// The highest priority with a due job, below `below` where given. Reads only: an idle worker's
/// poll ends here.
pub(crate) fn due_priority<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    queue: &QueueName,
    below: Option<i32>,
) -> Result<Option<i32>> {
    const OPERATION: &str = "claim";
    let mut below = below.map_or(TOP, i64::from);
    loop {
        let params = (queue.as_str(), below, queue.as_str());
        let step: Option<(i32, bool)> = session
            .exec_first(sql.claim_step(), params)
            .map_err(failed(sql.engine, OPERATION))?;
        match step {
            Some((priority, true)) => return Ok(Some(priority)),
            Some((priority, false)) => below = i64::from(priority),
            None => return Ok(None),
        }
    }
}

/// Claims from a priority with a due job downwards; `due_priority` has found it.
///
/// To find it in the statement that locks would be a round trip less, but MariaDB refuses to lock a
/// row that has changed since the statement's own look (error 1020), which under load is every
/// other one.
///
/// It goes from priority to priority because the index ends where the due jobs of one priority end:
/// a scan over all priorities reads every future job of a higher one first (100,000 of them made a
/// claim 20 times as slow).
pub(crate) fn claim<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    request: &ClaimRequest,
    first: i32,
) -> Result<Vec<ClaimedJob>> {
    let accepts = request.accepts.as_ref().map(accepted);
    let accepts = accepts.as_deref();
    let limit = request.limit.get() as usize;
    let mut found = select_due(session, sql, request, first, accepts, limit)?;
    let mut last = Some(first);
    while let Some(above) = last
        && found.len() < limit
    {
        last = due_priority(session, sql, &request.queue, Some(above))?;
        if let Some(priority) = last {
            let wanted = limit - found.len();
            found.extend(select_due(
                session, sql, request, priority, accepts, wanted,
            )?);
        }
    }
    let Some(now) = found.last().map(|(_, now)| now.clone()) else {
        return Ok(Vec::new());
    };
    let lease = request.lease.as_micros();
    let ids = json::ids(found.iter().map(|(job, _)| job.job_id()));
    let params = (ids, request.worker.as_str(), &now.value, lease, &now.value);
    session
        .exec_drop(sql.claim(), params)
        .map_err(failed(sql.engine, "claim"))?;
    let stored = |(job, _): (ClaimedJob, Now)| ClaimedJob {
        claimed_at: now.timestamp,
        lease_until: now.plus(lease),
        ..job
    };
    Ok(found.into_iter().map(stored).collect())
}

fn accepted(accepts: &Accepts) -> String {
    let kinds: Vec<_> = accepts
        .iter()
        .map(|(kind, versions)| json!([kind.as_str(), versions.start(), versions.end()]))
        .collect();
    serde_json::Value::from(kinds).to_string()
}

fn select_due<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    request: &ClaimRequest,
    priority: i32,
    accepts: Option<&str>,
    wanted: usize,
) -> Result<Vec<(ClaimedJob, Now)>> {
    let (queue, limit) = (request.queue.as_str(), wanted as u64);
    let rows: mysql::Result<Vec<mysql::Row>> = match accepts {
        None => session.exec(sql.claim_select(), (queue, priority, limit)),
        Some(kinds) => {
            let params = (queue, priority, kinds, limit);
            session.exec(sql.claim_select_accepting(), params)
        }
    };
    let rows = rows.map_err(failed(sql.engine, "claim"))?;
    rows.into_iter()
        .map(|row| claimed_job(Reader::new(row, sql, "claim"), sql, request))
        .collect()
}

fn claimed_job(
    mut row: Reader,
    sql: &Statements,
    request: &ClaimRequest,
) -> Result<(ClaimedJob, Now)> {
    let job_id = row.job_id()?;
    let attempt = row.number("attempts")?.saturating_add(1);
    let kind = Kind::stored(&row.text("kind")?);
    let payload = StoredPayload::new(row.take::<Vec<u8>>("payload")?);
    let payload_version = row.take("payload_version")?;
    let priority = row.take("priority")?;
    let run_at = row.instant("run_at")?;
    let max_attempts = row.number("max_attempts")?;
    let enqueued_at = row.instant("enqueued_at")?;
    let last_error = row.optional_text("last_error")?;
    let now = Now::take(&mut row)?;
    let job = ClaimedJob {
        receipt: Receipt::new(job_id, attempt, request.worker.clone()),
        queue: request.queue.clone(),
        kind,
        payload,
        payload_version,
        priority,
        run_at,
        max_attempts,
        enqueued_at,
        claimed_at: now.timestamp,
        lease_until: now.timestamp,
        last_error,
        columns: row.columns(&sql.table)?,
    };
    Ok((job, now))
}
