//! Faults seeded into this backend: the suite must notice each.

use std::process::ExitCode;

use queue_table_postgres::PostgresFixture;

fn main() -> ExitCode {
    queue_table_conformance::seeded(PostgresFixture::from_env())
}
