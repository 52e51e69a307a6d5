//! Ids: those of the rows that were stored, whatever the server's settings for AUTO_INCREMENT.

use std::collections::BTreeSet;

use mysql::TxOpts;
use mysql::prelude::Queryable;
use queue_table_core::{
    Administration, Error, NewJob, QueueBackend, Rejected, TransactionalBackend,
};
use queue_table_mysql::MysqlQueue;

use crate::support::{job_with, on_each};

fn numbered(from: usize, count: usize) -> Vec<NewJob> {
    (from..from + count)
        .map(|number| job_with(&number.to_string()))
        .collect()
}

fn assert_right(queue: &MysqlQueue, from: usize, enqueued: &[queue_table_core::Enqueued]) {
    for (at, enqueued) in enqueued.iter().enumerate() {
        let row = queue.get(enqueued.job_id()).unwrap().unwrap();
        assert_eq!(row.payload.as_str().unwrap(), (from + at).to_string());
    }
}

#[test]
fn a_batch_returns_its_own_ids_with_auto_increment_increment_3() {
    on_each(|server| {
        let tables = server.tables();
        let queue = tables.queue();
        let mut session = server.session();
        session
            .query_drop("SET SESSION auto_increment_increment = 3")
            .unwrap();
        let mut tx = session.start_transaction(TxOpts::default()).unwrap();
        let enqueued = queue.enqueue_in(&mut tx, &numbered(0, 50)).unwrap();
        let one = queue.enqueue_in(&mut tx, &numbered(50, 1)).unwrap();
        tx.commit().unwrap();
        assert_right(&queue, 0, &enqueued);
        assert_right(&queue, 50, &one);
    });
}

#[test]
fn eight_threads_that_enqueue_batches_at_once_get_each_its_own_ids() {
    on_each(|server| {
        let tables = server.tables();
        let queue = tables.queue();
        let all: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|thread| {
                    let queue = &queue;
                    scope.spawn(move || {
                        let mut ids = Vec::new();
                        for round in 0..5 {
                            let from = (thread * 5 + round) * 50;
                            let enqueued = queue.enqueue(&numbered(from, 50)).unwrap();
                            assert_right(queue, from, &enqueued);
                            ids.extend(enqueued.into_iter().map(|enqueued| enqueued.job_id()));
                        }
                        ids
                    })
                })
                .collect();
            threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap())
                .collect()
        });
        assert_eq!(all.len(), 2_000);
        assert_eq!(all.into_iter().collect::<BTreeSet<_>>().len(), 2_000);
    });
}

#[test]
fn ids_are_exact_up_to_the_last() {
    on_each(|server| {
        let tables = server.tables();
        let queue = tables.queue();
        for start in [(1_i64 << 31) + 1, (1 << 53) + 1, i64::MAX - 10] {
            tables.run(&format!("ALTER TABLE {{job}} AUTO_INCREMENT = {start}"));
            let enqueued = queue.enqueue(&numbered(0, 3)).unwrap();
            assert_eq!(enqueued[0].job_id().get(), start);
            assert_right(&queue, 0, &enqueued);
            let request = crate::support::request(10);
            let claims = queue.claim(&request).unwrap();
            let receipts: Vec<_> = claims.into_iter().map(|claim| claim.receipt).collect();
            assert!(queue.ack(&receipts).unwrap().iter().all(Result::is_ok));
        }
        let exhausted = queue.enqueue(&numbered(0, 20)).unwrap_err();
        assert!(
            matches!(exhausted, Error::Engine(_) | Error::Rejected(_)),
            "{exhausted:?}"
        );
        assert!(queue.stats(None).is_ok());
    });
}

#[test]
fn ten_thousand_jobs_are_stored_all_or_none() {
    on_each(|server| {
        let tables = server.tables();
        let queue = tables.queue();
        let enqueued = queue.enqueue(&numbered(0, 10_000)).unwrap();
        assert_eq!(enqueued.len(), 10_000);
        for at in [0, 999, 1_000, 9_999] {
            assert_right(&queue, at, &enqueued[at..=at]);
        }
        assert!(enqueued.is_sorted_by_key(|enqueued| enqueued.job_id()));

        // A rule of the user's own refuses the last one.
        tables.run("ALTER TABLE {job} ADD CONSTRAINT {job}_user CHECK (payload <> '29999')");
        let refused = queue.enqueue(&numbered(20_000, 10_000)).unwrap_err();
        let Error::Rejected(Rejected::Constraint { constraint, .. }) = &refused else {
            panic!("{refused:?}");
        };
        assert_eq!(*constraint, format!("{}_user", tables.name));
        assert_eq!(tables.number("SELECT COUNT(*) FROM {job}"), 10_000);
    });
}
