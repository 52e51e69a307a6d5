//! Connections: none before the first use, none that is broken, none for renewals that handlers
//! could take.

use std::thread;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use queue_table_core::{
    BatchSize, Error, Failed, LeaseLength, QueueBackend, QueueBackendExt, ReapRequest, RetryPolicy,
    TransactionalBackend,
};
use queue_table_mysql::MysqlQueue;

use crate::support::{claimed, job, on_each, request};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_server_that_is_down_is_unavailable_at_the_first_use_and_not_before() {
    let queue = MysqlQueue::builder("mysql://u:hunter2@127.0.0.1:1/d")
        .unwrap()
        .pool_wait(Duration::from_millis(300))
        .build()
        .unwrap();
    let started = Instant::now();
    for down in [
        queue.enqueue_one(&job()).unwrap_err(),
        queue
            .renew(&[], LeaseLength::default())
            .map_or_else(|error| error, |_| queue.claim(&request(1)).unwrap_err()),
    ] {
        assert!(matches!(down, Error::Unavailable(_)), "{down:?}");
        assert!(!format!("{down:?}").contains("hunter2"));
    }
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_wrong_password_is_told_without_it() {
    on_each(|server| {
        let opts = server.opts().pass(Some("hunter2"));
        let queue = MysqlQueue::builder_with(opts)
            .pool_wait(Duration::from_millis(300))
            .build()
            .unwrap();
        let denied = queue.enqueue_one(&job()).unwrap_err();
        assert!(matches!(denied, Error::Unsupported { .. }), "{denied:?}");
        assert!(denied.to_string().contains("1045"), "{denied}");
        assert!(!format!("{denied} {denied:?} {queue:?}").contains("hunter2"));
    });
}

#[test]
fn renewals_go_through_while_handlers_hold_every_pooled_connection() {
    on_each(|server| {
        let tables = server.tables();
        let queue = tables
            .builder()
            .pool_size(1)
            .pool_wait(Duration::from_millis(200))
            .build()
            .unwrap();
        let claim = claimed(&queue, MINUTE);
        queue
            .transaction(|_| {
                assert!(matches!(
                    queue.ack_one(&claim.receipt),
                    Err(Error::Unavailable(_))
                ));
                queue.renew_one(&claim.receipt, LeaseLength::default())
            })
            .unwrap();
    });
}

#[test]
fn a_panic_inside_a_transaction_gives_no_open_transaction_back() {
    on_each(|server| {
        let tables = server.tables();
        let queue = tables.builder().pool_size(1).build().unwrap();
        let panicked = thread::scope(|scope| {
            let work = scope.spawn(|| {
                queue.transaction::<(), Error, _>(|tx| {
                    queue.enqueue_in(tx, &[job()])?;
                    panic!("the handler's own");
                })
            });
            work.join()
        });
        assert!(panicked.is_err());
        assert!(queue.claim(&request(1)).unwrap().is_empty());
        assert!(queue.enqueue_one(&job()).unwrap().is_new());
        assert_eq!(tables.number("SELECT COUNT(*) FROM {job}"), 1);
    });
}

#[test]
fn killed_connections_are_replaced() {
    on_each(|server| {
        let tables = server.tables();
        let queue = tables.builder().pool_size(2).build().unwrap();
        let claim = claimed(&queue, MINUTE);
        queue
            .renew_one(&claim.receipt, LeaseLength::default())
            .unwrap();
        let mut session = server.session();
        let own = session.connection_id();
        let all: Vec<u32> = session
            .query(format!(
                "SELECT id FROM information_schema.processlist WHERE id <> {own} AND db = DATABASE() AND command = 'Sleep'"
            ))
            .unwrap();
        // Other tests' idle sessions may be hit as well: only those that are known to be this
        // queue's are killed.
        let mut killed = 0;
        queue
            .transaction(|tx| {
                let id: Option<u32> = tx.query_first("SELECT CONNECTION_ID()").unwrap();
                let id = id.unwrap();
                assert!(!all.is_empty());
                session.query_drop(format!("KILL {id}")).unwrap();
                killed += 1;
                queue.enqueue_in(tx, &[job()]).map(drop)
            })
            .unwrap_err();
        assert_eq!(killed, 1);
        let until = Instant::now() + Duration::from_secs(5);
        while let Err(error) = queue.ack_one(&claim.receipt) {
            assert!(error.is_transient() && Instant::now() < until, "{error:?}");
        }
    });
}

/// An idle worker's claims and reaps do not ask first whether their connection lives.
#[test]
fn a_connection_that_died_while_a_worker_idled_is_replaced_unseen() {
    on_each(|server| {
        let tables = server.tables();
        let queue = tables.builder().pool_size(2).build().unwrap();
        let reap = ReapRequest::new(BatchSize::MAX, RetryPolicy::default());
        let mut session = server.session();
        for round in 0..4 {
            let pooled: Result<u32, Error> = queue.transaction(|tx| {
                let id: Option<u32> = tx.query_first("SELECT CONNECTION_ID()").unwrap();
                Ok(id.unwrap())
            });
            thread::sleep(Duration::from_millis(1_100));
            session
                .query_drop(format!("KILL {}", pooled.unwrap()))
                .unwrap();
            match round % 2 {
                0 => assert!(queue.claim(&request(1)).unwrap().is_empty()),
                _ => assert!(queue.reap(&reap).unwrap().is_empty()),
            }
        }
        queue.enqueue_one(&job()).unwrap();
        assert_eq!(queue.claim(&request(1)).unwrap().len(), 1);
    });
}

/// A primary that became a replica: the connection is alive, only writes fail.
#[test]
fn a_server_that_takes_no_writes_is_unavailable_and_works_again_after() {
    on_each(|server| {
        let tables = server.tables();
        let user = format!("ro_{}", tables.name);
        tables.run(&format!("CREATE USER '{user}'@'%' IDENTIFIED BY 'limited'"));
        tables.run(&format!(
            "GRANT SELECT, INSERT, UPDATE, DELETE ON * TO '{user}'@'%'"
        ));
        let opts = server.opts().user(Some(user.clone())).pass(Some("limited"));
        let queue = MysqlQueue::builder_with(opts)
            .table(tables.table())
            .build()
            .unwrap();
        queue.enqueue_one(&job()).unwrap();
        // Accounts with every privilege, such as the other tests', are exempt.
        tables.run("SET GLOBAL read_only = ON");
        let refused = (queue.claim(&request(1)), queue.enqueue_one(&job()));
        tables.run("SET GLOBAL read_only = OFF");
        assert!(
            matches!(refused.0, Err(Error::Unavailable(_))),
            "{refused:?}"
        );
        assert!(
            matches!(refused.1, Err(Error::Unavailable(_))),
            "{refused:?}"
        );
        assert_eq!(queue.claim(&request(1)).unwrap().len(), 1);
        tables.run(&format!("DROP USER '{user}'@'%'"));
    });
}

#[test]
fn a_row_that_is_held_too_long_is_contention() {
    on_each(|server| {
        let tables = server.tables();
        let queue = tables
            .builder()
            .lock_wait(Duration::from_secs(1))
            .build()
            .unwrap();
        let claim = claimed(&queue, MINUTE);
        let mut session = server.session();
        let mut tx = session.start_transaction(mysql::TxOpts::default()).unwrap();
        tx.query_drop(format!("SELECT 1 FROM {} FOR UPDATE", tables.name))
            .unwrap();
        let started = Instant::now();
        let waited = queue.ack_one(&claim.receipt).unwrap_err();
        assert!(matches!(waited, Error::Contention(_)), "{waited:?}");
        assert!(started.elapsed() < Duration::from_secs(5));
        tx.rollback().unwrap();
        queue.ack_one(&claim.receipt).unwrap();
    });
}

/// The driver keeps a connection whose read timed out; the late answer must be nobody's.
#[test]
fn a_connection_that_timed_out_is_not_used_again() {
    on_each(|server| {
        let tables = server.tables();
        let builder = tables.builder().pool_size(1);
        let queue = builder
            .lock_wait(Duration::from_millis(500))
            .read_timeout(Duration::from_secs(1))
            .build()
            .unwrap();
        for kept_to_itself in [false, true] {
            let claim = claimed(&queue, MINUTE);
            let mut before = None;
            let timed_out = queue.transaction::<(), Error, _>(|tx| {
                before = tx.query_first::<u32, _>("SELECT CONNECTION_ID()").unwrap();
                queue.enqueue_in(tx, &[job()])?;
                tx.query_drop("SELECT SLEEP(1.5)").unwrap_err();
                if kept_to_itself {
                    return Ok(());
                }
                Err(Error::Contention(Failed::new("test", "sleep", "timed out")))
            });
            let error = timed_out.unwrap_err();
            assert_eq!(
                matches!(error, Error::Unavailable(_)),
                kept_to_itself,
                "{error:?}"
            );
            queue.ack_one(&claim.receipt).unwrap();
            let after = queue.transaction::<_, Error, _>(|tx| {
                Ok(tx.query_first::<u32, _>("SELECT CONNECTION_ID()").unwrap())
            });
            assert_ne!(after.unwrap(), before);
            assert!(queue.claim(&request(1)).unwrap().is_empty());
        }
    });
}

/// The queue's own operations too, on the pool's connections and on the one for renewals.
#[test]
fn an_operation_that_timed_out_gives_its_connection_up() {
    on_each(|server| {
        let tables = server.tables();
        let builder = tables.builder().pool_size(1);
        let queue = builder
            .lock_wait(Duration::from_millis(100))
            .read_timeout(Duration::from_millis(600))
            .build()
            .unwrap();
        let claim = claimed(&queue, MINUTE);
        let renewed = || {
            let renewed = queue.renew_one(&claim.receipt, LeaseLength::default());
            renewed.map(drop)
        };
        renewed().unwrap();
        let mut session = server.session();
        for operation in [&renewed as &dyn Fn() -> _, &|| {
            queue.ack_one(&claim.receipt)
        }] {
            let mut tx = session.start_transaction(mysql::TxOpts::default()).unwrap();
            tx.query_drop(format!("SELECT 1 FROM {} FOR UPDATE", tables.name))
                .unwrap();
            // The row is free, and the server answers, while a ROLLBACK would be waited for.
            thread::scope(|scope| {
                scope.spawn(move || {
                    thread::sleep(Duration::from_millis(950));
                    tx.rollback().unwrap();
                });
                let error = operation().unwrap_err();
                assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
            });
        }
        assert!(queue.claim(&request(1)).unwrap().is_empty());
        renewed().unwrap();
        queue.ack_one(&claim.receipt).unwrap();
    });
}

#[test]
fn connect_takes_the_default_tables_and_refuses_an_address_without_repeating_it() {
    let queue = MysqlQueue::connect("mysql://u:hunter2@127.0.0.1:1/d").unwrap();
    assert_eq!(queue.engine(), "mysql");
    for address in ["mysql://u:hunter2@127.0.0.1:1", "pg://u:hunter2@h/d"] {
        let refused = MysqlQueue::connect(address).unwrap_err();
        assert!(matches!(refused, Error::Rejected(_)), "{refused:?}");
        assert!(!format!("{refused} {refused:?}").contains("hunter2"));
    }
}
