//! Acks, failures and renewals of several receipts.

use std::sync::atomic::{AtomicU32, Ordering};

use queue_table_core::{Delay, Disposition, ErrorText, Failure, LeaseLength, QueueBackend};

use super::{moved, numbers, receipt, seen, statements};
use crate::fake::{Fake, Reply, Request};

#[test]
fn failed_attempts_are_recorded_and_released_ones_are_not() {
    let fake = Fake::serve(|request| match request {
        Request::Statement("lock_free") => seen(&[(6, "running"), (7, "running")]),
        Request::Statement("fail") => moved(&[(6, "ready"), (7, "dead")]),
        _ => Reply::Done,
    });
    let queue = fake.queue();
    let after = Delay::ZERO;
    let both = [
        Failure::dead(receipt(7), ErrorText::new("broken")),
        Failure::release(receipt(6), after),
    ];
    let answers = queue.fail(&both).unwrap();
    let ready = Disposition::Ready {
        run_at: queue_table_core::Timestamp::from_micros(900),
    };
    assert_eq!(answers, [Ok(Disposition::Dead), Ok(ready)]);
    queue.fail(&[Failure::release(receipt(6), after)]).unwrap();
    assert_eq!(
        statements(&fake),
        ["lock_free", "fail", "failure", "lock_free", "fail"]
    );
}

#[test]
fn a_receipt_that_stands_twice_is_acknowledged_once() {
    let acks = AtomicU32::new(0);
    let fake = Fake::serve(move |request| match request {
        Request::Statement("lock_free") => seen(&[(7, "running")]),
        Request::Statement("lock") => seen(&[(7, "succeeded")]),
        Request::Statement("ack") if acks.fetch_add(1, Ordering::SeqCst) == 0 => {
            numbers("job_id", &[7])
        }
        _ => Reply::Done,
    });
    let answers = fake.queue().ack(&[receipt(7), receipt(7)]).unwrap();
    assert_eq!(answers[0], Ok(()));
    let lost = answers[1].as_ref().unwrap_err();
    assert_eq!(lost.reason(), queue_table_core::LostReason::Finished);
}

#[test]
fn free_rows_are_acknowledged_and_committed_before_a_locked_one_is_waited_for() {
    let acks = AtomicU32::new(0);
    let fake = Fake::serve(move |request| match request {
        Request::Statement("lock_free") => seen(&[(7, "running")]),
        Request::Statement("lock") => seen(&[(6, "running")]),
        Request::Statement("ack") => match acks.fetch_add(1, Ordering::SeqCst) {
            0 => numbers("job_id", &[7]),
            _ => numbers("job_id", &[6]),
        },
        _ => Reply::Done,
    });
    let answers = fake.queue().ack(&[receipt(6), receipt(7)]).unwrap();
    assert_eq!(answers, [Ok(()), Ok(())]);
    let (ack, wait) = (
        Request::Statement("ack"),
        "SET LOCK_TIMEOUT 2000".to_owned(),
    );
    let order = [
        Request::Begin,
        Request::Statement("lock_free"),
        ack.clone(),
        Request::Commit,
        Request::Begin,
        Request::Batch(wait),
        Request::Statement("lock"),
        ack,
        Request::Commit,
    ];
    assert_eq!(fake.asked(), order);
}

#[test]
fn a_row_that_stays_locked_leaves_the_outcome_unknown_only_where_others_were_stored() {
    for (free, kind) in [(7, "outcome_unknown"), (99, "contention")] {
        let fake = Fake::serve(move |request| match request {
            Request::Statement("lock_free") => seen(&[(free, "running")]),
            Request::Statement("lock") => Reply::Error(1222, 16),
            Request::Statement("renew") => numbers("job_id", &[7]),
            _ => Reply::Done,
        });
        let lease = LeaseLength::default();
        let error = fake
            .queue()
            .renew(&[receipt(6), receipt(7)], lease)
            .unwrap_err();
        assert_eq!(error.kind(), kind);
        // A 32nd of the default lease.
        let waits = Request::Batch("SET LOCK_TIMEOUT 1875".to_owned());
        assert_eq!(fake.count(&waits), 5, "once for each try");
    }
}
