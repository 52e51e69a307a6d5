//! The tables and their ledger.

use queue_table_core::{Error, Migrated, Result, Table};
use tiberius::Row;

use crate::check::{Facts, too_old};
use crate::connection::{Client, batch, rows};
use crate::decode::Cells;
use crate::error::{failed, unsupported};
use crate::sql::{Statements, fill};
use crate::{ENGINE, SCHEMA_VERSION};

/// Each version's text, from 1 up; it writes its own line of the ledger.
const MIGRATIONS: [(&str, &str); SCHEMA_VERSION as usize] = [(
    "0001_tables.sql",
    include_str!("../migrations/0001_tables.sql"),
)];

/// The migrations for one set of tables, in order, for a migration tool of your own: file name and
/// text.
///
/// Each text is one batch. Run by another tool, it fills the same ledger as `migrate`.
#[must_use]
pub fn migrations(table: &Table) -> Vec<(&'static str, String)> {
    let migrations = MIGRATIONS.iter();
    migrations
        .map(|(file, text)| (*file, fill(table, text)))
        .collect()
}

/// Brings the tables to this build's version, in the open transaction: T-SQL's DDL rolls back like
/// anything else.
pub(crate) async fn migrate(client: &mut Client, sql: &Statements) -> Result<Migrated> {
    let operation = "migrate";
    if let Some(lacks) = too_old(&Facts::read(client, sql).await?) {
        return Err(unsupported(lacks));
    }
    lock(client, sql).await?;
    if sql.table.schema().is_some() {
        batch(client, operation, &sql.schema_create).await?;
    }
    let from = version(client, sql, operation).await?;
    if let Some(found) = from.filter(|found| *found > SCHEMA_VERSION) {
        return Err(Error::Schema {
            engine: ENGINE,
            found: Some(found),
            needed: SCHEMA_VERSION,
        });
    }
    for (_, text) in migrations(&sql.table)
        .iter()
        .skip(from.unwrap_or(0) as usize)
    {
        batch(client, operation, text).await?;
    }
    Ok(Migrated {
        from,
        to: SCHEMA_VERSION,
    })
}

/// One migrating process at a time; the lock ends with the transaction.
async fn lock(client: &mut Client, sql: &Statements) -> Result<()> {
    let answer = rows(client, "migrate", &sql.migrate_lock, &[]).await?;
    let granted = |row: &Row| Cells::of(row, "migrate").number::<i64>("granted");
    match answer.first().map(granted).transpose()? {
        Some(code) if code >= 0 => Ok(()),
        _ => {
            let text = "another process has been migrating for 20 seconds";
            Err(Error::Contention(failed("migrate", text)))
        }
    }
}

/// The version of the tables; `None` when there are none.
pub(crate) async fn version(
    client: &mut Client,
    sql: &Statements,
    operation: &'static str,
) -> Result<Option<u32>> {
    let answer = rows(client, operation, &sql.exists, &[]).await?;
    let found = |row: &Row| Cells::of(row, operation).number::<i64>("found");
    if answer.first().map(found).transpose()? != Some(1) {
        return Ok(None);
    }
    let answer = rows(client, operation, &sql.ledger, &[]).await?;
    let version = |row: &Row| Cells::of(row, operation).integer("version");
    let version = answer.first().map(version).transpose()?.flatten();
    Ok(version.and_then(|version| u32::try_from(version).ok()))
}
