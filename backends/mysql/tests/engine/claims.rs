//! Claims: in index order, without a sort, locking what they take and nothing else.

use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use mysql::{IsolationLevel, TxOpts};
use queue_table_core::{
    Accepts, Administration, BatchSize, JobId, Kind, QueueBackend, QueueBackendExt, ReapRequest,
    RetryPolicy, TransactionalBackend,
};

use crate::support::{Tables, claimed, ids, job, lease, mail, on_each, request};

/// How a statement runs: its index, and whether it sorts.
fn explain(tables: &Tables<'_>, statement: &str) -> (Vec<String>, String) {
    let mut session = tables.server.session();
    if tables.server.is_mysql() {
        session
            .query_drop("SET explain_format = 'TRADITIONAL'")
            .unwrap();
    }
    let rows: Vec<mysql::Row> = session.query(format!("EXPLAIN {statement}")).unwrap();
    let mut keys = Vec::new();
    let mut extra = String::new();
    for row in rows {
        keys.extend(row.get::<Option<String>, _>("key").flatten());
        extra += &row
            .get::<Option<String>, _>("Extra")
            .unwrap()
            .unwrap_or_default();
        extra += "; ";
    }
    (keys, extra)
}

fn fill(tables: &Tables<'_>, count: u32) {
    let jobs: Vec<_> = (0..count)
        .map(|at| job().with_priority((at % 10) as i32))
        .collect();
    tables.queue().enqueue(&jobs).unwrap();
    tables.run("ANALYZE TABLE {job}");
}

#[test]
fn claim_and_promote_read_their_index_and_do_not_sort() {
    on_each(|server| {
        let tables = server.tables();
        fill(&tables, 2_000);
        let claims = [
            (
                include_str!("../../sql/claim_select.sql"),
                vec!["'mail'", "3", "10"],
            ),
            (
                include_str!("../../sql/claim_select_accepting.sql"),
                vec!["'mail'", "3", "'[[\"send\",0,9]]'", "10"],
            ),
            (
                include_str!("../../sql/promote_step.sql"),
                vec!["'mail'", "5"],
            ),
            (
                include_str!("../../sql/promote_probe.sql"),
                vec!["'mail'", "3", "1000000", "10"],
            ),
            (
                include_str!("../../sql/promote_select.sql"),
                vec!["'mail'", "3", "1000000", "10"],
            ),
        ];
        for (file, values) in claims {
            let mut values = values.into_iter();
            let text: String = tables
                .statement(file)
                .split('?')
                .map(|part| format!("{part}{}", values.next().unwrap_or("")))
                .collect();
            let (keys, extra) = explain(&tables, &text);
            assert_eq!(keys[0], format!("{}_ready", tables.name));
            assert!(!extra.contains("filesort"), "{extra}");
        }
        let step = tables.statement(include_str!("../../sql/claim_step.sql"));
        let step = step
            .replacen('?', "'mail'", 1)
            .replacen('?', "5", 1)
            .replacen('?', "'mail'", 1);
        let (keys, extra) = explain(&tables, &step);
        assert_eq!(keys[0], format!("{}_ready", tables.name));
        assert!(!extra.contains("filesort"), "{extra}");
    });
}

#[test]
fn reap_and_its_look_read_their_index_and_do_not_sort() {
    on_each(|server| {
        let tables = server.tables();
        fill(&tables, 2_000);
        for file in [
            include_str!("../../sql/reap_select.sql"),
            include_str!("../../sql/reap_probe.sql"),
        ] {
            let reap = tables.statement(file).replace('?', "10");
            let (keys, extra) = explain(&tables, &reap);
            assert_eq!(keys, [format!("{}_lease", tables.name)]);
            assert!(!extra.contains("filesort"), "{extra}");
        }
    });
}

#[test]
fn statements_by_id_use_the_primary_key_of_a_small_table_too() {
    on_each(|server| {
        let tables = server.tables();
        fill(&tables, 5);
        for file in [
            include_str!("../../sql/lock.sql"),
            include_str!("../../sql/lock_free.sql"),
            include_str!("../../sql/judge.sql"),
            include_str!("../../sql/ack.sql"),
            include_str!("../../sql/renew.sql"),
            include_str!("../../sql/claim.sql"),
            include_str!("../../sql/promote.sql"),
        ] {
            let text = tables.statement(file).replacen('?', "'[1,2]'", 1);
            let text = text.replace("= ?", "= UTC_TIMESTAMP(6)").replace('?', "5");
            let (keys, extra) = explain(&tables, &text);
            assert_eq!(keys.last().map(String::as_str), Some("PRIMARY"), "{text}");
            assert!(!extra.contains("filesort"), "{extra}");
        }
    });
}

/// After a claim that found something, the next one finds and locks by one statement.
#[test]
fn a_claim_heeds_priority_due_time_kind_and_pause() {
    on_each(|server| {
        let tables = server.tables();
        let queue = tables.queue();
        let claim = |request| -> Vec<i32> {
            let claimed = queue.claim(&request).unwrap();
            claimed.iter().map(|job| job.priority).collect()
        };
        let none: [i32; 0] = [];
        queue.enqueue(&vec![job(); 6]).unwrap();
        assert_eq!(claim(request(1)), [0]);
        queue.enqueue_one(&job().with_priority(5)).unwrap();
        assert_eq!(claim(request(2)), [5, 0]);
        let other: Kind = Kind::new("other").unwrap();
        let others = Accepts::from([(other, 0..=9)]);
        assert_eq!(claim(request(1).accepting(others)), none);
        assert_eq!(claim(request(1)), [0]);
        queue.pause(&mail()).unwrap();
        assert_eq!(claim(request(1)), none);
        queue.resume(&mail()).unwrap();
        assert_eq!(claim(request(1)), [0]);
        let hour = Duration::from_secs(3_600);
        let future = job().with_priority(9).with_delay(hour).unwrap();
        queue.enqueue_one(&future).unwrap();
        assert_eq!(claim(request(1)), [0]);
        assert_eq!(claim(request(2)), [0]);
        assert_eq!(claim(request(1)), none);
    });
}

#[test]
fn an_open_claim_of_one_job_leaves_the_others_to_be_claimed() {
    on_each(|server| {
        let tables = server.tables();
        fill(&tables, 50);
        let (queue, other) = (tables.queue(), tables.queue());
        queue
            .transaction(|tx| {
                assert_eq!(queue.claim_in(tx, &request(1))?.len(), 1);
                let started = Instant::now();
                assert_eq!(other.claim(&request(100))?.len(), 49);
                assert!(started.elapsed() < Duration::from_secs(1));
                Ok::<_, queue_table_core::Error>(())
            })
            .unwrap();
    });
}

#[test]
fn an_open_reap_of_one_job_leaves_the_others_to_be_reaped() {
    on_each(|server| {
        let tables = server.tables();
        fill(&tables, 50);
        let queue = tables.queue();
        assert_eq!(queue.claim(&request(50)).unwrap().len(), 50);
        tables.run("UPDATE {job} SET lease_until = lease_until - INTERVAL 1 HOUR");
        let mut session = server.session();
        let options = TxOpts::default().set_isolation_level(Some(IsolationLevel::ReadCommitted));
        let mut tx = session.start_transaction(options).unwrap();
        let select = tables.statement(include_str!("../../sql/reap_select.sql"));
        let taken: Vec<mysql::Row> = tx.exec(select, (1,)).unwrap();
        assert_eq!(taken.len(), 1);
        let request = ReapRequest::new(BatchSize::MAX, RetryPolicy::default());
        assert_eq!(queue.reap(&request).unwrap().len(), 49);
    });
}

#[test]
fn an_open_claim_locks_the_rows_it_took_and_no_producer_waits() {
    on_each(|server| {
        let tables = server.tables();
        let queue = tables.queue();
        for _ in 0..3 {
            queue.enqueue_one(&job()).unwrap();
        }
        let mut producer = server.session();
        producer
            .query_drop("SET SESSION innodb_lock_wait_timeout = 1")
            .unwrap();
        // MariaDB before 11.1 knows only the old name.
        let level = match server.is_mysql() {
            true => "SELECT @@session.transaction_isolation",
            false => "SELECT @@session.tx_isolation",
        };
        assert_eq!(
            producer.query_first::<String, _>(level).unwrap().unwrap(),
            "REPEATABLE-READ"
        );
        queue
            .transaction(|tx| {
                // It takes all there is, so its scan goes to the end of the index, where inserts
                // come.
                assert_eq!(queue.claim_in(tx, &request(100))?.len(), 3);
                let started = Instant::now();
                let mut producing = producer.start_transaction(TxOpts::default()).unwrap();
                queue.enqueue_in(&mut producing, &[job(), job().with_priority(9)])?;
                producing.commit().unwrap();
                assert!(started.elapsed() < Duration::from_secs(1));
                Ok::<_, queue_table_core::Error>(())
            })
            .unwrap();
        queue
            .transaction(|tx| {
                let level: Option<String> = tx.query_first(level).unwrap();
                assert_eq!(
                    level.unwrap(),
                    "REPEATABLE-READ",
                    "the session's own level is as it was"
                );
                Ok::<_, queue_table_core::Error>(())
            })
            .unwrap();
    });
}

#[test]
fn a_claim_does_not_read_future_jobs_of_higher_priority() {
    on_each(|server| {
        let tables = server.tables();
        let queue = tables.queue();
        let future = job()
            .with_priority(7)
            .with_delay(Duration::from_secs(3_600))
            .unwrap();
        queue.enqueue(&vec![future; 5_000]).unwrap();
        let due = queue.enqueue_one(&job()).unwrap().job_id();
        tables.run("ANALYZE TABLE {job}");
        let mut session = server.session();
        let mut tx = session.start_transaction(TxOpts::default()).unwrap();
        let read = "SELECT CAST(SUM(variable_value) AS SIGNED) FROM {s}.session_status \
                    WHERE variable_name IN ('Handler_read_next', 'Handler_read_prev', 'Handler_read_rnd_next')";
        let schema = if server.is_mysql() {
            "performance_schema"
        } else {
            "information_schema"
        };
        let read = read.replace("{s}", schema);
        // The first claim also asks what kind of server this is.
        assert_eq!(ids(&queue.claim_in(&mut tx, &request(5)).unwrap()), [due]);
        let before: i64 = tx.query_first(&read).unwrap().unwrap();
        let nothing: i64 = tx.query_first(&read).unwrap().unwrap();
        assert!(queue.claim_in(&mut tx, &request(5)).unwrap().is_empty());
        let after: i64 = tx.query_first(&read).unwrap().unwrap();
        let rows = (after - nothing) - (nothing - before);
        assert!(rows < 50, "{rows} rows were read");
    });
}

#[test]
fn a_claim_at_repeatable_read_is_right_as_well() {
    on_each(|server| {
        let tables = server.tables();
        let queue = tables.queue();
        let first = queue.enqueue_one(&job()).unwrap().job_id();
        let mut session = server.session();
        let mut tx = session.start_transaction(TxOpts::default()).unwrap();
        let claimed = queue.claim_in(&mut tx, &request(10)).unwrap();
        assert_eq!(ids(&claimed), [first]);
        queue.ack_in(&mut tx, &claimed[0].receipt).unwrap();
        tx.commit().unwrap();
        assert_eq!(
            tables.number("SELECT COUNT(*) FROM {job} WHERE state = 'succeeded'"),
            1
        );
    });
}

#[test]
fn a_long_lease_and_a_long_delay_are_stored_as_asked() {
    on_each(|server| {
        let tables = server.tables();
        let queue = tables.queue();
        let far = job().with_delay(queue_table_core::DELAY_MAX).unwrap();
        let id: JobId = queue.enqueue_one(&far).unwrap().job_id();
        let years = format!(
            "SELECT TIMESTAMPDIFF(DAY, enqueued_at, run_at) FROM {{job}} WHERE job_id = {id}"
        );
        assert_eq!(tables.number(&years), 36_500);
        queue.enqueue_one(&job()).unwrap();
        let request = request(1).with_lease(lease(queue_table_core::LEASE_MAX));
        assert_eq!(queue.claim(&request).unwrap().len(), 1);
        let days =
            "SELECT TIMESTAMPDIFF(DAY, claimed_at, lease_until) FROM {job} WHERE state = 'running'";
        assert_eq!(tables.number(days), 30);
    });
}

#[test]
fn a_failure_record_that_is_there_already_stays_and_refuses_no_reap() {
    on_each(|server| {
        let tables = server.tables();
        let queue = tables.queue();
        let claim = claimed(&queue, Duration::from_millis(100));
        tables.run(&format!(
            "INSERT INTO {{job}}_failure (job_id, attempt, worker_id, at, cause, error) \
             VALUES ({}, 1, 'w0', UTC_TIMESTAMP(6), 'failed', 'by hand')",
            claim.job_id()
        ));
        std::thread::sleep(Duration::from_millis(200));
        let reaped = queue
            .reap(&ReapRequest::new(BatchSize::MAX, RetryPolicy::default()))
            .unwrap();
        assert_eq!(reaped.len(), 1);
        assert_eq!(reaped[0].job_id, claim.job_id());
        assert_eq!(
            tables.number("SELECT COUNT(*) FROM {job} WHERE state = 'ready'"),
            1
        );
        let first = "SELECT COUNT(*) FROM {job}_failure WHERE error = 'by hand'";
        assert_eq!(tables.number(first), 1);
        assert_eq!(tables.number("SELECT COUNT(*) FROM {job}_failure"), 1);
    });
}
