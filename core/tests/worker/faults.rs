//! A database that fails: nothing is lost, nothing is reported wrongly, and nothing is hammered.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use queue_table_core::worker::Outcome;
use queue_table_core::{Administration, State};

use crate::support::{Bench, Fault, KIND, ms, until};

#[test]
fn an_ack_is_tried_again_until_it_is_stored() {
    let bench = Bench::new();
    let faults = [Fault::Contention, Fault::Unavailable, Fault::Engine];
    bench.backend.fail("ack", faults);
    let ids = bench.jobs(2);
    let worker = bench
        .worker()
        .handle_kind(KIND, 1..=1, |_, _| ())
        .start()
        .unwrap();
    bench.until_all(&ids, State::Succeeded);
    until("all is counted", || worker.report().succeeded == 2);
    assert!(ids.iter().all(|id| bench.row(*id).attempts == 1));
}

#[test]
fn a_lost_reply_to_an_ack_is_looked_into_and_is_no_failure() {
    for fault in [Fault::ReplyLost, Fault::RequestLost] {
        let bench = Bench::new();
        bench.backend.fail("ack", [fault, fault]);
        let ids = bench.jobs(3);
        let worker = bench
            .worker()
            .slots(3)
            .handle_kind(KIND, 1..=1, |_, _| ())
            .start()
            .unwrap();
        bench.until_all(&ids, State::Succeeded);
        until("all is counted", || worker.report().succeeded == 3);
        let report = worker.report();
        assert_eq!(
            (report.lost.total(), report.retried, report.claimed),
            (0, 0, 3),
            "{fault:?}"
        );
    }
}

#[test]
fn a_lost_reply_to_a_failure_fails_the_job_once() {
    for fault in [Fault::ReplyLost, Fault::RequestLost] {
        let bench = Bench::new();
        bench.backend.fail("fail", [fault]);
        let id = bench.jobs(1)[0];
        let worker = bench
            .worker()
            .handle_kind(KIND, 1..=1, |job, _| match job.attempt() {
                1 => Outcome::retry("no route"),
                _ => Outcome::Done,
            })
            .start()
            .unwrap();
        bench.until_all(&[id], State::Succeeded);
        until("all is counted", || worker.report().succeeded == 1);
        assert_eq!(bench.backend.failures(id).unwrap().len(), 1, "{fault:?}");
        let report = worker.report();
        assert_eq!((report.retried, report.lost.total()), (1, 0), "{fault:?}");
    }
}

#[test]
fn a_lost_reply_to_a_release_is_looked_into() {
    let bench = Bench::new();
    bench.backend.fail("fail", [Fault::ReplyLost]);
    let id = bench.jobs(1)[0];
    let worker = bench
        .worker()
        .handle_kind(KIND, 1..=1, |job, _| match job.attempt() {
            1 => Outcome::Release,
            _ => Outcome::Done,
        })
        .start()
        .unwrap();
    bench.until_all(&[id], State::Succeeded);
    until("all is counted", || worker.report().succeeded == 1);
    assert_eq!(
        (worker.report().released, worker.report().lost.total()),
        (1, 0)
    );
}

#[test]
fn a_lost_reply_that_cannot_be_looked_into_is_settled_later() {
    let bench = Bench::new();
    bench.backend.fail("ack", [Fault::ReplyLost]);
    bench
        .backend
        .fail("get", [Fault::Unavailable, Fault::Unavailable]);
    let id = bench.jobs(1)[0];
    let worker = bench
        .worker()
        .handle_kind(KIND, 1..=1, |_, _| ())
        .start()
        .unwrap();
    until("all is counted", || worker.report().succeeded == 1);
    assert_eq!(
        (bench.state(id), worker.report().lost.total()),
        (State::Succeeded, 0)
    );
}

#[test]
fn a_result_whose_outcome_stays_unknown_has_one_lease_and_holds_up_no_other() {
    let bench = Bench::new();
    let id = bench.jobs(1)[0];
    bench.backend.doubt(id);
    let lease = ms(1_500);
    let begun = Instant::now();
    let worker = bench
        .worker()
        .lease(lease)
        .handle_kind(KIND, 1..=1, |_, _| ())
        .start()
        .unwrap();
    until("the reply to its ack is lost", || {
        bench.backend.calls("ack") > 0
    });
    let others = bench.jobs(100);
    bench.until_all(&others, State::Succeeded);
    assert!(begun.elapsed() < lease, "the others waited for it");
    assert_eq!(worker.report().unconfirmed, 0, "it is tried again first");

    until("it is given up", || worker.report().unconfirmed == 1);
    assert!(begun.elapsed() >= lease, "{:?}", begun.elapsed());
    assert!(
        bench.backend.calls("renew") >= 3,
        "its claim was held meanwhile"
    );
    let reads = bench.backend.calls("get");
    assert!(
        (4..40).contains(&reads),
        "{reads} looks at the row in one lease"
    );
    bench.backend.heal_doubt();
    bench.until_all(&[id], State::Succeeded);
    until("it is counted", || worker.report().succeeded == 101);
    assert_eq!(
        (worker.report().lost.total(), bench.row(id).attempts),
        (0, 2)
    );
}

#[test]
fn rows_that_cannot_be_read_are_not_waited_for_one_by_one() {
    let bench = Bench::new();
    bench.backend.fail("ack", [Fault::RequestLost]);
    bench.backend.fail("get", [Fault::Unavailable; 2]);
    let ids = bench.jobs(8);
    let worker = bench
        .worker()
        .slots(8)
        .ack_batches(8, ms(500))
        .handle_kind(KIND, 1..=1, |_, _| ())
        .start()
        .unwrap();
    until("the ack of all is lost", || bench.backend.calls("ack") == 1);
    until("a row is read", || bench.backend.calls("get") == 1);
    bench.until_all(&ids, State::Succeeded);
    until("all is counted", || worker.report().succeeded == 8);
    assert_eq!(bench.backend.calls("get"), 1, "the others were put off");
}

#[test]
fn a_claim_whose_reply_was_lost_comes_back_by_its_lease() {
    let bench = Bench::new();
    bench.backend.fail("claim", [Fault::ReplyLost]);
    let id = bench.jobs(1)[0];
    let _worker = bench
        .worker()
        .lease(ms(300))
        .handle_kind(KIND, 1..=1, |_, _| ())
        .start()
        .unwrap();
    bench.until_all(&[id], State::Succeeded);
    assert_eq!(
        bench.row(id).attempts,
        2,
        "the lost claim counts as one attempt"
    );
}

#[test]
fn a_backend_that_panics_stops_no_loop_and_no_lease_is_kept_for_ever() {
    let bench = Bench::new();
    for operation in ["claim", "ack", "renew", "reap"] {
        bench.backend.fail(operation, [Fault::Panic]);
    }
    let ids = bench.jobs(3);
    let worker = bench
        .worker()
        .lease(ms(400))
        .handle_kind(KIND, 1..=1, |_, _| std::thread::sleep(ms(200)))
        .start()
        .unwrap();
    bench.until_all(&ids, State::Succeeded);
    let report = worker.stop(Duration::from_secs(10));
    assert!(
        report.unconfirmed > 0 && report.abandoned.is_empty(),
        "{report:?}"
    );
}

#[test]
fn a_database_that_is_down_is_not_hammered_and_work_goes_on_when_it_is_back() {
    let bench = Bench::new();
    let worker = bench
        .worker()
        .lease(Duration::from_secs(3))
        .handle_kind(KIND, 1..=1, |_, _| std::thread::sleep(ms(100)))
        .start()
        .unwrap();
    let ids = bench.jobs(6);
    until("work has begun", || worker.report().claimed > 0);
    bench.backend.take_down();
    let before = bench.backend.queries();
    std::thread::sleep(Duration::from_secs(2));
    let tries = bench.backend.queries() - before;
    // The reaper of this worker asks every 20 ms; a real one every few seconds.
    let others = tries - reaps(&bench, before);
    assert!(others < 40, "{others} calls in two seconds");
    bench.backend.bring_up();
    let back = Instant::now();
    bench.until_all(&ids, State::Succeeded);
    assert!(back.elapsed() < Duration::from_secs(10));
    assert!(
        ids.iter().all(|id| bench.row(*id).attempts == 1),
        "no lease was lost"
    );
}

/// How often the reaper may have asked meanwhile.
fn reaps(bench: &Bench, before: usize) -> usize {
    bench
        .backend
        .calls("reap")
        .min(bench.backend.queries() - before)
}

#[test]
fn an_ack_that_cannot_be_stored_within_the_lease_is_reported_and_the_job_is_run_again() {
    let bench = Bench::new();
    bench.backend.fail("ack", [Fault::Unavailable; 1_000]);
    bench.backend.fail("renew", [Fault::Unavailable; 1_000]);
    let id = bench.jobs(1)[0];
    let worker = bench
        .worker()
        .lease(ms(300))
        .handle_kind(KIND, 1..=1, |_, _| ())
        .start()
        .unwrap();
    until("it is given up", || worker.report().unconfirmed == 1);
    assert_ne!(bench.state(id), State::Succeeded);
    bench.backend.heal("ack");
    bench.backend.heal("renew");
    bench.until_all(&[id], State::Succeeded);
    until("it is counted", || worker.report().succeeded == 1);
    let report = worker.report();
    assert_eq!(
        (report.unconfirmed, bench.row(id).attempts),
        (1, 2),
        "{report:?}"
    );
}

#[test]
fn a_storm_of_errors_loses_no_job() {
    let bench = Bench::new();
    let storm = [
        Fault::Contention,
        Fault::ReplyLost,
        Fault::RequestLost,
        Fault::Unavailable,
        Fault::Engine,
    ];
    // A storm of renewals as long as the lease would rightly cost claims: that one is shorter.
    bench.backend.fail("renew", storm.into_iter().take(3));
    for operation in ["ack", "fail", "reap", "get", "failures"] {
        bench
            .backend
            .fail(operation, storm.iter().cycle().take(10).copied());
    }
    let ids = bench.jobs(200);
    let done = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&done);
    let worker = bench
        .worker()
        .slots(8)
        .lease(Duration::from_secs(10))
        .handle_kind(KIND, 1..=1, move |job, _| {
            if job.attempt() == 1 && job.job_id().get() % 5 == 0 {
                return Outcome::retry("no route");
            }
            count.fetch_add(1, Ordering::SeqCst);
            Outcome::Done
        })
        .start()
        .unwrap();
    bench.until_all(&ids, State::Succeeded);
    let report = worker.stop(Duration::from_secs(10));
    assert_eq!(report.succeeded, 200, "{report:?}");
    assert_eq!(report.retried, 40, "{report:?}");
    assert_eq!(report.lost.total() + report.unconfirmed, 0, "{report:?}");
    assert_eq!(done.load(Ordering::SeqCst), 200);
}

#[test]
fn a_result_that_the_database_never_takes_blocks_no_other_and_is_given_up() {
    let bench = Bench::new();
    let ids = bench.jobs(3);
    bench.backend.poison(ids[0]);
    let worker = bench
        .worker()
        .slots(3)
        .lease(Duration::from_secs(60))
        .handle_kind(KIND, 1..=1, |_, _| ())
        .start()
        .unwrap();
    bench.until_all(&ids[1..], State::Succeeded);
    until("the other is given up", || worker.report().unconfirmed == 1);
    bench.until_all(&bench.jobs(3), State::Succeeded);
    let begun = Instant::now();
    let report = worker.stop(Duration::from_secs(20));
    assert!(begun.elapsed() < Duration::from_secs(10), "{report:?}");
    assert_eq!((report.succeeded, report.unconfirmed), (5, 1), "{report:?}");
    assert_eq!(bench.state(ids[0]), State::Running, "its lease runs out");
}

#[test]
fn a_panic_beside_the_handler_keeps_neither_slot_nor_claim() {
    let bench = Bench::new();
    bench.backend.trip("engine");
    let id = bench.jobs(1)[0];
    let worker = bench
        .worker()
        .slots(1)
        .lease(ms(500))
        .handle_kind(KIND, 1..=1, |_, _| ())
        .start()
        .unwrap();
    until("the job is done", || worker.report().succeeded == 1);
    let report = worker.stop(Duration::from_secs(20));
    assert_eq!(
        (report.unconfirmed, bench.row(id).attempts >= 2),
        (1, true),
        "{report:?}"
    );
    assert!(report.abandoned.is_empty());
}
