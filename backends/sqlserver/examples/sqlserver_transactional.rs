//! An order and the job that follows it in one commit; the job's effect and its completion in
//! another.
//!
//! `SQLSERVER_URL=... cargo run -p queue-table-sqlserver --features rustls --example sqlserver_transactional`

use queue_table_core::{
    Administration, ClaimRequest, ColumnType, Error, Job, NewJob, QueueBackend, QueueName, Table,
    TransactionalBackend, WorkerId,
};
use queue_table_sqlserver::{ConnectOptions, Connection, SqlServerQueue};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct SendInvoice {
    order_id: i64,
}

impl Job for SendInvoice {
    const KIND: &'static str = "invoice.send";
}

fn main() -> Result<(), Error> {
    let Ok(url) = std::env::var("SQLSERVER_URL") else {
        println!("not run: SQLSERVER_URL is not set");
        return Ok(());
    };
    let table = Table::named("invoice_job")?.with_column("order_id", ColumnType::Integer)?;
    let queue = SqlServerQueue::builder(&url).table(table).build()?;
    queue.migrate()?;
    let options = ConnectOptions::parse(&url)?;
    prepare(&mut Connection::open(&options)?)?;

    let invoices = QueueName::new("invoices")?;
    place_order(&queue, &options, &invoices)?;
    queue.ring(&invoices);
    work_off(&queue, &invoices)
}

/// The application's own migration: its tables, and its column on the job table.
fn prepare(connection: &mut Connection) -> Result<(), Error> {
    let text = "
        IF OBJECT_ID(N'customer_order', N'U') IS NULL
          CREATE TABLE customer_order (order_id BIGINT IDENTITY PRIMARY KEY, invoiced_at DATETIME2 NULL);
        IF COL_LENGTH(N'invoice_job', N'order_id') IS NULL
          ALTER TABLE invoice_job ADD order_id BIGINT NULL REFERENCES customer_order";
    connection.query(text, &[]).map(drop)
}

/// On a connection of the application's own. Either both are stored or none.
fn place_order(
    queue: &SqlServerQueue,
    options: &ConnectOptions,
    invoices: &QueueName,
) -> Result<(), Error> {
    let mut connection = Connection::open(options)?;
    let mut tx = connection.transaction()?;
    let insert = "INSERT INTO customer_order OUTPUT inserted.order_id DEFAULT VALUES";
    let rows = tx.query(insert, &[])?;
    let order_id: i64 = rows[0].get("order_id").unwrap_or_default();
    let job = NewJob::of(invoices, &SendInvoice { order_id })?.with_column("order_id", order_id)?;
    queue.enqueue_in(&mut tx, &[job])?;
    tx.commit()
}

/// A worker by hand; `queue_table_core::worker` does this with threads, heartbeat and reaper.
fn work_off(queue: &SqlServerQueue, invoices: &QueueName) -> Result<(), Error> {
    let request = ClaimRequest::new(invoices.clone(), WorkerId::unique("example")?);
    for job in queue.claim(&request)? {
        let Ok(SendInvoice { order_id }) = job.payload.decode() else {
            continue;
        };
        // A lost claim is an error, and takes the effect back with it.
        queue.transaction(|tx| {
            let update =
                "UPDATE customer_order SET invoiced_at = SYSUTCDATETIME() WHERE order_id = @P1";
            tx.execute(update, &[&order_id])?;
            queue.ack_in(tx, &job.receipt)
        })?;
        println!("job {}: order {order_id} invoiced", job.job_id());
    }
    Ok(())
}
