//! Claims against locks, joins and old snapshots.

use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection;
use queue_table_core::{
    BatchSize, Error, QueueBackend, QueueBackendExt, ReapRequest, RetryPolicy, TransactionalBackend,
};

use crate::support::{MINUTE, Tables, mail, request, with_settings};

/// With these off, a plan that runs the limited subquery once for each row is the one taken.
const JOINS_OFF: [(&str, &str); 6] = [
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("enable_hashagg", "off"),
    ("enable_sort", "off"),
    ("enable_material", "off"),
    ("enable_memoize", "off"),
];

#[test]
fn a_limit_of_one_takes_one_row_with_hash_and_merge_joins_off() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let queue = tables.queue_at(&with_settings(&tables.url, &JOINS_OFF));
    tables.enqueue(100);

    assert_eq!(queue.claim(&request(1, MINUTE)).unwrap().len(), 1);
    assert_eq!(
        tables.number("SELECT count(*) FROM job WHERE state = 'running'"),
        1
    );
    assert_eq!(
        tables.number("SELECT count(*) FROM job WHERE state = 'ready'"),
        99
    );

    tables.claim(99, MINUTE);
    tables.run("UPDATE job SET lease_until = clock_timestamp() - INTERVAL '1 second'");
    let reap = ReapRequest::new(BatchSize::ONE, RetryPolicy::default());
    assert_eq!(queue.reap(&reap).unwrap().len(), 1);
    assert_eq!(
        tables.number("SELECT count(*) FROM job WHERE state = 'running'"),
        99
    );
}

#[test]
fn a_child_row_in_an_open_transaction_hides_no_job_and_blocks_no_ack() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let job = tables.enqueue(1)[0];
    tables.run("CREATE TABLE child (job_id BIGINT REFERENCES job)");
    let mut raw = tables.raw();
    raw.batch_execute(&format!("BEGIN; INSERT INTO child VALUES ({job})"))
        .unwrap();

    let began = Instant::now();
    let claimed = tables.claim(1, MINUTE);
    assert_eq!(claimed.len(), 1);
    tables.queue.ack_one(&claimed[0].receipt).unwrap();
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
    raw.batch_execute("ROLLBACK").unwrap();
}

#[test]
fn a_lease_counts_from_the_claim_and_not_from_the_transactions_start() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    tables.enqueue(1);
    let lease = Duration::from_secs(1);
    let left_us = tables
        .queue
        .transaction(|tx| {
            tx.batch_execute("SELECT pg_sleep(1.5)").unwrap();
            let claimed = tables.queue.claim_in(tx, &request(1, lease))?;
            let sql = format!(
                "SELECT extract(EPOCH FROM lease_until - clock_timestamp()) * 1000000 FROM {}.job WHERE job_id = {}",
                tables.schema,
                claimed[0].job_id()
            );
            Ok::<_, Error>(crate::support::number(tx, &sql))
        })
        .unwrap();
    assert!((500_000..=1_000_000).contains(&left_us), "{left_us}");
}

/// What pushing `rounds` batches of 100 jobs through took: each claim, each reap.
fn push_through(tables: &Tables, rounds: usize) -> (Vec<Duration>, Vec<Duration>) {
    let reap = ReapRequest::new(BatchSize::new(100).unwrap(), RetryPolicy::default());
    let (mut claims, mut reaps) = (vec![], vec![]);
    for _ in 0..rounds {
        tables.enqueue(100);
        let began = Instant::now();
        let claimed = tables.claim(100, MINUTE);
        claims.push(began.elapsed());
        assert_eq!(claimed.len(), 100);
        let receipts: Vec<_> = claimed.into_iter().map(|job| job.receipt).collect();
        let acked = tables.queue.ack(&receipts).unwrap();
        assert!(acked.iter().all(Result::is_ok));
        let began = Instant::now();
        assert!(tables.queue.reap(&reap).unwrap().is_empty());
        reaps.push(began.elapsed());
    }
    (claims, reaps)
}

/// The 95th of 100, or 20 ms where it is less: below that a machine's noise is larger than what
/// dead rows cost.
fn slow(took: &[Duration]) -> Duration {
    let mut took = took.to_vec();
    took.sort_unstable();
    took[took.len() * 95 / 100].max(Duration::from_millis(20))
}

/// Dead rows and their index entries cannot be removed while a snapshot may still see them.
#[test]
fn claims_stay_quick_while_an_old_snapshot_keeps_every_dead_row() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let mut raw = tables.raw();
    raw.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM job")
        .unwrap();
    let (claims, reaps) = push_through(&tables, 200);
    raw.batch_execute("ROLLBACK").unwrap();
    let done = "SELECT count(*) FROM job WHERE state = 'succeeded'";
    assert_eq!(tables.number(done), 20_000);

    let (early, late) = (slow(&claims[..40]), slow(&claims[160..]));
    assert!(late < early * 10, "{early:?}, then {late:?}");
    // No work is done inside of them.
    let longest = slow(&claims).max(slow(&reaps));
    assert!(longest < Duration::from_millis(100), "{longest:?}");

    tables.run("VACUUM job");
    let (claims, _) = push_through(&tables, 20);
    let after = slow(&claims);
    assert!(after <= early * 2, "{early:?}, then {after:?}");
    assert!(tables.claim(1, MINUTE).is_empty());
}

#[test]
fn a_paused_queue_is_left_alone_until_it_is_resumed() {
    use queue_table_core::Administration;

    let Some(tables) = Tables::fresh() else {
        return;
    };
    tables.enqueue(1);
    tables.queue.pause(&mail()).unwrap();
    tables.queue.pause(&mail()).unwrap();
    assert!(tables.claim(1, MINUTE).is_empty());
    tables.queue.resume(&mail()).unwrap();
    assert_eq!(tables.claim(1, MINUTE).len(), 1);
}
