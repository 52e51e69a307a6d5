//! A worker on plain threads, woken by commits in other processes, whose handler writes in one
//! commit with the ack.
//!
//! `POSTGRES_URL=postgres://.. cargo run -p queue-table-postgres --example postgres_worker`
//!
//! Works in a schema of its own, which it drops.

use std::sync::Arc;
use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use queue_table_core::worker::{Context, HandlerError, Worker};
use queue_table_core::{Administration, Error, Job, NewJob, QueueBackend, QueueName, Table};
use queue_table_postgres::PostgresQueue;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct AddPoints {
    customer_id: i64,
    points: i64,
}

impl Job for AddPoints {
    const KIND: &'static str = "points.add";
}

#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Queue(#[from] Error),
    #[error(transparent)]
    Database(#[from] diesel::result::Error),
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Ok(url) = std::env::var("POSTGRES_URL") else {
        println!("set POSTGRES_URL to a database to try it on");
        return Ok(());
    };
    let table = Table::default().in_schema("worker_example")?;
    let queue = PostgresQueue::builder(&url)
        .table(table)
        .notify(true)
        .build()?;
    let queue = Arc::new(queue);
    queue.migrate()?;
    let mut shop = PgConnection::establish(&url)?;
    shop.batch_execute("CREATE TABLE worker_example.points (customer_id BIGINT, points BIGINT)")?;

    let worker = Worker::builder(Arc::clone(&queue))
        .queue("points")
        .slots(4)
        .handle(add_points)
        .start()?;

    let points = QueueName::new("points")?;
    let jobs = (1..=100).map(|customer_id| {
        NewJob::of(
            &points,
            &AddPoints {
                customer_id,
                points: 5,
            },
        )
    });
    queue.enqueue(&jobs.collect::<Result<Vec<_>, _>>()?)?;
    while queue.stats(Some(&points))?[0].succeeded < 100 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let report = worker.stop(Duration::from_secs(20));

    let sql = "(SELECT sum(points)::BIGINT FROM worker_example.points)";
    let total: i64 = diesel::select(diesel::dsl::sql::<BigInt>(sql)).get_result(&mut shop)?;
    shop.batch_execute("DROP SCHEMA worker_example CASCADE")?;
    println!("{} jobs done, {total} points", report.succeeded);
    assert_eq!((report.succeeded, total), (100, 500));
    Ok(())
}

/// The effect and the ack in one commit: if the claim is lost, the points are not added.
fn add_points(
    job: &AddPoints,
    context: &mut Context<'_, PostgresQueue>,
) -> Result<(), HandlerError> {
    let added: Result<(), Failed> = context.transaction(|tx| {
        diesel::sql_query("INSERT INTO worker_example.points VALUES ($1, $2)")
            .bind::<BigInt, _>(job.customer_id)
            .bind::<BigInt, _>(job.points)
            .execute(tx)?;
        Ok(())
    });
    Ok(added?)
}
