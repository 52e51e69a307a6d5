//! The service's database: its own table of orders, and the queue beside it.

use std::io::{Cursor, Read};
use std::path::Path;

use queue_table::sqlite::SqliteQueue;
use queue_table::sqlite::rusqlite::{OptionalExtension, Transaction};
use queue_table::{
    Administration, ColumnType, DedupScope, NewJob, QueueName, Table, TransactionalBackend,
};

use crate::arguments::Source;
use crate::invoices::WriteInvoice;
use crate::orders::{Order, Orders};
use crate::progress::Progress;

/// Anything that stops the example.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The service's own migration: its table, and a column of its own on the job table.
const SHOP: &str = "\
CREATE TABLE IF NOT EXISTS customer_order (
  order_id INTEGER PRIMARY KEY,
  ordered_on TEXT NOT NULL,
  customer TEXT NOT NULL,
  item TEXT NOT NULL,
  quantity INTEGER NOT NULL,
  unit_price_cents INTEGER NOT NULL
) STRICT";

const ORDER_COLUMN: &str =
    "ALTER TABLE job ADD COLUMN order_id INTEGER REFERENCES customer_order (order_id)";

/// Opens the database, makes the tables where they are missing, and gives the queue on it.
pub(crate) fn open(database: &Path) -> Result<SqliteQueue, Failure> {
    let table = Table::default().with_column("order_id", ColumnType::Integer)?;
    let queue = SqliteQueue::builder(database).table(table).build()?;
    queue.migrate()?;
    queue.transaction(|tx| -> Result<(), Failure> {
        tx.execute_batch(SHOP)?;
        let has_column = "SELECT 1 FROM pragma_table_info('job') WHERE name = 'order_id'";
        if tx
            .query_row(has_column, [], |_| Ok(()))
            .optional()?
            .is_none()
        {
            tx.execute_batch(ORDER_COLUMN)?;
        }
        Ok(())
    })?;
    Ok(queue)
}

/// What became of the lines of a file.
#[derive(Debug, Default)]
pub(crate) struct Import {
    pub(crate) new: u64,
    pub(crate) already_there: u64,
    pub(crate) malformed: u64,
}

/// Stores every well-formed order with its invoice job, and names every line that is none.
pub(crate) fn import(
    queue: &SqliteQueue,
    invoices: &QueueName,
    from: &Source,
) -> Result<Import, Failure> {
    let (source, total) = read(from)?;
    let mut import = Import::default();
    let mut progress = Progress::new("orders");
    for (count, (line, order)) in (1..).zip(Orders::open(source)?) {
        match order {
            Ok(order) => match store(queue, invoices, &order)? {
                Stored::New => import.new += 1,
                Stored::AlreadyThere => import.already_there += 1,
                Stored::Differs => import.refuse(line, "is stored already with other values"),
            },
            Err(malformed) => import.refuse(line, &malformed.to_string()),
        }
        progress.show(count, total);
    }
    progress.finish();
    Ok(import)
}

impl Import {
    fn refuse(&mut self, line: u64, why: &str) {
        self.malformed += 1;
        eprintln!("line {line}: {why}");
    }
}

/// The text, and its number of orders where that can be counted before.
fn read(from: &Source) -> Result<(Box<dyn Read>, Option<u64>), Failure> {
    const SHIPPED: &str = include_str!("orders.csv");
    let text = match from {
        Source::Stdin => return Ok((Box::new(std::io::stdin()), None)),
        Source::Shipped => SHIPPED.as_bytes().to_vec(),
        Source::File(path) => std::fs::read(path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?,
    };
    let lines = text
        .iter()
        .filter(|byte| **byte == b'\n')
        .count()
        .saturating_sub(1);
    Ok((Box::new(Cursor::new(text)), u64::try_from(lines).ok()))
}

enum Stored {
    New,
    AlreadyThere,
    Differs,
}

/// The order and its job, in one transaction: both or neither.
fn store(queue: &SqliteQueue, invoices: &QueueName, order: &Order) -> Result<Stored, Failure> {
    let job = NewJob::of(invoices, &WriteInvoice::from(order))?
        .with_dedup(
            &format!("order:{}", order.order_id),
            DedupScope::WhileRowExists,
        )?
        .with_column("order_id", order.order_id)?;
    queue.transaction(|tx| {
        if let Some(same) = stored_before(tx, order)? {
            return Ok(if same {
                Stored::AlreadyThere
            } else {
                Stored::Differs
            });
        }
        tx.execute(
            "INSERT INTO customer_order VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            (
                order.order_id,
                &order.ordered_on,
                &order.customer,
                &order.item,
                order.quantity,
                order.unit_price_cents,
            ),
        )?;
        queue.enqueue_in(tx, &[job])?;
        Ok(Stored::New)
    })
}

/// Whether an order of this id is there, and whether it is the same.
fn stored_before(tx: &Transaction<'_>, order: &Order) -> Result<Option<bool>, Failure> {
    let found = tx
        .query_row(
            "SELECT ordered_on, customer, item, quantity, unit_price_cents \
             FROM customer_order WHERE order_id = ?1",
            [order.order_id],
            |row| {
                Ok(Order {
                    order_id: order.order_id,
                    ordered_on: row.get(0)?,
                    customer: row.get(1)?,
                    item: row.get(2)?,
                    quantity: row.get(3)?,
                    unit_price_cents: row.get(4)?,
                })
            },
        )
        .optional()?;
    Ok(found.map(|found| found == *order))
}

/// How many orders are stored.
pub(crate) fn orders(queue: &SqliteQueue) -> Result<i64, Failure> {
    queue.transaction(|tx| {
        Ok(tx.query_row("SELECT count(*) FROM customer_order", [], |row| row.get(0))?)
    })
}
