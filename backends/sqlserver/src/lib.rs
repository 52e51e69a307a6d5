//! `queue-table` on SQL Server: background jobs in an ordinary table of the application's database,
//! on tiberius.
//!
//! The queue is [`SqlServerQueue`]. A service that has no connection of its own uses its
//! `transaction`; one that does uses a [`Connection`] of this crate, whose [`Transaction`] goes
//! into the `_in` operations, or the async functions of [`lifecycle`] on a client of tiberius.
//!
//! ```no_run
//! use queue_table_core::{Administration, Kind, NewJob, Payload, QueueBackend, QueueName};
//! use queue_table_sqlserver::SqlServerQueue;
//!
//! let queue = SqlServerQueue::connect("sqlserver://app:secret@localhost/shop")?;
//! queue.migrate()?;
//! let mail = QueueName::new("mail")?;
//! let payload = Payload::from_json(r#"{"customer":7}"#)?;
//! queue.enqueue(&[NewJob::new(&mail, Kind::new("welcome")?, payload)])?;
//! # Ok::<(), queue_table_core::Error>(())
//! ```
//!
//! # What was run
//! This backend has not been run on SQL Server by its authors. Its statements pass Microsoft's own
//! parser and bind against its schema model; the driver's path, errors and lost connections are
//! tested against scripted servers that speak TDS. The conformance suite takes a server by
//! `SQLSERVER_URL`; the workflow `sqlserver.yml` runs it in a container.
//!
//! # Which server
//! SQL Server 2019 or newer, Azure SQL Database; compatibility level 130 or more.
//! READ_COMMITTED_SNAPSHOT and optimized locking may be on or off.
//!
//! The login needs SELECT, INSERT, UPDATE and DELETE on the tables, and ALTER on the schema and
//! CREATE TABLE for `migrate`. No trigger may be enabled on the job table: OUTPUT fails there.
//!
//! # What it costs
//! An empty poll is one statement. A claim is five round trips: the session's settings, the look
//! for priorities, and a transaction around one statement; an ack is five too. Rows of kinds that a
//! worker does not accept are locked for the moment of its claim when they are due before those it
//! does: give such kinds a queue of their own.
//!
//! # TLS
//! Choose one of the features `rustls` and `native-tls`: both at once do not compile. Without
//! either, only connection strings that say `encrypt=false` are taken.

mod admin;
mod administration;
mod answers;
mod batches;
mod builder;
mod check;
mod claim;
mod connect;
mod connection;
mod decode;
mod dedup;
mod enqueue;
mod error;
#[cfg(feature = "fixture")]
mod fixture;
pub mod lifecycle;
mod migrate;
mod pool;
mod queue;
mod recovery;
mod sql;

pub use builder::Builder;
pub use connect::ConnectOptions;
pub use connection::{Client, Connection, Transaction, session_settings};
#[cfg(feature = "fixture")]
pub use fixture::{SqlServerFixture, SqlServerProbe};
pub use migrate::migrations;
pub use pool::Manager;
pub use queue::SqlServerQueue;
pub use sql::{HINTS, Statements};
pub use tiberius;

/// The name in errors, logs and metrics.
pub const ENGINE: &str = "sqlserver";

/// The version of the tables that this build works with.
pub const SCHEMA_VERSION: u32 = 1;
