//! Enqueue: batches cut to size, and the dedup keys that come with them.

use std::collections::HashMap;
use std::ops::Range;

use queue_table_core::{
    ColumnValue, Dedup, ENQUEUE_MAX, Enqueued, JobId, NewJob, Result, check_count,
};
use serde_json::{Value, json};

use crate::connection::{Client, rows};
use crate::decode::Cells;
use crate::dedup::{self, Held, Key, Naming};
use crate::error::unexpected;
use crate::sql::Statements;

/// Most jobs in one statement: below the 5,000 locks at which a table lock is taken.
const CHUNK_JOBS: usize = 1_000;

/// Payload bytes at which a statement is full. One JSON text of some megabytes is well within the
/// server's memory.
const CHUNK_BYTES: usize = 4 * 1_024 * 1_024;

/// Stores jobs, all or none, in the order given.
///
/// # Errors
/// [`Error::Rejected`](queue_table_core::Error::Rejected) for more than 10,000 jobs, or business
/// columns the statements were not built with; transient ones.
pub async fn enqueue(
    client: &mut Client,
    sql: &Statements,
    jobs: &[NewJob],
) -> Result<Vec<Enqueued>> {
    check_count("jobs", jobs.len(), ENQUEUE_MAX)?;
    let columns = jobs.iter().map(|job| sql.table.arrange(job.columns()));
    let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
    // All keys first, in one order: of two batches that want the same keys one waits, and never
    // each for the other.
    let mut held = dedup::hold(client, sql, "enqueue", namings(jobs)).await?;
    let mut answers = Vec::with_capacity(jobs.len());
    for range in chunks(jobs) {
        let chunk = Chunk {
            jobs: &jobs[range.clone()],
            columns: &columns[range],
        };
        answers.extend(chunk.enqueue(client, sql, &mut held).await?);
    }
    Ok(answers)
}

fn chunks(jobs: &[NewJob]) -> Vec<Range<usize>> {
    let mut chunks = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (index, job) in jobs.iter().enumerate() {
        let size = job.payload().as_str().len();
        if index - start == CHUNK_JOBS || (index > start && bytes + size > CHUNK_BYTES) {
            chunks.push(start..index);
            (start, bytes) = (index, 0);
        }
        bytes += size;
    }
    if start < jobs.len() {
        chunks.push(start..jobs.len());
    }
    chunks
}

/// The jobs of one statement, with their business columns arranged.
struct Chunk<'a> {
    jobs: &'a [NewJob],
    columns: &'a [Vec<ColumnValue>],
}

fn key_of<'j>(job: &'j NewJob, dedup: &'j Dedup) -> Key<'j> {
    (job.queue().as_str(), dedup.key.as_str())
}

/// Each key once, with the scope of the first job that has it.
fn namings(jobs: &[NewJob]) -> Vec<Naming<'_>> {
    let mut namings: HashMap<Key<'_>, &'static str> = HashMap::new();
    for job in jobs {
        if let Some(dedup) = job.dedup() {
            let scope = dedup.scope.as_str();
            namings.entry(key_of(job, dedup)).or_insert(scope);
        }
    }
    let naming = |(key, scope)| Naming { key, scope };
    namings.into_iter().map(naming).collect()
}

/// What becomes of one job of a chunk.
#[derive(Clone, Copy)]
enum Plan {
    /// It is stored.
    Store,
    /// Its key names this job already.
    Existing(JobId),
    /// Its key is that of an earlier job in the chunk, at this position.
    Follow(usize),
}

impl Chunk<'_> {
    async fn enqueue(
        &self,
        client: &mut Client,
        sql: &Statements,
        held: &mut HashMap<(String, String), Held>,
    ) -> Result<Vec<Enqueued>> {
        let plans = self.plan(held);
        let stored: Vec<_> = positions(&plans).collect();
        let ids = self.store(client, sql, &stored).await?;
        self.name(client, sql, held, &ids).await?;
        let answer = |(position, plan): (usize, &Plan)| match *plan {
            Plan::Store => Enqueued::Inserted(ids[&position]),
            Plan::Existing(id) => Enqueued::Existing(id),
            Plan::Follow(leader) => Enqueued::Existing(ids[&leader]),
        };
        Ok(plans.iter().enumerate().map(answer).collect())
    }

    fn plan(&self, held: &HashMap<(String, String), Held>) -> Vec<Plan> {
        let mut leaders: HashMap<Key<'_>, usize> = HashMap::new();
        let mut plan = |(position, job): (usize, &NewJob)| {
            let Some(dedup) = job.dedup() else {
                return Plan::Store;
            };
            let (queue, key) = key_of(job, dedup);
            let holder = held.get(&(queue.to_owned(), key.to_owned()));
            if let Some(id) = holder.and_then(Held::names) {
                return Plan::Existing(id);
            }
            // The borrow of the key must outlive this closure, so it is taken from the jobs again.
            let job = &self.jobs[position];
            let Some(dedup) = job.dedup() else {
                return Plan::Store;
            };
            match *leaders.entry(key_of(job, dedup)).or_insert(position) {
                leader if leader == position => Plan::Store,
                leader => Plan::Follow(leader),
            }
        };
        self.jobs.iter().enumerate().map(&mut plan).collect()
    }

    /// Stores the jobs at these positions. The n-th lowest id is the n-th job's.
    async fn store(
        &self,
        client: &mut Client,
        sql: &Statements,
        positions: &[usize],
    ) -> Result<HashMap<usize, JobId>> {
        if positions.is_empty() {
            return Ok(HashMap::new());
        }
        let given = positions.iter().map(|&position| self.job_json(position));
        let given = Value::from_iter(given).to_string();
        let found = rows(client, "enqueue", &sql.enqueue, &[&given]).await?;
        let ids = found.iter().map(|row| Cells::of(row, "enqueue").job_id());
        let mut ids = ids.collect::<Result<Vec<_>>>()?;
        ids.sort_unstable();
        if ids.len() != positions.len() {
            let text = format!(
                "{} jobs were sent and {} stored",
                positions.len(),
                ids.len()
            );
            return Err(unexpected("enqueue", text));
        }
        Ok(positions.iter().copied().zip(ids).collect())
    }

    fn job_json(&self, position: usize) -> Value {
        let job = &self.jobs[position];
        let mut values = vec![
            json!(position),
            json!(job.queue().as_str()),
            json!(job.kind().as_str()),
            json!(job.payload().as_str()),
            json!(job.payload_version()),
            json!(job.priority()),
            json!(job.delay().as_micros()),
            json!(job.max_attempts().get()),
        ];
        values.extend(self.columns[position].iter().map(|value| match value {
            ColumnValue::Null => Value::Null,
            ColumnValue::Integer(value) => json!(value),
            ColumnValue::Text(value) => json!(value),
            ColumnValue::Uuid(value) => json!(value.to_string()),
        }));
        Value::Array(values)
    }

    /// Lets the keys of the stored jobs name them, for the chunks that follow too.
    async fn name(
        &self,
        client: &mut Client,
        sql: &Statements,
        held: &mut HashMap<(String, String), Held>,
        ids: &HashMap<usize, JobId>,
    ) -> Result<()> {
        let named = ids.iter().filter_map(|(&position, &id)| {
            let job = &self.jobs[position];
            let dedup = job.dedup()?;
            let scope = dedup.scope.as_str();
            let key = key_of(job, dedup);
            Some((Naming { key, scope }, id))
        });
        let named: Vec<_> = named.collect();
        dedup::put(client, sql, "enqueue", held, named.clone()).await?;
        for (Naming { key, scope }, id) in named {
            let key = (key.0.to_owned(), key.1.to_owned());
            held.insert(key, Held::by_a_new_job(id, scope));
        }
        Ok(())
    }
}

fn positions(plans: &[Plan]) -> impl Iterator<Item = usize> {
    let stored = plans
        .iter()
        .enumerate()
        .filter(|(_, plan)| matches!(plan, Plan::Store));
    stored.map(|(position, _)| position)
}

#[cfg(test)]
mod tests {
    use queue_table_core::{Kind, Payload, QueueName};

    use super::*;

    fn job(bytes: usize) -> NewJob {
        let payload = Payload::from_json(format!("\"{}\"", "x".repeat(bytes - 2))).unwrap();
        NewJob::new(
            &QueueName::new("q").unwrap(),
            Kind::new("k").unwrap(),
            payload,
        )
    }

    #[test]
    fn a_statement_takes_a_thousand_jobs_or_four_megabytes() {
        assert_eq!(
            chunks(&vec![job(2); 2_500]),
            [0..1_000, 1_000..2_000, 2_000..2_500]
        );
        assert_eq!(chunks(&vec![job(1_048_576); 6]), [0..4, 4..6]);
        assert!(chunks(&[]).is_empty());
    }
}
