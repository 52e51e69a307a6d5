//! Connections: pools, servers that are gone. What the network does to them, the suite tries.

use std::thread;
use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection;
use diesel::pg::PgConnection;
use diesel::r2d2::ConnectionManager;
use queue_table_core::{
    Administration, DedupScope, Enqueued, Error, LeaseLength, QueueBackend, QueueBackendExt,
    Rejected, State, TransactionalBackend,
};
use queue_table_postgres::PostgresQueue;

use crate::support::{MINUTE, Tables, job, request, table, url};

#[test]
fn a_queue_is_built_while_the_server_is_down() {
    let queue = PostgresQueue::builder("postgres://app:s3cr3t@127.0.0.1:1/shop")
        .pool_wait(Duration::from_millis(300))
        .build()
        .unwrap();
    let error = queue.enqueue(&[job()]).unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
    assert!(!format!("{error:?}").contains("s3cr3t"));
    let tiny = PostgresQueue::builder("postgres://h/d")
        .pool_size(0)
        .build();
    assert!(matches!(tiny, Err(Error::Rejected(Rejected::Invalid(_)))));
}

#[test]
fn sessions_that_died_while_idle_are_replaced_unseen() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let name = &tables.schema;
    let queue = tables.queue_at(&format!("{}?application_name={name}", tables.url));
    let receipt = tables.claimed(MINUTE);
    let lease = LeaseLength::new(MINUTE).unwrap();
    // Several pooled connections, and the one for renewals.
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let held: Result<(), Error> = queue.transaction(|tx| {
                    tx.batch_execute("SELECT pg_sleep(0.3)").unwrap();
                    Ok(())
                });
                held.unwrap();
            });
        }
    });
    queue.renew_one(&receipt, lease).unwrap();
    let kill = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = '{name}'"
    );
    assert_eq!(tables.number(&kill), 5);
    thread::sleep(Duration::from_millis(100));
    queue.renew_one(&receipt, lease).unwrap();
    queue.ack_one(&receipt).unwrap();
}

#[test]
fn renewals_go_through_while_handlers_hold_every_pooled_connection() {
    let Some(tables) =
        Tables::with(|builder| builder.pool_size(1).pool_wait(Duration::from_secs(2)))
    else {
        return;
    };
    let receipt = tables.claimed(MINUTE);
    let lease = LeaseLength::new(MINUTE).unwrap();
    let held: Result<(), Error> = tables.queue.transaction(|_| {
        assert!(matches!(
            tables.queue.ack_one(&receipt),
            Err(Error::Unavailable(_))
        ));
        tables.queue.renew_one(&receipt, lease)
    });
    held.unwrap();
    tables.queue.ack_one(&receipt).unwrap();
}

#[test]
fn a_given_pool_serves_and_is_left_clean() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let url = format!("{}?application_name={}", tables.url, tables.schema);
    let pool = |size| {
        diesel::r2d2::Pool::builder()
            .max_size(size)
            .build(ConnectionManager::<PgConnection>::new(&url))
            .unwrap()
    };
    let too_small = PostgresQueue::builder_with_pool(pool(1)).build();
    assert!(matches!(
        too_small,
        Err(Error::Rejected(Rejected::Invalid(_)))
    ));
    let shared = pool(2);
    let queue = PostgresQueue::builder_with_pool(shared.clone())
        .table(table(&tables.schema))
        .build()
        .unwrap();
    queue.enqueue(&[job(), job()]).unwrap();
    let claimed = queue.claim(&request(1, MINUTE)).unwrap();
    queue
        .renew_one(&claimed[0].receipt, LeaseLength::default())
        .unwrap();
    queue.ack_one(&claimed[0].receipt).unwrap();
    let open = format!(
        "SELECT count(*) FROM pg_stat_activity \
         WHERE state LIKE 'idle in transaction%' AND application_name = '{}'",
        tables.schema
    );
    assert_eq!(tables.number(&open), 0);
    drop(queue);
    assert_eq!(shared.state().idle_connections, shared.state().connections);
}

#[test]
fn a_panic_in_the_callers_work_leaves_no_open_transaction_in_the_pool() {
    let Some(tables) = Tables::with(|builder| builder.pool_size(1)) else {
        return;
    };
    let panicked = thread::scope(|scope| {
        let work = scope.spawn(|| {
            let result: Result<(), Error> = tables.queue.transaction(|tx| {
                tables.queue.enqueue_in(tx, &[job()])?;
                panic!("on purpose");
            });
            result
        });
        work.join().is_err()
    });
    assert!(panicked);
    assert_eq!(tables.enqueue(1).len(), 1);
    assert_eq!(tables.number("SELECT count(*) FROM job"), 1);
}

#[test]
fn a_caller_on_another_driver_enqueues_with_the_exported_statement() {
    use diesel::prelude::*;
    use diesel::sql_types::{BigInt, Integer, Text};

    #[derive(QueryableByName)]
    struct Id {
        #[diesel(sql_type = BigInt)]
        job_id: i64,
    }

    let Some(tables) = Tables::fresh() else {
        return;
    };
    let id: Id = diesel::sql_query(tables.queue.enqueue_sql())
        .bind::<Text, _>("mail")
        .bind::<Text, _>("welcome")
        .bind::<Text, _>(r#"{"customer":7}"#)
        .bind::<Integer, _>(1)
        .bind::<Integer, _>(5)
        .bind::<BigInt, _>(0_i64)
        .bind::<Integer, _>(20)
        .get_result(&mut tables.raw())
        .unwrap();
    let claimed = tables.claim(1, MINUTE);
    assert_eq!(claimed[0].job_id().get(), id.job_id);
    assert_eq!((claimed[0].priority, claimed[0].max_attempts), (5, 20));
    assert!(url().is_some());
}
