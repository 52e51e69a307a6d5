//! The tables: their versions, and how they are created and brought up to date.

use diesel::connection::SimpleConnection;
use diesel::migration::{
    Migration, MigrationMetadata, MigrationName, MigrationSource, MigrationVersion,
};
use diesel::pg::{Pg, PgConnection};
use diesel::prelude::*;
use diesel::sql_types::{Bool, Integer, Nullable, Text};
use queue_table_core::{Error, Migrated, Result, Table};

use crate::error::{ENGINE, failed};
use crate::lifecycle::server_version;
use crate::sql::Names;

/// The version of the tables that this build works with.
pub(crate) const VERSION: u32 = 1;

/// Older servers miss what the statements need, or were never tried.
pub(crate) const SERVER_VERSION_MIN: i32 = 150_000;

/// Each version's statements, oldest first.
const STEPS: [(u32, &str, &str); 1] = [(
    1,
    "queue_table_0001",
    include_str!("../migrations/0001_tables.sql"),
)];

/// The SQL that creates a table set of this build's version, for those who run migrations with a
/// tool of their own.
///
/// It writes the ledger too, so that [`migrate`](queue_table_core::Administration::migrate) finds
/// nothing left to do. Business columns are not in it: add them, with their foreign keys, in a
/// migration of yours.
///
/// ```
/// use queue_table_core::Table;
///
/// let sql = queue_table_postgres::migration_sql(&Table::named("mail_job")?);
/// assert!(sql.contains(r#"CREATE TABLE "mail_job" ("#));
/// # Ok::<(), queue_table_core::Invalid>(())
/// ```
#[must_use]
pub fn migration_sql(table: &Table) -> String {
    let names = Names::of(table);
    STEPS.map(|(_, _, sql)| names.put_into(sql)).join("\n")
}

/// The rights of producers, workers and operators on a table set, as SQL.
///
/// The roles are named `{table}_producer`, `{table}_worker` and `{table}_operator`; grant them to
/// your login roles.
#[must_use]
pub fn grants_sql(table: &Table) -> String {
    Names::of(table).put_into(include_str!("../sql/grants.sql"))
}

/// The migrations of one table set, for the ledger that diesel keeps of a service's own migrations.
///
/// Their versions begin with `queue_table_`, which no version of diesel's own making does, and come
/// after them. The queue's own ledger is written too.
///
/// ```no_run
/// use diesel::prelude::*;
/// use diesel_migrations::MigrationHarness;
///
/// let mut connection = diesel::PgConnection::establish("postgres://localhost/shop")?;
/// connection.run_pending_migrations(queue_table_postgres::MIGRATIONS)?;
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Migrations(Option<Table>);

/// The migrations of the table set named `job` in the connection's own schema.
pub const MIGRATIONS: Migrations = Migrations(None);

impl Migrations {
    /// The migrations of another table set.
    #[must_use]
    pub fn of(table: &Table) -> Self {
        Self(Some(table.clone()))
    }
}

impl MigrationSource<Pg> for Migrations {
    fn migrations(&self) -> diesel::migration::Result<Vec<Box<dyn Migration<Pg>>>> {
        let table = self.0.clone().unwrap_or_default();
        let names = Names::of(&table);
        let step = |(_, name, sql): &(u32, &str, &str)| -> Box<dyn Migration<Pg>> {
            Box::new(Step {
                name: StepName::of(name, &table),
                sql: names.put_into(sql),
            })
        };
        Ok(STEPS.iter().map(step).collect())
    }
}

/// One version, as diesel runs it.
struct Step {
    name: StepName,
    sql: String,
}

struct StepName {
    version: String,
    table: String,
}

impl StepName {
    /// diesel's ledger has room for 50 characters: another table than the default has a hash of its
    /// name there.
    fn of(name: &str, table: &Table) -> Self {
        let quoted = Names::of(table).put_into("{job}");
        let version = match *table == Table::default() {
            true => name.to_owned(),
            false => format!("{name}_{:016x}", fnv_1a(&quoted)),
        };
        Self {
            version,
            table: quoted,
        }
    }
}

/// The same for ever, unlike the standard library's hashes.
fn fnv_1a(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// In a transaction, as diesel does by default.
struct InTransaction;

impl std::fmt::Display for StepName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.version, self.table)
    }
}

impl MigrationName for StepName {
    fn version(&self) -> MigrationVersion<'_> {
        MigrationVersion::from(self.version.as_str())
    }
}

impl MigrationMetadata for InTransaction {}

impl Migration<Pg> for Step {
    fn run(
        &self,
        connection: &mut dyn diesel::connection::BoxableConnection<Pg>,
    ) -> diesel::migration::Result<()> {
        Ok(connection.batch_execute(&self.sql)?)
    }

    fn revert(
        &self,
        _: &mut dyn diesel::connection::BoxableConnection<Pg>,
    ) -> diesel::migration::Result<()> {
        Err("the queue's tables are not reverted: drop them by hand, with the jobs in them".into())
    }

    fn metadata(&self) -> &dyn MigrationMetadata {
        &InTransaction
    }

    fn name(&self) -> &dyn MigrationName {
        &self.name
    }
}

/// Brings the tables to this build's version, on a transaction that somebody else opened.
pub(crate) fn migrate(tx: &mut PgConnection, table: &Table) -> Result<Migrated> {
    let version = server_version(tx, "migrate")?;
    if version < SERVER_VERSION_MIN {
        return Err(Error::Unsupported {
            engine: ENGINE,
            lacks: format!("the server's version is {version}; 15 or later is needed"),
        });
    }
    // Others that migrate the same tables wait here. The lock ends with the transaction: no session
    // keeps it.
    diesel::sql_query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))")
        .bind::<Text, _>(format!(
            "queue-table {}",
            Names::of(table).put_into("{job}")
        ))
        .execute(tx)
        .map_err(failed("migrate"))?;
    create_schema(tx, table)?;
    let from = found_version(tx, table, "migrate")?;
    if from.is_some_and(|from| from > VERSION) {
        return Err(Error::Schema {
            engine: ENGINE,
            found: from,
            needed: VERSION,
        });
    }
    let names = Names::of(table);
    for (step, _, sql) in STEPS {
        if from.is_none_or(|from| from < step) {
            tx.batch_execute(&names.put_into(sql))
                .map_err(failed("migrate"))?;
        }
    }
    Ok(Migrated { from, to: VERSION })
}

/// Creates the schema only when it is missing: `IF NOT EXISTS` would ask for the right to create it
/// all the same.
fn create_schema(tx: &mut PgConnection, table: &Table) -> Result<()> {
    let Some(schema) = table.schema() else {
        return Ok(());
    };
    let exists: bool = diesel::select(
        diesel::dsl::sql::<Bool>("EXISTS (SELECT FROM pg_namespace WHERE nspname = ")
            .bind::<Text, _>(schema)
            .sql(")"),
    )
    .get_result(tx)
    .map_err(failed("migrate"))?;
    if exists {
        return Ok(());
    }
    tx.batch_execute(&format!("CREATE SCHEMA \"{schema}\""))
        .map_err(failed("migrate"))
}

/// The version in the ledger; `None` when there is no ledger.
pub(crate) fn found_version(
    tx: &mut PgConnection,
    table: &Table,
    operation: &'static str,
) -> Result<Option<u32>> {
    let ledger = Names::of(table).put_into("{job_schema}");
    let exists: bool = diesel::select(
        diesel::dsl::sql::<Bool>("to_regclass(")
            .bind::<Text, _>(&ledger)
            .sql(") IS NOT NULL"),
    )
    .get_result(tx)
    .map_err(failed(operation))?;
    if !exists {
        return Ok(None);
    }
    let version: Option<i32> = diesel::select(diesel::dsl::sql::<Nullable<Integer>>(&format!(
        "(SELECT max(version) FROM {ledger})"
    )))
    .get_result(tx)
    .map_err(failed(operation))?;
    Ok(version.and_then(|version| u32::try_from(version).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_in_diesels_ledger_fit_and_differ_by_table() {
        let long = Table::named(&"t".repeat(40))
            .and_then(|table| table.in_schema(&"s".repeat(40)))
            .unwrap();
        let other = Table::named("mail_job").unwrap();
        let versions =
            [Table::default(), long, other].map(|table| StepName::of(STEPS[0].1, &table).version);
        assert_eq!(versions[0], "queue_table_0001");
        assert!(versions.iter().all(|version| version.len() <= 50));
        assert_ne!(versions[1], versions[2]);
        assert_eq!(fnv_1a("a"), 0xaf63_dc4c_8601_ec8c);
    }

    #[test]
    fn every_step_writes_its_version_to_the_ledger() {
        for (version, _, sql) in STEPS {
            assert!(sql.contains(&format!("INTO {{job_schema}} (version) VALUES ({version})")));
        }
        assert_eq!(STEPS.last().map(|step| step.0), Some(VERSION));
    }
}
