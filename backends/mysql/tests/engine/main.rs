//! What only MySQL and MariaDB can get wrong, on the servers at `MYSQL_URL` and `MARIADB_URL`.

#![expect(
    clippy::unwrap_used,
    reason = "what helps a test may panic as the test may"
)]

mod binlog;
mod claims;
mod connections;
#[cfg(feature = "rustls")]
mod encryption;
mod fence;
mod ids;
mod replay;
mod soak;
mod support;
mod tables;
mod text;
mod time;
mod transactions;
