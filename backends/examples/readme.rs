//! The README's two pieces of code as one program: an order is stored with its job, and a worker
//! sends the invoice.

use std::sync::Arc;
use std::time::Duration;

use queue_table::sqlite::SqliteQueue;
use queue_table::worker::{Context, HandlerError, Worker};
use queue_table::{
    Administration, DedupScope, Job, JobId, NewJob, QueueName, TransactionalBackend,
};
use serde::{Deserialize, Serialize};

type Error = Box<dyn std::error::Error + Send + Sync>;

#[derive(Serialize, Deserialize)]
struct SendInvoice {
    order_id: i64,
}

impl Job for SendInvoice {
    const KIND: &'static str = "invoice.send";
}

fn send(invoice: &SendInvoice, key: JobId) -> Result<(), HandlerError> {
    println!(
        "the invoice of order {} is sent under the key {key}",
        invoice.order_id
    );
    Ok(())
}

fn main() -> Result<(), Error> {
    let folder = tempfile::tempdir()?;
    let queue = Arc::new(SqliteQueue::open(folder.path().join("shop.db"))?);
    queue.migrate()?;
    let invoices = QueueName::new("invoices")?;

    queue.transaction(|tx| -> Result<(), Error> {
        tx.execute(
            "CREATE TABLE customer_order (order_id INTEGER, customer TEXT)",
            [],
        )?;
        Ok(())
    })?;
    queue.transaction(|tx| -> Result<(), Error> {
        tx.execute("INSERT INTO customer_order VALUES (?1, ?2)", (42, "Ada"))?;
        let job = NewJob::of(&invoices, &SendInvoice { order_id: 42 })?
            .with_dedup("order:42", DedupScope::WhileRowExists)?
            .with_delay(Duration::from_millis(10))?;
        queue.enqueue_in(tx, &[job])?;
        Ok(())
    })?;

    let worker = Worker::builder(Arc::clone(&queue))
        .queue(&invoices)
        .handle(|invoice: &SendInvoice, context: &mut Context<'_, _>| {
            send(invoice, context.effect_key()) // an error retries, after a growing delay
        })
        .start()?;
    while worker.report().succeeded == 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let report = worker.stop(Duration::from_secs(20)); // drains, and gives back what never started
    assert_eq!(report.succeeded, 1);
    Ok(())
}
