//! What operators read and set: one statement each.

use queue_table_core::{
    FailureRecord, JobId, JobRecord, ListRequest, PromoteRequest, QueueName, QueueStats, Result,
    State,
};
use tiberius::{Row, ToSql};

use crate::connection::{Client, insert, rows};
use crate::decode::{self, Cells};
use crate::recovery::limit;
use crate::sql::Statements;

pub(crate) async fn get(
    client: &mut Client,
    sql: &Statements,
    job_id: JobId,
) -> Result<Option<JobRecord>> {
    let found = rows(client, "get", &sql.get, &[&job_id.get()]).await?;
    let record = |row| decode::job_record(&Cells::of(row, "get"), &sql.table);
    found.first().map(record).transpose()
}

pub(crate) async fn list(
    client: &mut Client,
    sql: &Statements,
    request: &ListRequest,
) -> Result<Vec<JobRecord>> {
    let params: [&dyn ToSql; 5] = [
        &limit(request.limit.get()),
        &request.after.map_or(i64::MIN, JobId::get),
        &request.queue.as_ref().map(QueueName::as_str),
        &request.state.map(State::as_str),
        &request.kind.as_ref().map(queue_table_core::Kind::as_str),
    ];
    let found = rows(client, "list", &sql.list, &params).await?;
    let record = |row| decode::job_record(&Cells::of(row, "list"), &sql.table);
    found.iter().map(record).collect()
}

pub(crate) async fn failures(
    client: &mut Client,
    sql: &Statements,
    job_id: JobId,
) -> Result<Vec<FailureRecord>> {
    let found = rows(client, "failures", &sql.failures, &[&job_id.get()]).await?;
    let record = |row| decode::failure(&Cells::of(row, "failures"), job_id);
    found.iter().map(record).collect()
}

pub(crate) async fn stats(
    client: &mut Client,
    sql: &Statements,
    queue: Option<&QueueName>,
) -> Result<Vec<QueueStats>> {
    let queue = queue.map(QueueName::as_str);
    let found = rows(client, "stats", &sql.stats, &[&queue]).await?;
    let counts = |row: &Row| decode::queue_stats(&Cells::of(row, "stats"));
    found.iter().map(counts).collect()
}

/// Promotes jobs that have been due for long; tells how many.
pub(crate) async fn promote(
    client: &mut Client,
    sql: &Statements,
    request: &PromoteRequest,
) -> Result<u32> {
    let operation = "promote";
    let (queue, waited) = (request.queue.as_str(), request.waited.as_micros());
    let at_most = limit(request.limit.get());
    let params: [&dyn ToSql; 4] = [&at_most, &queue, &request.to, &waited];
    let found = rows(client, operation, &sql.promote_probe, &params).await?;
    let mut promoted = 0;
    for row in &found {
        let row = Cells::of(row, operation);
        let (priority, jobs): (i32, i32) = (row.number("priority")?, row.number("jobs")?);
        let params: [&dyn ToSql; 5] = [&jobs, &queue, &priority, &waited, &request.to];
        promoted += rows(client, operation, &sql.promote, &params).await?.len();
    }
    Ok(u32::try_from(promoted).unwrap_or(u32::MAX))
}

pub(crate) async fn pause(client: &mut Client, sql: &Statements, queue: &QueueName) -> Result<()> {
    insert(client, "pause", &sql.pause, queue.as_str()).await
}

pub(crate) async fn resume(client: &mut Client, sql: &Statements, queue: &QueueName) -> Result<()> {
    rows(client, "resume", &sql.resume, &[&queue.as_str()]).await?;
    Ok(())
}
