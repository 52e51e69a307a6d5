//! How the conformance suite sets up, observes and disturbs this engine. Behind the feature
//! `fixture`.
//!
//! Each set of tables is a file of its own in a temporary folder, which goes away with the probe.

use std::path::PathBuf;
use std::sync::mpsc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use queue_table_conformance::{
    Capabilities, Change, Fixture, Fresh, Held, PortError, Probe, Profile, Row, Setup, Written,
};
use queue_table_core::{Administration, ColumnType, ColumnValue, JobId, State, Table, Timestamp};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, StatementStatus, Transaction, params};
use tempfile::TempDir;

use crate::queue::Tables;
use crate::{ENGINE, SqliteQueue};

/// How long the probe's own connections wait for the writer.
const PATIENCE: Duration = Duration::from_secs(60);

/// The database's clock, as the backend reads it.
const NOW: &str = "CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER) * 1000";

/// The columns of a stored row, business columns aside.
const COLUMNS: &str = "queue, kind, CAST(payload AS BLOB), payload_version, state, priority, run_at, attempts, \
    max_attempts, worker_id, lease_until, enqueued_at, claimed_at, finished_at, last_error";

/// SQLite under test.
#[derive(Debug, Clone, Copy, Default)]
pub struct SqliteFixture;

impl Fixture for SqliteFixture {
    type Backend = SqliteQueue;
    type Probe = SqliteProbe;

    fn profile(&self) -> Profile {
        Profile {
            engine: ENGINE.to_owned(),
            version: rusqlite::version().to_owned(),
            reproduce: "cargo test -p queue-table-sqlite --test conformance".to_owned(),
            capabilities: Capabilities {
                row_locks: false,
                processes: true,
                network: false,
                counters: true,
            },
            deviations: Vec::new(),
        }
    }

    fn reopen(&self, address: &str) -> Result<SqliteQueue, PortError> {
        let builder = SqliteQueue::builder(address);
        builder.build().map_err(PortError::new)
    }

    fn fresh(&self, setup: &Setup) -> Result<Fresh<Self>, PortError> {
        let folder = TempDir::new().map_err(PortError::new)?;
        let mut table = Table::default();
        for (name, column_type) in &setup.columns {
            table = table
                .with_column(name, *column_type)
                .map_err(PortError::new)?;
        }
        let probe = SqliteProbe {
            file: folder.path().join("jobs.db"),
            table,
            raw: Mutex::new(open(&folder.path().join("jobs.db"))?),
            _folder: folder,
        };
        let backend = probe.session()?;
        if setup.migrated {
            backend.migrate().map_err(PortError::new)?;
            probe.add_columns()?;
        }
        let own_tables =
            "CREATE TABLE test_effect (position INTEGER PRIMARY KEY, effect TEXT NOT NULL);
            CREATE TABLE test_reference (job_id INTEGER NOT NULL REFERENCES job (job_id));";
        probe
            .raw()
            .execute_batch(own_tables)
            .map_err(PortError::new)?;
        Ok(Fresh { backend, probe })
    }
}

/// Raw SQL on connections of its own to one file.
#[derive(Debug)]
pub struct SqliteProbe {
    file: PathBuf,
    table: Table,
    raw: Mutex<Connection>,
    _folder: TempDir,
}

fn open(file: &std::path::Path) -> Result<Connection, PortError> {
    let connection = Connection::open(file).map_err(PortError::new)?;
    connection.busy_timeout(PATIENCE).map_err(PortError::new)?;
    connection
        .pragma_update(None, "foreign_keys", true)
        .map_err(PortError::new)?;
    Ok(connection)
}

impl SqliteProbe {
    /// The file with the tables.
    #[must_use]
    pub fn file(&self) -> &std::path::Path {
        &self.file
    }

    fn raw(&self) -> MutexGuard<'_, Connection> {
        self.raw.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_columns(&self) -> Result<(), PortError> {
        for column in self.table.columns() {
            let kind = match column.column_type {
                ColumnType::Integer => "INTEGER",
                ColumnType::Text | ColumnType::Uuid => "TEXT",
            };
            let sql = format!("ALTER TABLE job ADD COLUMN \"{}\" {kind}", column.name);
            self.raw().execute_batch(&sql).map_err(PortError::new)?;
        }
        Ok(())
    }

    fn business_values(&self, row: &rusqlite::Row<'_>) -> rusqlite::Result<Vec<ColumnValue>> {
        let columns = self.table.columns().iter().enumerate();
        columns
            .map(|(position, column)| {
                Ok(match row.get::<_, Value>(15 + position)? {
                    Value::Integer(number) => ColumnValue::Integer(number),
                    Value::Text(text) => match (column.column_type, text.parse()) {
                        (ColumnType::Uuid, Ok(uuid)) => ColumnValue::Uuid(uuid),
                        _ => ColumnValue::Text(text),
                    },
                    Value::Null | Value::Real(_) | Value::Blob(_) => ColumnValue::Null,
                })
            })
            .collect()
    }

    fn decode(
        &self,
        job: JobId,
        row: &rusqlite::Row<'_>,
    ) -> rusqlite::Result<Result<Row, PortError>> {
        let instant = |index: usize| row.get(index).map(Timestamp::from_micros);
        let maybe = |index: usize| -> rusqlite::Result<Option<Timestamp>> {
            let micros: Option<i64> = row.get(index)?;
            Ok(micros.map(Timestamp::from_micros))
        };
        let word: String = row.get(4)?;
        let Some(state) = State::parse(&word) else {
            return Ok(Err(PortError::new(format!("`{word}` is no state"))));
        };
        Ok(Ok(Row {
            job_id: job,
            queue: row.get(0)?,
            kind: row.get(1)?,
            payload: row.get(2)?,
            payload_version: row.get(3)?,
            state,
            priority: row.get(5)?,
            run_at: instant(6)?,
            attempts: row.get(7)?,
            max_attempts: row.get(8)?,
            worker_id: row.get(9)?,
            lease_until: maybe(10)?,
            enqueued_at: instant(11)?,
            claimed_at: maybe(12)?,
            finished_at: maybe(13)?,
            last_error: row.get(14)?,
            columns: self.business_values(row)?,
        }))
    }

    /// Runs one UPDATE that must find its row.
    fn update(&self, sql: &str, values: &[Value]) -> Result<Written, PortError> {
        match self.raw().execute(sql, rusqlite::params_from_iter(values)) {
            Ok(1) => Ok(Written::Stored),
            Ok(rows) => Err(PortError::new(format!("the update found {rows} rows"))),
            Err(error) if is_refusal(&error) => Ok(Written::Refused(error.to_string())),
            Err(error) => Err(PortError::new(error)),
        }
    }
}

fn is_refusal(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation)
}

impl Probe<SqliteQueue> for SqliteProbe {
    /// All queues of a process on one file share its writer, and so do these; what they read with
    /// is their own.
    fn session(&self) -> Result<SqliteQueue, PortError> {
        let builder = SqliteQueue::builder(&self.file).table(self.table.clone());
        builder.build().map_err(PortError::new)
    }

    fn address(&self) -> Result<String, PortError> {
        let file = self.file.to_str();
        file.map(str::to_owned)
            .ok_or_else(|| PortError::new("the folder's name is no text"))
    }

    fn settle(&self) -> Result<(), PortError> {
        self.raw().execute_batch("ANALYZE").map_err(PortError::new)
    }

    /// Steps of SQLite's virtual machine in the statements of a claim, which the connection keeps
    /// with their counters.
    fn reads_in(&self, tx: &mut Transaction<'_>) -> Result<u64, PortError> {
        let sql = Tables::new(self.table.clone()).sql;
        let mut steps = 0;
        for statement in [&sql.claim_select, &sql.claim] {
            let statement = tx.prepare_cached(statement).map_err(PortError::new)?;
            let taken = statement.get_status(StatementStatus::VmStep);
            steps += u64::try_from(taken).map_err(PortError::new)?;
        }
        Ok(steps)
    }

    fn drop_index(&self, index: &str) -> Result<(), PortError> {
        let dropped = self.raw().execute_batch(&format!("DROP INDEX job_{index}"));
        dropped.map_err(PortError::new)
    }

    fn now(&self) -> Result<Timestamp, PortError> {
        let micros = self
            .raw()
            .query_row(&format!("SELECT {NOW}"), [], |row| row.get(0));
        micros.map(Timestamp::from_micros).map_err(PortError::new)
    }

    fn row(&self, job: JobId) -> Result<Option<Row>, PortError> {
        let business = self.table.columns().iter();
        let business: String = business
            .map(|column| format!(", \"{}\"", column.name))
            .collect();
        let sql = format!("SELECT {COLUMNS}{business} FROM job WHERE job_id = ?1");
        let raw = self.raw();
        let row = raw.query_row(&sql, [job.get()], |row| self.decode(job, row));
        row.optional().map_err(PortError::new)?.transpose()
    }

    fn ids(&self) -> Result<Vec<JobId>, PortError> {
        let raw = self.raw();
        let mut statement = raw
            .prepare("SELECT job_id FROM job ORDER BY job_id")
            .map_err(PortError::new)?;
        let ids = statement.query_map([], |row| row.get(0).map(JobId::new));
        ids.and_then(Iterator::collect).map_err(PortError::new)
    }

    fn count(&self, sister: &str) -> Result<u64, PortError> {
        if !["dedup", "effect", "queue", "failure"].contains(&sister) {
            return Err(PortError::new(format!(
                "there is no sister table `{sister}`"
            )));
        }
        let sql = format!("SELECT COUNT(*) FROM job_{sister}");
        let count = self.raw().query_row(&sql, [], |row| row.get::<_, i64>(0));
        u64::try_from(count.map_err(PortError::new)?).map_err(PortError::new)
    }

    /// Before the first job there is no row to move on.
    fn skip_to(&self, id: JobId) -> Result<(), PortError> {
        let raw = self.raw();
        let moved = raw
            .execute("DELETE FROM sqlite_sequence WHERE name = 'job'", [])
            .and_then(|_| {
                let sql = "INSERT INTO sqlite_sequence (name, seq) VALUES ('job', ?1)";
                raw.execute(sql, [id.get() - 1])
            });
        moved.map(drop).map_err(PortError::new)
    }

    fn set_version(&self, version: u32) -> Result<(), PortError> {
        let sql = format!("INSERT INTO job_schema (version, applied_at) VALUES (?1, {NOW})");
        let stored = self.raw().execute(&sql, [version]);
        stored.map(drop).map_err(PortError::new)
    }

    fn rewind(&self, job: JobId, by: Duration) -> Result<(), PortError> {
        let micros = i64::try_from(by.as_micros()).map_err(PortError::new)?;
        let sql = "UPDATE job
            SET run_at = run_at - ?1, lease_until = lease_until - ?1, enqueued_at = enqueued_at - ?1,
              claimed_at = claimed_at - ?1, finished_at = finished_at - ?1
            WHERE job_id = ?2";
        match self.update(sql, &[Value::Integer(micros), Value::Integer(job.get())])? {
            Written::Stored => Ok(()),
            refused => Err(PortError::new(format!("rewind: {refused:?}"))),
        }
    }

    fn write(&self, job: JobId, changes: &[Change]) -> Result<Written, PortError> {
        let mut values = vec![Value::Integer(job.get())];
        let mut assignments = Vec::new();
        for change in changes {
            let (assignment, value) = assignment(change);
            values.push(value);
            assignments.push(assignment.replace('?', &format!("?{}", values.len())));
        }
        let sql = format!(
            "UPDATE job SET {} WHERE job_id = ?1",
            assignments.join(", ")
        );
        let past_the_rules = changes.contains(&Change::Undecodable);
        let ignore = |ignore: bool| {
            let pragma = self
                .raw()
                .pragma_update(None, "ignore_check_constraints", ignore);
            pragma.map_err(PortError::new)
        };
        ignore(past_the_rules)?;
        let written = self.update(&sql, &values);
        ignore(false)?;
        written
    }

    fn delete(&self, job: JobId) -> Result<(), PortError> {
        let deleted = self
            .raw()
            .execute("DELETE FROM job WHERE job_id = ?1", [job.get()]);
        match deleted.map_err(PortError::new)? {
            1 => Ok(()),
            rows => Err(PortError::new(format!("the delete found {rows} rows"))),
        }
    }

    /// Holds the file's one writer: there are no locks on rows.
    fn hold(&self, job: JobId, hold: Duration) -> Result<Held, PortError> {
        let connection = open(&self.file)?;
        let (held, wait) = mpsc::channel();
        let thread = thread::spawn(move || {
            let locked = connection.execute_batch("BEGIN IMMEDIATE").and_then(|()| {
                connection.query_row("SELECT 1 FROM job WHERE job_id = ?1", [job.get()], |_| {
                    Ok(())
                })
            });
            let failed = locked.is_err();
            held.send(locked.map_err(PortError::new))
                .map_err(PortError::new)?;
            if !failed {
                thread::sleep(hold);
            }
            connection.execute_batch("ROLLBACK").map_err(PortError::new)
        });
        wait.recv().map_err(PortError::new)??;
        Ok(Held::by(thread))
    }

    fn effect_in(&self, tx: &mut Transaction<'_>, text: &str) -> Result<(), PortError> {
        let stored = tx.execute("INSERT INTO test_effect (effect) VALUES (?1)", [text]);
        stored.map(drop).map_err(PortError::new)
    }

    fn effects(&self) -> Result<Vec<String>, PortError> {
        let raw = self.raw();
        let mut statement = raw
            .prepare("SELECT effect FROM test_effect ORDER BY position")
            .map_err(PortError::new)?;
        let effects = statement.query_map([], |row| row.get(0));
        effects.and_then(Iterator::collect).map_err(PortError::new)
    }

    fn reference(&self, job: JobId) -> Result<(), PortError> {
        let stored = self.raw().execute(
            "INSERT INTO test_reference (job_id) VALUES (?1)",
            params![job.get()],
        );
        stored.map(drop).map_err(PortError::new)
    }
}

/// One column's assignment with `?` for its value.
fn assignment(change: &Change) -> (String, Value) {
    let text = |text: &str| Value::Text(text.to_owned());
    let from_now = |column: &str, micros: Option<i64>| {
        let value = micros.map_or(Value::Null, Value::Integer);
        (format!("{column} = {NOW} + ?"), value)
    };
    let (assignment, value) = match change {
        Change::State(word) => ("state = ?", text(word)),
        Change::Attempts(number) => ("attempts = ?", Value::Integer(*number)),
        Change::MaxAttempts(number) => ("max_attempts = ?", Value::Integer(*number)),
        Change::Priority(number) => ("priority = ?", Value::Integer((*number).into())),
        Change::PayloadVersion(number) => ("payload_version = ?", Value::Integer((*number).into())),
        Change::WorkerId(worker) => ("worker_id = ?", worker.map_or(Value::Null, text)),
        Change::LeaseUntil(micros) => return from_now("lease_until", *micros),
        Change::RunAt(micros) => return from_now("run_at", Some(*micros)),
        Change::FinishedAt(micros) => return from_now("finished_at", *micros),
        Change::Payload(payload) => ("payload = ?", text(payload)),
        Change::Undecodable => ("payload = CAST(? AS TEXT)", Value::Blob(vec![0xff])),
    };
    (assignment.to_owned(), value)
}
