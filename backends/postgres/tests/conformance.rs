//! The whole suite on a real server: `POSTGRES_URL` tells where.

use std::process::ExitCode;

use queue_table_postgres::PostgresFixture;

fn main() -> ExitCode {
    queue_table_conformance::main(PostgresFixture::from_env())
}
