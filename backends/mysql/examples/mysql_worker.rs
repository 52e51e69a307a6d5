//! A worker on plain threads, whose handler writes in one commit with the ack.
//!
//! `MYSQL_URL=mysql://.. cargo run -p queue-table-mysql --example mysql_worker`, or with
//! `MARIADB_URL`
//!
//! Works on tables of its own, which it drops.

use std::sync::Arc;
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, Opts};
use queue_table_core::worker::{Context, HandlerError, Worker};
use queue_table_core::{Administration, Error, Job, NewJob, QueueBackend, QueueName, Table};
use queue_table_mysql::MysqlQueue;
use serde::{Deserialize, Serialize};

const TABLES: &str = "example_worker_job, example_worker_job_dedup, example_worker_job_effect, \
    example_worker_job_failure, example_worker_job_queue, example_worker_job_schema, \
    example_worker_points";

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
    Database(#[from] mysql::Error),
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("MYSQL_URL").or_else(|_| std::env::var("MARIADB_URL"));
    let Ok(url) = url else {
        println!("set MYSQL_URL or MARIADB_URL to a database to try it on");
        return Ok(());
    };
    let mut shop = Conn::new(Opts::from_url(&url)?)?;
    shop.query_drop(format!("DROP TABLE IF EXISTS {TABLES}"))?;
    shop.query_drop("CREATE TABLE example_worker_points (customer_id BIGINT, points BIGINT)")?;
    let table = Table::named("example_worker_job")?;
    let queue = Arc::new(MysqlQueue::builder(&url)?.table(table).build()?);
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
    while queue.stats(Some(&points))?[0].succeeded < 100 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let report = worker.stop(Duration::from_secs(20));

    let total = "SELECT CAST(SUM(points) AS SIGNED) FROM example_worker_points";
    let total: Option<i64> = shop.query_first(total)?;
    shop.query_drop(format!("DROP TABLE {TABLES}"))?;
    println!(
        "{} jobs done, {} points",
        report.succeeded,
        total.unwrap_or(0)
    );
    assert_eq!((report.succeeded, total), (100, Some(500)));
    Ok(())
}

/// The effect and the ack in one commit: if the claim is lost, the points are not added.
fn add_points(job: &AddPoints, context: &mut Context<'_, MysqlQueue>) -> Result<(), HandlerError> {
    let added: Result<(), Failed> = context.transaction(|tx| {
        let insert = "INSERT INTO example_worker_points VALUES (?, ?)";
        tx.exec_drop(insert, (job.customer_id, job.points))?;
        Ok(())
    });
    Ok(added?)
}
