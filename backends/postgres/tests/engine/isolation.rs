//! Transactions: the crate's own at READ COMMITTED, and the caller's as they are.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use queue_table_core::{
    BatchSize, ClaimRequest, DedupScope, Delay, EffectName, Enqueued, Error, ErrorText, Failure,
    QueueBackend, Rejected, TransactionalBackend, WorkerId,
};

use crate::support::{MINUTE, Role, Tables, job, mail, number, request, text};

/// Eight workers drain 20,000 jobs as a role whose transactions are at `level` by default.
fn drain_as_role_with_default(level: &str) {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let role = Role::fresh(
        &tables.url,
        &format!(
            "ALTER ROLE {{role}} SET default_transaction_isolation = '{level}';
             GRANT ALL ON SCHEMA {0} TO {{role}};
             GRANT ALL ON ALL TABLES IN SCHEMA {0} TO {{role}};
             GRANT ALL ON ALL SEQUENCES IN SCHEMA {0} TO {{role}};",
            tables.schema
        ),
    );
    let jobs = 20_000;
    tables.enqueue(jobs / 2);
    tables.enqueue(jobs / 2);
    tables.run("ANALYZE job");
    let done = AtomicUsize::new(0);
    thread::scope(|scope| {
        for worker in 0..8 {
            let (queue, done) = (tables.queue_at(&role.url()), &done);
            let worker = WorkerId::new(format!("w{worker}")).unwrap();
            let request = ClaimRequest::new(mail(), worker).with_limit(BatchSize::new(50).unwrap());
            scope.spawn(move || {
                while done.load(Ordering::Relaxed) < jobs {
                    let claimed = queue.claim(&request).unwrap();
                    let receipts: Vec<_> = claimed.into_iter().map(|job| job.receipt).collect();
                    let acked = queue.ack(&receipts).unwrap();
                    assert!(acked.iter().all(Result::is_ok));
                    done.fetch_add(acked.len(), Ordering::Relaxed);
                }
            });
        }
    });
    let once = "SELECT count(*) FROM job WHERE state = 'succeeded' AND attempts = 1";
    assert_eq!(tables.number(once), 20_000);
}

#[test]
fn a_role_at_repeatable_read_drains_without_a_serialization_failure() {
    drain_as_role_with_default("repeatable read");
}

#[test]
fn a_role_at_serializable_drains_without_a_serialization_failure() {
    drain_as_role_with_default("serializable");
}

#[test]
fn a_conflict_in_the_callers_serializable_transaction_is_contention() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    tables.enqueue(1);
    let mut raw = tables.raw();
    let claimed = raw.build_transaction().serializable().run(|tx| {
        tx.batch_execute("SELECT count(*) FROM job").unwrap();
        // Another transaction claims the job after this one's snapshot was taken, and gives it
        // back.
        let other = tables.claim(1, MINUTE).remove(0).receipt;
        let back = Failure::release(other, Delay::ZERO);
        assert!(tables.queue.fail(&[back]).unwrap()[0].is_ok());
        Ok::<_, Failed>(tables.queue.claim_in(tx, &request(1, MINUTE))?)
    });
    assert!(
        matches!(claimed, Err(Failed::Queue(Error::Contention(_)))),
        "{claimed:?}"
    );
    assert_eq!(tables.claim(1, MINUTE).len(), 1);
}

#[test]
fn a_racing_dedup_key_does_not_poison_the_callers_transaction() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let keyed = || [job().with_dedup("k", DedupScope::WhileUnfinished).unwrap()];
    tables.run("CREATE TABLE business (id INT)");
    let (mut first, mut second) = (tables.raw(), tables.raw());
    let stored = thread::scope(|scope| {
        let (inserted, is_inserted) = std::sync::mpsc::channel();
        let tables = &tables;
        let winner = scope.spawn(move || {
            first.transaction(|tx| {
                let stored = tables.queue.enqueue_in(tx, &keyed())?;
                inserted.send(()).unwrap();
                thread::sleep(std::time::Duration::from_millis(500));
                Ok::<_, Failed>(stored[0])
            })
        });
        is_inserted.recv().unwrap();
        let found = second.transaction(|tx| {
            diesel::sql_query("INSERT INTO business VALUES (1)").execute(tx)?;
            let found = tables.queue.enqueue_in(tx, &keyed())?;
            diesel::sql_query("INSERT INTO business VALUES (2)").execute(tx)?;
            Ok::<_, Failed>(found[0])
        });
        (winner.join().unwrap().unwrap(), found.unwrap())
    });
    assert!(stored.0.is_new());
    assert_eq!(stored.1, Enqueued::Existing(stored.0.job_id()));
    assert_eq!(tables.number("SELECT count(*) FROM business"), 2);
    assert_eq!(tables.number("SELECT count(*) FROM job"), 1);
}

/// Either side's error, for transactions that do both.
#[derive(Debug)]
enum Failed {
    Queue(Error),
    Diesel(#[expect(dead_code, reason = "shown when a test fails")] diesel::result::Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Queue(error)
    }
}

impl From<diesel::result::Error> for Failed {
    fn from(error: diesel::result::Error) -> Self {
        Self::Diesel(error)
    }
}

fn is_outside<T>(result: Result<T, Error>) -> bool {
    matches!(
        result,
        Err(Error::Rejected(Rejected::NotInTransaction { .. }))
    )
}

#[test]
fn every_borrowed_operation_is_refused_outside_a_transaction() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let receipt = tables.claimed(MINUTE);
    let (queue, raw) = (&tables.queue, &mut tables.raw());
    let failure = Failure::dead(receipt.clone(), ErrorText::new("no"));
    let effect = EffectName::new("sent").unwrap();
    assert!(is_outside(queue.enqueue_in(raw, &[job()])));
    assert!(is_outside(queue.claim_in(raw, &request(1, MINUTE))));
    assert!(is_outside(queue.ack_in(raw, &receipt)));
    assert!(is_outside(queue.fail_in(raw, &failure)));
    assert!(is_outside(queue.record_effect_in(raw, &receipt, &effect)));
    assert_eq!(
        tables.number("SELECT count(*) FROM job WHERE state = 'running'"),
        1
    );
    // Inside one they work.
    raw.transaction(|tx| queue.ack_in(tx, &receipt).map_err(Failed::from))
        .unwrap();
}

#[test]
fn the_callers_session_is_left_as_it_was() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let mut raw = tables.raw();
    raw.batch_execute(
        "SET default_transaction_isolation = 'repeatable read'; SET TIME ZONE 'Asia/Kolkata'; SET lock_timeout = '3s'",
    )
    .unwrap();
    let settings = "SELECT string_agg(name || '=' || setting, ' ' ORDER BY name) FROM pg_settings \
                    WHERE source = 'session' OR name IN ('transaction_isolation', 'transaction_read_only')";
    raw.batch_execute("BEGIN").unwrap();
    let before = text(&mut raw, settings);
    raw.batch_execute("ROLLBACK").unwrap();
    raw.transaction(|tx| {
        let keyed = job().with_dedup("k", DedupScope::WhileRowExists).unwrap();
        tables.queue.enqueue_in(tx, &[job(), keyed])?;
        let receipt = tables
            .queue
            .claim_in(tx, &request(1, MINUTE))?
            .remove(0)
            .receipt;
        tables.queue.ack_in(tx, &receipt)?;
        assert_eq!(text(tx, settings), before);
        Ok::<_, Failed>(())
    })
    .unwrap();
    let locks = "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype IN ('advisory', 'tuple')";
    assert_eq!(number(&mut raw, locks), 0);
}

#[test]
fn a_caller_that_passes_over_an_error_does_not_commit_by_mistake() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let result = tables.queue.transaction(|tx| {
        tables.queue.enqueue_in(tx, &[job()])?;
        assert!(tx.batch_execute("SELECT 1 / 0").is_err());
        Ok::<_, Error>(())
    });
    assert!(matches!(result, Err(Error::Engine(_))), "{result:?}");
    assert_eq!(tables.number("SELECT count(*) FROM job"), 0);
}
