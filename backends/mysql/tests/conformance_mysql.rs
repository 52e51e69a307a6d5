//! The conformance suite on the MySQL server at `MYSQL_URL`.

use std::process::ExitCode;

use queue_table_mysql::fixture::MysqlFixture;

fn main() -> ExitCode {
    match MysqlFixture::mysql() {
        Ok(fixture) => queue_table_conformance::main(fixture),
        Err(error) => {
            eprintln!("mysql: {error}");
            ExitCode::FAILURE
        }
    }
}
