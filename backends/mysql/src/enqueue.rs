//! Storing jobs on a transaction that somebody opened.

use std::collections::{BTreeMap, HashMap};

use mysql::Value;
use mysql::prelude::Queryable;
use queue_table_core::{
    ColumnValue, DedupScope, ENQUEUE_MAX, Enqueued, Error, Failed, JobId, NewJob, Result,
    check_count,
};
use serde_json::json;

use crate::dedup::{self, Key, Snapshot};
use crate::error::failed;
use crate::json;
use crate::sql::Statements;

const OPERATION: &str = "enqueue";

/// Most rows of one statement. Ten bits of a row's mark count them.
const CHUNK_ROWS_MAX: usize = 1_000;

/// A job to be inserted, with its business columns in the table's order.
struct Row<'j> {
    job: &'j NewJob,
    columns: Vec<ColumnValue>,
}

/// What becomes of one job of a batch.
enum Plan {
    /// It is the so-manieth to be inserted.
    Insert(usize),
    /// Its key names a job of the same batch, the so-manieth to be inserted.
    Same(usize),
    /// Its key names this job.
    Existing(JobId),
}

/// Stores jobs, each once per dedup key, and returns their ids in the order given.
pub(crate) fn enqueue<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    jobs: &[NewJob],
    snapshot: Snapshot,
) -> Result<Vec<Enqueued>> {
    let rows = arrange(sql, jobs)?;
    let mut keys: BTreeMap<Key<'_>, DedupScope> = BTreeMap::new();
    for job in jobs {
        if let Some((key, scope)) = key_of(job) {
            keys.entry(key).or_insert(scope);
        }
    }
    let holders = dedup::lock(session, sql, OPERATION, &keys, snapshot)?;
    let living: HashMap<Key<'_>, JobId> = holders
        .into_iter()
        .filter_map(|(key, holder)| holder.living().map(|job_id| (key, job_id)))
        .collect();

    let mut first = HashMap::new();
    let mut inserts = Vec::new();
    let plans: Vec<Plan> = rows
        .into_iter()
        .map(|row| plan(row, &living, &mut first, &mut inserts))
        .collect();
    let ids = insert(session, sql, &inserts)?;
    take_keys(session, sql, &inserts, &ids)?;
    Ok(plans
        .into_iter()
        .map(|plan| match plan {
            Plan::Insert(at) => Enqueued::Inserted(ids[at]),
            Plan::Same(at) => Enqueued::Existing(ids[at]),
            Plan::Existing(job_id) => Enqueued::Existing(job_id),
        })
        .collect())
}

/// Refuses what cannot be stored, before any SQL.
fn arrange<'j>(sql: &Statements, jobs: &'j [NewJob]) -> Result<Vec<Row<'j>>> {
    check_count("jobs", jobs.len(), ENQUEUE_MAX)?;
    let row = |job: &'j NewJob| {
        Ok(Row {
            job,
            columns: sql.table.arrange(job.columns())?,
        })
    };
    jobs.iter().map(row).collect()
}

/// What `enqueue` refuses before any SQL. For callers that have not got a connection yet.
pub(crate) fn check(table: &queue_table_core::Table, jobs: &[NewJob]) -> Result<()> {
    check_count("jobs", jobs.len(), ENQUEUE_MAX)?;
    for job in jobs {
        table.arrange(job.columns())?;
    }
    Ok(())
}

fn key_of(job: &NewJob) -> Option<(Key<'_>, DedupScope)> {
    let dedup = job.dedup()?;
    Some(((job.queue().as_str(), dedup.key.as_str()), dedup.scope))
}

fn plan<'j>(
    row: Row<'j>,
    living: &HashMap<Key<'_>, JobId>,
    first: &mut HashMap<Key<'j>, usize>,
    inserts: &mut Vec<Row<'j>>,
) -> Plan {
    let next = inserts.len();
    if let Some((key, _)) = key_of(row.job) {
        if let Some(job_id) = living.get(&key) {
            return Plan::Existing(*job_id);
        }
        if let Some(at) = first.get(&key) {
            return Plan::Same(*at);
        }
        first.insert(key, next);
    }
    inserts.push(row);
    Plan::Insert(next)
}

fn take_keys<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    inserts: &[Row<'_>],
    ids: &[JobId],
) -> Result<()> {
    let keyed = inserts.iter().zip(ids);
    let taken: Vec<_> = keyed
        .filter_map(|(row, job_id)| key_of(row.job).map(|(key, scope)| (key, *job_id, scope)))
        .collect();
    dedup::take(session, sql, OPERATION, &taken)
}

/// One job by a statement of its own: its id comes with the answer. More by JSON, in chunks.
fn insert<Q: Queryable>(session: &mut Q, sql: &Statements, rows: &[Row<'_>]) -> Result<Vec<JobId>> {
    if let [row] = rows {
        return Ok(vec![insert_one(session, sql, row)?]);
    }
    let mut ids = Vec::with_capacity(rows.len());
    let mut chunk = Chunk::new();
    for (at, row) in rows.iter().enumerate() {
        let text = chunk.text_of(sql, row)?;
        if text.len() > sql.chunk_bytes_max {
            ids.extend(chunk.flush(session, sql)?);
            ids.push(insert_one(session, sql, &rows[at])?);
            continue;
        }
        if chunk.bytes + text.len() > sql.chunk_bytes_max || chunk.texts.len() == CHUNK_ROWS_MAX {
            ids.extend(chunk.flush(session, sql)?);
            // The chunk is another one now, with marks of its own.
            chunk.push(chunk.text_of(sql, row)?);
        } else {
            chunk.push(text);
        }
    }
    ids.extend(chunk.flush(session, sql)?);
    Ok(ids)
}

fn insert_one<Q: Queryable>(session: &mut Q, sql: &Statements, row: &Row<'_>) -> Result<JobId> {
    let job = row.job;
    let mut params: Vec<Value> = vec![
        job.queue().as_str().into(),
        job.kind().as_str().into(),
        job.payload().as_str().into(),
        job.payload_version().into(),
        job.priority().into(),
        job.delay().as_micros().into(),
        job.max_attempts().get().into(),
        job.dedup().map(|dedup| dedup.key.as_str()).into(),
    ];
    params.extend(row.columns.iter().map(|column| match column {
        ColumnValue::Null => Value::NULL,
        ColumnValue::Integer(number) => number.into(),
        ColumnValue::Text(text) => text.into(),
        ColumnValue::Uuid(uuid) => uuid.to_string().into(),
    }));
    let result = session
        .exec_iter(sql.enqueue(), params)
        .map_err(failed(sql.engine, OPERATION))?;
    job_id(sql, result.last_insert_id())
}

fn job_id(sql: &Statements, last_insert_id: Option<u64>) -> Result<JobId> {
    let id = last_insert_id.and_then(|id| i64::try_from(id).ok());
    id.map(JobId::new)
        .ok_or_else(|| crate::error::undecodable(sql.engine, OPERATION, "last insert id"))
}

/// Rows that one statement inserts. Each carries a mark by which its id is found again: neither
/// server promises consecutive ids for an INSERT ... SELECT, and `auto_increment_increment` may be
/// anything.
///
/// Measured with 200-byte payloads, us per job on MySQL / MariaDB: one statement per job 87 / 70,
/// the same as one multi-statement text 57 / 45, this 46 / 28, VALUES lists of 100 rows 30 / 20.
/// The lists are faster, but tell no ids.
struct Chunk {
    first_mark: i64,
    texts: Vec<String>,
    bytes: usize,
}

impl Chunk {
    fn new() -> Self {
        Self {
            first_mark: fastrand::i64(0..1 << 53) << 10,
            texts: Vec::new(),
            bytes: 0,
        }
    }

    /// The row as JSON, as the next of this chunk.
    fn text_of(&self, sql: &Statements, row: &Row<'_>) -> Result<String> {
        let job = row.job;
        let mark = self.first_mark + self.texts.len() as i64;
        let mut values = vec![
            json!(mark),
            json!(job.queue().as_str()),
            json!(job.kind().as_str()),
            json!(job.payload().as_str()),
            json!(job.payload_version()),
            json!(job.priority()),
            json!(job.delay().as_micros()),
            json!(job.max_attempts().get()),
            json!(job.dedup().map(|dedup| dedup.key.as_str())),
        ];
        values.extend(row.columns.iter().map(|column| match column {
            ColumnValue::Null => serde_json::Value::Null,
            ColumnValue::Integer(number) => json!(number),
            ColumnValue::Text(text) => json!(text),
            ColumnValue::Uuid(uuid) => json!(uuid.to_string()),
        }));
        json::rows(sql, OPERATION, &values)
    }

    fn push(&mut self, text: String) {
        self.bytes += text.len() + 1;
        self.texts.push(text);
    }

    /// Inserts the rows, returns their ids in order, and begins anew.
    fn flush<Q: Queryable>(&mut self, session: &mut Q, sql: &Statements) -> Result<Vec<JobId>> {
        let full = std::mem::replace(self, Self::new());
        if full.texts.is_empty() {
            return Ok(Vec::new());
        }
        let rows = format!("[{}]", full.texts.join(","));
        let first = session
            .exec_iter(sql.enqueue_many(), (rows,))
            .map_err(failed(sql.engine, OPERATION))?
            .last_insert_id();
        let first = job_id(sql, first)?;
        let last_mark = full.first_mark + full.texts.len() as i64 - 1;
        let ids: Vec<i64> = session
            .exec(sql.enqueued(), (first.get(), full.first_mark, last_mark))
            .map_err(failed(sql.engine, OPERATION))?;
        if ids.len() != full.texts.len() {
            let found = format!(
                "{} of {} inserted rows were found again",
                ids.len(),
                full.texts.len()
            );
            return Err(Error::Engine(Failed::new(sql.engine, OPERATION, found)));
        }
        Ok(ids.into_iter().map(JobId::new).collect())
    }
}
