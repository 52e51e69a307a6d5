//! Time: UTC whatever the session's zone, no TIMESTAMP column, no end in 2038.

use std::time::Duration;

use mysql::TxOpts;
use mysql::prelude::Queryable;
use queue_table_core::{
    BatchSize, QueueBackend, QueueBackendExt, ReapRequest, RetryPolicy, TransactionalBackend,
};

use crate::support::{ids, job, lease, on_each, request};

#[test]
fn no_column_is_a_timestamp_or_updates_itself_whatever_the_session_defaults() {
    on_each(|server| {
        let tables = server.names();
        let mut session = server.session();
        session
            .query_drop("SET SESSION explicit_defaults_for_timestamp = 0")
            .unwrap();
        // The migration as somebody would paste it into that session.
        let file = tables.statement(include_str!("../../migrations/0001_tables.sql"));
        let file: String = file
            .lines()
            .filter(|line| !line.trim_start().starts_with("--"))
            .collect();
        for suffix in ["dedup", "effect", "failure", "schema"] {
            assert!(file.contains(&format!("{{job_{suffix}}}")), "{suffix}");
        }
        for statement in file.split(';').filter(|text| !text.trim().is_empty()) {
            let mut statement = statement.to_owned();
            for suffix in ["dedup", "effect", "queue", "failure", "schema"] {
                let name = format!("{}_{suffix}", tables.name);
                statement = statement.replace(&format!("{{job_{suffix}}}"), &name);
            }
            session.query_drop(statement).unwrap();
        }
        let odd = format!(
            "SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name LIKE '{}%' \
             AND (data_type = 'timestamp' OR extra LIKE '%on update%')",
            tables.name
        );
        assert_eq!(tables.number(&odd), 0);

        let queue = tables.queue();
        let delayed = job().with_delay(Duration::from_secs(3_600)).unwrap();
        queue.enqueue_one(&delayed).unwrap();
        let run_at = "SELECT TIMESTAMPDIFF(MICROSECOND, enqueued_at, run_at) FROM {job}";
        assert_eq!(tables.number(run_at), 3_600_000_000);
        tables.run("UPDATE {job} SET priority = 3");
        assert_eq!(tables.number(run_at), 3_600_000_000);
    });
}

#[test]
fn the_sessions_zone_moves_no_instant() {
    on_each(|server| {
        let tables = server.tables();
        let queue = tables.queue();
        for zone in ["+13:00", "-12:00", "+05:30"] {
            let mut session = server.session();
            let set = format!("SET SESSION time_zone = '{zone}'");
            session.query_drop(set).unwrap();
            let mut tx = session.start_transaction(TxOpts::default()).unwrap();
            queue.enqueue_in(&mut tx, &[job()]).unwrap();
            let claims = queue.claim_in(&mut tx, &request(10)).unwrap();
            assert_eq!(claims.len(), 1, "{zone}");
            tx.query_drop("SET SESSION time_zone = '+01:00'").unwrap();
            queue.ack_in(&mut tx, &claims[0].receipt).unwrap();
            tx.commit().unwrap();
            let now = "SELECT TIMESTAMPDIFF(SECOND, finished_at, UTC_TIMESTAMP(6)) FROM {job} ORDER BY job_id DESC LIMIT 1";
            assert!((0..5).contains(&tables.number(now)), "{zone}");
        }
    });
}

/// The clock of one session is set by hand to the nights in which local time jumps.
#[test]
fn leases_over_a_change_of_summer_time_are_as_long_as_asked() {
    on_each(|server| {
        let tables = server.tables();
        let queue = tables.queue();
        // 2027-03-28 and 2027-10-31, 00:59:59 UTC: a second before Berlin's clocks jump.
        for night in [1_806_195_599_i64, 1_824_944_399] {
            let mut session = server.session();
            // Berlin's own rules where the server has its zones, else the offset that holds after
            // the change.
            if session
                .query_drop("SET SESSION time_zone = 'Europe/Berlin'")
                .is_err()
            {
                session
                    .query_drop("SET SESSION time_zone = '+02:00'")
                    .unwrap();
            }
            let mut tx = session.start_transaction(TxOpts::default()).unwrap();
            let clock = |tx: &mut mysql::Transaction<'_>, seconds: i64| {
                tx.query_drop(format!("SET timestamp = {}", night + seconds))
                    .unwrap();
            };
            clock(&mut tx, 0);
            queue.enqueue_in(&mut tx, &[job()]).unwrap();
            let request = request(1).with_lease(lease(Duration::from_secs(120)));
            let claim = queue.claim_in(&mut tx, &request).unwrap().pop().unwrap();
            assert_eq!(
                claim.lease_until.since(claim.claimed_at),
                Duration::from_secs(120)
            );
            assert_eq!(claim.claimed_at.as_micros(), night * 1_000_000);
            clock(&mut tx, 119);
            let name = queue_table_core::EffectName::new("e").unwrap();
            assert!(
                queue
                    .record_effect_in(&mut tx, &claim.receipt, &name)
                    .unwrap()
            );
            clock(&mut tx, 121);
            assert!(queue.ack_in(&mut tx, &claim.receipt).is_err());
            tx.rollback().unwrap();
        }
    });
}

#[test]
fn a_job_is_due_at_once_and_never_before_its_time() {
    on_each(|server| {
        let tables = server.tables();
        let (producer, consumer) = (tables.queue(), tables.queue());
        for _ in 0..100 {
            let id = producer.enqueue_one(&job()).unwrap().job_id();
            let claims = consumer.claim(&request(1)).unwrap();
            assert_eq!(ids(&claims), [id]);
        }
        let later = job().with_delay(Duration::from_micros(300_001)).unwrap();
        producer.enqueue_one(&later).unwrap();
        assert!(consumer.claim(&request(1)).unwrap().is_empty());
        std::thread::sleep(Duration::from_millis(310));
        let claim = consumer.claim(&request(1)).unwrap().pop().unwrap();
        assert!(claim.claimed_at >= claim.run_at);
    });
}

#[test]
fn instants_beyond_2038_are_stored_and_read_back() {
    on_each(|server| {
        let tables = server.tables();
        let queue = tables.queue();
        queue.enqueue_one(&job()).unwrap();
        let claim = queue.claim(&request(1)).unwrap().pop().unwrap();
        tables.run("UPDATE {job} SET lease_until = '9999-12-31 23:59:59.999999'");
        let reaped = queue
            .reap(&ReapRequest::new(BatchSize::MAX, RetryPolicy::default()))
            .unwrap();
        assert!(reaped.is_empty());
        let row = queue_table_core::Administration::get(&queue, claim.job_id())
            .unwrap()
            .unwrap();
        assert_eq!(
            row.lease_until.unwrap().to_string(),
            "9999-12-31T23:59:59.999999Z"
        );
    });
}
