//! Stopping: drained, released, told, joined, reported.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use queue_table_core::worker::{Outcome, StartError};
use queue_table_core::{Administration, State, Worker};

use crate::support::{Bench, Fault, KIND, ms, until};

#[test]
fn running_handlers_are_drained_and_their_results_stored() {
    let bench = Bench::new();
    let ids = bench.jobs(2);
    let worker = bench
        .worker()
        .handle_kind(KIND, 1..=1, |_, _| std::thread::sleep(ms(300)))
        .start()
        .unwrap();
    until("both run", || worker.report().started == 2);
    let report = worker.stop(Duration::from_secs(20));
    assert_eq!(report.succeeded, 2);
    assert!(report.abandoned.is_empty());
    assert!(ids.iter().all(|id| bench.state(*id) == State::Succeeded));
}

#[test]
fn jobs_that_no_handler_began_are_released_without_an_attempt_spent() {
    let bench = Bench::new();
    let quick = bench.jobs(1);
    let (block, blocked) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let (blocking, note) = (Arc::clone(&block), Arc::clone(&blocked));
    let worker = bench
        .worker()
        .slots(1)
        .prefetch(3)
        .handle_kind(KIND, 1..=1, move |_, context| {
            if blocking.load(Ordering::SeqCst) {
                note.store(true, Ordering::SeqCst);
                until("the worker stops", || context.is_stopping());
                assert!(!context.is_cancelled());
            }
        })
        .start()
        .unwrap();
    bench.until_all(&quick, State::Succeeded);
    block.store(true, Ordering::SeqCst);
    let ids = bench.jobs(4);
    until("one runs and the others wait", || {
        blocked.load(Ordering::SeqCst) && worker.report().claimed == 5
    });
    let report = worker.stop(Duration::from_secs(20));
    assert_eq!((report.succeeded, report.released), (2, 3));
    let ready = ids.iter().filter(|id| bench.state(**id) == State::Ready);
    assert!(ready.clone().all(|id| bench.row(*id).max_attempts == 21));
    assert_eq!(ready.count(), 3);
}

#[test]
fn handlers_are_told_to_give_up_when_the_drain_is_over() {
    let bench = Bench::new();
    let id = bench.jobs(1)[0];
    let worker = bench
        .worker()
        .handle_kind(KIND, 1..=1, |_, context| {
            until("the handler is told", || context.is_cancelled());
            Outcome::Release
        })
        .start()
        .unwrap();
    until("it runs", || worker.report().started == 1);
    let report = worker.stop(ms(50));
    assert_eq!((report.released, bench.state(id)), (1, State::Ready));
}

#[test]
fn a_handler_that_never_returns_is_reported_and_does_not_hold_the_stop() {
    let bench = Bench::new();
    let id = bench.jobs(1)[0];
    let free = Arc::new(AtomicBool::new(false));
    let freed = Arc::clone(&free);
    let worker = bench
        .worker()
        .cancel_grace(ms(100))
        .handle_kind(KIND, 1..=1, move |_, _| {
            until("the test is over", || freed.load(Ordering::SeqCst));
        })
        .start()
        .unwrap();
    until("it runs", || worker.report().started == 1);
    let begun = Instant::now();
    let report = worker.stop(ms(50));
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(report.abandoned, [id]);
    free.store(true, Ordering::SeqCst);
    drop(worker);
    assert_eq!(
        bench.state(id),
        State::Running,
        "its late result was not stored"
    );
}

#[test]
fn a_second_stop_and_a_join_return_the_same_report() {
    let bench = Bench::new();
    bench.jobs(1);
    let worker = bench
        .worker()
        .handle_kind(KIND, 1..=1, |_, _| ())
        .start()
        .unwrap();
    until("it has run", || worker.report().succeeded == 1);
    std::thread::scope(|scope| {
        let joined = scope.spawn(|| worker.join());
        let reports = [worker.stop(ms(100)), worker.stop(ms(100)), worker.report()];
        let joined = joined.join().unwrap();
        assert!(
            reports
                .iter()
                .all(|report| *report == joined && report.succeeded == 1)
        );
    });
}

#[test]
fn a_dropped_worker_stops() {
    let bench = Bench::new();
    let starts = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&starts);
    let worker = bench
        .worker()
        .handle_kind(KIND, 1..=1, move |_, _| {
            count.fetch_add(1, Ordering::SeqCst);
        })
        .start()
        .unwrap();
    drop(worker);
    bench.jobs(3);
    let queries = bench.backend.queries();
    std::thread::sleep(ms(100));
    assert_eq!(
        bench.backend.queries(),
        queries,
        "no thread is left that asks"
    );
    assert_eq!(starts.load(Ordering::SeqCst), 0);
    assert_eq!(
        Arc::strong_count(&bench.backend),
        1,
        "no thread is left that could"
    );
}

#[test]
fn an_idle_worker_stops_at_once_whatever_its_intervals() {
    let bench = Bench::new();
    let worker = bench
        .worker()
        .poll_interval(Duration::from_secs(86_400))
        .reap_every(Duration::from_secs(86_400))
        .keep_dead_for(Duration::from_secs(1))
        .purge_every(Duration::from_secs(86_400))
        .lease(Duration::from_secs(86_400))
        .handle_kind(KIND, 1..=1, |_, _| ())
        .start()
        .unwrap();
    std::thread::sleep(ms(700));
    let begun = Instant::now();
    worker.stop(Duration::from_secs(60));
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn a_stop_while_the_database_is_down_ends_and_reports_what_it_could_not_store() {
    let bench = Bench::new();
    let id = bench.jobs(1)[0];
    let backend = Arc::clone(&bench.backend);
    let worker = bench
        .worker()
        .cancel_grace(ms(300))
        .handle_kind(KIND, 1..=1, move |_, _| backend.take_down())
        .start()
        .unwrap();
    until("the database is down", || worker.report().errors > 0);
    let begun = Instant::now();
    let report = worker.stop(ms(100));
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!((report.unconfirmed, report.succeeded), (1, 0));
    assert_eq!(bench.state(id), State::Running);
}

#[test]
fn a_worker_runs_on_a_trait_object() {
    let bench = Bench::new();
    let ids = bench.jobs(2);
    let backend: Arc<dyn Administration> = bench.backend.clone();
    let worker = Worker::builder(backend)
        .queue(crate::support::QUEUE)
        .handle_kind(KIND, 1..=1, |_, context| {
            assert_eq!(context.backend().engine(), "faulty");
        })
        .start()
        .unwrap();
    bench.until_all(&ids, State::Succeeded);
    assert!(worker.stop(ms(100)).abandoned.is_empty());
}

#[test]
fn settings_outside_their_limits_are_refused_by_name() {
    let refusal = |builder: queue_table_core::WorkerBuilder<_>| match builder.start() {
        Err(StartError::Invalid(invalid)) => invalid.what(),
        other => panic!("not refused: {other:?}"),
    };
    let bench = Bench::new();
    let good = || bench.worker().handle_kind(KIND, 1..=1, |_, _| ());
    assert_eq!(refusal(bench.worker()), "worker");
    assert_eq!(refusal(good().slots(0)), "slots");
    assert_eq!(refusal(good().slots(1_001)), "slots");
    assert_eq!(refusal(good().prefetch(1_001)), "prefetch");
    assert_eq!(refusal(good().lease(ms(99))), "lease");
    assert_eq!(refusal(good().queue(" mail")), "queue name");
    assert_eq!(refusal(good().weighted_queue("sms", 0)), "queue weight");
    assert_eq!(
        refusal(good().poll_interval(Duration::ZERO)),
        "poll interval"
    );
    assert_eq!(refusal(good().ack_batches(0, ms(1))), "batch size");
    assert_eq!(
        refusal(good().handle_kind(KIND, 1..=1, |_, _| ())),
        "handler"
    );
    assert_eq!(refusal(good().name("")), "worker name");
}

#[test]
fn a_result_that_comes_too_late_is_counted() {
    let bench = Bench::new();
    bench.backend.fail("ack", [Fault::Slow]);
    let quick = bench.jobs(1)[0];
    let worker = bench
        .worker()
        .cancel_grace(ms(100))
        .handle_kind(KIND, 1..=1, move |job, context| {
            if job.job_id() != quick {
                until("the handler is told", || context.is_cancelled());
                std::thread::sleep(ms(500));
            }
        })
        .start()
        .unwrap();
    until("the first is on its way", || {
        bench.backend.calls("ack") == 1
    });
    bench.jobs(1);
    until("the second runs", || worker.report().started == 2);
    let report = worker.stop(ms(10));
    assert_eq!((report.succeeded, report.unconfirmed), (1, 1), "{report:?}");
    assert!(report.abandoned.is_empty(), "{report:?}");
}

#[test]
fn a_stop_that_panics_holds_nobody_who_waits_for_the_end() {
    let bench = Bench::new();
    let worker = bench
        .worker()
        .handle_kind(KIND, 1..=1, |_, _| ())
        .start()
        .unwrap();
    bench.backend.trip("ring");
    let stop = std::panic::AssertUnwindSafe(|| worker.stop(ms(10)));
    assert!(std::panic::catch_unwind(stop).is_err());
    assert_eq!(worker.join(), worker.stop(ms(10)));
    drop(worker);
    until("the threads have ended", || {
        Arc::strong_count(&bench.backend) == 1
    });
}
