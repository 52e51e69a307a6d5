//! The tables: made once, never lazily, never with a used id, and never against the user's own
//! constraints.

use std::thread;

use queue_table_conformance::{Fixture, Probe, Setup};
use queue_table_core::{
    Administration, BatchSize, ColumnType, Delay, EffectName, Error, ErrorText, Failure, JobId,
    ListRequest, LostReason, Migrated, PurgeRequest, Purged, QueueBackend, QueueBackendExt,
    ReapRequest, Receipt, Rejected, Result, RetryPolicy, Severity, Table, TransactionalBackend,
    WorkerId,
};
use queue_table_sqlite::SqliteQueue;
use queue_table_sqlite::fixture::SqliteFixture;

use crate::{claim_one, enqueue, fresh, job, lease, mail, raw, request};

fn purge_all() -> PurgeRequest {
    PurgeRequest {
        succeeded_after: Some(Delay::ZERO),
        dead_after: Some(Delay::ZERO),
        limit: BatchSize::MAX,
        cursor: None,
    }
}

fn receipt() -> Receipt {
    Receipt::new(JobId::new(1), 1, WorkerId::new("w").unwrap())
}

fn own_transactions(queue: &SqliteQueue) -> Vec<Result<()>> {
    let (id, extra) = (JobId::new(1), Default::default());
    let reap = ReapRequest::new(BatchSize::MAX, RetryPolicy::default());
    vec![
        queue.enqueue(&[job()]).map(drop),
        queue.claim(&request("w", 1)).map(drop),
        queue.renew(&[receipt()], Default::default()).map(drop),
        queue.ack(&[receipt()]).map(drop),
        queue
            .fail(&[Failure::release(receipt(), Delay::ZERO)])
            .map(drop),
        queue.reap(&reap).map(drop),
        queue.get(id).map(drop),
        queue.list(&ListRequest::first(BatchSize::ONE)).map(drop),
        queue.failures(id).map(drop),
        queue.stats(None).map(drop),
        queue.replay(id, extra).map(drop),
        queue.cancel(id, &ErrorText::new("no")),
        queue.purge(&purge_all()).map(drop),
        queue.pause(&mail()),
        queue.resume(&mail()),
    ]
}

fn callers_transactions(queue: &SqliteQueue) -> Vec<Result<()>> {
    let failure = Failure::release(receipt(), Delay::ZERO);
    let effect = EffectName::new("e").unwrap();
    vec![
        queue
            .transaction(|tx| queue.enqueue_in(tx, &[job()]))
            .map(drop),
        queue
            .transaction(|tx| queue.claim_in(tx, &request("w", 1)))
            .map(drop),
        queue.transaction(|tx| queue.ack_in(tx, &receipt())),
        queue
            .transaction(|tx| queue.fail_in(tx, &failure))
            .map(drop),
        queue
            .transaction(|tx| queue.record_effect_in(tx, &receipt(), &effect))
            .map(drop),
    ]
}

#[test]
fn without_tables_every_operation_says_so_and_makes_none() {
    let setup = Setup {
        migrated: false,
        columns: Vec::new(),
    };
    let fresh = SqliteFixture.fresh(&setup).unwrap();
    let (queue, probe) = (fresh.backend, fresh.probe);
    let answers = own_transactions(&queue)
        .into_iter()
        .chain(callers_transactions(&queue));
    for (position, answer) in answers.enumerate() {
        let schema = matches!(
            answer,
            Err(Error::Schema {
                found: None,
                needed: 1,
                ..
            })
        );
        assert!(schema, "{position}: {answer:?}");
    }
    let tables = "SELECT COUNT(*) FROM sqlite_schema WHERE name LIKE 'job%'";
    assert_eq!(
        raw(&probe).query_row(tables, [], |row| row.get::<_, i64>(0)),
        Ok(0)
    );
    let found = queue.check().unwrap();
    assert!(
        found
            .iter()
            .any(|finding| finding.subject == "schema" && finding.severity == Severity::Fatal)
    );
}

#[test]
fn eight_threads_migrate_a_new_file_at_once() {
    for _ in 0..10 {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jobs.db");
        let done: Vec<Migrated> = thread::scope(|scope| {
            let migrate = |_| scope.spawn(|| SqliteQueue::open(&file).unwrap().migrate().unwrap());
            let threads: Vec<_> = (0..8).map(migrate).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        assert_eq!(
            done.iter().filter(|done| done.from.is_none()).count(),
            1,
            "{done:?}"
        );
        assert!(done.iter().all(|done| done.to == 1));
    }
}

#[test]
fn a_healthy_queue_has_only_infos_and_a_dropped_index_a_warning() {
    let (queue, probe) = fresh();
    let found = queue.check().unwrap();
    assert!(
        found
            .iter()
            .all(|finding| finding.severity == Severity::Info),
        "{found:?}"
    );
    for subject in [
        "version",
        "journal_mode",
        "synchronous",
        "foreign_keys",
        "schema",
    ] {
        assert!(
            found.iter().any(|finding| finding.subject == subject),
            "{subject}"
        );
    }
    raw(&probe).execute_batch("DROP INDEX job_ready").unwrap();
    let found = queue.check().unwrap();
    let worst = found.iter().max_by_key(|finding| finding.severity).unwrap();
    assert_eq!(
        (worst.severity, worst.subject.as_str()),
        (Severity::Warning, "job_ready")
    );
}

#[test]
fn two_sets_of_tables_live_in_one_file() {
    let (queue, probe) = fresh();
    let table = Table::named("order").unwrap();
    let other = SqliteQueue::builder(probe.file())
        .table(table)
        .build()
        .unwrap();
    other.migrate().unwrap();
    enqueue(&other, 1);
    assert!(queue.claim(&request("w", 1)).unwrap().is_empty());
    other.ack_one(&claim_one(&other, "w").receipt).unwrap();
}

#[test]
fn the_id_of_a_deleted_job_never_names_another() {
    let (queue, probe) = fresh();
    enqueue(&queue, 1);
    let old = claim_one(&queue, "w1");
    probe.delete(old.job_id()).unwrap();
    let new = enqueue(&queue, 1)[0];
    assert_ne!(new, old.job_id());
    let held = claim_one(&queue, "w1");
    assert_eq!((held.job_id(), held.attempt()), (new, old.attempt()));
    let before = probe.row(new).unwrap();
    let lost = queue.ack(&[old.receipt]).unwrap().remove(0).unwrap_err();
    assert_eq!(lost.reason(), LostReason::Gone);
    assert_eq!(probe.row(new).unwrap(), before);
}

#[test]
fn ids_beyond_32_and_53_bits_are_exact_and_used_up_ids_fail_alone() {
    let (queue, probe) = fresh();
    for last in [1_i64 << 31, 1 << 53, i64::MAX - 1] {
        enqueue(&queue, 1);
        let sql = "UPDATE sqlite_sequence SET seq = ?1 WHERE name = 'job'";
        raw(&probe).execute(sql, [last]).unwrap();
        assert_eq!(enqueue(&queue, 1)[0].get(), last + 1);
    }
    let used_up = queue.enqueue(&[job()]).unwrap_err();
    assert_eq!(used_up.kind(), "unavailable");
    assert_eq!(queue.claim(&request("w", 100)).unwrap().len(), 6);
}

#[test]
fn ten_thousand_jobs_go_in_at_once_and_one_bad_one_keeps_all_out() {
    let (queue, probe) = fresh();
    let ids = enqueue(&queue, 10_000);
    assert!(ids.is_sorted() && ids.len() == 10_000);
    let trigger = "CREATE TRIGGER picky BEFORE INSERT ON job WHEN NEW.priority = 9
        BEGIN SELECT RAISE(ABORT, 'not on a Sunday'); END";
    raw(&probe).execute_batch(trigger).unwrap();
    let mut jobs = vec![job(); 100];
    jobs.push(job().with_priority(9));
    let refused = queue.enqueue(&jobs).unwrap_err();
    assert!(
        matches!(refused, Error::Rejected(Rejected::Constraint { constraint, .. }) if constraint == "not on a Sunday")
    );
    assert_eq!(probe.ids().unwrap().len(), 10_000);
}

#[test]
fn a_business_column_refers_to_the_applications_own_rows() {
    let (_, probe) = fresh();
    let own = "CREATE TABLE customer_order (id INTEGER PRIMARY KEY) STRICT; INSERT INTO customer_order VALUES (7);
        ALTER TABLE job ADD COLUMN order_id INTEGER REFERENCES customer_order (id)";
    raw(&probe).execute_batch(own).unwrap();
    let table = Table::default()
        .with_column("order_id", ColumnType::Integer)
        .unwrap();
    let queue = SqliteQueue::builder(probe.file())
        .table(table)
        .build()
        .unwrap();
    let stranger = job().with_column("order_id", 8).unwrap();
    assert_eq!(queue.enqueue_one(&stranger).unwrap_err().kind(), "rejected");
    queue
        .enqueue_one(&job().with_column("order_id", 7).unwrap())
        .unwrap();
    assert_eq!(claim_one(&queue, "w").columns, [7.into()]);
}

/// Finishes three jobs, lets `keep` hold the second, and purges.
fn purge_around(keep: &str) -> (Purged, Vec<JobId>, Vec<JobId>) {
    let (queue, probe) = fresh();
    let jobs = enqueue(&queue, 3);
    for claimed in queue.claim(&request("w", 3)).unwrap() {
        queue
            .fail_one(&Failure::dead(claimed.receipt, ErrorText::new("no")))
            .unwrap();
    }
    raw(&probe)
        .execute_batch(&keep.replace("{job}", &jobs[1].to_string()))
        .unwrap();
    let purged = queue.purge(&purge_all()).unwrap();
    assert_eq!(
        probe.count("failure").unwrap(),
        probe.ids().unwrap().len() as u64
    );
    (purged, jobs, probe.ids().unwrap())
}

#[test]
fn a_purge_leaves_rows_that_the_users_constraints_keep_and_reports_them() {
    for keep in [
        "INSERT INTO test_reference VALUES ({job})",
        "CREATE TABLE mine (j REFERENCES job (job_id) ON DELETE RESTRICT); INSERT INTO mine VALUES ({job})",
        "CREATE TABLE mine (j REFERENCES job (job_id) DEFERRABLE INITIALLY DEFERRED); INSERT INTO mine VALUES ({job})",
        "CREATE TRIGGER mine BEFORE DELETE ON job WHEN OLD.job_id = {job} BEGIN SELECT RAISE(ABORT, 'kept'); END",
        "CREATE TRIGGER mine BEFORE DELETE ON job WHEN OLD.job_id = {job} BEGIN SELECT RAISE(ROLLBACK, 'kept'); END",
    ] {
        let (purged, jobs, left) = purge_around(keep);
        assert_eq!(
            (purged.deleted, &purged.kept),
            (2, &vec![jobs[1]]),
            "{keep}"
        );
        assert_eq!(left, [jobs[1]], "{keep}");
    }
}

#[test]
fn a_purge_follows_the_users_cascades() {
    let (purged, _, left) = purge_around(
        "CREATE TABLE mine (j REFERENCES job (job_id) ON DELETE CASCADE); INSERT INTO mine VALUES ({job})",
    );
    assert_eq!((purged.deleted, purged.kept, left), (3, vec![], vec![]));
}

#[test]
fn an_audit_trigger_changes_no_answer() {
    let (queue, probe) = fresh();
    let audit = "CREATE TABLE audit (id INTEGER PRIMARY KEY, what TEXT);
        CREATE TRIGGER i AFTER INSERT ON job BEGIN INSERT INTO audit (what) VALUES ('a'), ('b'); END;
        CREATE TRIGGER u AFTER UPDATE ON job BEGIN INSERT INTO audit (what) VALUES ('c'), ('d'); END;
        CREATE TRIGGER d AFTER DELETE ON job BEGIN INSERT INTO audit (what) VALUES ('e'), ('f'); END;";
    raw(&probe).execute_batch(audit).unwrap();
    let jobs = enqueue(&queue, 3);
    assert_eq!(probe.ids().unwrap(), jobs);
    let claimed = queue.claim(&request("w", 3)).unwrap();
    let receipts: Vec<_> = claimed.into_iter().map(|job| job.receipt).collect();
    assert_eq!(
        queue
            .renew(&receipts, lease(std::time::Duration::from_secs(9)))
            .unwrap(),
        vec![Ok(()); 3]
    );
    assert_eq!(queue.ack(&receipts).unwrap(), vec![Ok(()); 3]);
    assert_eq!(queue.purge(&purge_all()).unwrap().deleted, 3);
}
