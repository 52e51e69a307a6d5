//! What is SQL Server's own: the driver's path, lost connections, and the statements' order, on
//! servers that speak TDS and know no SQL. Nothing here has run on SQL Server.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod driver;
mod fake;
mod mock;
mod protocol;
