//! Faults seeded into this backend: the suite must notice each.

use std::process::ExitCode;

use queue_table_conformance::FromEnv;
use queue_table_sqlite::fixture::SqliteFixture;

fn main() -> ExitCode {
    queue_table_conformance::seeded(FromEnv::Ready(SqliteFixture))
}
