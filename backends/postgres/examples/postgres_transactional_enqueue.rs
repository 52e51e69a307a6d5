//! A job in the same commit as the change that needs it: both are stored, or neither.
//!
//! `POSTGRES_URL=postgres://.. cargo run -p queue-table-postgres --example postgres_transactional_enqueue`
//!
//! Works in a schema of its own, which it drops.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use queue_table_core::{
    Administration, Job, NewJob, QueueBackend, QueueName, Table, TransactionalBackend,
};
use queue_table_postgres::PostgresQueue;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct SendInvoice {
    order_id: i64,
}

impl Job for SendInvoice {
    const KIND: &'static str = "invoice.send";
}

#[derive(QueryableByName)]
struct Number {
    #[diesel(sql_type = BigInt)]
    number: i64,
}

type Failed = Box<dyn std::error::Error>;

fn main() -> Result<(), Failed> {
    let Ok(url) = std::env::var("POSTGRES_URL") else {
        println!("set POSTGRES_URL to a database to try it on");
        return Ok(());
    };
    let table = Table::default().in_schema("transactional_enqueue")?;
    let queue = PostgresQueue::builder(&url).table(table).build()?;
    queue.migrate()?;
    let mut shop = PgConnection::establish(&url)?;
    shop.batch_execute(
        "SET search_path = transactional_enqueue;
         CREATE TABLE customer_order (id BIGINT GENERATED ALWAYS AS IDENTITY, total BIGINT NOT NULL)",
    )?;

    let invoices = QueueName::new("invoices")?;
    for total in [1_250, -1] {
        match place_order(&mut shop, &queue, &invoices, total) {
            Ok(order_id) => println!("order {order_id}: stored, and its invoice is in the queue"),
            Err(error) => println!("order of {total}: {error}; neither order nor job is stored"),
        }
    }

    let stats = queue.stats(Some(&invoices))?;
    let orders: Number =
        diesel::sql_query("SELECT count(*) AS number FROM customer_order").get_result(&mut shop)?;
    println!("{} order, {} job", orders.number, stats[0].due);
    shop.batch_execute("DROP SCHEMA transactional_enqueue CASCADE")?;
    assert_eq!((orders.number, stats[0].due), (1, 1));
    Ok(())
}

// The ten lines.
fn place_order(
    shop: &mut PgConnection,
    queue: &PostgresQueue,
    invoices: &QueueName,
    total: i64,
) -> Result<i64, Failed> {
    let order_id = shop.transaction(|tx| {
        let order: Number = diesel::sql_query(
            "INSERT INTO customer_order (total) VALUES ($1) RETURNING id AS number",
        )
        .bind::<BigInt, _>(total)
        .get_result(tx)?;
        let job = NewJob::of(
            invoices,
            &SendInvoice {
                order_id: order.number,
            },
        )?;
        queue.enqueue_in(tx, &[job])?;
        if total < 0 {
            return Err("the total is negative".into()); // an error rolls both back
        }
        Ok::<_, Failed>(order.number)
    })?;
    queue.ring(invoices); // the commit is the application's own: wake idle workers of this process
    Ok(order_id)
}
