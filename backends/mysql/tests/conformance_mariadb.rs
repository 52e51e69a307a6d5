//! The conformance suite on the MariaDB server at `MARIADB_URL`.

use std::process::ExitCode;

use queue_table_mysql::fixture::MysqlFixture;

fn main() -> ExitCode {
    match MysqlFixture::mariadb() {
        Ok(fixture) => queue_table_conformance::main(fixture),
        Err(error) => {
            eprintln!("mariadb: {error}");
            ExitCode::FAILURE
        }
    }
}
