//! The roles of the grant script do what they are for, and no more.

use diesel::connection::SimpleConnection;
use queue_table_core::{
    Administration, BatchSize, DedupScope, Delay, Error, ErrorText, Failure, LeaseLength,
    MaxAttempts, PurgeRequest, QueueBackend, QueueBackendExt, ReapRequest, RetryPolicy,
    TransactionalBackend,
};
use queue_table_postgres::{PostgresQueue, grants_sql};

use crate::support::{MINUTE, Role, Tables, job, mail, request};

/// Tables named after the test, because roles are of the whole server.
struct Granted {
    tables: Tables,
    own: queue_table_core::Table,
}

impl Granted {
    fn fresh() -> Option<Self> {
        let tables = Tables::fresh()?;
        let name = format!("job_{:08x}", fastrand::Rng::new().u32(..));
        let own = queue_table_core::Table::named(&name)
            .and_then(|own| own.in_schema(&tables.schema))
            .unwrap();
        let owner = PostgresQueue::builder(&tables.url)
            .table(own.clone())
            .build()
            .unwrap();
        owner.migrate().unwrap();
        // Twice: a second run must change nothing.
        tables.raw().batch_execute(&grants_sql(&own)).unwrap();
        tables.raw().batch_execute(&grants_sql(&own)).unwrap();
        Some(Self { tables, own })
    }

    fn role(&self, of: &str) -> (Role, PostgresQueue) {
        let grant = format!("GRANT {}_{of} TO {{role}}", self.own.name());
        let role = Role::fresh(&self.tables.url, &grant);
        let queue = PostgresQueue::builder(&role.url())
            .table(self.own.clone())
            .build()
            .unwrap();
        (role, queue)
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        for of in ["producer", "worker", "operator"] {
            let name = format!("{}_{of}", self.own.name());
            self.tables
                .run(&format!("DROP OWNED BY {name}; DROP ROLE {name}"));
        }
    }
}

fn is_denied<T>(result: Result<T, Error>) -> bool {
    matches!(result, Err(Error::Unsupported { lacks, .. }) if lacks.contains("permission denied"))
}

fn purge() -> PurgeRequest {
    PurgeRequest {
        succeeded_after: Some(Delay::ZERO),
        dead_after: Some(Delay::ZERO),
        limit: BatchSize::new(10).unwrap(),
        cursor: None,
    }
}

#[test]
fn a_producer_enqueues_and_sees_no_payload() {
    let Some(granted) = Granted::fresh() else {
        return;
    };
    let (_role, queue) = granted.role("producer");
    let keyed = || job().with_dedup("k", DedupScope::WhileUnfinished).unwrap();
    queue.enqueue_one(&job()).unwrap();
    let first = queue.enqueue(&[job(), keyed()]).unwrap()[1];
    assert!(!queue.enqueue_one(&keyed()).unwrap().is_new());
    queue
        .transaction(|tx| queue.enqueue_in(tx, &[keyed()]))
        .unwrap();
    // A finished holder's key is taken over.
    let (_operator, operator) = granted.role("operator");
    operator
        .cancel(first.job_id(), &ErrorText::new("stop"))
        .unwrap();
    assert!(queue.enqueue_one(&keyed()).unwrap().is_new());
    assert!(is_denied(queue.claim(&request(1, MINUTE))));
    assert!(is_denied(queue.get(first.job_id())));
}

#[test]
fn a_worker_does_all_that_a_worker_does() {
    let Some(granted) = Granted::fresh() else {
        return;
    };
    let (_producer, producer) = granted.role("producer");
    let (_role, queue) = granted.role("worker");
    producer.enqueue(&vec![job(); 5]).unwrap();
    let mut claimed = queue
        .claim(&request(5, MINUTE))
        .unwrap()
        .into_iter()
        .map(|job| job.receipt);
    let mut next = || claimed.next().unwrap();
    let (one, two, three) = (next(), next(), next());
    queue.renew_one(&one, LeaseLength::default()).unwrap();
    let effect = queue_table_core::EffectName::new("sent").unwrap();
    queue
        .transaction(|tx| {
            assert!(queue.record_effect_in(tx, &one, &effect)?);
            queue.ack_in(tx, &one)
        })
        .unwrap();
    queue
        .fail_one(&Failure::dead(two, ErrorText::new("no")))
        .unwrap();
    queue
        .fail_one(&Failure::release(three, Delay::ZERO))
        .unwrap();
    granted.tables.run(&format!(
        "UPDATE {} SET lease_until = clock_timestamp() WHERE state = 'running'",
        granted.own.name()
    ));
    let reaped = queue
        .reap(&ReapRequest::new(BatchSize::MAX, RetryPolicy::default()))
        .unwrap();
    assert_eq!(reaped.len(), 2);
    assert!(queue.check().is_ok());
    assert!(is_denied(queue.purge(&purge())));
    assert!(is_denied(queue.pause(&mail())));
    assert!(is_denied(queue.enqueue(&[job()])));
}

#[test]
fn an_operator_does_everything_but_ddl() {
    let Some(granted) = Granted::fresh() else {
        return;
    };
    let (_role, queue) = granted.role("operator");
    let ids: Vec<_> = queue.enqueue(&vec![job(); 3]).unwrap();
    queue.pause(&mail()).unwrap();
    queue.resume(&mail()).unwrap();
    queue
        .cancel(ids[0].job_id(), &ErrorText::new("stop"))
        .unwrap();
    queue
        .replay(ids[0].job_id(), MaxAttempts::new(1).unwrap())
        .unwrap();
    queue
        .cancel(ids[1].job_id(), &ErrorText::new("stop"))
        .unwrap();
    assert_eq!(queue.purge(&purge()).unwrap().deleted, 1);
    assert_eq!(queue.stats(None).unwrap()[0].due, 2);
    assert_eq!(queue.claim(&request(5, MINUTE)).unwrap().len(), 2);
    assert!(queue.failures(ids[0].job_id()).unwrap().is_empty());
    assert_eq!(queue.migrate().unwrap().from, Some(1));
}
