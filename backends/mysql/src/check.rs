//! What would break or slow the queue: the server, its settings, the tables.

use std::collections::HashMap;

use mysql::Conn;
use mysql::prelude::Queryable;
use queue_table_core::{Error, Finding, PAYLOAD_BYTES_MAX, QueueBackend, Result, Severity};

use crate::error::failed;
use crate::migrate::{self, VERSION};
use crate::queue::MysqlQueue;
use crate::server::Server;
use crate::sql::Statements;

const OPERATION: &str = "check";

/// The indexes a claim, a reap and a purge depend on: columns with their direction, A for up and D
/// for down.
const INDEXES: [(&str, &str); 3] = [
    ("ready", "state A, queue A, priority D, run_at A, job_id A"),
    ("lease", "_reap_at A, job_id A"),
    ("retention", "state A, finished_at A, job_id A"),
];

/// CHECK constraints of the job table.
const CHECKS: i64 = 5;

/// Looks at everything. What it finds is the answer; only a server that cannot be asked is an
/// error.
pub(crate) fn check(queue: &MysqlQueue) -> Result<Vec<Finding>> {
    queue
        .connections
        .pooled(queue.engine(), OPERATION, |connection| {
            let session = connection.session();
            // Asked anew, and not as the first connection found it: settings change.
            let server = Server::ask(session)?;
            let mut findings = vec![info(
                "version",
                format!("{} {}", server.flavour.engine(), server.version),
            )];
            if let Err(Error::Unsupported { lacks, .. }) = server.check_supported() {
                findings.push(fatal("server", lacks));
                return Ok(findings);
            }
            settings(&server, &mut findings);
            let sql = &queue.known(session)?.sql;
            tables(session, sql, &mut findings)?;
            Ok(findings)
        })
}

fn info(subject: &str, text: impl Into<String>) -> Finding {
    finding(Severity::Info, subject, text)
}

fn warning(subject: &str, text: impl Into<String>) -> Finding {
    finding(Severity::Warning, subject, text)
}

fn fatal(subject: &str, text: impl Into<String>) -> Finding {
    finding(Severity::Fatal, subject, text)
}

fn finding(severity: Severity, subject: &str, text: impl Into<String>) -> Finding {
    Finding {
        severity,
        subject: subject.to_owned(),
        text: text.into(),
    }
}

fn settings(server: &Server, findings: &mut Vec<Finding>) {
    let isolation = match server.variable("transaction_isolation") {
        "" => server.variable("tx_isolation"),
        level => level,
    };
    findings.push(info(
        "transaction_isolation",
        format!("{isolation}; the queue's own transactions run at READ COMMITTED whatever it is"),
    ));
    findings.push(info(
        "time_zone",
        format!(
            "{}; the queue uses UTC whatever it is",
            server.variable("time_zone")
        ),
    ));
    if !server.variable("sql_mode").contains("STRICT_") {
        findings.push(warning(
            "sql_mode",
            "not strict: the queue's own values fit, business columns may be cut silently",
        ));
    }
    for name in ["read_only", "super_read_only", "innodb_read_only"] {
        if server.is_on(name) {
            findings.push(fatal(
                name,
                "the server takes no writes; connect to the primary",
            ));
        }
    }
    durability(server, findings);
    if server.variable("innodb_deadlock_detect") == "OFF" {
        findings.push(warning(
            "innodb_deadlock_detect",
            "OFF: a deadlock is found only when a lock wait times out",
        ));
    }
    let packet = server.number("max_allowed_packet");
    // A payload as JSON text may be twice as long.
    if packet < 2 * PAYLOAD_BYTES_MAX as u64 + 65_536 {
        findings.push(warning(
            "max_allowed_packet",
            format!("{packet} bytes: payloads of 1 MiB need 4 MiB"),
        ));
    }
}

fn durability(server: &Server, findings: &mut Vec<Finding>) {
    if server.variable("innodb_flush_log_at_trx_commit") != "1" {
        findings.push(warning(
            "innodb_flush_log_at_trx_commit",
            "not 1: a crash of the server may undo commits, and give an attempt out twice",
        ));
    }
    if server.is_on("log_bin") && server.variable("sync_binlog") != "1" {
        findings.push(warning(
            "sync_binlog",
            "not 1: after a crash of the server its replicas may lack committed jobs",
        ));
    }
}

fn tables(session: &mut Conn, sql: &Statements, findings: &mut Vec<Finding>) -> Result<()> {
    match migrate::found(session, sql)? {
        Some(VERSION) => findings.push(info("schema", format!("version {VERSION}"))),
        Some(other) => findings.push(fatal(
            "schema",
            format!("version {other}; this build needs {VERSION}"),
        )),
        None => {
            findings.push(fatal("schema", "no tables; run the migration"));
            return Ok(());
        }
    }
    let name = sql.table.name();
    let at = (sql.table.schema(), name);
    storage(session, sql, findings)?;
    let found: Vec<(String, String)> = session
        .exec(sql.check_indexes(), at)
        .map_err(failed(sql.engine, OPERATION))?;
    let found: HashMap<String, String> = found.into_iter().collect();
    for (suffix, columns) in INDEXES {
        let index = format!("{name}_{suffix}");
        match found.get(&index) {
            Some(there) if there == columns => {}
            Some(there) => findings.push(fatal(
                &index,
                format!("has ({there}); ({columns}) is needed"),
            )),
            None => findings.push(fatal(&index, format!("is missing; ({columns}) is needed"))),
        }
    }
    let collations: Vec<(String, String)> = session
        .exec(sql.check_columns(), at)
        .map_err(failed(sql.engine, OPERATION))?;
    for (column, collation) in collations {
        if ["queue", "kind", "state", "worker_id"].contains(&column.as_str())
            && !is_exact(&collation)
        {
            findings.push(fatal(
                &format!("{name}.{column}"),
                format!("collation {collation} takes different names for equal"),
            ));
        }
    }
    Ok(())
}

/// MariaDB also tells its binary collation by the name of a newer one.
fn is_exact(collation: &str) -> bool {
    matches!(collation, "utf8mb4_0900_bin" | "utf8mb4_nopad_bin")
}

fn storage(session: &mut Conn, sql: &Statements, findings: &mut Vec<Finding>) -> Result<()> {
    let (schema, name) = (sql.table.schema(), sql.table.name());
    let table: Option<(String, i64)> = session
        .exec_first(sql.check_tables(), (schema, name, schema, name))
        .map_err(failed(sql.engine, OPERATION))?;
    let Some((engine, checks)) = table else {
        return Ok(());
    };
    if !engine.eq_ignore_ascii_case("InnoDB") {
        findings.push(fatal(
            name,
            format!("storage engine {engine}; InnoDB is needed for transactions and row locks"),
        ));
    }
    if checks < CHECKS {
        findings.push(fatal(
            name,
            format!("{checks} CHECK constraints of {CHECKS}; malformed rows would be taken"),
        ));
    }
    Ok(())
}
