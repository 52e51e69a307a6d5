//! Tables: migrations that many run at once or that a crash cut short, `check`, and retention.

use mysql::prelude::Queryable;
use queue_table_core::{
    Administration, BatchSize, Delay, Error, ErrorText, JobId, PurgeRequest, Purged, QueueBackend,
    QueueBackendExt, Severity, TransactionalBackend,
};

use crate::support::{Tables, job, on_each, request};

#[test]
fn eight_processes_that_migrate_at_once_all_succeed_and_leave_no_lock() {
    on_each(|server| {
        for _ in 0..3 {
            let tables = server.names();
            let from: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..8)
                    .map(|_| scope.spawn(|| tables.queue().migrate().unwrap().from))
                    .collect();
                threads
                    .into_iter()
                    .map(|thread| thread.join().unwrap())
                    .collect()
            });
            assert_eq!(
                from.iter().filter(|from| from.is_none()).count(),
                1,
                "{from:?}"
            );
            assert_eq!(tables.queue().migrate().unwrap().from, Some(1));
            tables.queue().enqueue_one(&job()).unwrap();
        }
    });
}

/// DDL has no transaction: a crash may come between any two statements.
#[test]
fn a_migration_that_a_crash_cut_short_is_finished_by_the_next() {
    on_each(|server| {
        let tables = server.tables();
        for lost in ["failure", "effect", "queue"] {
            tables.run(&format!("DROP TABLE {{job}}_{lost}"));
            tables.run("DELETE FROM {job}_schema");
            let queue = tables.queue();
            assert!(matches!(
                queue.claim(&request(1)),
                Err(Error::Schema { found: None, .. })
            ));
            assert_eq!(queue.migrate().unwrap().from, None);
            queue.enqueue_one(&job()).unwrap();
        }
        assert_eq!(tables.number("SELECT COUNT(*) FROM {job}"), 3);
    });
}

#[test]
fn somebody_elses_table_of_the_same_name_is_not_taken_for_ours() {
    on_each(|server| {
        let tables = server.names();
        tables.run("CREATE TABLE {job} (id INT)");
        let refused = tables.queue().migrate().unwrap_err();
        assert!(matches!(refused, Error::Unsupported { .. }), "{refused:?}");
    });
}

#[test]
fn tables_of_a_newer_build_are_refused() {
    on_each(|server| {
        let tables = server.tables();
        tables.run("INSERT INTO {job}_schema (version, applied_at) VALUES (9, UTC_TIMESTAMP(6))");
        let queue = tables.queue();
        for refused in [
            queue.migrate().unwrap_err(),
            queue.enqueue_one(&job()).unwrap_err(),
        ] {
            assert!(
                matches!(
                    refused,
                    Error::Schema {
                        found: Some(9),
                        needed: 1,
                        ..
                    }
                ),
                "{refused:?}"
            );
        }
    });
}

fn worst(tables: &Tables<'_>) -> Vec<String> {
    let findings = tables.queue().check().unwrap();
    let worst = findings
        .into_iter()
        .filter(|finding| finding.severity == Severity::Fatal);
    worst.map(|finding| finding.subject).collect()
}

#[test]
fn check_finds_nothing_fatal_in_fresh_tables_and_every_fault_that_is_made() {
    on_each(|server| {
        let tables = server.tables();
        assert!(worst(&tables).is_empty(), "{:?}", tables.queue().check());
        tables.run("ALTER TABLE {job} DROP INDEX {job}_ready");
        assert_eq!(worst(&tables), [format!("{}_ready", tables.name)]);
        tables.run("CREATE INDEX {job}_ready ON {job} (state, queue, priority, run_at, job_id)");
        assert_eq!(worst(&tables), [format!("{}_ready", tables.name)]);
        tables.run("ALTER TABLE {job} DROP CONSTRAINT {job}_claim_shape");
        assert!(worst(&tables).contains(&tables.name));
        tables.run("ALTER TABLE {job} MODIFY queue VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL");
        assert!(worst(&tables).contains(&format!("{}.queue", tables.name)));
        tables.run("DELETE FROM {job}_schema");
        assert!(worst(&tables).contains(&"schema".to_owned()));
    });
}

fn purge(queue: &queue_table_mysql::MysqlQueue, limit: u32) -> Purged {
    let request = PurgeRequest {
        succeeded_after: Some(Delay::ZERO),
        dead_after: None,
        limit: BatchSize::new(limit).unwrap(),
        cursor: None,
    };
    queue.purge(&request).unwrap()
}

#[test]
fn purge_reports_the_rows_that_a_foreign_key_keeps_and_deletes_the_others() {
    on_each(|server| {
        let tables = server.tables();
        let queue = tables.queue();
        let keyed = |key: &str| {
            job()
                .with_dedup(key, queue_table_core::DedupScope::WhileRowExists)
                .unwrap()
        };
        let jobs: Vec<_> = (0..10).map(|at| keyed(&format!("k{at}"))).collect();
        let ids: Vec<JobId> = queue
            .enqueue(&jobs)
            .unwrap()
            .iter()
            .map(|job| job.job_id())
            .collect();
        tables.run("CREATE TABLE {job}_child (job_id BIGINT NOT NULL, FOREIGN KEY (job_id) REFERENCES {job} (job_id))");
        tables.run(&format!(
            "INSERT INTO {{job}}_child VALUES ({}), ({})",
            ids[2], ids[7]
        ));
        let claims = queue.claim(&request(100)).unwrap();
        let receipts: Vec<_> = claims.into_iter().map(|claim| claim.receipt).collect();
        queue.ack(&receipts).unwrap();
        let purged = purge(&queue, 100);
        assert_eq!((purged.deleted, purged.cursor), (8, None));
        assert_eq!(purged.kept, [ids[2], ids[7]]);
        assert_eq!(tables.number("SELECT COUNT(*) FROM {job}"), 2);
        assert_eq!(tables.number("SELECT COUNT(*) FROM {job}_dedup"), 2);
    });
}

#[test]
fn purge_reports_the_rows_that_a_trigger_keeps_and_deletes_the_others() {
    on_each(|server| {
        let tables = server.tables();
        let queue = tables.queue();
        let enqueued = queue.enqueue(&[job(), job(), job()]).unwrap();
        let kept = enqueued[1].job_id();
        let made = server.session().query_drop(format!(
            "CREATE TRIGGER {name}_keep BEFORE DELETE ON {name} FOR EACH ROW \
             IF OLD.job_id = {kept} THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'kept'; END IF",
            name = tables.name,
        ));
        if let Err(mysql::Error::MySqlError(error)) = &made {
            // The account may not make triggers while the binary log is on: nothing to see here.
            assert!([1142, 1419].contains(&error.code), "{error}");
            println!("{}: not run, {error}", server.engine);
            return;
        }
        made.unwrap();
        let claims = queue.claim(&request(10)).unwrap();
        let receipts: Vec<_> = claims.into_iter().map(|claim| claim.receipt).collect();
        queue.ack(&receipts).unwrap();
        let purged = purge(&queue, 100);
        assert_eq!((purged.deleted, purged.kept), (2, vec![kept]));
    });
}

/// An enqueue holds the key and may wait for the job; a purge holds the job. One of them must step
/// aside.
#[test]
fn purge_and_an_enqueue_of_the_same_key_do_not_wait_for_each_other() {
    on_each(|server| {
        let tables = server.tables();
        let queue = tables.queue();
        let keyed = job()
            .with_dedup("k", queue_table_core::DedupScope::WhileUnfinished)
            .unwrap();
        queue.enqueue_one(&keyed).unwrap();
        let claim = queue.claim(&request(1)).unwrap().pop().unwrap();
        queue.ack_one(&claim.receipt).unwrap();
        let mut session = server.session();
        let mut tx = session.start_transaction(mysql::TxOpts::default()).unwrap();
        assert!(
            queue
                .enqueue_in(&mut tx, std::slice::from_ref(&keyed))
                .unwrap()[0]
                .is_new()
        );
        let started = std::time::Instant::now();
        assert_eq!(purge(&queue, 100).deleted, 0, "the key's row is held");
        assert!(started.elapsed() < std::time::Duration::from_secs(1));
        tx.commit().unwrap();
        assert_eq!(purge(&queue, 100).deleted, 1);
        assert_eq!(tables.number("SELECT COUNT(*) FROM {job}_dedup"), 1);
    });
}

#[test]
fn purge_of_a_large_backlog_goes_batch_by_batch() {
    on_each(|server| {
        let tables = server.tables();
        let queue = tables.queue();
        queue.enqueue(&vec![job(); 3_000]).unwrap();
        tables.run("UPDATE {job} SET state = 'succeeded', finished_at = UTC_TIMESTAMP(6) - INTERVAL 1 DAY WHERE state = 'ready' ORDER BY job_id LIMIT 2000");
        tables.run("UPDATE {job} SET state = 'dead', finished_at = UTC_TIMESTAMP(6) - INTERVAL 1 DAY WHERE state = 'ready' ORDER BY job_id LIMIT 500");
        let mut batches = Vec::new();
        loop {
            let deleted = purge(&queue, 500).deleted;
            if deleted == 0 {
                break;
            }
            batches.push(deleted);
        }
        assert_eq!(batches, [500, 500, 500, 500]);
        assert_eq!(
            tables.number("SELECT COUNT(*) FROM {job} WHERE state = 'dead'"),
            500
        );
        assert_eq!(
            tables.number("SELECT COUNT(*) FROM {job} WHERE state = 'ready'"),
            500
        );
    });
}

#[test]
fn a_replay_takes_its_key_back_or_is_refused() {
    on_each(|server| {
        let tables = server.tables();
        let queue = tables.queue();
        let keyed = job()
            .with_dedup("k", queue_table_core::DedupScope::WhileUnfinished)
            .unwrap();
        let first = queue.enqueue_one(&keyed).unwrap().job_id();
        queue.cancel(first, &ErrorText::new("stop")).unwrap();
        let second = queue.enqueue_one(&keyed).unwrap().job_id();
        let extra = queue_table_core::MaxAttempts::default();
        let refused = queue.replay(first, extra).unwrap_err();
        assert!(
            refused
                .to_string()
                .contains(&format!("now names job {second}")),
            "{refused}"
        );
        queue.cancel(second, &ErrorText::new("stop")).unwrap();
        queue.replay(first, extra).unwrap();
        assert_eq!(queue.enqueue_one(&keyed).unwrap().job_id(), first);
        let refused = queue.replay(second, extra).unwrap_err();
        assert!(
            refused
                .to_string()
                .contains(&format!("now names job {first}")),
            "{refused}"
        );
        let count: i64 = queue
            .transaction(|tx| {
                let rows = mysql::prelude::Queryable::query_first(
                    tx,
                    format!("SELECT COUNT(*) FROM {}_dedup", tables.name),
                );
                Ok::<_, Error>(rows.unwrap().unwrap())
            })
            .unwrap();
        assert_eq!(count, 1);
    });
}
