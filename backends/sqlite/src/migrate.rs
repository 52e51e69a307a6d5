//! The tables and their versions.

use queue_table_core::{Error, Migrated, Result, Table};
use rusqlite::Connection;

use crate::ENGINE;
use crate::error::map;
use crate::queue::Tables;
use crate::sql::Names;

/// The version of the tables that this build works with.
pub const SCHEMA_VERSION: u32 = 1;

/// One step from a version of the tables to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    /// The version that it leads to.
    pub version: u32,
    /// Its statements, with `{job}` and so on in the places of the tables' names, the ledger's row
    /// among them.
    pub sql: &'static str,
}

/// Every migration, in order. [`migration_sql`] puts the names in.
pub const MIGRATIONS: &[Migration] = &[Migration {
    version: SCHEMA_VERSION,
    sql: include_str!("../migrations/0001_tables.sql"),
}];

/// The statements of every migration for these tables, to be run once by a migration tool of your
/// own.
///
/// The last statement records the version, so that `migrate` finds nothing left to do.
///
/// ```
/// let sql = queue_table_sqlite::migration_sql(&queue_table_core::Table::default());
/// assert!(sql.contains(r#"CREATE TABLE "main"."job""#));
/// ```
#[must_use]
pub fn migration_sql(table: &Table) -> String {
    let names = Names::new(table);
    let texts = MIGRATIONS.iter().map(|migration| names.fill(migration.sql));
    texts.collect::<Vec<_>>().join("\n")
}

/// Brings the tables to this build's version, in one immediate transaction: whoever comes second
/// finds it done.
pub(crate) fn migrate(tx: &Connection, tables: &Tables) -> Result<Migrated> {
    let from = version(tx, tables, "migrate")?;
    if from.is_some_and(|found| found > SCHEMA_VERSION) {
        return Err(Error::Schema {
            engine: ENGINE,
            found: from,
            needed: SCHEMA_VERSION,
        });
    }
    let names = Names::new(&tables.table);
    for migration in MIGRATIONS
        .iter()
        .filter(|migration| Some(migration.version) > from)
    {
        tx.execute_batch(&names.fill(migration.sql))
            .map_err(map("migrate"))?;
    }
    Ok(Migrated {
        from,
        to: SCHEMA_VERSION,
    })
}

/// The version that the ledger tells; `None` when there is no ledger or nothing in it.
pub(crate) fn version(
    connection: &Connection,
    tables: &Tables,
    operation: &'static str,
) -> Result<Option<u32>> {
    let read = || {
        let mut statement = connection.prepare_cached(&tables.sql.ledger)?;
        statement.query_row([], |row| row.get(0))
    };
    match read().map_err(map(operation)) {
        Err(Error::Schema { found: None, .. }) => Ok(None),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_go_up_by_one_to_this_builds() {
        let versions = MIGRATIONS.iter().map(|migration| migration.version);
        assert!(versions.eq(1..=SCHEMA_VERSION));
    }

    #[test]
    fn the_printed_sql_is_what_migrate_runs() {
        let connection = Connection::open_in_memory().unwrap();
        let tables = Tables::new(Table::named("order").unwrap());
        connection
            .execute_batch(&migration_sql(&tables.table))
            .unwrap();
        let done = migrate(&connection, &tables).unwrap();
        assert_eq!(
            done,
            Migrated {
                from: Some(1),
                to: 1
            }
        );
    }

    #[test]
    fn newer_tables_are_refused_and_left_alone() {
        let connection = Connection::open_in_memory().unwrap();
        let tables = Tables::new(Table::default());
        migrate(&connection, &tables).unwrap();
        connection
            .execute("INSERT INTO job_schema VALUES (2, 0)", [])
            .unwrap();
        let refused = migrate(&connection, &tables).unwrap_err();
        assert!(matches!(
            refused,
            Error::Schema {
                found: Some(2),
                needed: 1,
                ..
            }
        ));
    }

    #[test]
    fn a_table_of_the_users_own_by_that_name_is_not_taken_over() {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch("CREATE TABLE job (mine TEXT)")
            .unwrap();
        let tx = connection.unchecked_transaction().unwrap();
        assert_eq!(
            migrate(&tx, &Tables::new(Table::default()))
                .unwrap_err()
                .kind(),
            "engine"
        );
    }
}
