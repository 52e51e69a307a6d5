//! The PostgreSQL backend of `queue-table`, on diesel.
//!
//! [`PostgresQueue`] implements the three traits of `queue-table-core`. Its statements are the
//! `.sql` files of this crate, one whole statement each; they run in transactions of its own on
//! pooled connections, or in the caller's transaction on a `diesel::PgConnection`.
//!
//! Servers from version 15 are supported. Everything holds behind a pooler that swaps sessions
//! between transactions, when [`Builder::prepared_statements`] is turned off: no session lock, no
//! session setting.
//!
//! ```no_run
//! use queue_table_core::{Administration, NewJob, Payload, Kind, QueueBackend, QueueName};
//! use queue_table_postgres::PostgresQueue;
//!
//! let queue = PostgresQueue::connect("postgres://app:secret@localhost/shop")?;
//! queue.migrate()?;
//! let mail = QueueName::new("mail")?;
//! let job = NewJob::new(&mail, Kind::new("welcome")?, Payload::from_json(r#"{"customer":7}"#)?);
//! queue.enqueue(&[job])?;
//! # Ok::<(), queue_table_core::Error>(())
//! ```

mod admin;
mod batches;
mod builder;
mod check;
mod decode;
mod enqueue;
mod error;
#[cfg(feature = "fixture")]
mod fixture;
mod lifecycle;
mod look;
mod migrate;
mod notify;
mod pool;
mod purge;
mod queue;
mod sql;
mod statement;
mod transact;

pub use builder::Builder;
pub use diesel;
pub use error::ENGINE;
#[cfg(feature = "fixture")]
pub use fixture::{PostgresFixture, PostgresProbe};
pub use migrate::{MIGRATIONS, Migrations, grants_sql, migration_sql};
pub use pool::DieselPool;
pub use queue::PostgresQueue;
