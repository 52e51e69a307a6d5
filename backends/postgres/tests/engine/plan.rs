//! Plans, seen by what the server counted: index entries read, and no scan of the whole table.

use std::thread;
use std::time::Duration;

use diesel::connection::SimpleConnection;
use queue_table_core::{
    Administration, BatchSize, Delay, ErrorText, Failure, LeaseLength, PromoteRequest,
    PurgeRequest, QueueBackend, QueueName, ReapRequest, RetryPolicy, TransactionalBackend,
};

use crate::support::{MINUTE, Tables, job, request, with_settings};

/// Finished rows, due rows, and rows of the far future with higher priorities.
pub(crate) fn fill(tables: &Tables, finished: u32, due: u32, future: u32) {
    tables.run(&format!(
        "INSERT INTO job (queue, kind, payload, payload_version, state, finished_at)
           SELECT 'mail', 'welcome', '{{}}', 1, 'succeeded', clock_timestamp() FROM generate_series(1, {finished});
         INSERT INTO job (queue, kind, payload, payload_version)
           SELECT 'mail', 'welcome', '{{}}', 1 FROM generate_series(1, {due});
         INSERT INTO job (queue, kind, payload, payload_version, priority, run_at)
           SELECT 'mail', 'welcome', '{{}}', 1, 1 + n % 10, clock_timestamp() + INTERVAL '1 day'
           FROM generate_series(1, {future}) AS n"
    ));
    tables.run("VACUUM (ANALYZE) job");
}

/// The counters of the table and its ready index, once every session of the queue has reported and
/// ended.
pub(crate) fn counted(tables: &Tables) -> (i64, i64, i64) {
    thread::sleep(Duration::from_millis(300));
    let mut raw = tables.raw();
    raw.batch_execute("SELECT pg_stat_force_next_flush()")
        .unwrap();
    let of = |raw: &mut _, column: &str, view: &str, name: &str| {
        let sql = format!(
            "SELECT {column} FROM pg_stat_user_{view} WHERE schemaname = '{}' AND {name}",
            tables.schema
        );
        crate::support::number(raw, &sql)
    };
    (
        of(&mut raw, "seq_scan", "tables", "relname = 'job'"),
        of(
            &mut raw,
            "idx_scan",
            "indexes",
            "indexrelname = 'job_ready'",
        ),
        of(
            &mut raw,
            "idx_tup_read",
            "indexes",
            "indexrelname = 'job_ready'",
        ),
    )
}

pub(crate) const GENERIC: [(&str, &str); 1] = [("plan_cache_mode", "force_generic_plan")];

#[test]
fn no_operation_reads_the_whole_table_under_generic_plans() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    fill(&tables, 200_000, 400, 1_000);
    tables.run(
        "UPDATE job SET state = 'running', attempts = 1, worker_id = 'gone', lease_until = clock_timestamp()
         WHERE job_id IN (SELECT job_id FROM job WHERE state = 'ready' AND priority = 0 LIMIT 50)",
    );
    let before = counted(&tables);
    let queue = tables.queue_at(&with_settings(&tables.url, &GENERIC));
    let lease = LeaseLength::new(MINUTE).unwrap();
    let reap = ReapRequest::new(BatchSize::new(10).unwrap(), RetryPolicy::default());
    for _ in 0..10 {
        let claimed = queue.claim(&request(10, MINUTE)).unwrap();
        assert_eq!(claimed.len(), 10);
        let mut receipts: Vec<_> = claimed.into_iter().map(|job| job.receipt).collect();
        assert!(
            queue
                .renew(&receipts, lease)
                .unwrap()
                .iter()
                .all(Result::is_ok)
        );
        let failures = receipts
            .drain(..4)
            .map(|receipt| Failure::retry(receipt, Delay::ZERO, ErrorText::new("no")));
        assert!(
            queue
                .fail(&failures.collect::<Vec<_>>())
                .unwrap()
                .iter()
                .all(Result::is_ok)
        );
        let last = receipts.pop().unwrap();
        assert!(queue.ack(&[last]).unwrap()[0].is_ok());
        assert!(queue.ack(&receipts).unwrap().iter().all(Result::is_ok));
        assert!(queue.ack(&receipts).unwrap().iter().all(Result::is_err));
        queue.reap(&reap).unwrap();
        queue.enqueue(&[job(), job()]).unwrap();
        let purge = PurgeRequest {
            succeeded_after: Some(Delay::ZERO),
            dead_after: Some(Delay::ZERO),
            limit: BatchSize::new(100).unwrap(),
            cursor: None,
        };
        assert_eq!(queue.purge(&purge).unwrap().deleted, 100);
    }
    drop(queue);
    let after = counted(&tables);
    assert_eq!(after.0, before.0, "the job table was scanned as a whole");
    assert!(after.1 > before.1, "the ready index was not used");
}

#[test]
fn a_claim_reads_no_future_and_no_finished_rows() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    fill(&tables, 100_000, 200, 1_000_000);
    let before = counted(&tables);
    let queue = tables.queue_at(&with_settings(&tables.url, &GENERIC));
    for _ in 0..10 {
        assert_eq!(queue.claim(&request(10, MINUTE)).unwrap().len(), 10);
    }
    drop(queue);
    let after = counted(&tables);
    assert_eq!(after.0, before.0, "the job table was scanned as a whole");
    // Ten claims of ten: their own entries and those just claimed before them, and a probe for each
    // priority.
    let read = after.2 - before.2;
    assert!(read < 3_000, "{read} entries of the ready index were read");
}

#[test]
fn a_claim_inside_the_callers_transaction_takes_the_same_plan() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    fill(&tables, 50_000, 20, 50_000);
    let before = counted(&tables);
    let queue = tables.queue_at(&tables.url);
    for _ in 0..10 {
        let claimed = queue
            .transaction(|tx| queue.claim_in(tx, &request(1, MINUTE)))
            .unwrap();
        assert_eq!(claimed.len(), 1);
    }
    drop(queue);
    let after = counted(&tables);
    assert_eq!(after.0, before.0);
    assert!(after.2 - before.2 < 2_000, "{}", after.2 - before.2);
    assert_eq!(tables.queue.stats(None).unwrap()[0].scheduled, 50_000);
}

/// Asks for ten due jobs to be promoted above all others.
fn promotion() -> PromoteRequest {
    let mail = QueueName::new("mail").unwrap();
    PromoteRequest::new(mail, Delay::ZERO, 99).with_limit(BatchSize::new(10).unwrap())
}

#[test]
fn a_promotion_reads_neither_future_nor_finished_rows_nor_a_whole_backlog() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    fill(&tables, 100_000, 50_000, 100_000);
    let before = counted(&tables);
    let queue = tables.queue_at(&with_settings(&tables.url, &GENERIC));
    for _ in 0..10 {
        assert_eq!(queue.promote(&promotion()).unwrap(), 10);
    }
    drop(queue);
    let after = counted(&tables);
    assert_eq!(after.0, before.0, "the job table was scanned as a whole");
    // Each looks at the oldest 1,000 and steps over ten priorities.
    let read = after.2 - before.2;
    assert!(read < 15_000, "{read} entries of the ready index were read");
}

#[test]
fn a_promotion_is_planned_well_where_statistics_say_that_the_table_is_empty() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    tables.run("ALTER TABLE job SET (autovacuum_enabled = off)");
    tables.run("VACUUM (ANALYZE) job");
    tables.run(
        "INSERT INTO job (queue, kind, payload, payload_version)
           SELECT 'mail', 'welcome', '{}', 1 FROM generate_series(1, 50000);
         INSERT INTO job (queue, kind, payload, payload_version, priority, run_at)
           SELECT 'mail', 'welcome', '{}', 1, 1 + n % 10, clock_timestamp() + INTERVAL '1 day'
           FROM generate_series(1, 50000) AS n",
    );
    let before = counted(&tables);
    let queue = tables.queue_at(&with_settings(&tables.url, &GENERIC));
    for _ in 0..10 {
        assert_eq!(queue.promote(&promotion()).unwrap(), 10);
    }
    drop(queue);
    let after = counted(&tables);
    assert_eq!(after.0, before.0, "the job table was scanned as a whole");
    let read = after.2 - before.2;
    assert!(read < 15_000, "{read} entries of the ready index were read");
}
