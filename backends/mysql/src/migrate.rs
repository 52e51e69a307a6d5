//! The tables and their ledger.

use mysql::Conn;
use mysql::prelude::Queryable;
use queue_table_core::{Error, Failed, Migrated, Result};

use crate::error::failed;
use crate::queue::{Known, MysqlQueue};
use crate::sql::{Names, Statements};

/// The version of the tables that this build works with.
pub(crate) const VERSION: u32 = 1;

/// Every migration, in order. Each of its statements can be run again: DDL has no transaction here.
const MIGRATIONS: [&str; VERSION as usize] = [include_str!("../migrations/0001_tables.sql")];

/// How long to wait for another process that migrates, in seconds.
const WAIT_SECS: u32 = 120;

const OPERATION: &str = "migrate";

/// Creates the tables or brings them to this build's version. One process at a time; the others
/// find nothing to do.
pub(crate) fn migrate(queue: &MysqlQueue) -> Result<Migrated> {
    let mut connection = queue
        .connections
        .manager()
        .connect_patient()
        .map_err(failed("mysql", OPERATION))?;
    let session = connection.session();
    let known = queue.known(session)?;
    let names = Names {
        table: &queue.table,
        flavour: known.server.flavour,
    };
    if found(session, &known.sql)? == Some(VERSION) {
        return Ok(Migrated {
            from: Some(VERSION),
            to: VERSION,
        });
    }
    // The lock is the session's, and the connection is ours alone: it ends with it, whatever
    // happens.
    lock(session, known, &queue.table.sister("schema"))?;
    let from = found(session, &known.sql)?;
    if from.is_some_and(|version| version > VERSION) {
        return Err(version_error(known.sql.engine, from));
    }
    for migration in MIGRATIONS.iter().skip(from.unwrap_or(0) as usize) {
        for statement in statements(&names, migration) {
            session
                .query_drop(statement)
                .map_err(failed(known.sql.engine, OPERATION))?;
        }
    }
    check_ours(session, &known.sql)?;
    Ok(Migrated { from, to: VERSION })
}

/// Refuses tables that are missing, or of another version than this build works with.
pub(crate) fn check_version<Q: Queryable>(session: &mut Q, sql: &Statements) -> Result<()> {
    match found(session, sql)? {
        Some(VERSION) => Ok(()),
        other => Err(version_error(sql.engine, other)),
    }
}

fn version_error(engine: &'static str, found: Option<u32>) -> Error {
    Error::Schema {
        engine,
        found,
        needed: VERSION,
    }
}

/// The version in the ledger; `None` when there is no ledger, or nothing in it yet.
pub(crate) fn found<Q: Queryable>(session: &mut Q, sql: &Statements) -> Result<Option<u32>> {
    let version = session.query_first::<Option<u32>, _>(sql.version());
    match version.map_err(failed(sql.engine, OPERATION)) {
        Ok(version) => Ok(version.flatten()),
        Err(Error::Schema { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Waits until no other session migrates these tables.
fn lock(session: &mut Conn, known: &Known, ledger: &str) -> Result<()> {
    let engine = known.sql.engine;
    // A lock's name has at most 64 characters, and is the server's: the database belongs into it.
    let got: Option<Option<i64>> = session
        .exec_first(
            "SELECT GET_LOCK(CONCAT('queue_table.', LEFT(SHA2(CONCAT( \
             COALESCE(?, DATABASE()), '.', ?), 256), 40)), ?)",
            (known.sql.table.schema(), ledger, WAIT_SECS),
        )
        .map_err(failed(engine, OPERATION))?;
    if got.flatten() == Some(1) {
        return Ok(());
    }
    let waited = format!("another process has been migrating for {WAIT_SECS} s");
    Err(Error::Contention(Failed::new(engine, OPERATION, waited)))
}

/// The statements of a migration's file. Without its comments, a semicolon stands only between two
/// of them.
fn statements(names: &Names<'_>, file: &str) -> Vec<String> {
    let text = names.put_into(file);
    let statements = text.split(';').map(str::trim);
    statements
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
        .collect()
}

/// `IF NOT EXISTS` also passes over somebody else's table of the same name: read ours, and fail
/// where it is not.
fn check_ours(session: &mut Conn, sql: &Statements) -> Result<()> {
    session
        .exec_drop(sql.judge(), ("[]",))
        .and_then(|()| session.exec_drop(sql.replay_key(), (0,)))
        .and_then(|()| session.exec_drop(sql.enqueued(), (0, 0, 0)))
        .map_err(failed(sql.engine, OPERATION))
}

#[cfg(test)]
mod tests {
    use queue_table_core::Table;

    use super::*;
    use crate::server::Flavour;

    fn all() -> Vec<String> {
        let names = Names {
            table: &Table::default(),
            flavour: Flavour::Mariadb,
        };
        MIGRATIONS
            .iter()
            .flat_map(|file| statements(&names, file))
            .collect()
    }

    #[test]
    fn a_migration_is_cut_into_its_statements() {
        let texts = all();
        assert_eq!(texts.len(), 7);
        assert!(
            texts[0].starts_with("CREATE TABLE IF NOT EXISTS `job` ("),
            "{}",
            texts[0]
        );
        assert!(
            texts[6].starts_with("INSERT INTO `job_schema`"),
            "{}",
            texts[6]
        );
        assert!(texts.iter().all(|text| !text.contains('{')));
    }

    #[test]
    fn every_statement_of_a_migration_can_be_run_again() {
        for statement in all() {
            let again = ["IF NOT EXISTS", "ON DUPLICATE KEY UPDATE"];
            assert!(
                again.iter().any(|words| statement.contains(words)),
                "{statement}"
            );
        }
    }
}
