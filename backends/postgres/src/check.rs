//! What would break or slow the queue, as far as the server tells.

use diesel::pg::PgConnection;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Integer, Nullable, Text};
use queue_table_core::{Finding, Result, Severity, Table};

use crate::error::failed;
use crate::migrate::{SERVER_VERSION_MIN, VERSION, found_version};
use crate::sql::Names;

/// An open transaction older than this keeps dead rows from being removed, and claims step over
/// them.
const TRANSACTION_AGE_S: i64 = 600;

/// What the server says of itself and the session.
#[derive(QueryableByName)]
struct Server {
    #[diesel(sql_type = Integer)]
    version: i32,
    #[diesel(sql_type = Text)]
    isolation: String,
    #[diesel(sql_type = Text)]
    messages: String,
    #[diesel(sql_type = Text)]
    encoding: String,
    #[diesel(sql_type = Bool)]
    read_only: bool,
    #[diesel(sql_type = Bool)]
    autovacuum: bool,
    #[diesel(sql_type = Nullable<BigInt>)]
    oldest_transaction_s: Option<i64>,
}

/// What the catalog says of the job table.
#[derive(QueryableByName)]
struct Indexes {
    #[diesel(sql_type = Array<Text>)]
    valid: Vec<String>,
    #[diesel(sql_type = Bool)]
    autovacuum: bool,
}

pub(crate) fn check(tx: &mut PgConnection, table: &Table) -> Result<Vec<Finding>> {
    let server: Server = diesel::sql_query(include_str!("../sql/check_server.sql"))
        .get_result(tx)
        .map_err(failed("check"))?;
    let mut findings = of_server(&server);
    let found = found_version(tx, table, "check")?;
    findings.push(of_schema(found));
    if found.is_some() {
        let sql = Names::of(table).put_into(include_str!("../sql/check_table.sql"));
        let indexes: Indexes = diesel::sql_query(sql)
            .get_result(tx)
            .map_err(failed("check"))?;
        findings.extend(of_indexes(table, &indexes));
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

fn of_server(server: &Server) -> Vec<Finding> {
    let mut findings = vec![
        of_version(server.version),
        of_isolation(&server.isolation),
        of_messages(&server.messages),
    ];
    if server.encoding != "UTF8" {
        let text = format!("is {}; text other than ASCII needs UTF8", server.encoding);
        findings.push(finding(Severity::Fatal, "server_encoding", text));
    }
    if server.read_only {
        let text = "the server or the session takes no writes: a standby, or default_transaction_read_only";
        findings.push(finding(Severity::Fatal, "transaction_read_only", text));
    }
    if !server.autovacuum {
        let text = "is off: dead rows pile up at the front of the ready index; turn it on";
        findings.push(finding(Severity::Warning, "autovacuum", text));
    }
    if let Some(age) = server
        .oldest_transaction_s
        .filter(|age| *age > TRANSACTION_AGE_S)
    {
        let text = format!(
            "a transaction has been open for {age} s: no dead row since then can be removed, and claims slow down; \
             find it in pg_stat_activity by xact_start"
        );
        findings.push(finding(Severity::Warning, "oldest transaction", text));
    }
    findings
}

fn of_version(version: i32) -> Finding {
    let text = format!("is {version}");
    if version < SERVER_VERSION_MIN {
        return finding(
            Severity::Fatal,
            "server_version_num",
            format!("{text}; 150000 or later is needed"),
        );
    }
    finding(Severity::Info, "server_version_num", text)
}

fn of_isolation(isolation: &str) -> Finding {
    let subject = "default_transaction_isolation";
    if isolation == "read committed" {
        return finding(Severity::Info, subject, "is read committed");
    }
    let text = format!(
        "is {isolation}: the queue's own transactions are at read committed all the same, but `_in` operations run at \
         yours and may meet serialization failures; run the whole transaction again then"
    );
    finding(Severity::Info, subject, text)
}

fn of_messages(messages: &str) -> Finding {
    let is_english = ["C", "POSIX", ""].contains(&messages)
        || messages.starts_with("en")
        || messages.starts_with("C.")
        || messages.starts_with("English");
    if is_english {
        return finding(Severity::Info, "lc_messages", format!("is `{messages}`"));
    }
    let text = format!(
        "is `{messages}`: deadlocks and timeouts are told apart by the server's English messages, and appear as engine \
         errors that are not tried again; ALTER ROLE .. SET lc_messages = 'C' for the role that the queue connects as"
    );
    finding(Severity::Warning, "lc_messages", text)
}

fn of_schema(found: Option<u32>) -> Finding {
    let subject = "schema version";
    match found {
        Some(VERSION) => finding(Severity::Info, subject, format!("is {VERSION}")),
        Some(found) => {
            let text = format!("is {found}; this build needs {VERSION}");
            finding(Severity::Fatal, subject, text)
        }
        None => finding(Severity::Fatal, subject, "there are no tables: run migrate"),
    }
}

fn of_indexes(table: &Table, indexes: &Indexes) -> Vec<Finding> {
    let mut findings = vec![];
    for suffix in ["ready", "lease", "exhausted", "retention"] {
        let name = table.sister(suffix);
        if !indexes.valid.contains(&name) {
            let text = "is missing or invalid: claims, reaping or purging read the whole table; REINDEX or create it";
            findings.push(finding(Severity::Fatal, &name, text));
        }
    }
    if !indexes.autovacuum {
        let text = "autovacuum is off for the job table: dead rows pile up at the front of the ready index";
        findings.push(finding(Severity::Warning, table.name(), text));
    }
    findings
}
