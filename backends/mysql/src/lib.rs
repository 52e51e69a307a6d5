//! `queue-table` on MySQL and MariaDB: background jobs in an ordinary table, on the blocking
//! [`mysql`] crate.
//!
//! Works with MySQL 8.4 and 9 and MariaDB 10.11 and later, InnoDB, on one server or its primary.
//! Other versions are refused by name at the first use, and so is `binlog_format = STATEMENT`.
//!
//! ```no_run
//! use queue_table_core::{
//!     Administration, ClaimRequest, Kind, NewJob, Payload, QueueBackend, QueueBackendExt, QueueName,
//!     WorkerId,
//! };
//! use queue_table_mysql::MysqlQueue;
//!
//! let queue = MysqlQueue::connect("mysql://app:secret@127.0.0.1/shop")?;
//! queue.migrate()?;
//!
//! let mail = QueueName::new("mail")?;
//! let payload = Payload::from_json(r#"{"to":"a@b.c"}"#)?;
//! queue.enqueue_one(&NewJob::new(&mail, Kind::new("mail.send")?, payload))?;
//! for job in queue.claim(&ClaimRequest::new(mail, WorkerId::unique("mailer")?))? {
//!     queue.ack_one(&job.receipt)?;
//! }
//! # Ok::<(), queue_table_core::Error>(())
//! ```
//!
//! # In the caller's transaction
//!
//! [`TransactionalBackend`](queue_table_core::TransactionalBackend) works on the driver's own
//! [`mysql::Transaction`], whoever began it and on whatever connection: the job is stored in the
//! same commit as the business rows. Two things to know:
//!
//! - At REPEATABLE READ, the servers' default, a claim locks the gaps between rows and makes
//!   producers wait. Begin transactions that claim at READ COMMITTED, as
//!   [`transaction`](queue_table_core::TransactionalBackend::transaction) does. Enqueue, ack and
//!   fail are right at every level.
//! - After a deadlock the server has rolled the whole transaction back. The error is
//!   [`Contention`](queue_table_core::Error::Contention): run all of it again, from its beginning.
//!
//! # Encryption
//!
//! The driver's TLS comes with the feature `rustls` (roots compiled in, or a file) or `native-tls`
//! (the system's). They exclude each other, and neither is a default. Then add `?require_ssl=true`
//! to the address, or one of the driver's own parameters (`root_cert_path`,
//! `danger_accept_invalid_certs`): the connection is encrypted, or refused.
//!
//! The driver moves a connection to a loopback address over to the server's socket file, where it
//! silently drops TLS. The builder turns that off unless the address says `prefer_socket=true`.
//!
//! # Time-outs
//!
//! Connecting 10 s, each read and write 30 s, waiting for a row 10 s, waiting for a pooled
//! connection 5 s; see [`Builder`]. A row is waited for no longer than a read, so that the answer
//! is [`Contention`](queue_table_core::Error::Contention) and not a lost connection.

mod admin;
mod administration;
mod batches;
mod builder;
mod check;
mod claim;
mod connection;
mod decode;
mod dedup;
mod enqueue;
mod error;
mod fence;
#[cfg(feature = "fixture")]
pub mod fixture;
mod json;
mod lifecycle;
mod migrate;
mod pool;
mod promote;
mod queue;
mod recovery;
mod ringing;
mod server;
mod sql;

pub use builder::Builder;
pub use mysql;
pub use queue::MysqlQueue;
