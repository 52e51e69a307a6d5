//! Leases: kept for as long as a handler runs, and what happens when they are lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use queue_table_conformance::Probe;
use queue_table_core::{Administration, ErrorText, State};

use crate::support::{Bench, Fault, KIND, ms, until};

#[test]
fn a_handler_three_times_as_long_as_the_lease_keeps_its_job() {
    let bench = Bench::new();
    let ids = bench.jobs(4);
    let starts = Arc::new(AtomicUsize::new(0));
    let count = |starts: &Arc<AtomicUsize>| {
        let starts = Arc::clone(starts);
        bench
            .worker()
            .lease(ms(500))
            .handle_kind(KIND, 1..=1, move |_, context| {
                starts.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(ms(1_500));
                assert!(context.is_current());
            })
            .start()
            .unwrap()
    };
    // The second worker is there to take what the first would lose; both reap.
    let (first, second) = (count(&starts), count(&starts));
    bench.until_all(&ids, State::Succeeded);
    until("all is counted", || {
        first.report().succeeded + second.report().succeeded == 4
    });
    assert_eq!(starts.load(Ordering::SeqCst), 4);
    assert!(ids.iter().all(|id| bench.row(*id).attempts == 1));
    assert_eq!(
        first.report().lost.total() + second.report().lost.total(),
        0
    );
}

#[test]
fn a_handler_whose_lease_was_taken_is_told_and_its_late_ack_is_refused() {
    let bench = Bench::new();
    let id = bench.jobs(1)[0];
    let told = Arc::new(AtomicBool::new(false));
    let (tell, probe) = (Arc::clone(&told), Arc::clone(&bench.probe));
    let worker = bench
        .worker()
        .slots(1)
        .lease(ms(500))
        .handle_kind(KIND, 1..=1, move |job, context| {
            if job.attempt() > 1 {
                return;
            }
            // As if the machine had stood still for an hour: the reaper takes the job.
            probe
                .rewind(job.job_id(), Duration::from_secs(3_600))
                .unwrap();
            until("the handler is told", || !context.is_current());
            assert!(context.is_cancelled() && context.remaining().is_zero());
            tell.store(true, Ordering::SeqCst);
        })
        .start()
        .unwrap();
    bench.until_all(&[id], State::Succeeded);
    until("all is counted", || worker.report().succeeded == 1);
    assert!(told.load(Ordering::SeqCst));
    assert_eq!(worker.report().lost.total(), 1);
    assert_eq!(bench.row(id).attempts, 2);
}

#[test]
fn a_cancelled_job_tells_its_handler_and_refuses_its_ack() {
    let bench = Bench::new();
    let id = bench.jobs(1)[0];
    let running = Arc::new(AtomicBool::new(false));
    let run = Arc::clone(&running);
    let worker = bench
        .worker()
        .lease(ms(300))
        .handle_kind(KIND, 1..=1, move |_, context| {
            run.store(true, Ordering::SeqCst);
            until("the handler is told", || context.is_cancelled());
        })
        .start()
        .unwrap();
    until("the handler runs", || running.load(Ordering::SeqCst));
    bench
        .backend
        .cancel(id, &ErrorText::new("not wanted"))
        .unwrap();
    until("the ack is refused", || worker.report().lost.finished == 1);
    let row = bench.row(id);
    assert_eq!(
        (row.state, row.last_error.as_deref()),
        (State::Dead, Some("not wanted"))
    );
}

#[test]
fn the_local_deadline_warns_when_renewals_fail_and_a_late_beat_still_saves_the_claim() {
    let bench = Bench::new();
    let id = bench.jobs(1)[0];
    bench.backend.fail("renew", [Fault::Unavailable; 2]);
    let worker = bench
        .worker()
        .lease(ms(900))
        .handle_kind(KIND, 1..=1, |_, context| {
            std::thread::sleep(ms(2_500));
            assert!(context.is_current());
        })
        .start()
        .unwrap();
    bench.until_all(&[id], State::Succeeded);
    assert_eq!(bench.row(id).attempts, 1);
    assert_eq!(worker.report().errors, 2);
}

#[test]
fn without_any_renewal_the_handler_is_told_no_later_than_the_database_would_say_so() {
    let bench = Bench::new();
    bench.jobs(1);
    let told = Arc::new(AtomicBool::new(false));
    let (tell, probe) = (Arc::clone(&told), Arc::clone(&bench.probe));
    bench.backend.fail("renew", [Fault::Unavailable; 1_000]);
    let worker = bench
        .worker()
        .lease(ms(400))
        .reap_every(Duration::from_secs(60))
        .handle_kind(KIND, 1..=1, move |job, context| {
            // Read in this order, a slow machine can only make the second smaller.
            let in_database = job.lease_until.since(probe.now().unwrap());
            assert!(context.remaining() <= in_database);
            until("the handler is told", || !context.is_current());
            tell.store(true, Ordering::SeqCst);
        })
        .start()
        .unwrap();
    until("the late ack is refused", || {
        worker.report().lost.expired == 1
    });
    assert!(told.load(Ordering::SeqCst));
    assert_eq!(worker.report().panicked, 0);
}

#[test]
fn a_row_that_somebody_keeps_locked_costs_its_neighbours_nothing() {
    let bench = Bench::new();
    let ids = bench.jobs(5);
    bench.backend.lock(ids[2], Duration::ZERO);
    let locked = ids[2];
    let worker = bench
        .worker()
        .slots(5)
        .lease(ms(900))
        .reap_every(Duration::from_secs(60))
        .handle_kind(KIND, 1..=1, move |job, context| {
            std::thread::sleep(ms(2_500));
            assert_eq!(context.is_current(), job.job_id() != locked);
        })
        .start()
        .unwrap();
    until("all is counted", || {
        let report = worker.report();
        report.succeeded == 4 && report.lost.expired == 1
    });
    assert_eq!(worker.report().panicked, 0);
    assert_eq!(bench.state(locked), State::Running);
}

#[test]
fn rows_that_are_waited_for_take_the_lease_of_no_free_one() {
    let bench = Bench::new();
    let ids = bench.jobs(7);
    let (locked, free) = ids.split_at(6);
    for id in locked {
        bench.backend.lock(*id, ms(200));
    }
    // A beat that asked for each of them before it ended would take longer than a lease.
    let worker = bench
        .worker()
        .slots(7)
        .lease(ms(900))
        .reap_every(Duration::from_secs(60))
        .handle_kind(KIND, 1..=1, |_, _| std::thread::sleep(ms(3_000)))
        .start()
        .unwrap();
    bench.until_all(free, State::Succeeded);
    until("all is counted", || {
        let report = worker.report();
        report.succeeded + report.lost.expired + report.unconfirmed == 7
    });
    assert_eq!(bench.row(free[0]).attempts, 1);
    assert_eq!(worker.report().succeeded, 1);
}

#[test]
fn jobs_of_a_worker_that_died_come_back() {
    let bench = Bench::new();
    let id = bench.jobs(1)[0];
    let request = queue_table_core::ClaimRequest::new(
        queue_table_core::QueueName::new(crate::support::QUEUE).unwrap(),
        queue_table_core::WorkerId::unique("dead").unwrap(),
    );
    use queue_table_core::QueueBackend;
    assert_eq!(bench.backend.claim(&request).unwrap().len(), 1);
    bench.probe.rewind(id, Duration::from_secs(3_600)).unwrap();
    let worker = bench
        .worker()
        .handle_kind(KIND, 1..=1, |_, _| ())
        .start()
        .unwrap();
    bench.until_all(&[id], State::Succeeded);
    assert_eq!((worker.report().reaped, bench.row(id).attempts), (1, 2));
}

#[test]
fn jobs_claimed_ahead_that_cannot_start_in_time_are_given_back_unspent() {
    let bench = Bench::new();
    let quick = bench.jobs(1);
    let slow = Arc::new(AtomicBool::new(false));
    let slowly = Arc::clone(&slow);
    let worker = bench
        .worker()
        .slots(1)
        .prefetch(5)
        .lease(ms(600))
        .handle_kind(KIND, 1..=1, move |_, _| {
            if slowly.swap(false, Ordering::SeqCst) {
                std::thread::sleep(ms(2_000));
            }
        })
        .start()
        .unwrap();
    // The first job is quick, so the worker claims ahead; then one takes longer than the lease.
    bench.until_all(&quick, State::Succeeded);
    slow.store(true, Ordering::SeqCst);
    let new = [
        crate::support::job(),
        crate::support::job(),
        crate::support::job(),
    ];
    use queue_table_core::QueueBackend;
    let ids: Vec<_> = bench
        .backend
        .enqueue(&new)
        .unwrap()
        .iter()
        .map(|job| job.job_id())
        .collect();
    until("two are given back", || worker.report().released == 2);
    bench.until_all(&ids, State::Succeeded);
    let mut budgets: Vec<u32> = ids.iter().map(|id| bench.row(*id).max_attempts).collect();
    budgets.sort_unstable();
    assert_eq!(budgets, [20, 21, 21]);
    assert_eq!(worker.report().lost.total(), 0);
}
