//! Claims on a transaction that somebody opened.

use queue_table_core::{ClaimRequest, ClaimedJob, Result};
use serde_json::{Value, json};
use tiberius::Row;

use crate::connection::{Client, rows};
use crate::decode::{self, Cells};
use crate::sql::Statements;

/// Claims due jobs: one probe that locks nothing, and one statement for each priority that has a
/// due job.
///
/// # Errors
/// [`Error::Unsupported`](queue_table_core::Error::Unsupported) at another isolation level, and
/// transient ones.
pub async fn claim(
    client: &mut Client,
    sql: &Statements,
    request: &ClaimRequest,
) -> Result<Vec<ClaimedJob>> {
    let priorities = probe(client, sql, request).await?;
    claim_at(client, sql, request, &priorities).await
}

/// The priorities that have a due job for the request, from high to low. Needs no transaction.
pub(crate) async fn probe(
    client: &mut Client,
    sql: &Statements,
    request: &ClaimRequest,
) -> Result<Vec<i32>> {
    let queue = request.queue.as_str();
    let accepts = accepts(request);
    let found = rows(
        client,
        "claim",
        &sql.claim_probe,
        &[&queue, &accepts.as_deref()],
    )
    .await?;
    let priority = |row: &Row| Cells::of(row, "claim").number("priority");
    found.iter().map(priority).collect()
}

pub(crate) async fn claim_at(
    client: &mut Client,
    sql: &Statements,
    request: &ClaimRequest,
    priorities: &[i32],
) -> Result<Vec<ClaimedJob>> {
    let (queue, worker) = (request.queue.as_str(), request.worker.as_str());
    let lease = request.lease.as_micros();
    let accepts = accepts(request);
    let limit = request.limit.get() as usize;
    let mut jobs = Vec::new();
    for priority in priorities {
        let left = i32::try_from(limit - jobs.len()).unwrap_or(i32::MAX);
        if left == 0 {
            break;
        }
        let params: [&dyn tiberius::ToSql; 6] = [
            &left,
            &queue,
            priority,
            &worker,
            &lease,
            &accepts.as_deref(),
        ];
        for row in rows(client, "claim", &sql.claim, &params).await? {
            jobs.push(decode::claimed_job(&Cells::of(&row, "claim"), &sql.table)?);
        }
    }
    jobs.sort_by_key(ClaimedJob::claim_order);
    Ok(jobs)
}

fn accepts(request: &ClaimRequest) -> Option<String> {
    let accepts = request.accepts.as_ref()?;
    let kinds = accepts
        .iter()
        .map(|(kind, versions)| json!([kind.as_str(), versions.start(), versions.end()]));
    Some(Value::from_iter(kinds).to_string())
}
