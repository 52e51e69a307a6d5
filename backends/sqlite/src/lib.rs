//! `queue-table` on SQLite: background jobs in an ordinary table of the application's own file, on
//! [`rusqlite`].
//!
//! ```
//! use queue_table_core::{Administration, ClaimRequest, Kind, NewJob, Payload, QueueBackend, QueueName, WorkerId};
//! use queue_table_sqlite::SqliteQueue;
//!
//! # let folder = tempfile::tempdir()?;
//! # let file = folder.path().join("app.db");
//! let queue = SqliteQueue::open(&file)?;
//! queue.migrate()?;
//!
//! let mail = QueueName::new("mail")?;
//! queue.enqueue(&[NewJob::new(&mail, Kind::new("mail.send")?, Payload::from_json(r#"{"to":42}"#)?)])?;
//!
//! let claimed = queue.claim(&ClaimRequest::new(mail, WorkerId::unique("mailer")?))?;
//! assert_eq!(claimed[0].payload.as_str()?, r#"{"to":42}"#);
//! let receipts: Vec<_> = claimed.into_iter().map(|job| job.receipt).collect();
//! assert_eq!(queue.ack(&receipts)?, [Ok(())]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How this engine keeps the contract
//!
//! SQLite has one writer per file and no row locks. Every write of this crate is a short
//! `BEGIN IMMEDIATE` transaction on one connection that all queues of a process on the same file
//! share, first come, first served; other processes, and the application's own connections, are
//! waited for with short jittered sleeps, up to the busy deadline
//! ([`SqliteQueueBuilder::busy_deadline`]). So claims queue for the writer within a bounded time;
//! there is nothing to skip. Reads, and the look whether there is anything to claim, use
//! connections of their own and block nobody.
//!
//! The file is switched to WAL, and every commit is flushed to the disk (`synchronous = FULL`).
//!
//! # The clock
//!
//! SQLite's clock, which is the host's, ticks in whole milliseconds; instants are stored in
//! microseconds. By that clock no lease and no delay ends early, because each instant is read after
//! the writer lock is held, and what is due is judged by the same ticks. Against a finer clock a
//! lease or delay may end up to one millisecond early, as the tick that it began in had already
//! begun.
//!
//! # In the application's own transactions
//!
//! The `_in` operations take a [`rusqlite::Transaction`] on any connection to the same file. That
//! it is the same file is not checked: on another one they fail as never migrated, or find that
//! file's jobs. Begin such transactions with
//! [`rusqlite::TransactionBehavior::Immediate`]: a deferred one that has read, and in the meantime lost its snapshot to
//! another commit, cannot write any more, and every `_in` operation answers `Contention` at once.

mod admin;
mod builder;
mod busy;
mod check;
mod connection;
mod decode;
mod enqueue;
mod error;
mod lifecycle;
mod migrate;
#[cfg(test)]
mod plan;
mod pool;
mod purge;
mod queue;
mod sql;
mod transactional;
mod turn;
mod writer;

#[cfg(feature = "fixture")]
pub mod fixture;

pub use builder::{BUSY_DEADLINE_DEFAULT, READERS_DEFAULT, SqliteQueueBuilder};
pub use migrate::{MIGRATIONS, Migration, SCHEMA_VERSION, migration_sql};
pub use queue::SqliteQueue;
pub use rusqlite;

/// The engine's name in errors, logs and metrics.
pub const ENGINE: &str = "sqlite";
