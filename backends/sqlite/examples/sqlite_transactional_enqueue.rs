//! A job in the same commit as the change that needs it: both are stored, or neither.
//!
//! `cargo run -p queue-table-sqlite --example sqlite_transactional_enqueue`

use queue_table_core::{
    Administration, Job, NewJob, QueueBackend, QueueName, TransactionalBackend,
};
use queue_table_sqlite::SqliteQueue;
use queue_table_sqlite::rusqlite::{Connection, TransactionBehavior};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct SendInvoice {
    order_id: i64,
}

impl Job for SendInvoice {
    const KIND: &'static str = "invoice.send";
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("shop.db");
    let queue = SqliteQueue::open(&file)?;
    queue.migrate()?;
    let mut shop = Connection::open(&file)?;
    shop.execute_batch(
        "CREATE TABLE customer_order (id INTEGER PRIMARY KEY, total INTEGER NOT NULL)",
    )?;

    let invoices = QueueName::new("invoices")?;
    for total in [1_250, -1] {
        let tx = shop.transaction_with_behavior(TransactionBehavior::Immediate)?;
        match place_order(tx, &queue, &invoices, total) {
            Ok(order_id) => println!("order {order_id}: stored, and its invoice is in the queue"),
            Err(error) => println!("order of {total}: {error}; neither order nor job is stored"),
        }
    }

    let stats = queue.stats(Some(&invoices))?;
    let orders: i64 =
        shop.query_row("SELECT COUNT(*) FROM customer_order", [], |row| row.get(0))?;
    println!("{orders} order, {} job", stats[0].due);
    assert_eq!((orders, stats[0].due), (1, 1));
    Ok(())
}

// The ten lines.
fn place_order(
    mut tx: queue_table_sqlite::rusqlite::Transaction<'_>,
    queue: &SqliteQueue,
    invoices: &QueueName,
    total: i64,
) -> Result<i64, Box<dyn std::error::Error>> {
    tx.execute("INSERT INTO customer_order (total) VALUES (?1)", [total])?;
    let order_id = tx.last_insert_rowid();
    let job = NewJob::of(invoices, &SendInvoice { order_id })?;
    queue.enqueue_in(&mut tx, &[job])?;
    if total < 0 {
        return Err("the total is negative".into()); // dropping `tx` rolls both back
    }
    tx.commit()?;
    queue.ring(invoices); // the commit is the application's own: wake idle workers of this process
    Ok(order_id)
}
