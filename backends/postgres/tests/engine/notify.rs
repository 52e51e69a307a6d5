//! Wake-up between processes, and what happens when its connection dies.

use std::thread;
use std::time::{Duration, Instant};

use queue_table_core::{QueueBackend, TransactionalBackend, Waiter, Woken};
use queue_table_postgres::PostgresQueue;

use crate::support::{Tables, job, mail, table};

fn listeners(tables: &Tables) -> String {
    format!(
        "SELECT count(*) FROM pg_stat_activity WHERE query = 'LISTEN \"{}\"' AND pid <> pg_backend_pid()",
        "job_ready"
    ) + &format!(" AND application_name = '{}'", tables.schema)
}

/// Another process's queue, and whether it is listening yet.
fn other(tables: &Tables) -> PostgresQueue {
    let url = format!("{}?application_name={}", tables.url, tables.schema);
    let queue = PostgresQueue::builder(&url)
        .table(table(&tables.schema))
        .notify(true)
        .build()
        .unwrap();
    until_listening(tables);
    queue
}

fn until_listening(tables: &Tables) {
    let until = Instant::now() + Duration::from_secs(10);
    while tables.number(&listeners(tables)) == 0 {
        assert!(Instant::now() < until, "nobody listens");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_commit_in_one_process_wakes_a_waiter_in_another() {
    let Some(tables) = Tables::with(|builder| builder.notify(true)) else {
        return;
    };
    let other = other(&tables);
    let mut waiter = Waiter::new([mail()]);
    let long = Duration::from_secs(20);

    tables.queue.enqueue(&[job()]).unwrap();
    assert_eq!(other.wait(&mut waiter, long).unwrap(), Woken::Rung);

    tables
        .queue
        .transaction(|tx| tables.queue.enqueue_in(tx, &[job()]))
        .unwrap();
    assert_eq!(other.wait(&mut waiter, long).unwrap(), Woken::Rung);

    let rolled_back: Result<(), _> = tables.queue.transaction(|tx| {
        tables.queue.enqueue_in(tx, &[job()])?;
        Err(queue_table_core::Rejected::NoSuchJob(queue_table_core::JobId::new(1)).into())
    });
    assert!(matches!(
        rolled_back,
        Err(queue_table_core::Error::Rejected(_))
    ));
    assert_eq!(
        other.wait(&mut waiter, Duration::from_millis(300)).unwrap(),
        Woken::TimedOut
    );
}

#[test]
fn a_lost_listening_connection_leaves_polling_and_comes_back() {
    let Some(tables) = Tables::with(|builder| builder.notify(true)) else {
        return;
    };
    let other = other(&tables);
    let kill = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
         WHERE query LIKE 'LISTEN%' AND application_name = '{}'",
        tables.schema
    );
    assert_eq!(tables.number(&kill), 1);
    // Nothing is an error meanwhile: the wait ends by its time, and the worker polls.
    let mut waiter = Waiter::new([mail()]);
    assert_eq!(
        other.wait(&mut waiter, Duration::from_millis(50)).unwrap(),
        Woken::TimedOut
    );
    until_listening(&tables);
    tables.queue.enqueue(&[job()]).unwrap();
    assert_eq!(
        other.wait(&mut waiter, Duration::from_secs(20)).unwrap(),
        Woken::Rung
    );
}

#[test]
fn a_dropped_queue_stops_listening() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let other = other(&tables);
    drop(other);
    let until = Instant::now() + Duration::from_secs(10);
    let any = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = '{}'",
        tables.schema
    );
    while tables.number(&any) > 0 {
        assert!(Instant::now() < until, "a connection is left");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn within_one_process_a_waiter_is_woken_without_notifications() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let mut waiter = Waiter::new([mail()]);
    tables.queue.enqueue(&[job()]).unwrap();
    assert_eq!(
        tables.queue.wait(&mut waiter, Duration::ZERO).unwrap(),
        Woken::Rung
    );
    tables
        .queue
        .transaction(|tx| tables.queue.enqueue_in(tx, &[job()]))
        .unwrap();
    assert_eq!(
        tables.queue.wait(&mut waiter, Duration::ZERO).unwrap(),
        Woken::Rung
    );
}
