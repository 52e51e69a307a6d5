//! A worker on plain threads, whose handler writes in one commit with the ack.
//!
//! `SQLSERVER_URL=... cargo run -p queue-table-sqlserver --features rustls --example sqlserver_worker`
//!
//! Works on a table of its own for the effects, which it drops; its job tables stay.

use std::sync::Arc;
use std::time::Duration;

use queue_table_core::worker::{Context, HandlerError, Worker};
use queue_table_core::{Administration, Error, Job, NewJob, QueueBackend, QueueName, Table};
use queue_table_sqlserver::{ConnectOptions, Connection, SqlServerQueue};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct AddPoints {
    customer_id: i64,
    points: i64,
}

impl Job for AddPoints {
    const KIND: &'static str = "points.add";
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Ok(url) = std::env::var("SQLSERVER_URL") else {
        println!("not run: SQLSERVER_URL is not set");
        return Ok(());
    };
    let mut shop = Connection::open(&ConnectOptions::parse(&url)?)?;
    shop.query("DROP TABLE IF EXISTS worker_example_points", &[])?;
    let create = "CREATE TABLE worker_example_points (customer_id BIGINT, points BIGINT)";
    shop.query(create, &[])?;
    let table = Table::named("worker_example_job")?;
    let queue = Arc::new(SqlServerQueue::builder(&url).table(table).build()?);
    queue.migrate()?;

    let worker = Worker::builder(Arc::clone(&queue))
        .queue("points")
        .slots(4)
        .handle(add_points)
        .start()?;

    let points = QueueName::new("points")?;
    let five = |customer_id| AddPoints {
        customer_id,
        points: 5,
    };
    let jobs = (1..=100).map(|customer_id| NewJob::of(&points, &five(customer_id)));
    queue.enqueue(&jobs.collect::<Result<Vec<_>, _>>()?)?;
    while worker.report().succeeded < 100 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let report = worker.stop(Duration::from_secs(20));

    let total = "SELECT SUM(points) AS total FROM worker_example_points";
    let total: Option<i64> = shop.query(total, &[])?[0].get("total");
    shop.query("DROP TABLE worker_example_points", &[])?;
    println!(
        "{} jobs done, {} points",
        report.succeeded,
        total.unwrap_or(0)
    );
    assert_eq!((report.succeeded, total), (100, Some(500)));
    Ok(())
}

/// The effect and the ack in one commit: if the claim is lost, the points are not added.
fn add_points(
    job: &AddPoints,
    context: &mut Context<'_, SqlServerQueue>,
) -> Result<(), HandlerError> {
    let added: Result<(), Error> = context.transaction(|tx| {
        let insert = "INSERT INTO worker_example_points VALUES (@P1, @P2)";
        tx.execute(insert, &[&job.customer_id, &job.points])
    });
    Ok(added?)
}
