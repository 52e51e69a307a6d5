//! The fence: a deadline is judged after the lock was had, by a clock that a statement's wait does
//! not stop.

use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use mysql::{Conn, TxOpts};
use queue_table_core::{
    BatchSize, Delay, Disposition, EffectName, Error, ErrorText, Failure, JobId, LostReason,
    QueueBackend, QueueBackendExt, ReapRequest, Receipt, RetryPolicy, State, TransactionalBackend,
};
use queue_table_mysql::MysqlQueue;

use crate::support::{Tables, claimed, job, lease, on_each, request};

const LEASE: Duration = Duration::from_secs(2);
const HELD: Duration = Duration::from_secs(4);

/// Locks a row in a session of its own, changes nothing, and rolls back when the time is up.
fn hold(tables: &Tables<'_>, job: JobId) -> JoinHandle<()> {
    let mut session: Conn = tables.server.session();
    let select = format!(
        "SELECT job_id FROM `{}` WHERE job_id = {job} FOR UPDATE",
        tables.name
    );
    let (held, is_held) = mpsc::channel();
    let holder = thread::spawn(move || {
        let mut tx = session.start_transaction(TxOpts::default()).unwrap();
        tx.query_drop(select).unwrap();
        held.send(()).unwrap();
        thread::sleep(HELD);
        tx.rollback().unwrap();
    });
    is_held.recv().unwrap();
    holder
}

fn expired_after_a_wait(tables: &Tables<'_>, act: impl FnOnce(&MysqlQueue, &Receipt) -> Error) {
    let queue = tables.queue();
    let claim = claimed(&queue, LEASE);
    let holder = hold(tables, claim.job_id());
    let started = Instant::now();
    let refused = act(&queue, &claim.receipt);
    assert!(started.elapsed() > LEASE, "it did not wait for the row");
    assert!(
        matches!(&refused, Error::LostClaim(lost) if lost.reason() == LostReason::Expired),
        "{refused:?}"
    );
    holder.join().unwrap();
    let unchanged = format!(
        "SELECT COUNT(*) FROM {{job}} WHERE job_id = {} AND state = 'running' AND attempts = 1 \
         AND lease_until < UTC_TIMESTAMP(6)",
        claim.job_id()
    );
    assert_eq!(tables.number(&unchanged), 1);
}

#[test]
fn renew_of_a_lease_that_ended_while_it_waited_is_refused() {
    on_each(|server| {
        expired_after_a_wait(&server.tables(), |queue, receipt| {
            queue
                .renew_one(receipt, lease(Duration::from_secs(60)))
                .unwrap_err()
        });
    });
}

#[test]
fn ack_of_a_lease_that_ended_while_it_waited_is_refused() {
    on_each(|server| {
        expired_after_a_wait(&server.tables(), |queue, receipt| {
            queue.ack_one(receipt).unwrap_err()
        });
    });
}

#[test]
fn fail_of_a_lease_that_ended_while_it_waited_is_refused() {
    on_each(|server| {
        expired_after_a_wait(&server.tables(), |queue, receipt| {
            let failure = Failure::retry(receipt.clone(), Delay::ZERO, ErrorText::new("x"));
            queue.fail_one(&failure).unwrap_err()
        });
    });
}

#[test]
fn an_effect_of_a_lease_that_ended_while_it_waited_is_refused_in_a_repeatable_read_transaction() {
    on_each(|server| {
        expired_after_a_wait(&server.tables(), |queue, receipt| {
            let mut session = server.session();
            let mut tx = session.start_transaction(TxOpts::default()).unwrap();
            // The snapshot is taken here, while the lease holds.
            tx.query_drop("SELECT 1 FROM information_schema.tables LIMIT 1")
                .unwrap();
            let name = EffectName::new("send").unwrap();
            queue.record_effect_in(&mut tx, receipt, &name).unwrap_err()
        });
    });
}

/// Acts on a job whose row stays locked and on its neighbour, and returns the error's kind and
/// whether the neighbour's row has changed.
fn beside_a_row_that_stays_locked<T>(
    tables: &Tables<'_>,
    act: impl FnOnce(&MysqlQueue, &[Receipt]) -> Result<T, Error>,
) -> (&'static str, bool) {
    let queue = tables.builder().lock_wait(Duration::from_secs(1));
    let queue = queue.build().unwrap();
    let minute = Duration::from_secs(60);
    let jobs = [claimed(&queue, minute), claimed(&queue, minute)];
    let neighbour = format!(
        "SELECT COUNT(*) FROM {{job}} WHERE job_id = {} AND state = 'running' \
         AND lease_until < UTC_TIMESTAMP(6) + INTERVAL 70 SECOND",
        jobs[1].job_id()
    );
    let holder = hold(tables, jobs[0].job_id());
    let receipts = jobs.map(|job| job.receipt);
    let Err(error) = act(&queue, &receipts) else {
        panic!("the row was locked, and it was not told");
    };
    let changed = tables.number(&neighbour) == 0;
    holder.join().unwrap();
    (error.kind(), changed)
}

#[test]
fn a_batch_with_a_row_that_stays_locked_is_done_in_part_and_says_so() {
    on_each(|server| {
        let tables = server.tables();
        let long = lease(Duration::from_secs(3_600));
        let renewed =
            beside_a_row_that_stays_locked(&tables, |queue, both| queue.renew(both, long));
        assert_eq!(renewed, ("outcome_unknown", true));
        let acked = beside_a_row_that_stays_locked(&tables, |queue, both| queue.ack(both));
        assert_eq!(acked, ("outcome_unknown", true));
        let failed = beside_a_row_that_stays_locked(&tables, |queue, both| {
            let dead = |receipt: &Receipt| Failure::dead(receipt.clone(), ErrorText::new("x"));
            queue.fail(&both.iter().map(dead).collect::<Vec<_>>())
        });
        assert_eq!(failed, ("outcome_unknown", true));
        let alone = beside_a_row_that_stays_locked(&tables, |queue, both| queue.ack(&both[..1]));
        assert_eq!(alone, ("contention", false));
    });
}

#[test]
fn of_a_batch_only_the_leases_that_are_over_are_refused() {
    on_each(|server| {
        let tables = server.tables();
        let queue = tables.queue();
        let minute = Duration::from_secs(60);
        let [first, late, last] = [(); 3].map(|()| claimed(&queue, minute));
        let over = format!(
            "UPDATE {{job}} SET lease_until = UTC_TIMESTAMP(6) WHERE job_id = {}",
            late.job_id()
        );
        tables.run(&over);
        let receipts = [&first, &late, &last].map(|job| job.receipt.clone());
        let reasons = |answers: Vec<queue_table_core::Fenced<()>>| -> Vec<_> {
            let reason =
                |answer: queue_table_core::Fenced<()>| answer.err().map(|lost| lost.reason());
            answers.into_iter().map(reason).collect()
        };
        let one_expired = [None, Some(LostReason::Expired), None];
        assert_eq!(
            reasons(queue.renew(&receipts, lease(minute)).unwrap()),
            one_expired
        );
        assert_eq!(reasons(queue.ack(&receipts).unwrap()), one_expired);
    });
}

/// SET is evaluated from left to right here: an expression that reads a column set before it sees
/// the new value.
#[test]
fn fail_and_reap_at_the_last_attempt_and_one_before_store_whole_rows() {
    on_each(|server| {
        let tables = server.tables();
        let queue = tables.queue();
        let policy = RetryPolicy::fixed(Duration::from_secs(60)).unwrap();
        for (reaps, budget, state) in [
            (false, 1, State::Dead),
            (false, 2, State::Ready),
            (true, 1, State::Dead),
            (true, 2, State::Ready),
        ] {
            queue
                .enqueue_one(&job().with_max_attempts(budget).unwrap())
                .unwrap();
            let claim = queue.claim(&request(1)).unwrap().pop().unwrap();
            let disposition = if reaps {
                tables.run("UPDATE {job} SET lease_until = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND WHERE state = 'running'");
                let reaped = queue
                    .reap(&ReapRequest::new(BatchSize::MAX, policy.clone()))
                    .unwrap();
                assert_eq!(reaped.len(), 1);
                reaped[0].disposition
            } else {
                let after = Delay::new(Duration::from_secs(60)).unwrap();
                queue
                    .fail_one(&Failure::retry(
                        claim.receipt.clone(),
                        after,
                        ErrorText::new("x"),
                    ))
                    .unwrap()
            };
            let row = format!(
                "SELECT COUNT(*) FROM {{job}} WHERE job_id = {} AND state = '{state}' AND attempts = 1 \
                 AND worker_id IS NULL AND lease_until IS NULL AND last_error IS NOT NULL \
                 AND (finished_at IS NOT NULL) = (state = 'dead') \
                 AND (state = 'dead' OR run_at > UTC_TIMESTAMP(6) + INTERVAL 50 SECOND)",
                claim.job_id()
            );
            assert_eq!(tables.number(&row), 1, "reap {reaps}, budget {budget}");
            assert_eq!(
                matches!(disposition, Disposition::Dead),
                state == State::Dead
            );
        }
    });
}
