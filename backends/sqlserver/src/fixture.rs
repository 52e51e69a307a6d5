//! The set-up that the conformance suite runs on: every scenario has a schema of its own, dropped at
//! its end. Raw SQL only, never the backend's statements.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use queue_table_conformance::{
    Capabilities, Change, Fixture, Fresh, FromEnv, Held, PortError, Probe, Profile, Row, Rule,
    Setup, Tier, Unverified, Written, registry,
};
use queue_table_core::{
    Administration, ColumnType, ColumnValue, Error, ErrorText, JobId, Rejected, Table, Timestamp,
};

use crate::connect::ConnectOptions;
use crate::connection::{Connection, Transaction};
use crate::decode::{self, Cells};
use crate::queue::SqlServerQueue;

/// The variable that holds the connection string of a server to test on, with a database whose owner the login is.
const URL: &str = "SQLSERVER_URL";

/// A SQL Server as the suite uses it.
#[derive(Debug, Clone)]
pub struct SqlServerFixture {
    options: ConnectOptions,
    version: String,
}

/// Raw SQL on the schema of one scenario.
#[derive(Debug)]
pub struct SqlServerProbe {
    options: ConnectOptions,
    schema: String,
    table: Table,
    connection: Arc<Mutex<Connection>>,
}

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

    /// Whether a locked row is passed over: one session holds it by UPDLOCK, another reads with READPAST.
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
                network: false,
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

impl Drop for SqlServerProbe {
    fn drop(&mut self) {
        let schema = &self.schema;
        let tables = [
            "child_of_test",
            "effect_of_test",
            "job",
            "job_dedup",
            "job_dedup_past",
            "job_effect",
            "job_queue",
            "job_failure",
            "job_schema",
        ];
        let tables = tables.map(|table| format!("{schema}.{table}")).join(", ");
        let text = format!("DROP TABLE IF EXISTS {tables}; DROP SCHEMA IF EXISTS {schema}");
        // What cannot be dropped is left behind in a test database; the scenario's result stands.
        if let Err(error) = run(&mut self.connection(), &text) {
            tracing::warn!(%error, schema, "a test's schema is left behind");
        }
    }
}

impl SqlServerProbe {
    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn add_columns(&self, columns: &[(&str, ColumnType)]) -> Result<(), PortError> {
        for (name, column_type) in columns {
            let sql_type = match column_type {
                ColumnType::Integer => "BIGINT",
                ColumnType::Text => "NVARCHAR(MAX)",
                ColumnType::Uuid => "UNIQUEIDENTIFIER",
            };
            let text = format!(
                "ALTER TABLE {}.job ADD [{name}] {sql_type} NULL",
                self.schema
            );
            run(&mut self.connection(), &text)?;
        }
        Ok(())
    }

    /// Updates the row of a job.
    fn update(&self, job: JobId, assignments: &[String]) -> Result<(), Error> {
        let text = format!(
            "UPDATE {}.job SET {} OUTPUT inserted.job_id WHERE job_id = @P1",
            self.schema,
            assignments.join(", ")
        );
        let rows = self.connection().query(&text, &[&job.get()])?;
        match rows.len() {
            1 => Ok(()),
            _ => Err(Rejected::NoSuchJob(job).into()),
        }
    }

    /// Lets the table take any payload, and turns the check on again for later rows.
    fn write_undecodable(&self, job: JobId) -> Result<(), Error> {
        let check = |how: &str| {
            let text = format!(
                "ALTER TABLE {}.job {how} CONSTRAINT job_payload",
                self.schema
            );
            self.connection().query(&text, &[]).map(drop)
        };
        check("NOCHECK")?;
        let written = self.update(job, &["payload = N'{\"cut'".to_owned()]);
        check("CHECK")?;
        written
    }
}

/// One assignment of a raw UPDATE.
fn assignment(change: &Change) -> String {
    let text = |value: &str| format!("N'{}'", value.replace('\'', "''"));
    let from_now = |micros: i64| moved("SYSUTCDATETIME()", micros);
    let or_null = |sql: Option<String>| sql.unwrap_or_else(|| "NULL".to_owned());
    match change {
        Change::State(state) => format!("state = {}", text(state)),
        Change::Attempts(attempts) => format!("attempts = {attempts}"),
        Change::MaxAttempts(attempts) => format!("max_attempts = {attempts}"),
        Change::Priority(priority) => format!("priority = {priority}"),
        Change::PayloadVersion(version) => format!("payload_version = {version}"),
        Change::WorkerId(worker) => format!("worker_id = {}", or_null(worker.map(text))),
        Change::LeaseUntil(at) => format!("lease_until = {}", or_null(at.map(from_now))),
        Change::RunAt(at) => format!("run_at = {}", from_now(*at)),
        Change::FinishedAt(at) => format!("finished_at = {}", or_null(at.map(from_now))),
        Change::Payload(payload) => format!("payload = {}", text(payload)),
        Change::Undecodable => "payload = payload".to_owned(),
    }
}

/// An instant moved by so many microseconds; DATEADD takes an INT.
fn moved(instant: &str, micros: i64) -> String {
    let (minutes, rest) = (micros / 60_000_000, micros % 60_000_000);
    format!("DATEADD(MICROSECOND, {rest}, DATEADD(MINUTE, {minutes}, {instant}))")
}

impl Probe<SqlServerQueue> for SqlServerProbe {
    fn session(&self) -> Result<SqlServerQueue, PortError> {
        SqlServerQueue::builder_with(self.options.clone())
            .table(self.table.clone())
            .build()
            .map_err(told)
    }

    fn now(&self) -> Result<Timestamp, PortError> {
        let text = "SELECT DATEDIFF_BIG(MICROSECOND, '19700101', CONVERT(DATETIME2(6), SYSUTCDATETIME())) AS value";
        one_number(&mut self.connection(), text).map(Timestamp::from_micros)
    }

    fn row(&self, job: JobId) -> Result<Option<Row>, PortError> {
        let micros =
            |column: &str| format!("DATEDIFF_BIG(MICROSECOND, '19700101', {column}) AS {column}");
        let instants = [
            "run_at",
            "lease_until",
            "enqueued_at",
            "claimed_at",
            "finished_at",
        ];
        let columns = self.table.columns().iter();
        let columns: String = columns
            .map(|column| format!(", [{}]", column.name))
            .collect();
        let text = format!(
            "SELECT job_id, queue, kind, payload, payload_version, state, priority, attempts, max_attempts,
               worker_id, last_error, {}{columns}
             FROM {}.job WHERE job_id = @P1",
            instants.map(micros).join(", "),
            self.schema
        );
        let rows = self
            .connection()
            .query(&text, &[&job.get()])
            .map_err(told)?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let record = decode::job_record(&Cells::of(row, "probe"), &self.table).map_err(told)?;
        Ok(Some(Row {
            job_id: record.job_id,
            queue: record.queue.as_str().to_owned(),
            kind: record.kind.as_str().to_owned(),
            payload: record.payload.as_bytes().to_vec(),
            payload_version: record.payload_version,
            state: record.state,
            priority: record.priority,
            run_at: record.run_at,
            attempts: record.attempts,
            max_attempts: record.max_attempts,
            worker_id: record.worker.map(|worker| worker.as_str().to_owned()),
            lease_until: record.lease_until,
            enqueued_at: record.enqueued_at,
            claimed_at: record.claimed_at,
            finished_at: record.finished_at,
            last_error: record.last_error,
            columns: record.columns.into_iter().collect::<Vec<ColumnValue>>(),
        }))
    }

    fn ids(&self) -> Result<Vec<JobId>, PortError> {
        let text = format!("SELECT job_id FROM {}.job ORDER BY job_id", self.schema);
        let rows = self.connection().query(&text, &[]).map_err(told)?;
        let id = |row| Cells::of(row, "probe").job_id().map_err(told);
        rows.iter().map(id).collect()
    }

    fn count(&self, sister: &str) -> Result<u64, PortError> {
        let text = format!(
            "SELECT COUNT_BIG(*) AS value FROM {}.job_{sister}",
            self.schema
        );
        let count = one_number(&mut self.connection(), &text)?;
        u64::try_from(count).map_err(port)
    }

    fn rewind(&self, job: JobId, by: Duration) -> Result<(), PortError> {
        let micros = i64::try_from(by.as_micros()).map_err(port)?;
        let back = |column: &str| format!("{column} = {}", moved(column, -micros));
        let columns = [
            "run_at",
            "lease_until",
            "enqueued_at",
            "claimed_at",
            "finished_at",
        ];
        self.update(job, &columns.map(back)).map_err(told)
    }

    fn write(&self, job: JobId, changes: &[Change]) -> Result<Written, PortError> {
        if changes.contains(&Change::Undecodable) {
            return self
                .write_undecodable(job)
                .map(|()| Written::Stored)
                .map_err(told);
        }
        let assignments: Vec<_> = changes.iter().map(assignment).collect();
        match self.update(job, &assignments) {
            Ok(()) => Ok(Written::Stored),
            Err(Error::Rejected(rule @ Rejected::Constraint { .. })) => {
                Ok(Written::Refused(rule.to_string()))
            }
            Err(error) => Err(told(error)),
        }
    }

    fn delete(&self, job: JobId) -> Result<(), PortError> {
        let text = format!("DELETE FROM {}.job WHERE job_id = @P1", self.schema);
        self.connection()
            .query(&text, &[&job.get()])
            .map(drop)
            .map_err(told)
    }

    fn hold(&self, job: JobId, hold: Duration) -> Result<Held, PortError> {
        let mut connection = Connection::open(&self.options).map_err(told)?;
        let text = format!(
            "SELECT job_id FROM {}.job WITH (UPDLOCK, ROWLOCK) WHERE job_id = {job}",
            self.schema
        );
        let (locked, is_locked) = mpsc::channel();
        let holder = thread::spawn(move || {
            let mut tx = connection.transaction().map_err(told)?;
            let result = tx.query(&text, &[]).map(drop).map_err(told);
            // Nobody listens when the scenario gave up; the lock is let go all the same.
            drop(locked.send(result.clone()));
            result?;
            thread::sleep(hold);
            tx.rollback().map_err(told)
        });
        is_locked
            .recv()
            .map_err(|_| port("the lock holder is gone"))??;
        Ok(Held::by(holder))
    }

    fn effect_in(&self, tx: &mut Transaction<'_>, text: &str) -> Result<(), PortError> {
        let insert = format!(
            "INSERT INTO {}.effect_of_test (said) VALUES (@P1)",
            self.schema
        );
        tx.execute(&insert, &[&text]).map_err(told)
    }

    fn effects(&self) -> Result<Vec<String>, PortError> {
        let text = format!(
            "SELECT said FROM {}.effect_of_test ORDER BY place",
            self.schema
        );
        let rows = self.connection().query(&text, &[]).map_err(told)?;
        let said = |row| {
            let said = Cells::of(row, "probe").string("said").map_err(told)?;
            Ok(said.to_owned())
        };
        rows.iter().map(said).collect()
    }

    fn reference(&self, job: JobId) -> Result<(), PortError> {
        let schema = &self.schema;
        let text = format!(
            "IF OBJECT_ID(N'{schema}.child_of_test', N'U') IS NULL
               CREATE TABLE {schema}.child_of_test (
                 job_id BIGINT NOT NULL PRIMARY KEY REFERENCES {schema}.job (job_id))
             INSERT INTO {schema}.child_of_test (job_id) VALUES ({job})"
        );
        run(&mut self.connection(), &text)
    }
}
