//! The table of errors, a row for each SQLSTATE that can be brought about, as a real server words
//! it.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection;
use diesel::pg::PgConnection;
use diesel::prelude::*;
use queue_table_core::{
    Administration, Delay, Error, ErrorText, Failure, QueueBackend, QueueBackendExt, Rejected,
    TransactionalBackend,
};
use queue_table_postgres::PostgresQueue;

use crate::support::{
    MINUTE, Role, Tables, job, number, request, table, url, with_settings, with_user,
};

fn kind<T: std::fmt::Debug>(result: Result<T, Error>) -> &'static str {
    result.expect_err("an error").kind()
}

fn constraint<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    match result {
        Err(Error::Rejected(Rejected::Constraint { constraint, .. })) => constraint,
        other => panic!("expected a refused row, got {other:?}"),
    }
}

/// Runs `operation` while another transaction holds the row of the claimed job.
fn while_locked<T>(tables: &Tables, operation: impl FnOnce() -> T) -> T {
    let mut raw = tables.raw();
    raw.batch_execute("BEGIN; SELECT FROM job FOR UPDATE")
        .unwrap();
    let result = operation();
    raw.batch_execute("ROLLBACK").unwrap();
    result
}

#[test]
fn lock_timeout_55p03_is_contention() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let receipt = tables.claimed(MINUTE);
    let queue = tables.queue_at(&with_settings(&tables.url, &[("lock_timeout", "50ms")]));
    let began = Instant::now();
    while_locked(&tables, || {
        assert_eq!(kind(queue.ack_one(&receipt)), "contention")
    });
    let took = began.elapsed();
    assert!(took < Duration::from_secs(4), "six tries took {took:?}");
    queue.ack_one(&receipt).unwrap();
}

#[test]
fn a_lone_result_does_not_wait_for_a_locked_row_for_ever() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    // No lock_timeout: the server would wait as long as the other transaction lasts.
    let receipt = tables.claimed(MINUTE);
    let failure = Failure::retry(receipt.clone(), Delay::ZERO, ErrorText::new("no"));
    while_locked(&tables, || {
        std::thread::scope(|scope| {
            let ack = scope.spawn(|| kind(tables.queue.ack_one(&receipt)));
            let fail = scope.spawn(|| kind(tables.queue.fail_one(&failure).map(drop)));
            assert_eq!(ack.join().unwrap(), "contention");
            assert_eq!(fail.join().unwrap(), "contention");
        });
    });
    tables.queue.ack_one(&receipt).unwrap();
}

#[test]
fn statement_timeout_57014_is_unavailable() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let receipt = tables.claimed(MINUTE);
    let queue = tables.queue_at(&with_settings(
        &tables.url,
        &[("statement_timeout", "100ms")],
    ));
    while_locked(&tables, || {
        assert_eq!(kind(queue.ack_one(&receipt)), "unavailable")
    });
    queue.ack_one(&receipt).unwrap();
}

#[test]
fn a_cancelled_57014_or_terminated_57p01_session_is_unavailable() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let receipt = tables.claimed(MINUTE);
    for end in ["pg_cancel_backend", "pg_terminate_backend"] {
        let name = tables.schema.clone();
        let queue = tables.queue_at(&with_settings(&tables.url, &[("application_name", &name)]));
        while_locked(&tables, || {
            thread::scope(|scope| {
                let acking = scope.spawn(|| queue.ack_one(&receipt));
                let sql = format!(
                    "SELECT count({end}(pid)) FROM pg_stat_activity \
                     WHERE application_name = '{name}' AND wait_event_type = 'Lock'"
                );
                while tables.number(&sql) == 0 {
                    thread::sleep(Duration::from_millis(20));
                }
                assert_eq!(kind(acking.join().unwrap()), "unavailable", "{end}");
            });
        });
        assert!(queue.get(receipt.job_id()).unwrap().is_some());
    }
    tables.queue.ack_one(&receipt).unwrap();
}

#[test]
fn deadlock_40p01_in_a_callers_transaction_is_contention() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let (one, two) = (tables.claimed(MINUTE), tables.claimed(MINUTE));
    let ended = thread::scope(|scope| {
        let (to_first, at_first) = mpsc::channel();
        let (to_second, at_second) = mpsc::channel();
        let run = |mine, theirs, ready: mpsc::Sender<()>, other: mpsc::Receiver<()>| {
            let queue = &tables.queue;
            scope.spawn(move || {
                queue.transaction(|tx| {
                    queue.ack_in(tx, mine)?;
                    ready.send(()).unwrap();
                    other.recv().unwrap();
                    queue.ack_in(tx, theirs)
                })
            })
        };
        let first = run(&one, &two, to_second, at_first);
        let second = run(&two, &one, to_first, at_second);
        [first.join().unwrap(), second.join().unwrap()]
    });
    let victims: Vec<_> = ended.into_iter().filter_map(Result::err).collect();
    assert_eq!(victims.len(), 1, "{victims:?}");
    assert_eq!(victims[0].kind(), "contention", "{victims:?}");
    assert_eq!(
        tables.number("SELECT count(*) FROM job WHERE state = 'succeeded'"),
        2
    );
}

#[test]
fn read_only_25006_is_unavailable_and_the_connection_is_dropped() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let grants = format!(
        "GRANT USAGE ON SCHEMA {0} TO {{role}}; GRANT ALL ON ALL TABLES IN SCHEMA {0} TO {{role}};
         ALTER ROLE {{role}} SET default_transaction_read_only = on",
        tables.schema
    );
    let role = Role::fresh(&tables.url, &grants);
    tables.enqueue(1);
    let queue = tables.queue_at(&role.url());
    assert_eq!(kind(queue.claim(&request(1, MINUTE))), "unavailable");
    // The setting is read at the start of a session: only a new connection sees that it is gone.
    tables.run(&format!(
        "ALTER ROLE {} RESET default_transaction_read_only",
        role.name
    ));
    assert_eq!(queue.claim(&request(1, MINUTE)).unwrap().len(), 1);
}

#[test]
fn refused_rows_are_told_by_the_name_of_the_users_constraint() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    tables.run(
        "CREATE TABLE customer_order (id BIGINT PRIMARY KEY);
         INSERT INTO customer_order VALUES (1);
         ALTER TABLE job ADD COLUMN order_id BIGINT NOT NULL
           CONSTRAINT job_order REFERENCES customer_order
           CONSTRAINT job_order_positive CHECK (order_id > 0);
         CREATE UNIQUE INDEX job_one_per_order ON job (order_id)",
    );
    let own = table(&tables.schema)
        .with_column("order_id", queue_table_core::ColumnType::Integer)
        .unwrap();
    let queue = PostgresQueue::builder(&tables.url)
        .table(own)
        .build()
        .unwrap();
    let of = |order: i64| job().with_column("order_id", order).unwrap();
    queue.enqueue_one(&of(1)).unwrap();
    assert_eq!(constraint(queue.enqueue_one(&of(7))), "job_order"); // 23503
    assert_eq!(constraint(queue.enqueue_one(&of(-1))), "job_order_positive"); // 23514
    assert_eq!(constraint(queue.enqueue_one(&of(1))), "job_one_per_order"); // 23505
    let missing = constraint(queue.enqueue_one(&job())); // 23502; named since version 18
    assert!(missing.contains("order_id"), "{missing}");
    assert_eq!(constraint(queue.enqueue(&[of(7), of(8)])), "job_order");
}

#[test]
fn a_deferred_constraint_that_refuses_the_commit_is_told() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    tables.run(
        "CREATE TABLE parent (id INT PRIMARY KEY);
         CREATE TABLE child (id INT CONSTRAINT child_parent REFERENCES parent DEFERRABLE INITIALLY DEFERRED)",
    );
    let result = tables.queue.transaction(|tx| {
        tables.queue.enqueue_in(tx, &[job()])?;
        tx.batch_execute(&format!("INSERT INTO {}.child VALUES (1)", tables.schema))
            .unwrap();
        Ok::<_, Error>(())
    });
    assert_eq!(constraint(result), "child_parent");
    assert_eq!(tables.number("SELECT count(*) FROM job"), 0);
}

#[test]
fn missing_tables_42p01_are_a_schema_error_and_nothing_is_created() {
    let Some(url) = url() else { return };
    let own = table("no_such_schema_at_all");
    let queue = PostgresQueue::builder(&url).table(own).build().unwrap();
    assert_eq!(kind(queue.claim(&request(1, MINUTE))), "schema");
    assert_eq!(kind(queue.enqueue(&[job()])), "schema");
    let mut raw = PgConnection::establish(&url).unwrap();
    let inside = raw.transaction(|tx| {
        let refused = kind(queue.enqueue_in(tx, &[job()]));
        Err::<(), _>(Told(refused))
    });
    assert_eq!(inside.unwrap_err().0, "schema");
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname = 'no_such_schema_at_all'";
    assert_eq!(number(&mut raw, schemas), 0);
}

/// An error that carries what a test has seen out of a transaction.
#[derive(Debug)]
struct Told(&'static str);

impl From<diesel::result::Error> for Told {
    fn from(error: diesel::result::Error) -> Self {
        panic!("{error}")
    }
}

#[test]
fn an_aborted_transaction_25p02_is_an_engine_error() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let told = tables.raw().transaction(|tx| {
        assert!(tx.batch_execute("SELECT 1 / 0").is_err());
        Err::<(), _>(Told(kind(tables.queue.enqueue_in(tx, &[job()]))))
    });
    assert_eq!(told.unwrap_err().0, "engine");
}

#[test]
fn a_wrong_password_28p01_is_unavailable_and_shows_no_password() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let wrong = with_user(&tables.url, "queue_nobody", "s3cr3t");
    let queue = PostgresQueue::builder(&wrong)
        .pool_wait(Duration::from_millis(500))
        .build()
        .unwrap();
    let error = queue.claim(&request(1, MINUTE)).unwrap_err();
    assert_eq!(error.kind(), "unavailable");
    let shown = format!("{error:?} {queue:?}");
    assert!(
        shown.contains("queue_nobody") && !shown.contains("s3cr3t"),
        "{shown}"
    );
    let lease = queue_table_core::LeaseLength::default();
    let receipt = tables.claimed(MINUTE);
    let error = queue.renew(&[receipt], lease).unwrap_err();
    assert!(!format!("{error:?}").contains("s3cr3t"));
}

#[test]
fn too_many_connections_53300_is_unavailable() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let role = Role::fresh(&tables.url, "ALTER ROLE {role} CONNECTION LIMIT 1");
    let _only = PgConnection::establish(&role.url()).unwrap();
    let queue = PostgresQueue::builder(&role.url())
        .pool_wait(Duration::from_millis(500))
        .build()
        .unwrap();
    let error = queue.claim(&request(1, MINUTE)).unwrap_err();
    assert_eq!(error.kind(), "unavailable");
    assert!(
        format!("{error:?}").contains("too many connections"),
        "{error:?}"
    );
}

#[test]
fn missing_rights_42501_are_unsupported() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let role = Role::fresh(
        &tables.url,
        &format!("GRANT USAGE ON SCHEMA {} TO {{role}}", tables.schema),
    );
    let queue = tables.queue_at(&role.url());
    let error = queue.enqueue(&[job()]).unwrap_err();
    assert_eq!(error.kind(), "unsupported");
    assert!(
        error
            .to_string()
            .contains("permission denied for table job"),
        "{error}"
    );
}

#[test]
fn an_exhausted_sequence_breaks_enqueue_and_nothing_else() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    for start in [(1_i64 << 31) + 1, (1 << 53) + 1, i64::MAX - 1] {
        tables.run(&format!(
            "ALTER TABLE job ALTER COLUMN job_id RESTART WITH {start}"
        ));
        assert_eq!(tables.enqueue(1)[0].get(), start);
    }
    assert_eq!(tables.enqueue(1)[0].get(), i64::MAX);
    assert_eq!(kind(tables.queue.enqueue(&[job()])), "engine");
    let claimed = tables.claim(4, MINUTE);
    assert_eq!(claimed.len(), 4);
    tables.queue.ack_one(&claimed[3].receipt).unwrap();
}
