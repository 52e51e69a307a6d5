//! The suite on SQLite: nothing but a temporary folder is needed, so it always runs.

use std::process::ExitCode;

use queue_table_conformance::FromEnv;
use queue_table_sqlite::fixture::SqliteFixture;

fn main() -> ExitCode {
    queue_table_conformance::main(FromEnv::Ready(SqliteFixture))
}
