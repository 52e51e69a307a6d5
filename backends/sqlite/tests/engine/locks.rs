//! The one writer of a file: waiting for it, losing a snapshot, a commit that does not go through.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use queue_table_conformance::Probe;
use queue_table_core::{
    Error, LostReason, QueueBackend, Rejected, State, TransactionalBackend, Waiter, Woken,
};
use rusqlite::TransactionBehavior;

use crate::{claim_one, enqueue, fresh, impatient, job, lease, mail, raw, request};

#[test]
fn an_application_that_holds_the_writer_is_waited_for() {
    let (queue, probe) = fresh();
    let jobs = enqueue(&queue, 2);
    let held = probe.hold(jobs[0], Duration::from_millis(300)).unwrap();
    let began = Instant::now();
    assert_eq!(queue.claim(&request("w", 2)).unwrap().len(), 2);
    assert!(began.elapsed() >= Duration::from_millis(200));
    held.released().unwrap();
}

#[test]
fn past_the_busy_deadline_it_is_contention_and_nothing_is_changed() {
    let (queue, probe) = fresh();
    let jobs = enqueue(&queue, 1);
    let impatient = impatient(&probe, Duration::from_millis(100));
    let held = probe.hold(jobs[0], Duration::from_millis(600)).unwrap();
    let began = Instant::now();
    let refused = impatient.claim(&request("w", 1)).unwrap_err();
    assert_eq!(refused.kind(), "contention");
    assert!(
        began.elapsed() < Duration::from_millis(500),
        "{:?}",
        began.elapsed()
    );
    held.released().unwrap();
    assert_eq!(probe.row(jobs[0]).unwrap().unwrap().state, State::Ready);
    assert_eq!(claim_one(&impatient, "w").job_id(), jobs[0]);
}

#[test]
fn a_lease_that_ran_out_while_waiting_for_the_writer_is_lost() {
    let (queue, probe) = fresh();
    let jobs = enqueue(&queue, 1);
    let short = request("w", 1).with_lease(lease(Duration::from_millis(200)));
    let claimed = queue.claim(&short).unwrap().remove(0);
    let before = probe.row(jobs[0]).unwrap();
    let held = probe.hold(jobs[0], Duration::from_millis(500)).unwrap();
    let lost = queue
        .renew(
            std::slice::from_ref(&claimed.receipt),
            lease(Duration::from_secs(60)),
        )
        .unwrap();
    assert_eq!(lost[0].as_ref().unwrap_err().reason(), LostReason::Expired);
    held.released().unwrap();
    let held = probe.hold(jobs[0], Duration::from_millis(50)).unwrap();
    let lost = queue.ack(&[claimed.receipt]).unwrap();
    assert_eq!(lost[0].as_ref().unwrap_err().reason(), LostReason::Expired);
    held.released().unwrap();
    assert_eq!(probe.row(jobs[0]).unwrap(), before);
}

#[test]
fn in_a_callers_deferred_transaction_the_clock_is_read_after_the_wait_for_the_writer() {
    let (queue, probe) = fresh();
    let jobs = enqueue(&queue, 1);
    let short = request("w", 1).with_lease(lease(Duration::from_millis(200)));
    let claimed = queue.claim(&short).unwrap().remove(0);
    let mut own = raw(&probe);
    own.busy_timeout(Duration::from_secs(10)).unwrap();
    let held = probe.hold(jobs[0], Duration::from_millis(500)).unwrap();
    let mut tx = own.transaction().unwrap();
    let lost = queue.ack_in(&mut tx, &claimed.receipt).unwrap_err();
    assert!(matches!(lost, Error::LostClaim(lost) if lost.reason() == LostReason::Expired));
    held.released().unwrap();
}

#[test]
fn a_deferred_transaction_that_lost_its_snapshot_is_told_at_once() {
    let (queue, probe) = fresh();
    let mut own = raw(&probe);
    own.busy_timeout(Duration::from_secs(10)).unwrap();
    let mut tx = own.transaction().unwrap();
    let rows = |tx: &rusqlite::Connection| {
        tx.query_row("SELECT COUNT(*) FROM job", [], |row| row.get::<_, i64>(0))
    };
    assert_eq!(rows(&tx), Ok(0));
    enqueue(&queue, 1);
    let began = Instant::now();
    let refused = queue.enqueue_in(&mut tx, &[job()]).unwrap_err();
    assert_eq!(refused.kind(), "contention");
    assert!(began.elapsed() < Duration::from_secs(2));
    drop(tx);
    // The whole transaction again, from its beginning.
    let mut tx = own
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .unwrap();
    assert_eq!(rows(&tx), Ok(1));
    queue.enqueue_in(&mut tx, &[job()]).unwrap();
    tx.commit().unwrap();
    assert_eq!(probe.ids().unwrap().len(), 2);
}

#[test]
fn a_transaction_that_the_caller_ended_by_hand_is_refused() {
    let (queue, probe) = fresh();
    let mut own = raw(&probe);
    let mut tx = own.transaction().unwrap();
    tx.execute_batch("COMMIT").unwrap();
    let refused = queue.enqueue_in(&mut tx, &[job()]).unwrap_err();
    assert!(matches!(
        refused,
        Error::Rejected(Rejected::NotInTransaction {
            operation: "enqueue",
            ..
        })
    ));
    assert_eq!(probe.ids().unwrap(), []);
}

#[test]
fn the_callers_connection_keeps_its_settings() {
    let (queue, probe) = fresh();
    let mut own = raw(&probe);
    let settings = "SELECT (SELECT timeout FROM pragma_busy_timeout), (SELECT foreign_keys FROM pragma_foreign_keys),
        (SELECT synchronous FROM pragma_synchronous), (SELECT defer_foreign_keys FROM pragma_defer_foreign_keys)";
    own.execute_batch("PRAGMA busy_timeout = 777; PRAGMA synchronous = NORMAL")
        .unwrap();
    let read = |own: &rusqlite::Connection| {
        own.query_row(settings, [], |row| {
            Ok([0, 1, 2, 3].map(|column| row.get::<_, i64>(column).unwrap()))
        })
        .unwrap()
    };
    let before = read(&own);
    let mut tx = own.transaction().unwrap();
    queue.enqueue_in(&mut tx, &[job()]).unwrap();
    let claimed = queue.claim_in(&mut tx, &request("w", 1)).unwrap().remove(0);
    queue.ack_in(&mut tx, &claimed.receipt).unwrap();
    tx.commit().unwrap();
    assert_eq!(read(&own), before);
    assert!(own.is_autocommit());
}

#[test]
fn an_operation_inside_its_own_threads_transaction_does_not_wait_for_itself() {
    let (queue, _probe) = fresh();
    let began = Instant::now();
    let refused = queue.transaction(|_| queue.enqueue(&[job()])).unwrap_err();
    assert_eq!(refused.kind(), "engine");
    assert!(began.elapsed() < Duration::from_secs(2));
    enqueue(&queue, 1);
}

#[test]
fn a_panic_inside_a_transaction_rolls_it_back_and_frees_the_writer() {
    let (queue, probe) = fresh();
    let panicked = std::panic::catch_unwind(AssertUnwindSafe(|| {
        queue.transaction::<(), Error, _>(|tx| {
            queue.enqueue_in(tx, &[job()])?;
            panic!("in the middle");
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(probe.ids().unwrap(), []);
    assert_eq!(enqueue(&queue, 1).len(), 1);
}

#[test]
fn a_commit_rings_every_queue_on_the_table_and_a_rollback_none() {
    let (queue, probe) = fresh();
    let other = probe.session().unwrap();
    let mut waiter = Waiter::new([mail()]);
    let mut heard = || other.wait(&mut waiter, Duration::ZERO).unwrap();
    assert_eq!(heard(), Woken::TimedOut);
    queue
        .transaction(|tx| queue.enqueue_in(tx, &[job()]))
        .unwrap();
    assert_eq!(heard(), Woken::Rung);
    let stop = || Error::Rejected(Rejected::NoSuchJob(queue_table_core::JobId::new(0)));
    let rolled_back =
        queue.transaction(|tx| queue.enqueue_in(tx, &[job()]).and(Err::<(), _>(stop())));
    assert!(rolled_back.is_err());
    assert_eq!(heard(), Woken::TimedOut);
    enqueue(&queue, 1);
    assert_eq!(heard(), Woken::Rung);
}
