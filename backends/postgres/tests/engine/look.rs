//! The looks of an idle worker: what they read, and what they leave to the operation itself.

use diesel::connection::SimpleConnection;
use diesel::pg::PgConnection;
use diesel::prelude::*;
use queue_table_core::{
    Accepts, BatchSize, Error, Kind, QueueBackend, QueueBackendExt, ReapRequest, RetryPolicy,
};

use crate::plan::{GENERIC, counted, fill};
use crate::support::{MINUTE, Role, Tables, job, request, text, with_settings};

const CLAIM_PROBES: [&str; 2] = [
    include_str!("../../sql/claim_probe.sql"),
    include_str!("../../sql/claim_probe_stepping.sql"),
];

const REAP_PROBE: &str = include_str!("../../sql/reap_probe.sql");

/// Prepares a look as `look`.
fn prepare(raw: &mut PgConnection, file: &str) {
    let file = file
        .replace("{job}", "job")
        .replace("{job_queue}", "job_queue");
    raw.batch_execute(&format!("DEALLOCATE ALL; PREPARE look AS {file}"))
        .unwrap();
}

/// What the look says: `true`, `false` or `NULL`.
fn say(raw: &mut PgConnection, params: &str) -> String {
    raw.batch_execute(&format!(
        "DROP TABLE IF EXISTS pg_temp.said; CREATE TEMPORARY TABLE said AS EXECUTE look{params}"
    ))
    .unwrap();
    text(raw, "SELECT COALESCE(\"case\"::TEXT, 'NULL') FROM said")
}

const ANY: &str = "('mail', NULL, NULL, NULL)";

/// Both texts, whichever this server's claims would take.
#[test]
fn a_look_sees_what_a_claim_would_take_and_nothing_else() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let mut raw = tables.raw();
    let kinds = |kind: &str, lowest: u16| {
        format!("('mail', ARRAY['{kind}'], ARRAY[{lowest}], ARRAY[{lowest}])")
    };
    for probe in CLAIM_PROBES {
        prepare(&mut raw, probe);
        tables.run("DELETE FROM job");
        let future = job().with_priority(9).with_delay(MINUTE).unwrap();
        tables.queue.enqueue_one(&future).unwrap();
        assert_eq!(say(&mut raw, ANY), "false");
        let due = tables.queue.enqueue_one(&job()).unwrap().job_id();
        assert_eq!(say(&mut raw, ANY), "true");
        assert_eq!(say(&mut raw, "('other', NULL, NULL, NULL)"), "false");
        let version = job().payload_version();
        assert_eq!(say(&mut raw, &kinds("welcome", version)), "true");
        assert_eq!(say(&mut raw, &kinds("welcome", version + 1)), "false");
        assert_eq!(say(&mut raw, &kinds("other", version)), "false");
        let none = "('mail', ARRAY[]::TEXT[], ARRAY[]::INTEGER[], ARRAY[]::INTEGER[])";
        assert_eq!(say(&mut raw, none), "false");
        tables.run("INSERT INTO job_queue (queue, paused_at) VALUES ('mail', now())");
        assert_eq!(say(&mut raw, ANY), "false");
        tables.run("DELETE FROM job_queue");
        tables.run(&format!(
            "UPDATE job SET attempts = max_attempts WHERE job_id = {due}"
        ));
        assert_eq!(say(&mut raw, ANY), "false");
        prepare(&mut raw, REAP_PROBE);
        assert_eq!(say(&mut raw, ""), "true");
    }
    tables.run("DELETE FROM job");
    assert_eq!(say(&mut raw, ""), "false");
    tables.claimed(MINUTE);
    assert_eq!(say(&mut raw, ""), "false");
    tables.run("UPDATE job SET lease_until = clock_timestamp()");
    assert_eq!(say(&mut raw, ""), "true");
}

#[test]
fn a_look_says_nothing_at_serializable_and_where_nothing_can_be_written() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let mut raw = tables.raw();
    for (probe, params) in [
        (CLAIM_PROBES[0], ANY),
        (CLAIM_PROBES[1], ANY),
        (REAP_PROBE, ""),
    ] {
        prepare(&mut raw, probe);
        for (mode, said) in [
            ("ISOLATION LEVEL SERIALIZABLE", "NULL"),
            ("ISOLATION LEVEL REPEATABLE READ", "false"),
        ] {
            raw.batch_execute(&format!("BEGIN {mode}")).unwrap();
            assert_eq!(say(&mut raw, params), said);
            raw.batch_execute("ROLLBACK").unwrap();
        }
        // No table can be made here.
        raw.batch_execute("BEGIN READ ONLY").unwrap();
        let row: Vec<Said> = diesel::sql_query(format!("EXECUTE look{params}"))
            .load(&mut raw)
            .unwrap();
        assert_eq!(row.len(), 1);
        assert_eq!(row[0].case, None);
        raw.batch_execute("ROLLBACK").unwrap();
    }
}

#[derive(QueryableByName)]
struct Said {
    #[diesel(sql_type = diesel::sql_types::Nullable<diesel::sql_types::Bool>)]
    case: Option<bool>,
}

/// Ten looks of each kind, and how many entries of the ready index they read.
fn read_by_looks(tables: &Tables) -> i64 {
    let before = counted(tables);
    let mut raw = PgConnection::establish(&with_settings(&tables.url, &GENERIC)).unwrap();
    raw.batch_execute(&format!("SET search_path = {}, public", tables.schema))
        .unwrap();
    for (probe, params) in [
        (CLAIM_PROBES[0], ANY),
        (CLAIM_PROBES[1], ANY),
        (REAP_PROBE, ""),
    ] {
        // Before version 18 the first text is no claim's.
        let is_skipping = text(&mut raw, "SELECT current_setting('server_version_num')")
            .parse::<u32>()
            .unwrap()
            >= 180_000;
        if probe == CLAIM_PROBES[0] && !is_skipping {
            continue;
        }
        prepare(&mut raw, probe);
        for _ in 0..10 {
            assert_eq!(say(&mut raw, params), "false");
        }
    }
    drop(raw);
    let after = counted(tables);
    assert_eq!(after.0, before.0, "the job table was scanned as a whole");
    assert!(after.1 > before.1, "the ready index was not used");
    after.2 - before.2
}

#[test]
fn a_look_reads_no_future_and_no_finished_rows() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    fill(&tables, 100_000, 0, 200_000);
    let read = read_by_looks(&tables);
    assert!(read < 1_000, "{read} entries of the ready index were read");
}

#[test]
fn a_look_is_planned_well_where_statistics_say_that_all_rows_are_due() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    tables.run("ALTER TABLE job SET (autovacuum_enabled = off)");
    fill(&tables, 0, 50_000, 0);
    // Which keeps the statistics of the columns, and leaves no dead rows.
    tables.run(
        "TRUNCATE job;
         INSERT INTO job (queue, kind, payload, payload_version, state, finished_at)
           SELECT 'mail', 'welcome', '{}', 1, 'succeeded', clock_timestamp() FROM generate_series(1, 50000)",
    );
    let read = read_by_looks(&tables);
    assert!(read < 1_000, "{read} entries of the ready index were read");
}

#[test]
fn a_look_is_planned_well_where_statistics_say_that_the_table_is_empty() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    tables.run("ALTER TABLE job SET (autovacuum_enabled = off)");
    tables.run("VACUUM (ANALYZE) job");
    tables.run(
        "INSERT INTO job (queue, kind, payload, payload_version, priority, run_at)
           SELECT 'mail', 'welcome', '{}', 1, 1 + n % 10, clock_timestamp() + INTERVAL '1 day'
           FROM generate_series(1, 50000) AS n",
    );
    let read = read_by_looks(&tables);
    assert!(read < 1_000, "{read} entries of the ready index were read");
}

/// Sessions that died, and servers that take no writes any more.
#[test]
fn a_queue_that_was_empty_is_not_taken_for_empty_when_the_database_fails() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let role = Role::fresh(
        &tables.url,
        &format!(
            "GRANT ALL ON SCHEMA {0} TO {{role}};
             GRANT ALL ON ALL TABLES IN SCHEMA {0} TO {{role}};",
            tables.schema
        ),
    );
    let queue = tables.queue_at(&role.url());
    let reap = ReapRequest::new(BatchSize::MAX, RetryPolicy::default());
    let kill = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = '{}'",
        role.name
    );
    for _ in 0..2 {
        for _ in 0..2 {
            assert!(queue.claim(&request(1, MINUTE)).unwrap().is_empty());
            assert!(queue.reap(&reap).unwrap().is_empty());
        }
        assert_eq!(tables.number(&kill), 1);
    }
    let claim_and_reap = || {
        let claimed = queue.claim(&request(1, MINUTE)).map(|jobs| jobs.len());
        (claimed, queue.reap(&reap).map(|reaped| reaped.len()))
    };
    tables.run(&format!(
        "ALTER ROLE {} SET default_transaction_read_only = on",
        role.name
    ));
    let told = claim_and_reap();
    assert!(
        matches!(
            told,
            (
                Err(Error::Unavailable(_)),
                Ok(0) | Err(Error::Unavailable(_))
            )
        ),
        "{told:?}"
    );
    tables.run(&format!(
        "ALTER ROLE {} RESET default_transaction_read_only",
        role.name
    ));
    assert!(matches!(claim_and_reap(), (Ok(0), Ok(0))));
    tables.run("DROP TABLE job CASCADE");
    let told = claim_and_reap();
    assert!(
        matches!(told, (Err(Error::Schema { .. }), Err(Error::Schema { .. }))),
        "{told:?}"
    );
}

#[test]
fn a_job_enqueued_after_an_empty_claim_is_claimed_by_the_next() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let accepts = Accepts::from([(Kind::new("welcome").unwrap(), 0..=9)]);
    let accepting = request(5, MINUTE).accepting(accepts);
    for level in ["read committed", "repeatable read", "serializable"] {
        let setting = [("default_transaction_isolation", level)];
        let queue = tables.queue_at(&with_settings(&tables.url, &setting));
        for request in [&request(5, MINUTE), &accepting] {
            for _ in 0..2 {
                assert!(queue.claim(request).unwrap().is_empty(), "{level}");
                tables.enqueue(2);
                assert_eq!(queue.claim(request).unwrap().len(), 2, "{level}");
            }
        }
    }
}
