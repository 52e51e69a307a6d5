//! Migrations: many at once, by diesel's ledger, by hand, and from a newer build.

use std::thread;

use diesel::connection::SimpleConnection;
use diesel_migrations::MigrationHarness;
use queue_table_core::{Administration, Error, Migrated, QueueBackend, Severity, Table};
use queue_table_postgres::{MIGRATIONS, Migrations, PostgresQueue, migration_sql};

use crate::support::{Tables, expect_no_advisory_lock, job, table};

#[test]
fn eight_that_migrate_at_once_all_succeed_and_leave_no_lock() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    for round in 0..5 {
        let own = Table::named(&format!("round_{round}"))
            .and_then(|own| own.in_schema(&format!("{}_x", tables.schema)))
            .unwrap();
        let done: Vec<_> = thread::scope(|scope| {
            let migrate = |_| {
                let builder = PostgresQueue::builder(&tables.url).table(own.clone());
                scope.spawn(move || builder.build().unwrap().migrate())
            };
            let all: Vec<_> = (0..8).map(migrate).collect();
            all.into_iter()
                .map(|one| one.join().unwrap().unwrap())
                .collect()
        });
        let created = done.iter().filter(|done| done.from.is_none()).count();
        assert_eq!(created, 1, "{done:?}");
    }
    expect_no_advisory_lock(&mut tables.raw());
    tables.run(&format!("DROP SCHEMA {}_x CASCADE", tables.schema));
}

#[test]
fn a_second_migration_changes_nothing() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    tables.enqueue(1);
    let done = tables.queue.migrate().unwrap();
    assert_eq!(
        done,
        Migrated {
            from: Some(1),
            to: 1
        }
    );
    assert_eq!(tables.number("SELECT count(*) FROM job"), 1);
}

#[test]
fn diesels_ledger_and_the_queues_own_agree() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    tables.run(
        "DROP TABLE job, job_dedup, job_dedup_past, job_effect, job_queue, job_failure, job_schema",
    );
    let mut raw = tables.raw();
    let ran: Vec<_> = raw
        .run_pending_migrations(MIGRATIONS)
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(ran, ["queue_table_0001"]);
    assert!(raw.run_pending_migrations(MIGRATIONS).unwrap().is_empty());
    let done = tables.queue.migrate().unwrap();
    assert_eq!(done.from, Some(1));
    // Another table set has versions of its own in the same ledger.
    let other = Table::named("other")
        .and_then(|own| own.in_schema(&tables.schema))
        .unwrap();
    assert_eq!(
        raw.run_pending_migrations(Migrations::of(&other))
            .unwrap()
            .len(),
        1
    );
    tables.queue.enqueue(&[job()]).unwrap();
}

#[test]
fn the_printed_sql_makes_the_same_tables() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let columns = "SELECT string_agg(concat_ws(' ', table_name, column_name, data_type, is_nullable), ', ' \
                   ORDER BY table_name, ordinal_position) FROM information_schema.columns \
                   WHERE table_schema = current_schema()";
    let migrated = crate::support::text(&mut tables.raw(), columns);
    tables.run(
        "DROP TABLE job, job_dedup, job_dedup_past, job_effect, job_queue, job_failure, job_schema",
    );
    tables
        .raw()
        .batch_execute(&migration_sql(&Table::default()))
        .unwrap();
    assert_eq!(crate::support::text(&mut tables.raw(), columns), migrated);
    assert_eq!(tables.queue.migrate().unwrap().from, Some(1));
}

#[test]
fn tables_of_a_newer_build_are_refused() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    tables.run("INSERT INTO job_schema (version) VALUES (2)");
    let refused = tables.queue.migrate();
    assert!(
        matches!(
            refused,
            Err(Error::Schema {
                found: Some(2),
                needed: 1,
                ..
            })
        ),
        "{refused:?}"
    );
}

#[test]
fn check_finds_nothing_wrong_and_then_what_is() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let fatal = || {
        let findings = tables.queue.check().unwrap();
        let fatal = findings
            .into_iter()
            .filter(|finding| finding.severity == Severity::Fatal);
        fatal.map(|finding| finding.subject).collect::<Vec<_>>()
    };
    assert!(fatal().is_empty(), "{:?}", fatal());
    tables.run("DROP INDEX job_ready; ALTER TABLE job SET (autovacuum_enabled = false)");
    assert_eq!(fatal(), ["job_ready"]);
    let findings = tables.queue.check().unwrap();
    assert!(
        findings
            .iter()
            .any(|finding| finding.subject == "job" && finding.severity == Severity::Warning)
    );

    let missing = PostgresQueue::builder(&tables.url)
        .table(table("no_such_schema_at_all"))
        .build()
        .unwrap();
    let findings = missing.check().unwrap();
    assert!(
        findings
            .iter()
            .any(|finding| finding.subject == "schema version"
                && finding.severity == Severity::Fatal)
    );
}
