//! What would break or slow the queue on this server: `check`.

use queue_table_core::{Column, Finding, Result, Severity, Table};

use crate::SCHEMA_VERSION;
use crate::connection::{Client, rows};
use crate::decode::Cells;
use crate::migrate;
use crate::sql::Statements;

/// SQL Server 2019.
const MAJOR_MIN: u32 = 15;

/// OPENJSON and DATEDIFF_BIG.
const COMPATIBILITY_MIN: u32 = 130;

/// Azure SQL Database and Managed Instance: always current, whatever their version number says.
const AZURE_EDITIONS: [&str; 2] = ["5", "8"];

/// Bits of `@@OPTIONS`.
const NOCOUNT: u32 = 512;
const XACT_ABORT: u32 = 16_384;

/// READ COMMITTED, as `sys.dm_exec_sessions` numbers it.
const READ_COMMITTED: &str = "2";

/// What the server told about itself: subject and value, some subjects many times.
pub(crate) struct Facts(Vec<(String, Option<String>)>);

impl Facts {
    pub(crate) async fn read(client: &mut Client, sql: &Statements) -> Result<Self> {
        let found = rows(client, "check", &sql.check, &[]).await?;
        let fact = |row| {
            let row = Cells::of(row, "check");
            let value = row.text("value")?.map(str::to_owned);
            Ok((row.string("subject")?.to_owned(), value))
        };
        found.iter().map(fact).collect::<Result<_>>().map(Self)
    }

    fn all<'a>(&'a self, subject: &'a str) -> impl Iterator<Item = &'a str> {
        let found = self.0.iter().filter(move |(name, _)| name == subject);
        found.filter_map(|(_, value)| value.as_deref())
    }

    fn one(&self, subject: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(name, _)| name == subject)
            .and_then(|(_, value)| value.as_deref())
    }

    fn number(&self, subject: &str) -> Option<u32> {
        self.one(subject)?.parse().ok()
    }
}

/// What the server or its database is too old for.
pub(crate) fn too_old(facts: &Facts) -> Option<String> {
    let version = facts.one("version")?;
    let major = version
        .split('.')
        .next()
        .and_then(|major| major.parse().ok());
    let azure = facts
        .one("engine_edition")
        .is_some_and(|edition| AZURE_EDITIONS.contains(&edition));
    if !azure && major.is_some_and(|major: u32| major < MAJOR_MIN) {
        return Some(format!(
            "the server is {version}; SQL Server 2019 (15.0) or newer is needed"
        ));
    }
    let level = facts.number("compatibility_level")?;
    (level < COMPATIBILITY_MIN).then(|| {
        format!(
            "the database's compatibility level is {level}; {COMPATIBILITY_MIN} or more is needed"
        )
    })
}

pub(crate) async fn check(client: &mut Client, sql: &Statements) -> Result<Vec<Finding>> {
    let facts = Facts::read(client, sql).await?;
    let version = migrate::version(client, sql, "check").await?;
    let mut findings = server(&facts);
    findings.extend(session(&facts));
    findings.extend(ledger(version));
    if version.is_some() {
        findings.extend(tables(&facts, &sql.table));
    }
    Ok(findings)
}

fn finding(severity: Severity, subject: &str, text: impl Into<String>) -> Finding {
    Finding {
        severity,
        subject: subject.to_owned(),
        text: text.into(),
    }
}

fn server(facts: &Facts) -> Vec<Finding> {
    let version = facts.one("version").unwrap_or("unknown");
    let mut findings = vec![match too_old(facts) {
        Some(lacks) => finding(Severity::Fatal, "version", lacks),
        None => finding(Severity::Info, "version", version),
    }];
    if facts.one("read_only") == Some("1") {
        let text = "the database is read-only: nothing can be enqueued or claimed";
        findings.push(finding(Severity::Fatal, "read_only", text));
    }
    for (subject, on, off) in [
        (
            "read_committed_snapshot",
            "on: claims read committed rows under locks all the same (READCOMMITTEDLOCK)",
            "off: reads of operators may wait for writers for a moment",
        ),
        (
            "optimized_locking",
            "on: the lock hints of a claim force row locks to the end of its transaction, as the queue needs",
            "off",
        ),
    ] {
        let text = match facts.one(subject) {
            Some("1") => on,
            Some(_) => off,
            None => "unknown to this server",
        };
        findings.push(finding(Severity::Info, subject, text));
    }
    findings
}

fn session(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if facts
        .one("isolation_level")
        .is_some_and(|level| level != READ_COMMITTED)
    {
        let text = "the session is not at READ COMMITTED; claims fail with error 650 at SNAPSHOT and SERIALIZABLE";
        findings.push(finding(Severity::Fatal, "isolation_level", text));
    }
    let options = facts.number("set_options").unwrap_or(XACT_ABORT | NOCOUNT);
    for (bit, name, why) in [
        (
            XACT_ABORT,
            "XACT_ABORT",
            "an error would leave a transaction half done",
        ),
        (
            NOCOUNT,
            "NOCOUNT",
            "every statement would send a count that nobody reads",
        ),
    ] {
        if options & bit == 0 {
            let text = format!("{name} is off in the session: {why}");
            findings.push(finding(Severity::Warning, "set_options", text));
        }
    }
    findings
}

fn ledger(version: Option<u32>) -> Vec<Finding> {
    let text = match version {
        Some(version) if version == SCHEMA_VERSION => {
            return vec![finding(
                Severity::Info,
                "schema",
                format!("version {version}"),
            )];
        }
        Some(version) => {
            format!("the tables are of version {version}, this build needs {SCHEMA_VERSION}")
        }
        None => "there are no tables: run migrate".to_owned(),
    };
    vec![finding(Severity::Fatal, "schema", text)]
}

fn tables(facts: &Facts, table: &Table) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (severity, subject, says) in [
        (
            Severity::Fatal,
            "trigger",
            "is an enabled trigger on the job table: OUTPUT fails with error 334. Disable it",
        ),
        (
            Severity::Fatal,
            "row_locks_off",
            "takes no row locks: a claim would hold up all others. ALTER INDEX ... SET (ALLOW_ROW_LOCKS = ON)",
        ),
        (
            Severity::Fatal,
            "constraint_off",
            "is disabled: the table takes malformed rows. ALTER TABLE ... CHECK CONSTRAINT",
        ),
        (
            Severity::Warning,
            "page_locks",
            "may take page locks, which claims wait for. ALTER INDEX ... SET (ALLOW_PAGE_LOCKS = OFF)",
        ),
        (
            Severity::Warning,
            "filtered_index",
            "is filtered: writers with other SET options (sqlcmd without -I) fail with error 1934",
        ),
    ] {
        let found = facts.all(subject);
        findings.extend(found.map(|name| finding(severity, subject, format!("{name} {says}"))));
    }
    for suffix in ["pk", "ready", "lease", "retention"] {
        let name = format!("{}_{suffix}", table.name());
        if !facts.all("index").any(|index| index == name) {
            let text = format!("{name} is missing or disabled: the queue works, and scans");
            findings.push(finding(Severity::Warning, "index", text));
        }
    }
    let missing = |column: &&Column| !facts.all("column").any(|name| name == column.name.as_str());
    for column in table.columns().iter().filter(missing) {
        let text = format!(
            "the job table has no column {}: add it by a migration of your own",
            column.name
        );
        findings.push(finding(Severity::Fatal, "column", text));
    }
    findings
}

#[cfg(test)]
mod tests {
    use queue_table_core::ColumnType;

    use super::*;

    fn facts(given: &[(&str, &str)]) -> Facts {
        let given = given.iter();
        Facts(
            given
                .map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned())))
                .collect(),
        )
    }

    fn worst(findings: &[Finding]) -> Vec<(&str, Severity)> {
        let bad = findings
            .iter()
            .filter(|finding| finding.severity > Severity::Info);
        bad.map(|finding| (finding.subject.as_str(), finding.severity))
            .collect()
    }

    #[test]
    fn a_server_or_database_that_is_too_old_is_fatal_and_azure_is_never() {
        let level = ("compatibility_level", "150");
        let old = facts(&[("version", "14.0.3456.2"), ("engine_edition", "3"), level]);
        assert!(too_old(&old).unwrap().contains("14.0.3456.2"));
        let azure = facts(&[("version", "12.0.2000.8"), ("engine_edition", "5"), level]);
        assert_eq!(too_old(&azure), None);
        let level = facts(&[("version", "16.0.1000.6"), ("compatibility_level", "120")]);
        assert_eq!(worst(&server(&level)), [("version", Severity::Fatal)]);
    }

    #[test]
    fn what_breaks_a_claim_is_fatal_and_what_slows_it_is_a_warning() {
        let found = facts(&[
            ("trigger", "audit"),
            ("page_locks", "job_ready"),
            ("constraint_off", "job_state"),
            ("index", "job_pk"),
            ("index", "job_ready"),
            ("index", "job_lease"),
            ("column", "job_id"),
        ]);
        let table = Table::default()
            .with_column("order_id", ColumnType::Integer)
            .unwrap();
        let expected = [
            ("trigger", Severity::Fatal),
            ("constraint_off", Severity::Fatal),
            ("page_locks", Severity::Warning),
            ("index", Severity::Warning),
            ("column", Severity::Fatal),
        ];
        assert_eq!(worst(&tables(&found, &table)), expected);
    }

    #[test]
    fn a_session_at_another_level_or_without_its_options_is_told() {
        let good = facts(&[("isolation_level", "2"), ("set_options", "16896")]);
        assert_eq!(worst(&session(&good)), []);
        let bad = facts(&[("isolation_level", "5"), ("set_options", "512")]);
        let expected = [
            ("isolation_level", Severity::Fatal),
            ("set_options", Severity::Warning),
        ];
        assert_eq!(worst(&session(&bad)), expected);
    }

    #[test]
    fn missing_and_foreign_tables_are_fatal() {
        assert_eq!(worst(&ledger(None)), [("schema", Severity::Fatal)]);
        assert_eq!(
            worst(&ledger(Some(SCHEMA_VERSION + 1))),
            [("schema", Severity::Fatal)]
        );
        assert_eq!(worst(&ledger(Some(SCHEMA_VERSION))), []);
    }
}
