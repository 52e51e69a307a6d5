//! The set-up that the conformance suite runs on: every scenario has a schema of its own, dropped
//! at its end. Raw SQL only, never the backend's statements.

mod probe;

use std::fmt;
use std::sync::{Arc, Mutex};

use queue_table_conformance::{
    Capabilities, Fixture, Fresh, FromEnv, PortError, Probe, Profile, Rule, Setup, Tier,
    Unverified, registry,
};
use queue_table_core::{Administration, Error, ErrorText, Table};

use crate::connect::ConnectOptions;
use crate::connection::Connection;
use crate::decode::Cells;
use crate::queue::SqlServerQueue;

/// The variable that holds the connection string of a server to test on, with a database whose
/// owner the login is.
const URL: &str = "SQLSERVER_URL";

/// A SQL Server as the suite uses it.
#[derive(Debug, Clone)]
pub struct SqlServerFixture {
    options: ConnectOptions,
    version: String,
}

pub use probe::SqlServerProbe;

fn port(error: impl fmt::Display) -> PortError {
    PortError::new(error)
}

/// An error with its sources: the server's own words are among them.
fn told(error: Error) -> PortError {
    PortError::new(ErrorText::of(&error))
}

fn name(kind: &str) -> String {
    format!("{kind}_{:016x}", fastrand::Rng::new().u64(..))
}

impl SqlServerFixture {
    /// The server at `SQLSERVER_URL`, if it is set and answers.
    #[must_use]
    pub fn from_env() -> FromEnv<Self> {
        let not_run = |reason: String| FromEnv::NotRun {
            engine: "sqlserver".to_owned(),
            reason,
        };
        let Ok(url) = std::env::var(URL) else {
            return not_run(format!("{URL} is not set"));
        };
        match Self::at(&url) {
            Ok(fixture) => FromEnv::Ready(fixture),
            Err(error) => not_run(error.to_string()),
        }
    }

    /// The server by this connection string.
    ///
    /// # Errors
    /// [`PortError`] when it does not answer.
    pub fn at(url: &str) -> Result<Self, PortError> {
        let options = ConnectOptions::parse(url).map_err(told)?;
        let mut connection = Connection::open(&options).map_err(told)?;
        let version = one_text(
            &mut connection,
            "SELECT CONCAT(CONVERT(NVARCHAR(64), SERVERPROPERTY(N'ProductVersion')),
               N', READ_COMMITTED_SNAPSHOT ', is_read_committed_snapshot_on, N', OPTIMIZED_LOCKING ',
               COALESCE(CONVERT(NVARCHAR(8), DATABASEPROPERTYEX(DB_NAME(), N'IsOptimizedLockingOn')), N'unknown'))
               AS value
             FROM sys.databases WHERE database_id = DB_ID()",
        )?;
        Ok(Self { options, version })
    }

    /// Whether a locked row is passed over: one session holds it by UPDLOCK, another reads with
    /// READPAST.
    fn honours_hints(&self) -> Result<bool, PortError> {
        let mut holder = Connection::open(&self.options).map_err(told)?;
        let mut reader = Connection::open(&self.options).map_err(told)?;
        let table = name("suite_probe");
        run(
            &mut holder,
            &format!(
                "CREATE TABLE {table} (id INT NOT NULL PRIMARY KEY); INSERT INTO {table} VALUES (1)"
            ),
        )?;
        let seen = {
            let mut held = holder.transaction().map_err(told)?;
            let lock = format!("SELECT id FROM {table} WITH (UPDLOCK, ROWLOCK) WHERE id = 1");
            held.query(&lock, &[]).map_err(told)?;
            let mut tx = reader.transaction().map_err(told)?;
            let pass =
                format!("SELECT id FROM {table} WITH (UPDLOCK, READPAST, READCOMMITTEDLOCK)");
            tx.query(&pass, &[]).map_err(told)?.len()
        };
        run(&mut holder, &format!("DROP TABLE {table}"))?;
        Ok(seen == 0)
    }
}

/// Runs a text on its own.
fn run(connection: &mut Connection, text: &str) -> Result<(), PortError> {
    connection.query(text, &[]).map(drop).map_err(told)
}

/// The text in the column `value` of the one row.
fn one_text(connection: &mut Connection, text: &str) -> Result<String, PortError> {
    let rows = connection.query(text, &[]).map_err(told)?;
    let row = rows.first().ok_or_else(|| port("no row"))?;
    let value = Cells::of(row, "probe").string("value").map_err(told)?;
    Ok(value.to_owned())
}

fn one_number(connection: &mut Connection, text: &str) -> Result<i64, PortError> {
    let rows = connection.query(text, &[]).map_err(told)?;
    let row = rows.first().ok_or_else(|| port("no row"))?;
    Cells::of(row, "probe").number("value").map_err(told)
}

impl Fixture for SqlServerFixture {
    type Backend = SqlServerQueue;
    type Probe = SqlServerProbe;

    fn profile(&self) -> Profile {
        Profile {
            engine: "sqlserver".to_owned(),
            version: self.version.clone(),
            reproduce:
                "SQLSERVER_URL=... cargo test -p queue-table-sqlserver --features fixture,rustls \
                        --test conformance"
                    .to_owned(),
            capabilities: Capabilities {
                row_locks: true,
                processes: true,
                network: true,
                counters: true,
            },
            deviations: vec![],
        }
    }

    /// A stand-in may parse lock hints and ignore them: what depends on locks then proves nothing.
    fn unverified(&self) -> Result<Vec<Unverified>, PortError> {
        if self.honours_hints()? {
            return Ok(Vec::new());
        }
        let reason = "this server reads a row past UPDLOCK and READPAST: it ignores lock hints";
        let unverified = registry::<Self>()
            .into_iter()
            .filter(|scenario| depends_on_locks(scenario.tier, scenario.rules));
        Ok(unverified
            .map(|scenario| Unverified {
                scenario: scenario.id.to_owned(),
                reason: reason.to_owned(),
            })
            .collect())
    }

    fn reopen(&self, address: &str) -> Result<SqlServerQueue, PortError> {
        let table = Table::default().in_schema(address).map_err(port)?;
        SqlServerQueue::builder_with(self.options.clone())
            .table(table)
            .build()
            .map_err(told)
    }

    fn fresh(&self, setup: &Setup) -> Result<Fresh<Self>, PortError> {
        let schema = name("suite");
        let mut connection = Connection::open(&self.options).map_err(told)?;
        run(
            &mut connection,
            &format!("EXEC (N'CREATE SCHEMA {schema}')"),
        )?;
        run(
            &mut connection,
            &format!(
                "CREATE TABLE {schema}.effect_of_test (
                   place BIGINT IDENTITY NOT NULL PRIMARY KEY, said NVARCHAR(MAX) NOT NULL)"
            ),
        )?;
        let mut table = Table::default().in_schema(&schema).map_err(port)?;
        for (name, column_type) in &setup.columns {
            table = table.with_column(name, *column_type).map_err(port)?;
        }
        let probe = SqlServerProbe {
            options: self.options.clone(),
            schema,
            table,
            connection: Arc::new(Mutex::new(connection)),
        };
        let backend = probe.session()?;
        if setup.migrated {
            backend.migrate().map_err(told)?;
            probe.add_columns(&setup.columns)?;
        }
        Ok(Fresh { backend, probe })
    }
}

fn depends_on_locks(tier: Tier, rules: &[Rule]) -> bool {
    let by_locks = [Rule::C5, Rule::C10, Rule::C14, Rule::C16, Rule::C18];
    matches!(tier, Tier::Concurrency | Tier::Chaos | Tier::Worker)
        || rules.iter().any(|rule| by_locks.contains(rule))
}
