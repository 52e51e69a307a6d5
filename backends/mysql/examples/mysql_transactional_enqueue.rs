//! An order and the job that it needs, in one commit: both are there, or neither.
//!
//! `MYSQL_URL=mysql://.. cargo run -p queue-table-mysql --example mysql_transactional_enqueue`, or
//! with `MARIADB_URL`

use std::error::Error;

use mysql::prelude::Queryable;
use mysql::{Conn, Opts, TxOpts};
use queue_table_core::{Administration, Job, NewJob, QueueName, Table, TransactionalBackend};
use queue_table_mysql::MysqlQueue;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct SendInvoice {
    order_id: u64,
}

impl Job for SendInvoice {
    const KIND: &'static str = "invoice.send";
}

fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("MYSQL_URL").or_else(|_| std::env::var("MARIADB_URL"));
    let Ok(url) = url else {
        println!("set MYSQL_URL or MARIADB_URL to a database to try it on");
        return Ok(());
    };
    let table = Table::named("example_enqueue_job")?;
    let queue = MysqlQueue::builder(&url)?.table(table).build()?;
    queue.migrate()?;
    let invoices = QueueName::new("invoices")?;

    // The service's own connection and its own transaction: the queue neither begins nor commits.
    let mut conn = Conn::new(Opts::from_url(&url)?)?;
    conn.query_drop(
        "CREATE TABLE IF NOT EXISTS example_order (id BIGINT AUTO_INCREMENT PRIMARY KEY, total INT)",
    )?;
    let mut order = |total: i32, paid: bool| -> Result<u64, Box<dyn Error>> {
        let mut tx = conn.start_transaction(TxOpts::default())?;
        tx.exec_drop("INSERT INTO example_order (total) VALUES (?)", (total,))?;
        let order_id = tx.last_insert_id().unwrap_or_default();
        queue.enqueue_in(
            &mut tx,
            &[NewJob::of(&invoices, &SendInvoice { order_id })?],
        )?;
        if paid {
            tx.commit()?;
        } else {
            tx.rollback()?;
        }
        Ok(order_id)
    };
    let kept = order(100, true)?;
    order(200, false)?;

    let stats = queue.stats(Some(&invoices))?;
    println!(
        "order {kept} is stored with its job; due now: {}",
        stats[0].due
    );
    Ok(())
}
