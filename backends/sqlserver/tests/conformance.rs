//! The whole suite on a real server: `SQLSERVER_URL` tells where.

use std::process::ExitCode;

use queue_table_sqlserver::SqlServerFixture;

fn main() -> ExitCode {
    queue_table_conformance::main(SqlServerFixture::from_env())
}
