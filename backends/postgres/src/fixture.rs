//! The set-up that the conformance suite runs on: every scenario has a schema of its own, dropped
//! at its end.

mod probe;

use std::fmt;

use diesel::connection::SimpleConnection;
use diesel::pg::PgConnection;
use diesel::prelude::*;
use diesel::sql_types::Text;
use queue_table_conformance::{
    Capabilities, Fixture, Fresh, FromEnv, PortError, Probe, Profile, Setup,
};
use queue_table_core::{Administration, Table};

use crate::queue::PostgresQueue;

pub use probe::PostgresProbe;

/// The variable that holds the URL of a server to test on; the role must be allowed to create
/// schemas.
const URL: &str = "POSTGRES_URL";

/// A PostgreSQL server as the suite uses it.
#[derive(Clone)]
pub struct PostgresFixture {
    url: String,
    version: String,
}

/// Shows no URL: it holds a password.
impl fmt::Debug for PostgresFixture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresFixture")
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

fn port(error: impl fmt::Display) -> PortError {
    PortError::new(error)
}

fn connect(url: &str) -> Result<PgConnection, PortError> {
    PgConnection::establish(url).map_err(port)
}

impl PostgresFixture {
    /// The server at `POSTGRES_URL`, if it is set and answers.
    #[must_use]
    pub fn from_env() -> FromEnv<Self> {
        let not_run = |reason: String| FromEnv::NotRun {
            engine: "postgres".to_owned(),
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

    /// The server at this URL.
    ///
    /// # Errors
    /// [`PortError`] when it does not answer.
    pub fn at(url: &str) -> Result<Self, PortError> {
        let mut connection = connect(url)?;
        let version = diesel::select(diesel::dsl::sql::<Text>(
            "current_setting('server_version')",
        ))
        .get_result(&mut connection)
        .map_err(port)?;
        Ok(Self {
            url: url.to_owned(),
            version,
        })
    }
}

impl Fixture for PostgresFixture {
    type Backend = PostgresQueue;
    type Probe = PostgresProbe;

    fn profile(&self) -> Profile {
        Profile {
            engine: "postgres".to_owned(),
            version: self.version.clone(),
            reproduce: "ci/engines up postgres && eval \"$(ci/engines env postgres)\" && \
                        cargo test -p queue-table-postgres --features fixture --test conformance"
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

    fn reopen(&self, address: &str) -> Result<PostgresQueue, PortError> {
        let table = Table::default().in_schema(address).map_err(port)?;
        PostgresQueue::builder(&self.url)
            .table(table)
            .build()
            .map_err(port)
    }

    fn fresh(&self, setup: &Setup) -> Result<Fresh<Self>, PortError> {
        let schema = format!("suite_{:016x}", fastrand::Rng::new().u64(..));
        let mut connection = connect(&self.url)?;
        connection
            .batch_execute(&format!(
                "CREATE SCHEMA {schema};
                 CREATE TABLE {schema}.effect_of_test (
                   place BIGINT GENERATED ALWAYS AS IDENTITY, said TEXT NOT NULL
                 );"
            ))
            .map_err(port)?;
        let mut table = Table::default().in_schema(&schema).map_err(port)?;
        for (name, column_type) in &setup.columns {
            table = table.with_column(name, *column_type).map_err(port)?;
        }
        let probe = PostgresProbe::new(&self.url, schema, table, setup, connection);
        let backend = probe.session()?;
        if setup.migrated {
            backend.migrate().map_err(port)?;
            probe.add_columns()?;
        }
        Ok(Fresh { backend, probe })
    }
}
