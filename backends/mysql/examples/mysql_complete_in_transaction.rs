//! A job's effect and its acknowledgement in one commit: who lost the claim changes nothing.
//!
//! `MYSQL_URL=mysql://.. cargo run -p queue-table-mysql --example mysql_complete_in_transaction`,
//! or with `MARIADB_URL`

use std::error::Error;

use mysql::prelude::Queryable;
use mysql::{Conn, Opts};
use queue_table_core::{
    Administration, ClaimRequest, Kind, NewJob, Payload, QueueBackend, QueueBackendExt, QueueName,
    Receipt, Table, TransactionalBackend, WorkerId,
};
use queue_table_mysql::MysqlQueue;

fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("MYSQL_URL").or_else(|_| std::env::var("MARIADB_URL"));
    let Ok(url) = url else {
        println!("set MYSQL_URL or MARIADB_URL to a database to try it on");
        return Ok(());
    };
    let table = Table::named("example_complete_job")?;
    let queue = MysqlQueue::builder(&url)?.table(table).build()?;
    queue.migrate()?;
    Conn::new(Opts::from_url(&url)?)?.query_drop(
        "CREATE TABLE IF NOT EXISTS example_points (customer INT PRIMARY KEY, points INT NOT NULL)",
    )?;
    let points = QueueName::new("points")?;
    let payload = Payload::from_json(r#"{"customer":7,"points":10}"#)?;
    queue.enqueue_one(&NewJob::new(&points, Kind::new("points.add")?, payload))?;

    let request = ClaimRequest::new(points, WorkerId::unique("example")?);
    for job in queue.claim(&request)? {
        add_points(&queue, &job.receipt)?;
        // Once more, as a worker would that does not know that it is done: nothing is added.
        match add_points(&queue, &job.receipt) {
            Ok(()) => return Err("a finished job was finished twice".into()),
            Err(refused) => println!("job {} is done; once more: {refused}", job.job_id()),
        }
    }
    Ok(())
}

fn add_points(queue: &MysqlQueue, receipt: &Receipt) -> Result<(), Box<dyn Error>> {
    queue.transaction(|tx| {
        tx.query_drop(
            "INSERT INTO example_points (customer, points) VALUES (7, 10) \
             ON DUPLICATE KEY UPDATE points = points + 10",
        )?;
        // The claim is judged last: `?` rolls the points back when it no longer holds.
        queue.ack_in(tx, receipt)?;
        Ok(())
    })
}
