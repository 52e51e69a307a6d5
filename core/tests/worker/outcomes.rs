//! What handlers return, and what becomes of their jobs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use queue_table_core::worker::Outcome;
use queue_table_core::{Administration, RetryPolicy, State};

use crate::support::{Bench, KIND, QUEUE, job, ms, until};

/// Runs one job with one outcome until it is no longer running, and returns its row.
fn run_once(outcome: Outcome) -> (Bench, queue_table_conformance::Row) {
    let bench = Bench::new();
    let id = bench.jobs(1)[0];
    let worker = bench
        .worker()
        .handle_kind(KIND, 1..=1, move |_, _| outcome.clone())
        .start()
        .unwrap();
    until("one result is stored", || {
        let report = worker.report();
        report.succeeded + report.retried + report.dead + report.snoozed + report.released > 0
    });
    drop(worker);
    let row = bench.row(id);
    (bench, row)
}

#[test]
fn done_acknowledges() {
    let (_bench, row) = run_once(Outcome::Done);
    assert_eq!((row.state, row.attempts), (State::Succeeded, 1));
}

#[test]
fn a_retry_with_its_own_delay_waits_that_long() {
    let hour = Duration::from_secs(3_600);
    let (bench, row) = run_once(Outcome::retry_after("no route", hour));
    assert_eq!((row.state, row.attempts), (State::Ready, 1));
    assert_eq!(row.last_error.as_deref(), Some("no route"));
    let failures = bench.backend.failures(row.job_id).unwrap();
    let wait = row.run_at.since(failures[0].at);
    assert!(wait >= hour - ms(1) && wait <= hour + ms(1), "{wait:?}");
}

#[test]
fn a_retry_without_a_delay_takes_the_policy_of_its_kind() {
    let bench = Bench::new();
    let id = bench.jobs(1)[0];
    let day = Duration::from_secs(86_400);
    let worker = bench
        .worker()
        .retry_policy_for(KIND, RetryPolicy::fixed(day).unwrap())
        .handle_kind(KIND, 1..=1, |_, _| Outcome::retry("no route"))
        .start()
        .unwrap();
    until("the failure is stored", || worker.report().retried == 1);
    let failures = bench.backend.failures(id).unwrap();
    let wait = bench.row(id).run_at.since(failures[0].at);
    assert!(wait >= day - ms(1) && wait <= day + ms(1), "{wait:?}");
}

#[test]
fn retries_end_when_the_budget_is_spent() {
    let bench = Bench::new();
    let id = bench.enqueue(&job().with_max_attempts(3).unwrap());
    let worker = bench
        .worker()
        .handle_kind(KIND, 1..=1, |_, _| Err::<(), _>("no route"))
        .start()
        .unwrap();
    bench.until_all(&[id], State::Dead);
    until("it is counted", || worker.report().dead == 1);
    assert_eq!((worker.report().retried, bench.row(id).attempts), (2, 3));
}

#[test]
fn dead_spends_the_whole_budget_at_once() {
    let (_bench, row) = run_once(Outcome::dead("no such address"));
    assert_eq!((row.state, row.attempts), (State::Dead, 1));
    assert_eq!(row.last_error.as_deref(), Some("no such address"));
}

#[test]
fn a_snooze_waits_and_spends_no_budget() {
    let (bench, row) = run_once(Outcome::snooze(Duration::from_secs(3_600)));
    assert_eq!(
        (row.state, row.attempts, row.max_attempts),
        (State::Ready, 1, 21)
    );
    assert!(row.run_at.since(row.enqueued_at) >= Duration::from_secs(3_600));
    assert_eq!(bench.backend.failures(row.job_id).unwrap(), []);
}

#[test]
fn a_released_job_is_claimed_again_at_once() {
    let bench = Bench::new();
    let id = bench.jobs(1)[0];
    let worker = bench
        .worker()
        .handle_kind(KIND, 1..=1, |job, _| match job.attempt() {
            1..=3 => Outcome::Release,
            _ => Outcome::Done,
        })
        .start()
        .unwrap();
    bench.until_all(&[id], State::Succeeded);
    until("all is counted", || worker.report().succeeded == 1);
    assert_eq!(
        (worker.report().released, bench.row(id).max_attempts),
        (3, 23)
    );
}

#[test]
fn a_panic_fails_its_job_and_spares_the_thread() {
    let bench = Bench::new();
    let ids = bench.jobs(6);
    let worker = bench
        .worker()
        .slots(1)
        .handle_kind(KIND, 1..=1, |job, _| {
            assert!(job.attempt() > 1, "disk full\0");
        })
        .start()
        .unwrap();
    bench.until_all(&ids, State::Succeeded);
    until("all is counted", || worker.report().succeeded == 6);
    let report = worker.report();
    assert_eq!((report.panicked, report.retried), (6, 6));
    let failures = bench.backend.failures(ids[0]).unwrap();
    assert_eq!(
        failures[0].error.as_deref(),
        Some("panicked: disk full\u{fffd}")
    );
}

#[test]
fn an_error_of_three_megabytes_is_recorded_and_the_job_is_not_stuck() {
    let bench = Bench::new();
    let id = bench.enqueue(&job().with_max_attempts(1).unwrap());
    let _worker = bench
        .worker()
        .handle_kind(KIND, 1..=1, |_, _| Err::<(), _>("x\0".repeat(1_500_000)))
        .start()
        .unwrap();
    bench.until_all(&[id], State::Dead);
    assert_eq!(bench.row(id).last_error.unwrap().len(), 4_096);
}

#[test]
fn no_more_jobs_are_claimed_than_slots_are_free() {
    let bench = Bench::new();
    let ids = bench.jobs(60);
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (now, peak) = (Arc::clone(&running), Arc::clone(&most));
    let probe = Arc::clone(&bench.probe);
    let worker = bench
        .worker()
        .slots(3)
        .handle_kind(KIND, 1..=1, move |_, _| {
            peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::sleep(ms(1));
            now.fetch_sub(1, Ordering::SeqCst);
            let _ = &probe;
        })
        .start()
        .unwrap();
    bench.until_all(&ids, State::Succeeded);
    drop(worker);
    assert_eq!(most.load(Ordering::SeqCst), 3);
    assert_eq!(bench.backend.largest_claim(), 3);
}

#[test]
fn an_idle_worker_hears_an_enqueue_of_its_own_process_at_once() {
    let bench = Bench::new();
    let started = Arc::new(Mutex::new(None));
    let note = Arc::clone(&started);
    let _worker = bench
        .worker()
        .poll_interval(Duration::from_secs(3_600))
        .handle_kind(KIND, 1..=1, move |_, _| {
            note.lock()
                .unwrap()
                .get_or_insert_with(std::time::Instant::now);
        })
        .start()
        .unwrap();
    // Let the idle back-off grow to seconds.
    std::thread::sleep(ms(1_500));
    let enqueued = std::time::Instant::now();
    bench.jobs(1);
    until("the job has run", || started.lock().unwrap().is_some());
    let delay = started.lock().unwrap().unwrap() - enqueued;
    assert!(delay < ms(300), "{delay:?}");
}

#[test]
fn a_paused_queue_rests_until_it_is_resumed() {
    let bench = Bench::new();
    let queue = queue_table_core::QueueName::new(QUEUE).unwrap();
    bench.backend.pause(&queue).unwrap();
    let ids = bench.jobs(2);
    let _worker = bench
        .worker()
        .handle_kind(KIND, 1..=1, |_, _| ())
        .start()
        .unwrap();
    std::thread::sleep(ms(100));
    assert!(ids.iter().all(|id| bench.state(*id) == State::Ready));
    bench.backend.resume(&queue).unwrap();
    bench.until_all(&ids, State::Succeeded);
}
