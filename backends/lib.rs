//! Background jobs in an ordinary table of the application's own database, for synchronous
//! services.
//!
//! A service enqueues a job in the same transaction as the change that needs it. Workers claim jobs
//! under a lease in one short transaction, work outside any transaction, and renew, acknowledge or
//! fail *only the claim they hold*, judged by the database's clock after the row is locked. A
//! reaper brings back what crashed workers left.
//!
//! | engine | feature | module | the caller's transaction |
//! | --- | --- | --- | --- |
//! | SQLite | `sqlite` (default) | `sqlite` | `rusqlite::Transaction` |
//! | PostgreSQL | `postgres` | `postgres` | `diesel::PgConnection` inside a transaction |
//! | MySQL, MariaDB | `mysql` | `mysql` | `mysql::Transaction` |
//! | SQL Server | `sqlserver` | `sqlserver` | `sqlserver::Transaction` |
//!
//! # Enqueue with the change that needs it
//!
//! ```
//! # #[cfg(feature = "sqlite")] {
//! use queue_table::sqlite::SqliteQueue;
//! use queue_table::{Administration, Job, NewJob, QueueName, TransactionalBackend};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct SendInvoice {
//!     order_id: i64,
//! }
//!
//! impl Job for SendInvoice {
//!     const KIND: &'static str = "invoice.send";
//! }
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let file = folder.path().join("shop.db");
//! # fn main_(file: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
//! let queue = SqliteQueue::open(file)?;
//! queue.migrate()?;
//! let invoices = QueueName::new("invoices")?;
//!
//! queue.transaction(|tx| -> Result<(), Box<dyn std::error::Error>> {
//!     tx.execute_batch("CREATE TABLE customer_order (order_id INTEGER PRIMARY KEY)")?;
//!     tx.execute("INSERT INTO customer_order VALUES (?1)", [42])?;
//!     queue.enqueue_in(tx, &[NewJob::of(&invoices, &SendInvoice { order_id: 42 })?])?;
//!     Ok(())
//! })?;
//! assert_eq!(queue.stats(Some(&invoices))?[0].due, 1);
//! # Ok(()) }
//! # main_(&file).unwrap();
//! # }
//! ```
//!
//! # Work
//!
//! [`worker::Worker`] runs handlers on plain threads, keeps leases, and stops without losing a job.
//!
//! ```
//! # #[cfg(feature = "sqlite")] {
//! use std::sync::Arc;
//! use std::time::Duration;
//! use queue_table::sqlite::SqliteQueue;
//! use queue_table::worker::{Context, HandlerError, Worker};
//! # use queue_table::{Administration, Job, NewJob, QueueBackend, QueueName};
//! # use serde::{Deserialize, Serialize};
//! # #[derive(Serialize, Deserialize)]
//! # struct SendInvoice { order_id: i64 }
//! # impl Job for SendInvoice { const KIND: &'static str = "invoice.send"; }
//! # let folder = tempfile::tempdir().unwrap();
//! # let file = folder.path().join("shop.db");
//! # fn main_(file: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
//! # let queue = Arc::new(SqliteQueue::open(file)?);
//! # queue.migrate()?;
//! # let invoices = QueueName::new("invoices")?;
//! # queue.enqueue(&[NewJob::of(&invoices, &SendInvoice { order_id: 42 })?])?;
//!
//! let worker = Worker::builder(Arc::clone(&queue))
//!     .queue(&invoices)
//!     .handle(|invoice: &SendInvoice, context: &mut Context<'_, SqliteQueue>| {
//!         // An effect outside the database takes the job's id as its key.
//!         println!("order {}, key {}", invoice.order_id, context.effect_key());
//!         Ok::<(), HandlerError>(())
//!     })
//!     .start()?;
//! # while queue.stats(Some(&invoices))?[0].succeeded == 0 { std::thread::yield_now(); }
//! let report = worker.stop(Duration::from_secs(20));
//! assert_eq!(report.succeeded, 1);
//! # Ok(()) }
//! # main_(&file).unwrap();
//! # }
//! ```
//!
//! Finished jobs are kept for ever unless a worker is given a window
//! ([`keep_succeeded_for`](worker::WorkerBuilder::keep_succeeded_for)); it warns when it starts
//! without one.
//!
//! # What a worker costs
//!
//! Measured by the tests of this package, on two cores under the load of other builds (load average
//! 7 to 17), with SQLite 3.54.1, PostgreSQL 18.6, MySQL 9.7.4 and MariaDB 11.8.9.
//!
//! Idle, with two queues, heartbeat, reaper and retention at their defaults, after ten seconds:
//! four workers, one on each engine, took 0.13 % of a core together. How many calls that are:
//!
//! - Claims: one of each queue in a round. The pause between rounds has grown to two seconds for
//!   each queue, so a round of two comes every four seconds: 0.5 a second, whatever the number of
//!   queues.
//! - Reaps: every ten seconds with the default lease, 0.1 a second.
//! - Purges, where a window is set: every minute, a transaction of three to five round trips, below
//!   0.1 a second.
//! - Heartbeats: three in a lease, but without a live claim none of them calls.
//!
//! A claim and a reap that find nothing are each one statement that reads, outside a transaction;
//! on MySQL and MariaDB one more for each priority that has delayed jobs only. On queues without
//! jobs that makes 0.5 + 0.1 + 0.1, and measured over 30 seconds, in which a purge may fall or not:
//!
//! | engine | round trips a second |
//! | --- | --- |
//! | SQLite | none: reads of the file |
//! | PostgreSQL | 0.70 |
//! | MySQL | 0.57 |
//! | MariaDB | 0.80 |
//!
//! On PostgreSQL a role at `serializable` by default costs about 2.5: there only the claim itself
//! can tell that there is nothing.
//!
//! Busy, with a pool of two connections, eight slots and handlers that sleep for three leases of
//! half a second, each engine ran 1,000 jobs in 191 to 195 seconds, each once, without a lost
//! claim. Half a second is no lease for production: a disk that stands still for as long takes the
//! claims with it (1.2 seconds were seen, and cost 8 to 17 claims on each engine, and no job).
//! The default is a minute.
//!
//! What is guaranteed is written in `CONTRACT.md` of `queue-table-core`: at least once, no lost
//! job, and never a stale acknowledgement. Effects outside the database need the job's id as their
//! key.

pub use queue_table_core::*;

#[cfg(feature = "mysql")]
pub use queue_table_mysql as mysql;
#[cfg(feature = "postgres")]
pub use queue_table_postgres as postgres;
#[cfg(feature = "sqlite")]
pub use queue_table_sqlite as sqlite;
#[cfg(feature = "sqlserver")]
pub use queue_table_sqlserver as sqlserver;

mod connect;

pub use connect::connect;
