//! The operations of several statements: which statements, in which order, with which answer.

mod batches;
mod keys;
mod migrate;
mod recovery;

use queue_table_core::{DedupScope, JobId, Kind, NewJob, Payload, QueueName, Receipt, WorkerId};

use crate::fake::{Cell, Fake, Reply, Request};

fn job(key: Option<&str>) -> NewJob {
    let queue = QueueName::new("mail").unwrap();
    let payload = Payload::from_json("{}").unwrap();
    let job = NewJob::new(&queue, Kind::new("send").unwrap(), payload);
    match key {
        Some(key) => job.with_dedup(key, DedupScope::WhileUnfinished).unwrap(),
        None => job,
    }
}

fn receipt(id: i64) -> Receipt {
    Receipt::new(JobId::new(id), 2, WorkerId::new("w1").unwrap())
}

fn numbers(name: &'static str, values: &[i64]) -> Reply {
    let row = |value: &i64| vec![Cell::from(*value)];
    Reply::Rows(vec![name], values.iter().map(row).collect())
}

/// The answer to `lock` and `observe`: jobs that nobody holds, or that w1 holds.
fn seen(jobs: &[(i64, &str)]) -> Reply {
    let row = |(id, state): &(i64, &str)| {
        let worker = match *state {
            "running" => Cell::from("w1"),
            _ => Cell::NoText,
        };
        vec![(*id).into(), (*state).into(), 2.into(), worker]
    };
    Reply::Rows(
        vec!["job_id", "state", "attempts", "worker_id"],
        jobs.iter().map(row).collect(),
    )
}

/// The answer to `dedup_lock`.
fn keys(held: &[(&str, i64)]) -> Reply {
    let row = |(key, id): &(&str, i64)| {
        vec![
            "mail".into(),
            (*key).into(),
            (*id).into(),
            "unfinished".into(),
        ]
    };
    Reply::Rows(
        vec!["queue", "dedup_key", "job_id", "scope"],
        held.iter().map(row).collect(),
    )
}

fn statements(fake: &Fake) -> Vec<&'static str> {
    let asked = fake.asked();
    let names = asked.into_iter().filter_map(|request| match request {
        Request::Statement(name) => Some(name),
        _ => None,
    });
    names.collect()
}

fn moved(jobs: &[(i64, &str)]) -> Reply {
    let row = |(id, state): &(i64, &str)| vec![(*id).into(), (*state).into(), 900.into()];
    Reply::Rows(
        vec!["job_id", "state", "run_at"],
        jobs.iter().map(row).collect(),
    )
}
