//! The caller's transaction: nothing of it is committed, rolled back, retried or set by the queue.

use std::sync::Barrier;
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{AccessMode, Conn, IsolationLevel, Transaction, TxOpts};
use queue_table_core::{
    Administration, DedupScope, Delay, EffectName, Enqueued, Error, Failure, QueueBackend,
    QueueBackendExt, Rejected, TransactionalBackend,
};
use queue_table_mysql::MysqlQueue;

use crate::support::{job, on_each, request};

/// Makes the next lock that `tx` asks for close a circle with another transaction, with `tx` as the
/// victim.
fn in_a_deadlock<R>(
    session: &mut Conn,
    other: &mut Conn,
    name: &str,
    act: impl FnOnce(&mut Transaction<'_>) -> R,
) -> R {
    let mut tx = session.start_transaction(TxOpts::default()).unwrap();
    tx.query_drop(format!("UPDATE {name}_child SET n = n + 1 WHERE id = 1"))
        .unwrap();
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut heavy = other.start_transaction(TxOpts::default()).unwrap();
            // The server gives up the transaction that has changed less.
            heavy
                .query_drop(format!("UPDATE {name}_child SET n = n + 1 WHERE id > 1"))
                .unwrap();
            heavy
                .query_drop(format!(
                    "SELECT * FROM {name}_dedup WHERE queue = 'mail' FOR UPDATE"
                ))
                .unwrap();
            barrier.wait();
            heavy
                .query_drop(format!("UPDATE {name}_child SET n = n + 1 WHERE id = 1"))
                .unwrap();
            heavy.rollback().unwrap();
        });
        barrier.wait();
        std::thread::sleep(Duration::from_millis(300));
        let done = act(&mut tx);
        other.join().unwrap();
        // What a caller does who takes no notice.
        tx.commit().unwrap();
        done
    })
}

#[test]
fn a_deadlock_ends_the_callers_transaction_and_nothing_is_stored_behind_its_back() {
    on_each(|server| {
        let tables = server.tables();
        let queue = tables.queue();
        tables.run("CREATE TABLE {job}_child (id INT PRIMARY KEY, n INT NOT NULL)");
        tables.run("INSERT INTO {job}_child SELECT seq, 0 FROM JSON_TABLE('[1,2,3,4,5,6,7,8]', '$[*]' COLUMNS (seq INT PATH '$')) AS t");
        let keyed = job().with_dedup("k", DedupScope::WhileUnfinished).unwrap();
        queue.enqueue_one(&keyed).unwrap();
        let (mut session, mut other) = (server.session(), server.session());
        in_a_deadlock(&mut session, &mut other, &tables.name, |tx| {
            let victim = queue
                .enqueue_in(tx, std::slice::from_ref(&keyed))
                .unwrap_err();
            assert!(matches!(victim, Error::Contention(_)), "{victim:?}");
            // The transaction is gone: another enqueue would be committed on its own.
            let refused = queue.enqueue_in(tx, &[job()]).unwrap_err();
            assert!(
                matches!(refused, Error::Rejected(Rejected::NotInTransaction { .. })),
                "{refused:?}"
            );
        });
        assert_eq!(tables.number("SELECT SUM(n) FROM {job}_child"), 0);
        assert_eq!(tables.number("SELECT COUNT(*) FROM {job}"), 1);
    });
}

#[test]
fn a_transaction_that_ddl_has_committed_is_refused() {
    on_each(|server| {
        let tables = server.tables();
        let queue = tables.queue();
        let mut session = server.session();
        let mut tx = session.start_transaction(TxOpts::default()).unwrap();
        tx.query_drop(format!("CREATE TABLE {}_child (id INT)", tables.name))
            .unwrap();
        let refused = queue.enqueue_in(&mut tx, &[job()]).unwrap_err();
        assert!(
            matches!(refused, Error::Rejected(Rejected::NotInTransaction { .. })),
            "{refused:?}"
        );
    });
}

fn settings(tx: &mut Transaction<'_>) -> Vec<(String, String)> {
    let mut rows: Vec<(String, String)> = tx.query("SHOW SESSION VARIABLES").unwrap();
    // They tell what the statements before did, and are no settings.
    let tells = [
        "timestamp",
        "error_count",
        "warning_count",
        "last_insert_id",
        "identity",
        "rand_seed1",
        "rand_seed2",
        "gtid_executed",
        "gtid_current_pos",
        "gtid_binlog_pos",
        "gtid_binlog_state",
        "last_gtid",
        "pseudo_thread_id",
        "statement_id",
        "innodb_buffer_pool_load_incremental",
        "in_transaction",
        "gtid_purged",
        "insert_id",
    ];
    rows.retain(|(name, _)| !tells.contains(&name.to_lowercase().as_str()));
    rows
}

fn every_operation(queue: &MysqlQueue, tx: &mut Transaction<'_>) {
    let keyed = job().with_dedup("k", DedupScope::WhileUnfinished).unwrap();
    queue
        .enqueue_in(tx, &[job(), job(), keyed.clone()])
        .unwrap();
    queue.enqueue_in(tx, &[keyed]).unwrap();
    let claims = queue.claim_in(tx, &request(10)).unwrap();
    assert_eq!(claims.len(), 3);
    let name = EffectName::new("e").unwrap();
    assert!(
        queue
            .record_effect_in(tx, &claims[0].receipt, &name)
            .unwrap()
    );
    assert!(
        !queue
            .record_effect_in(tx, &claims[0].receipt, &name)
            .unwrap()
    );
    queue.ack_in(tx, &claims[0].receipt).unwrap();
    queue
        .fail_in(
            tx,
            &Failure::release(claims[1].receipt.clone(), Delay::ZERO),
        )
        .unwrap();
    queue
        .fail_in(
            tx,
            &Failure::dead(
                claims[2].receipt.clone(),
                queue_table_core::ErrorText::new("x"),
            ),
        )
        .unwrap();
    assert!(matches!(
        queue.ack_in(tx, &claims[0].receipt),
        Err(Error::LostClaim(_))
    ));
}

#[test]
fn every_operation_leaves_the_session_and_the_transaction_as_they_were() {
    on_each(|server| {
        let tables = server.tables();
        let queue = tables.queue();
        for level in [
            IsolationLevel::ReadUncommitted,
            IsolationLevel::ReadCommitted,
            IsolationLevel::RepeatableRead,
            IsolationLevel::Serializable,
        ] {
            let mut session = server.session();
            session.query_drop("SET SESSION sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,HIGH_NOT_PRECEDENCE'").unwrap();
            session.query_drop("SET SESSION autocommit = 0").unwrap();
            let options = TxOpts::default().set_isolation_level(Some(level));
            let mut tx = session.start_transaction(options).unwrap();
            let before = settings(&mut tx);
            every_operation(&queue, &mut tx);
            assert_eq!(before, settings(&mut tx));
            tx.rollback().unwrap();
            assert_eq!(tables.number("SELECT COUNT(*) FROM {job}"), 0, "{level:?}");
        }
    });
}

#[test]
fn every_operation_is_right_when_the_driver_counts_matched_rows() {
    on_each(|server| {
        let tables = server.tables();
        let opts = server
            .opts()
            .additional_capabilities(mysql::consts::CapabilityFlags::CLIENT_FOUND_ROWS);
        let queue = MysqlQueue::builder_with(opts.clone())
            .table(tables.table())
            .build()
            .unwrap();
        let mut session = Conn::new(opts).unwrap();
        let mut tx = session.start_transaction(TxOpts::default()).unwrap();
        every_operation(&queue, &mut tx);
        tx.rollback().unwrap();
        queue.enqueue_one(&job()).unwrap();
        let claim = queue.claim(&request(1)).unwrap().pop().unwrap();
        for _ in 0..2 {
            queue
                .renew_one(&claim.receipt, queue_table_core::LeaseLength::default())
                .unwrap();
        }
        queue.ack_one(&claim.receipt).unwrap();
    });
}

/// The snapshot is older than the job that now holds the key: a plain read would not see it, and
/// take its key.
#[test]
fn a_dedup_key_is_judged_by_the_latest_rows_at_repeatable_read() {
    on_each(|server| {
        let tables = server.tables();
        let queue = tables.queue();
        let keyed = job().with_dedup("k", DedupScope::WhileUnfinished).unwrap();
        queue.enqueue_one(&keyed).unwrap();
        let mut session = server.session();
        if !server.is_mysql() {
            session
                .query_drop("SET SESSION innodb_snapshot_isolation = OFF")
                .unwrap();
        }
        let mut tx = session.start_transaction(TxOpts::default()).unwrap();
        tx.query_drop(format!("SELECT COUNT(*) FROM {}", tables.name))
            .unwrap();
        // The first job is finished, and a second one takes the key over.
        let claim = queue.claim(&request(1)).unwrap().pop().unwrap();
        queue.ack_one(&claim.receipt).unwrap();
        let second = queue.enqueue_one(&keyed).unwrap();
        assert!(second.is_new());
        let third = queue
            .enqueue_in(&mut tx, std::slice::from_ref(&keyed))
            .unwrap();
        assert_eq!(third, [Enqueued::Existing(second.job_id())]);
        tx.commit().unwrap();
    });
}

#[test]
fn a_read_only_transaction_is_unavailable_and_not_empty() {
    on_each(|server| {
        let tables = server.tables();
        let queue = tables.queue();
        queue.enqueue_one(&job()).unwrap();
        let mut session = server.session();
        let options = TxOpts::default().set_access_mode(Some(AccessMode::ReadOnly));
        let mut tx = session.start_transaction(options).unwrap();
        let refused = queue.enqueue_in(&mut tx, &[job()]).unwrap_err();
        assert!(matches!(refused, Error::Unavailable(_)), "{refused:?}");
    });
}

#[test]
fn an_unmigrated_database_is_told_and_the_callers_work_is_not_committed() {
    on_each(|server| {
        let tables = server.names();
        let queue = tables.queue();
        tables.run("CREATE TABLE {job}_child (id INT)");
        let mut session = server.session();
        let mut tx = session.start_transaction(TxOpts::default()).unwrap();
        tx.query_drop(format!("INSERT INTO {}_child VALUES (1)", tables.name))
            .unwrap();
        let missing = queue.enqueue_in(&mut tx, &[job()]).unwrap_err();
        assert!(
            matches!(missing, Error::Schema { found: None, .. }),
            "{missing:?}"
        );
        tx.rollback().unwrap();
        assert_eq!(tables.number("SELECT COUNT(*) FROM {job}_child"), 0);
        assert!(matches!(
            queue.claim(&request(1)),
            Err(Error::Schema { .. })
        ));
        assert!(matches!(queue.stats(None), Err(Error::Schema { .. })));
    });
}

/// An account that may only read and write rows: DDL of any kind would be refused.
#[test]
fn no_operation_at_run_time_needs_more_than_reading_and_writing_rows() {
    on_each(|server| {
        let tables = server.tables();
        let user = format!("lim_{}", tables.name);
        tables.run(&format!("CREATE USER '{user}'@'%' IDENTIFIED BY 'limited'"));
        tables.run(&format!(
            "GRANT SELECT, INSERT, UPDATE, DELETE ON * TO '{user}'@'%'"
        ));
        let opts = server.opts().user(Some(user.clone())).pass(Some("limited"));
        let queue = MysqlQueue::builder_with(opts.clone())
            .table(tables.table())
            .build()
            .unwrap();
        let mut session = Conn::new(opts).unwrap();
        let mut tx = session.start_transaction(TxOpts::default()).unwrap();
        every_operation(&queue, &mut tx);
        tx.commit().unwrap();
        queue.enqueue(&[job(), job()]).unwrap();
        let claims = queue.claim(&request(10)).unwrap();
        assert!(!claims.is_empty());
        queue.pause(&crate::support::mail()).unwrap();
        assert!(queue.claim(&request(10)).unwrap().is_empty());
        queue.resume(&crate::support::mail()).unwrap();
        queue
            .cancel(claims[0].job_id(), &queue_table_core::ErrorText::new("x"))
            .unwrap();
        queue
            .replay(claims[0].job_id(), queue_table_core::MaxAttempts::default())
            .unwrap();
        queue
            .reap(&queue_table_core::ReapRequest::new(
                queue_table_core::BatchSize::MAX,
                queue_table_core::RetryPolicy::default(),
            ))
            .unwrap();
        let purge = queue_table_core::PurgeRequest {
            succeeded_after: Some(Delay::ZERO),
            dead_after: Some(Delay::ZERO),
            limit: queue_table_core::BatchSize::MAX,
            cursor: None,
        };
        assert_eq!(queue.purge(&purge).unwrap().deleted, 2);
        queue.check().unwrap();
        tables.run(&format!("DROP USER '{user}'@'%'"));
    });
}

#[test]
fn new_keys_on_an_empty_table_do_not_wait_for_each_other_at_repeatable_read() {
    on_each(|server| {
        let tables = server.tables();
        let queue = tables.queue();
        let mut sessions = [server.session(), server.session()];
        let mut open = Vec::new();
        for (session, key) in sessions.iter_mut().zip(["a", "b"]) {
            session
                .query_drop("SET SESSION innodb_lock_wait_timeout = 1")
                .unwrap();
            let level = Some(IsolationLevel::RepeatableRead);
            let options = TxOpts::default().set_isolation_level(level);
            open.push(session.start_transaction(options).unwrap());
            let keyed = job().with_dedup(key, DedupScope::WhileUnfinished).unwrap();
            let tx = open.last_mut().unwrap();
            assert!(queue.enqueue_in(tx, &[keyed]).unwrap()[0].is_new());
        }
        for tx in open {
            tx.commit().unwrap();
        }
        assert_eq!(tables.number("SELECT COUNT(*) FROM {job}"), 2);
    });
}
