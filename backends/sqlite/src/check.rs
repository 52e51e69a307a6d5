//! What `check` looks at.

use queue_table_core::{Finding, Result, Severity};
use rusqlite::Connection;

use crate::SCHEMA_VERSION;
use crate::error::map;
use crate::migrate::version;
use crate::queue::Tables;

/// The indexes that the statements need, by their suffix, and what is slow without them.
const INDEXES: [(&str, &str); 5] = [
    ("ready", "every claim reads the whole table"),
    ("lease", "every reap reads the whole table"),
    ("exhausted", "every reap reads the whole table"),
    ("retention", "every purge reads the whole table"),
    ("dedup_job", "every purged job reads all dedup keys"),
];

/// Looks at the library, the writing connection and the tables.
pub(crate) fn check(connection: &Connection, tables: &Tables) -> Result<Vec<Finding>> {
    let mut findings = vec![finding(
        Severity::Info,
        "version",
        format!("SQLite {}", rusqlite::version()),
    )];
    findings.extend(settings(connection).map_err(map("check"))?);
    let schema = schema(version(connection, tables, "check")?);
    let usable = schema.severity == Severity::Info;
    findings.push(schema);
    if usable {
        findings.extend(indexes(connection, tables).map_err(map("check"))?);
        findings.extend(columns(connection, tables).map_err(map("check"))?);
    }
    Ok(findings)
}

fn finding(severity: Severity, subject: impl Into<String>, text: impl Into<String>) -> Finding {
    Finding {
        severity,
        subject: subject.into(),
        text: text.into(),
    }
}

fn settings(connection: &Connection) -> rusqlite::Result<Vec<Finding>> {
    let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    let synchronous: i64 = connection.pragma_query_value(None, "synchronous", |row| row.get(0))?;
    let foreign_keys: bool =
        connection.pragma_query_value(None, "foreign_keys", |row| row.get(0))?;
    Ok(vec![
        judge(
            mode == "wal",
            "journal_mode",
            mode,
            "readers and the writer block each other; run `PRAGMA journal_mode = WAL` on a local file system",
        ),
        judge(
            synchronous >= 2,
            "synchronous",
            synchronous.to_string(),
            "a power failure can undo commits; leave it at FULL",
        ),
        judge(
            foreign_keys,
            "foreign_keys",
            if foreign_keys { "on" } else { "off" }.to_owned(),
            "a purge can delete jobs that your rows reference",
        ),
    ])
}

fn judge(good: bool, subject: &str, found: String, otherwise: &str) -> Finding {
    if good {
        finding(Severity::Info, subject, found)
    } else {
        finding(Severity::Warning, subject, format!("{found}: {otherwise}"))
    }
}

fn schema(found: Option<u32>) -> Finding {
    let (severity, text) = match found {
        None => (
            Severity::Fatal,
            "there are no tables: run `migrate`".to_owned(),
        ),
        Some(SCHEMA_VERSION) => (Severity::Info, format!("version {SCHEMA_VERSION}")),
        Some(found) => (
            Severity::Fatal,
            format!(
                "version {found}, this build needs {SCHEMA_VERSION}: run `migrate`, or update the program"
            ),
        ),
    };
    finding(severity, "schema", text)
}

fn indexes(connection: &Connection, tables: &Tables) -> rusqlite::Result<Vec<Finding>> {
    let mut exists = connection.prepare(
        "SELECT EXISTS (SELECT 1 FROM main.sqlite_schema WHERE type = 'index' AND name = ?1)",
    )?;
    let mut missing = Vec::new();
    for (suffix, otherwise) in INDEXES {
        let index = tables.table.sister(suffix);
        if !exists.query_row([&index], |row| row.get::<_, bool>(0))? {
            let text =
                format!("the index is missing: {otherwise}; create it as the migration does");
            missing.push(finding(Severity::Warning, index, text));
        }
    }
    Ok(missing)
}

fn columns(connection: &Connection, tables: &Tables) -> rusqlite::Result<Vec<Finding>> {
    let mut exists = connection
        .prepare("SELECT EXISTS (SELECT 1 FROM pragma_table_info(?1, 'main') WHERE name = ?2)")?;
    let mut missing = Vec::new();
    for column in tables.table.columns() {
        let params = [tables.table.name(), column.name.as_str()];
        if !exists.query_row(params, |row| row.get::<_, bool>(0))? {
            let text = "the queue was built with this business column, but the table does not have it; \
                        add it in a migration of your own";
            missing.push(finding(Severity::Fatal, column.name.as_str(), text));
        }
    }
    Ok(missing)
}
