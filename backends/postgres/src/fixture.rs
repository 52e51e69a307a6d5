//! The set-up that the conformance suite runs on: every scenario has a schema of its own, dropped
//! at its end.

use std::fmt;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection;
use diesel::data_types::PgTimestamp;
use diesel::pg::PgConnection;
use diesel::prelude::*;
use diesel::result::{DatabaseErrorKind, Error as DieselError};
use diesel::sql_types::{Array, BigInt, Binary, Integer, Nullable, Text, Timestamptz};
use queue_table_conformance::{
    Capabilities, Change, Fixture, Fresh, FromEnv, Held, PortError, Probe, Profile, Row, Server,
    Setup, Written,
};
use queue_table_core::{Administration, ColumnType, ColumnValue, JobId, State, Table, Timestamp};
use uuid::Uuid;

use crate::decode::instant;
use crate::queue::PostgresQueue;

/// The variable that holds the URL of a server to test on; the role must be allowed to create
/// schemas.
const URL: &str = "POSTGRES_URL";

/// How long a table is not settled because of others' transactions.
const OLDER_WAIT: Duration = Duration::from_secs(45);

/// A PostgreSQL server as the suite uses it.
#[derive(Clone)]
pub struct PostgresFixture {
    url: String,
    version: String,
}

/// Raw SQL on the schema of one scenario.
pub struct PostgresProbe {
    url: String,
    schema: String,
    table: Table,
    columns: Vec<(&'static str, ColumnType)>,
    connection: Arc<Mutex<PgConnection>>,
}

/// Shows no URL: it holds a password.
impl fmt::Debug for PostgresFixture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresFixture")
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// Shows no URL: it holds a password.
impl fmt::Debug for PostgresProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresProbe")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

fn port(error: impl fmt::Display) -> PortError {
    PortError::new(error)
}

fn connect(url: &str) -> Result<PgConnection, PortError> {
    PgConnection::establish(url).map_err(port)
}

/// Host and port in a URL.
fn place(url: &str) -> Result<&str, PortError> {
    let (_, rest) = url
        .split_once("://")
        .ok_or_else(|| port("the address is no URL"))?;
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    Ok(rest.split(['/', '?']).next().unwrap_or(rest))
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
        let probe = PostgresProbe {
            url: self.url.clone(),
            schema,
            table,
            columns: setup.columns.clone(),
            connection: Arc::new(Mutex::new(connection)),
        };
        let backend = probe.session()?;
        if setup.migrated {
            backend.migrate().map_err(port)?;
            probe.add_columns()?;
        }
        Ok(Fresh { backend, probe })
    }
}

/// Waits a while for the end of all transactions of this database that began before: other tests'.
/// VACUUM leaves the dead rows that one of them might see.
fn await_older_transactions(connection: &mut PgConnection) -> QueryResult<()> {
    let now: String = diesel::select(diesel::dsl::sql::<Text>("pg_current_xact_id()::TEXT"))
        .get_result(connection)?;
    let older = format!(
        "(SELECT count(*) FROM pg_stat_activity
          WHERE datname = current_database() AND pid <> pg_backend_pid()
            AND greatest(age(backend_xid), age(backend_xmin)) > age('{now}'::XID))"
    );
    let until = Instant::now() + OLDER_WAIT;
    while Instant::now() < until {
        let older: i64 =
            diesel::select(diesel::dsl::sql::<BigInt>(&older)).get_result(connection)?;
        if older == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

impl Drop for PostgresProbe {
    fn drop(&mut self) {
        let sql = format!("DROP SCHEMA IF EXISTS {} CASCADE", self.schema);
        // A schema that cannot be dropped is left behind in a test database; the scenario's result
        // stands.
        if let Err(error) = self.connection().batch_execute(&sql) {
            tracing::warn!(%error, schema = self.schema, "postgres: a test's schema is left behind");
        }
    }
}

impl PostgresProbe {
    fn connection(&self) -> MutexGuard<'_, PgConnection> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn add_columns(&self) -> Result<(), PortError> {
        for (name, column_type) in &self.columns {
            let sql_type = match column_type {
                ColumnType::Integer => "BIGINT",
                ColumnType::Text => "TEXT",
                ColumnType::Uuid => "UUID",
            };
            let sql = format!(
                "ALTER TABLE {}.job ADD COLUMN \"{name}\" {sql_type}",
                self.schema
            );
            self.connection().batch_execute(&sql).map_err(port)?;
        }
        Ok(())
    }

    /// Runs one statement on the row of a job, and returns how many rows it touched.
    fn on_row(&self, sql: &str, job: JobId) -> Result<usize, DieselError> {
        let sql = sql.replace("{schema}", &self.schema);
        diesel::sql_query(sql)
            .bind::<BigInt, _>(job.get())
            .execute(&mut *self.connection())
    }

    fn column_value(&self, at: usize, text: Option<&String>) -> Result<ColumnValue, PortError> {
        let Some(text) = text else {
            return Ok(ColumnValue::Null);
        };
        Ok(match self.columns[at].1 {
            ColumnType::Integer => ColumnValue::Integer(text.parse().map_err(port)?),
            ColumnType::Text => ColumnValue::Text(text.clone()),
            ColumnType::Uuid => ColumnValue::Uuid(Uuid::parse_str(text).map_err(port)?),
        })
    }
}

/// Every column of a row, as raw SQL reads it.
#[derive(QueryableByName)]
struct Raw {
    #[diesel(sql_type = BigInt)]
    job_id: i64,
    #[diesel(sql_type = Text)]
    queue: String,
    #[diesel(sql_type = Text)]
    kind: String,
    #[diesel(sql_type = Binary)]
    payload: Vec<u8>,
    #[diesel(sql_type = Integer)]
    payload_version: i32,
    #[diesel(sql_type = Text)]
    state: String,
    #[diesel(sql_type = Integer)]
    priority: i32,
    #[diesel(sql_type = Timestamptz)]
    run_at: PgTimestamp,
    #[diesel(sql_type = Integer)]
    attempts: i32,
    #[diesel(sql_type = Integer)]
    max_attempts: i32,
    #[diesel(sql_type = Nullable<Text>)]
    worker_id: Option<String>,
    #[diesel(sql_type = Nullable<Timestamptz>)]
    lease_until: Option<PgTimestamp>,
    #[diesel(sql_type = Timestamptz)]
    enqueued_at: PgTimestamp,
    #[diesel(sql_type = Nullable<Timestamptz>)]
    claimed_at: Option<PgTimestamp>,
    #[diesel(sql_type = Nullable<Timestamptz>)]
    finished_at: Option<PgTimestamp>,
    #[diesel(sql_type = Nullable<Text>)]
    last_error: Option<String>,
    #[diesel(sql_type = Array<Nullable<Text>>)]
    own_columns: Vec<Option<String>>,
}

impl Raw {
    fn decode(self, probe: &PostgresProbe) -> Result<Row, PortError> {
        let own = self.own_columns.iter().enumerate();
        Ok(Row {
            columns: own
                .map(|(at, text)| probe.column_value(at, text.as_ref()))
                .collect::<Result<_, _>>()?,
            job_id: JobId::new(self.job_id),
            queue: self.queue,
            kind: self.kind,
            payload: self.payload,
            payload_version: u16::try_from(self.payload_version).map_err(port)?,
            state: State::parse(&self.state).ok_or_else(|| port(&self.state))?,
            priority: self.priority,
            run_at: instant(self.run_at),
            attempts: u32::try_from(self.attempts).map_err(port)?,
            max_attempts: u32::try_from(self.max_attempts).map_err(port)?,
            worker_id: self.worker_id,
            lease_until: self.lease_until.map(instant),
            enqueued_at: instant(self.enqueued_at),
            claimed_at: self.claimed_at.map(instant),
            finished_at: self.finished_at.map(instant),
            last_error: self.last_error,
        })
    }
}

/// One assignment of a raw UPDATE; `None` where no server stores such a thing.
fn assignment(change: &Change) -> Option<String> {
    let text = |value: &str| format!("'{}'", value.replace('\'', "''"));
    let from_now =
        |micros: &i64| format!("clock_timestamp() + {micros} * INTERVAL '1 microsecond'");
    let or_null = |sql: Option<String>| sql.unwrap_or_else(|| "NULL".to_owned());
    Some(match change {
        Change::State(state) => format!("state = {}", text(state)),
        Change::Attempts(attempts) => format!("attempts = {attempts}"),
        Change::MaxAttempts(attempts) => format!("max_attempts = {attempts}"),
        Change::Priority(priority) => format!("priority = {priority}"),
        Change::PayloadVersion(version) => format!("payload_version = {version}"),
        Change::WorkerId(worker) => format!("worker_id = {}", or_null(worker.map(text))),
        Change::LeaseUntil(at) => format!("lease_until = {}", or_null(at.as_ref().map(from_now))),
        Change::RunAt(at) => format!("run_at = {}", from_now(at)),
        Change::FinishedAt(at) => format!("finished_at = {}", or_null(at.as_ref().map(from_now))),
        Change::Payload(payload) => format!("payload = {}::JSON", text(payload)),
        // A UTF-8 database lets in neither broken text nor broken JSON.
        Change::Undecodable => return None,
    })
}

impl Probe<PostgresQueue> for PostgresProbe {
    fn session(&self) -> Result<PostgresQueue, PortError> {
        PostgresQueue::builder(&self.url)
            .table(self.table.clone())
            .build()
            .map_err(port)
    }

    fn address(&self) -> Result<String, PortError> {
        Ok(self.schema.clone())
    }

    fn server(&self) -> Result<Server, PortError> {
        let place = place(&self.url)?;
        let with_port = match place.contains(':') {
            true => place.to_owned(),
            false => format!("{place}:5432"),
        };
        Ok(Server {
            address: with_port,
            commit: b"COMMIT\0".to_vec(),
        })
    }

    fn session_through(&self, address: SocketAddr) -> Result<PostgresQueue, PortError> {
        let url = self
            .url
            .replacen(place(&self.url)?, &address.to_string(), 1);
        let mark = if url.contains('?') { '&' } else { '?' };
        PostgresQueue::builder(&format!("{url}{mark}sslmode=disable"))
            .table(self.table.clone())
            .pool_wait(Duration::from_secs(2))
            .build()
            .map_err(port)
    }

    fn settle(&self) -> Result<(), PortError> {
        let mut connection = self.connection();
        await_older_transactions(&mut connection).map_err(port)?;
        let sql = format!("VACUUM (ANALYZE) {}.job", self.schema);
        connection.batch_execute(&sql).map_err(port)
    }

    /// Pages of the job table and its indexes.
    fn reads_in(&self, tx: &mut PgConnection) -> Result<u64, PortError> {
        let sql = format!(
            "(SELECT COALESCE(sum(pg_stat_get_xact_blocks_fetched(oid)), 0)::BIGINT
              FROM pg_class
              WHERE oid = '{schema}.job'::REGCLASS
                OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = '{schema}.job'::REGCLASS))",
            schema = self.schema
        );
        let pages: i64 = diesel::select(diesel::dsl::sql::<BigInt>(&sql))
            .get_result(tx)
            .map_err(port)?;
        u64::try_from(pages).map_err(port)
    }

    fn drop_index(&self, index: &str) -> Result<(), PortError> {
        let sql = format!("DROP INDEX {}.job_{index}", self.schema);
        self.connection().batch_execute(&sql).map_err(port)
    }

    fn now(&self) -> Result<Timestamp, PortError> {
        let now: PgTimestamp = diesel::select(diesel::dsl::sql::<Timestamptz>("clock_timestamp()"))
            .get_result(&mut *self.connection())
            .map_err(port)?;
        Ok(instant(now))
    }

    fn row(&self, job: JobId) -> Result<Option<Row>, PortError> {
        let texts: Vec<_> = self
            .columns
            .iter()
            .map(|(name, _)| format!("\"{name}\"::TEXT"))
            .collect();
        let sql = format!(
            "SELECT *, ARRAY[{}]::TEXT[] AS own_columns FROM {}.job WHERE job_id = $1",
            texts.join(", "),
            self.schema
        );
        let raw: Option<Raw> = diesel::sql_query(sql)
            .bind::<BigInt, _>(job.get())
            .get_result(&mut *self.connection())
            .optional()
            .map_err(port)?;
        raw.map(|raw| raw.decode(self)).transpose()
    }

    fn ids(&self) -> Result<Vec<JobId>, PortError> {
        let sql = format!(
            "ARRAY(SELECT job_id FROM {}.job ORDER BY job_id)",
            self.schema
        );
        let ids: Vec<i64> = diesel::select(diesel::dsl::sql::<Array<BigInt>>(&sql))
            .get_result(&mut *self.connection())
            .map_err(port)?;
        Ok(ids.into_iter().map(JobId::new).collect())
    }

    fn count(&self, sister: &str) -> Result<u64, PortError> {
        let sql = format!("(SELECT count(*) FROM {}.job_{sister})", self.schema);
        let count: i64 = diesel::select(diesel::dsl::sql::<BigInt>(&sql))
            .get_result(&mut *self.connection())
            .map_err(port)?;
        u64::try_from(count).map_err(port)
    }

    fn skip_to(&self, id: JobId) -> Result<(), PortError> {
        let sql = format!(
            "SELECT setval('{}.job_job_id_seq', {id}, FALSE)",
            self.schema
        );
        self.connection().batch_execute(&sql).map_err(port)
    }

    fn set_version(&self, version: u32) -> Result<(), PortError> {
        let sql = format!(
            "INSERT INTO {}.job_schema (version) VALUES ({version})",
            self.schema
        );
        self.connection().batch_execute(&sql).map_err(port)
    }

    fn rewind(&self, job: JobId, by: Duration) -> Result<(), PortError> {
        let micros = by.as_micros();
        let back =
            |column: &str| format!("{column} = {column} - {micros} * INTERVAL '1 microsecond'");
        let columns = [
            "run_at",
            "lease_until",
            "enqueued_at",
            "claimed_at",
            "finished_at",
        ];
        let sql = format!(
            "UPDATE {{schema}}.job SET {} WHERE job_id = $1",
            columns.map(back).join(", ")
        );
        match self.on_row(&sql, job).map_err(port)? {
            1 => Ok(()),
            _ => Err(port(format!("there is no job {job}"))),
        }
    }

    fn write(&self, job: JobId, changes: &[Change]) -> Result<Written, PortError> {
        let Some(assignments) = changes.iter().map(assignment).collect::<Option<Vec<_>>>() else {
            return Ok(Written::Impossible);
        };
        let sql = format!(
            "UPDATE {{schema}}.job SET {} WHERE job_id = $1",
            assignments.join(", ")
        );
        match self.on_row(&sql, job) {
            Ok(1) => Ok(Written::Stored),
            Ok(_) => Err(port(format!("there is no job {job}"))),
            Err(DieselError::DatabaseError(DatabaseErrorKind::CheckViolation, told)) => {
                Ok(Written::Refused(told.message().to_owned()))
            }
            // The type refuses what is no JSON before any constraint is asked.
            Err(DieselError::DatabaseError(_, told)) if told.message().contains("type json") => {
                Ok(Written::Refused(told.message().to_owned()))
            }
            Err(error) => Err(port(error)),
        }
    }

    fn delete(&self, job: JobId) -> Result<(), PortError> {
        let sql = "DELETE FROM {schema}.job WHERE job_id = $1";
        self.on_row(sql, job).map(|_| ()).map_err(port)
    }

    fn hold(&self, job: JobId, hold: Duration) -> Result<Held, PortError> {
        let mut connection = connect(&self.url)?;
        let sql = format!(
            "SELECT FROM {}.job WHERE job_id = {job} FOR UPDATE",
            self.schema
        );
        let (locked, is_locked) = mpsc::channel();
        let holder = thread::spawn(move || {
            let lock = format!("BEGIN; {sql}");
            let result = connection.batch_execute(&lock).map_err(port);
            // Nobody listens when the scenario gave up; the lock is let go all the same.
            drop(locked.send(result.clone()));
            result?;
            thread::sleep(hold);
            connection.batch_execute("ROLLBACK").map_err(port)
        });
        is_locked
            .recv()
            .map_err(|_| port("the lock holder is gone"))??;
        Ok(Held::by(holder))
    }

    fn effect_in(&self, tx: &mut PgConnection, text: &str) -> Result<(), PortError> {
        let sql = format!(
            "INSERT INTO {}.effect_of_test (said) VALUES ($1)",
            self.schema
        );
        diesel::sql_query(sql)
            .bind::<Text, _>(text)
            .execute(tx)
            .map(|_| ())
            .map_err(port)
    }

    fn effects(&self) -> Result<Vec<String>, PortError> {
        let sql = format!(
            "ARRAY(SELECT said FROM {}.effect_of_test ORDER BY place)",
            self.schema
        );
        diesel::select(diesel::dsl::sql::<Array<Text>>(&sql))
            .get_result(&mut *self.connection())
            .map_err(port)
    }

    fn reference(&self, job: JobId) -> Result<(), PortError> {
        let schema = &self.schema;
        let sql = format!(
            "CREATE TABLE IF NOT EXISTS {schema}.child_of_test (
               job_id BIGINT NOT NULL REFERENCES {schema}.job (job_id)
             );
             INSERT INTO {schema}.child_of_test (job_id) VALUES ({job});"
        );
        self.connection().batch_execute(&sql).map_err(port)
    }
}
