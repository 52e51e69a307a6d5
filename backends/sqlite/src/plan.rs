//! What the statements cost: their plans, and the steps SQLite takes, which unlike time are the
//! same on every run.

use queue_table_core::Table;
use rusqlite::{Connection, Params, StatementStatus, ToSql, named_params};

use crate::migrate::migrate;
use crate::queue::Tables;

/// A noon in 2026; the statements are given it as their now.
const NOW: i64 = 1_796_126_400_000_000;

const HOUR: i64 = 3_600_000_000;

fn fresh() -> (Connection, Tables) {
    let connection = Connection::open_in_memory().unwrap();
    let tables = Tables::new(Table::default());
    migrate(&connection, &tables).unwrap();
    (connection, tables)
}

/// Inserts so many rows of the queue `mail`.
fn fill(connection: &Connection, rows: i64, state: &str, priority: i32, run_at: i64) {
    let finished = matches!(state, "succeeded" | "dead").then_some(NOW - HOUR);
    let running = state == "running";
    let sql = "WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < :rows)
        INSERT INTO job (queue, kind, payload, payload_version, state, priority, run_at, attempts, max_attempts,
          enqueued_at, worker_id, lease_until, finished_at)
        SELECT 'mail', 'mail.send', '{}', 1, :state, :priority, :run_at, 0, 20, :run_at,
          iif(:running, 'w', NULL), iif(:running, :run_at, NULL), :finished
        FROM number";
    let params = named_params! {
        ":rows": rows, ":state": state, ":priority": priority, ":run_at": run_at,
        ":running": running, ":finished": finished,
    };
    connection.execute(sql, params).unwrap();
}

/// Each step of the plan that reads a table, one per line.
fn plan(connection: &Connection, sql: &str) -> String {
    let mut explain = connection
        .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
        .unwrap();
    let steps = explain.raw_query().mapped(|row| row.get::<_, String>(3));
    steps.collect::<Result<Vec<_>, _>>().unwrap().join("\n")
}

/// The rows found, and the steps that the virtual machine took.
fn steps(connection: &Connection, sql: &str, params: impl Params) -> (usize, i32) {
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map(params, |_| Ok(())).unwrap().count();
    (rows, statement.get_status(StatementStatus::VmStep))
}

/// The rows found, and the steps of the select and of the update of one row.
fn claim_steps(connection: &Connection, tables: &Tables, limit: i64) -> (usize, i32) {
    let select: &[(&str, &dyn ToSql)] = named_params! {
        ":queue": "mail", ":now": NOW, ":accepts": None::<String>, ":limit": limit,
    };
    let (rows, selected) = steps(connection, &tables.sql.claim_select, select);
    let tx = connection.unchecked_transaction().unwrap();
    let update: &[(&str, &dyn ToSql)] = named_params! {
        ":job_id": 1, ":worker": "w", ":now": NOW, ":lease": HOUR,
    };
    let (_, updated) = steps(&tx, &tables.sql.claim, update);
    (rows, selected + updated)
}

#[test]
fn statements_use_their_indexes_and_never_sort_the_table() {
    let (connection, tables) = fresh();
    fill(&connection, 200_000, "succeeded", 0, NOW);
    connection.execute_batch("ANALYZE").unwrap();
    let sql = &tables.sql;
    for (statement, index) in [
        (&sql.claim_select, "job_ready"),
        (&sql.claim_probe, "job_ready"),
        (&sql.reap_select, "job_lease"),
        (&sql.bury_select, "job_exhausted"),
        (&sql.purge_select, "job_retention"),
        (&sql.purge_dedup, "job_dedup_job"),
    ] {
        let plan = plan(&connection, statement);
        let name = format!("INDEX {index}");
        assert!(plan.contains(&name), "{index}:\n{plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{index} sorts:\n{plan}");
        let scans = plan
            .lines()
            .filter(|step| step.starts_with("SCAN main.job"));
        assert!(
            scans.clone().all(|scan| scan.ends_with("job_exhausted")),
            "{plan}"
        );
    }
}

/// A step over one priority costs the same whatever is in it.
const STEPS_PER_PRIORITY_MAX: i32 = 50;

#[test]
fn a_million_future_rows_of_higher_priority_do_not_slow_a_claim() {
    let (connection, tables) = fresh();
    fill(&connection, 200, "ready", 0, NOW - HOUR);
    let before = [1, 100].map(|limit| claim_steps(&connection, &tables, limit));
    fill(&connection, 1_000_000, "ready", 9, NOW + HOUR);
    let after = [1, 100].map(|limit| claim_steps(&connection, &tables, limit));
    for ((found_before, before), (found, after)) in before.into_iter().zip(after) {
        assert_eq!(found, found_before);
        assert!(
            after * 2 <= before * 3,
            "{before} steps before, {after} after"
        );
        assert!(
            after <= before + STEPS_PER_PRIORITY_MAX,
            "{before} steps before, {after} after"
        );
    }
}

#[test]
fn each_distinct_priority_costs_one_step_whatever_is_in_it() {
    let (connection, tables) = fresh();
    fill(&connection, 10, "ready", 0, NOW - HOUR);
    let (_, before) = claim_steps(&connection, &tables, 10);
    for priority in 1..=20 {
        fill(&connection, 1_000, "ready", priority, NOW + HOUR);
    }
    let (found, after) = claim_steps(&connection, &tables, 10);
    assert_eq!(found, 10);
    assert!(
        after <= before + 20 * STEPS_PER_PRIORITY_MAX,
        "{before} steps before, {after} after"
    );
}

#[test]
fn finished_rows_and_other_queues_do_not_slow_a_claim() {
    let (connection, tables) = fresh();
    fill(&connection, 200, "ready", 0, NOW - HOUR);
    let before = claim_steps(&connection, &tables, 100);
    fill(&connection, 200_000, "succeeded", 9, NOW - HOUR);
    fill(&connection, 10_000, "running", 9, NOW - HOUR);
    connection
        .execute(
            "UPDATE job SET queue = 'sms' WHERE job_id > 300 AND job_id <= 100000",
            [],
        )
        .unwrap();
    assert_eq!(claim_steps(&connection, &tables, 100), before);
}

/// The rows promoted, and the steps it took; the transaction is rolled back.
fn promote_steps(connection: &Connection, tables: &Tables, limit: i64) -> (usize, i32) {
    let tx = connection.unchecked_transaction().unwrap();
    let params: &[(&str, &dyn ToSql)] = named_params! {
        ":queue": "mail", ":to": 20, ":now": NOW, ":waited": HOUR / 2, ":limit": limit,
    };
    let mut statement = tx.prepare(&tables.sql.promote).unwrap();
    let promoted = statement.execute(params).unwrap();
    (promoted, statement.get_status(StatementStatus::VmStep))
}

#[test]
fn a_promotion_reads_neither_future_nor_finished_rows_nor_a_whole_backlog() {
    let (connection, tables) = fresh();
    fill(&connection, 200, "ready", 0, NOW - HOUR);
    let (promoted, before) = promote_steps(&connection, &tables, 10);
    assert_eq!(promoted, 10);
    fill(&connection, 100_000, "ready", 9, NOW + HOUR);
    fill(&connection, 100_000, "succeeded", 9, NOW - HOUR);
    fill(&connection, 10_000, "running", 9, NOW - HOUR);
    fill(&connection, 100_000, "ready", 20, NOW - HOUR);
    fill(&connection, 100_000, "ready", 0, NOW - HOUR);
    for analyzed in [false, true] {
        let (promoted, after) = promote_steps(&connection, &tables, 10);
        assert_eq!(promoted, 10);
        assert!(
            after <= before + 2 * STEPS_PER_PRIORITY_MAX,
            "{before} steps before, {after} after, analyzed: {analyzed}"
        );
        connection.execute_batch("ANALYZE").unwrap();
    }
}

#[test]
fn an_empty_poll_of_a_deep_future_costs_little() {
    let (connection, tables) = fresh();
    fill(&connection, 100_000, "ready", 0, i64::MAX / 2);
    let params: &[(&str, &dyn ToSql)] =
        named_params! { ":queue": "mail", ":accepts": None::<String> };
    let (_, probe) = steps(&connection, &tables.sql.claim_probe, params);
    assert!(probe < 200, "{probe} steps");
}
/// SQLite plans a statement anew when a value that it looked at for the plan is bound again, which
/// costs more than most of our statements. It does not look at `+:value`.
#[test]
fn no_statement_is_planned_anew_for_other_values() {
    let (connection, tables) = fresh();
    fill(&connection, 2_000, "ready", 0, NOW - HOUR);
    fill(&connection, 2_000, "dead", 0, NOW - HOUR);
    for analyzed in [false, true] {
        for (name, sql) in tables.sql.all() {
            let mut statement = connection.prepare(sql).unwrap();
            for round in 0..3 {
                statement.clear_bindings();
                for parameter in 1..=statement.parameter_count() {
                    statement.raw_bind_parameter(parameter, round).unwrap();
                }
                let mut rows = statement.raw_query();
                // What these values do is not the question: a constraint may refuse them.
                while let Ok(Some(_)) = rows.next() {}
            }
            let again = statement.get_status(StatementStatus::RePrepare);
            assert_eq!(again, 0, "{name}, analyzed: {analyzed}");
        }
        connection.execute_batch("ANALYZE").unwrap();
    }
}
