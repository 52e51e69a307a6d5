//! The deadline is judged after the lock, in one statement.

use std::thread;
use std::time::Duration;

use diesel::connection::SimpleConnection;
use queue_table_core::{
    DedupScope, Delay, EffectName, Error, ErrorText, Failure, Fenced, LeaseLength, LostClaim,
    LostReason, QueueBackend, Receipt, Result, TransactionalBackend,
};

use crate::support::{MINUTE, Tables, job, text};

fn reason<T: std::fmt::Debug>(result: Result<T>) -> LostReason {
    match result {
        Err(Error::LostClaim(lost)) => lost.reason(),
        other => panic!("expected a lost claim, got {other:?}"),
    }
}

fn first<T>(answers: Result<Vec<Fenced<T>>>) -> Result<T> {
    Ok(answers?.remove(0)?)
}

/// An operation on the claim of a job.
type Operation<'a> = dyn Fn(&Receipt) -> Result<()> + Sync + 'a;

/// Claims for 2 s, keeps the row locked for 4 s by a transaction that changes nothing, and runs the
/// operation meanwhile.
fn expires_while_waiting(tables: &Tables, operation: &Operation<'_>) {
    let receipt = tables.claimed(Duration::from_secs(2));
    let row = format!("SELECT j FROM job AS j WHERE job_id = {}", receipt.job_id());
    let before = text(&mut tables.raw(), &row);
    let mut raw = tables.raw();
    raw.batch_execute(&format!(
        "BEGIN; SELECT FROM job WHERE job_id = {} FOR UPDATE",
        receipt.job_id()
    ))
    .unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            thread::sleep(Duration::from_secs(4));
            raw.batch_execute("ROLLBACK").unwrap();
        });
        thread::sleep(Duration::from_millis(500));
        assert_eq!(reason(operation(&receipt)), LostReason::Expired);
    });
    assert_eq!(text(&mut tables.raw(), &row), before);
}

#[test]
fn a_lease_that_ends_while_an_operation_waits_for_the_row_is_over() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let queue = &tables.queue;
    let lease = LeaseLength::new(MINUTE).unwrap();
    let retry =
        |receipt: &Receipt| Failure::retry(receipt.clone(), Delay::ZERO, ErrorText::new("no"));
    let effect = EffectName::new("sent").unwrap();
    // One more job in the batch, which holds, takes the statement's form for batches.
    let held = tables.claimed(MINUTE);
    let one = std::slice::from_ref;
    let operations: [&Operation<'_>; 6] = [
        &|receipt| first(queue.ack(one(receipt))),
        &|receipt| first(queue.ack(&[receipt.clone(), held.clone()])),
        &|receipt| first(queue.renew(one(receipt), lease)),
        &|receipt| first(queue.fail(&[retry(receipt)])).map(|_| ()),
        &|receipt| queue.transaction(|tx| queue.ack_in(tx, receipt)),
        &|receipt| queue.transaction(|tx| queue.record_effect_in(tx, receipt, &effect).map(|_| ())),
    ];
    thread::scope(|scope| {
        for operation in operations {
            scope.spawn(|| expires_while_waiting(&tables, operation));
        }
    });
}

#[test]
fn a_row_that_another_changes_while_an_operation_waits_is_judged_as_it_is_then() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    for (change, wanted) in [
        ("attempts = attempts + 1", LostReason::Superseded),
        ("worker_id = 'other'", LostReason::Superseded),
        (
            "state = 'succeeded', worker_id = NULL, lease_until = NULL, finished_at = clock_timestamp()",
            LostReason::Finished,
        ),
        ("lease_until = clock_timestamp()", LostReason::Expired),
    ] {
        let receipt = tables.claimed(MINUTE);
        let mut raw = tables.raw();
        raw.batch_execute(&format!(
            "BEGIN; UPDATE job SET {change} WHERE job_id = {}",
            receipt.job_id()
        ))
        .unwrap();
        thread::scope(|scope| {
            scope.spawn(move || {
                thread::sleep(Duration::from_millis(300));
                raw.batch_execute("COMMIT").unwrap();
            });
            let answer = first(tables.queue.ack(std::slice::from_ref(&receipt)));
            assert_eq!(reason(answer), wanted, "{change}");
        });
    }
}

#[test]
fn a_receipt_that_stands_twice_is_judged_twice() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let (one, two) = (tables.claimed(MINUTE), tables.claimed(MINUTE));
    let answers = tables
        .queue
        .ack(&[two.clone(), one.clone(), two.clone()])
        .unwrap();
    let lost = |answer: &Fenced<()>| answer.as_ref().err().map(LostClaim::reason);
    let reasons: Vec<_> = answers.iter().map(lost).collect();
    assert_eq!(reasons, [None, None, Some(LostReason::Finished)]);

    let lease = LeaseLength::new(MINUTE).unwrap();
    let held = tables.claimed(MINUTE);
    let answers = tables.queue.renew(&[held.clone(), held], lease).unwrap();
    assert!(answers.iter().all(Result::is_ok));
}

/// In the caller's transactions a deadlock would not be tried again unseen.
#[test]
fn batches_in_opposite_order_do_not_deadlock() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let keyed = |key: usize| {
        job()
            .with_dedup(&key.to_string(), DedupScope::WhileUnfinished)
            .unwrap()
    };
    let forwards: Vec<_> = (0..50).map(keyed).collect();
    let backwards: Vec<_> = (0..50).rev().map(keyed).collect();
    thread::scope(|scope| {
        for jobs in [&forwards, &backwards] {
            scope.spawn(|| {
                for _ in 0..50 {
                    tables
                        .queue
                        .transaction(|tx| tables.queue.enqueue_in(tx, jobs))
                        .unwrap();
                }
            });
        }
    });
    assert_eq!(tables.number("SELECT count(*) FROM job"), 50);
}
