//! The test kit: jobs run on the calling thread.

use std::time::Duration;

use queue_table_core::worker::{HandlerError, Outcome, TestWorker};
use queue_table_core::{Administration, DedupScope, Error, State};

use crate::support::{Bench, Fault, KIND, QUEUE, job, job_in};

#[test]
fn a_job_is_run_on_the_calling_thread_and_its_row_returned() {
    let bench = Bench::new();
    let id = bench.jobs(1)[0];
    let here = std::thread::current().id();
    let builder = bench.worker().handle_kind(KIND, 1..=1, move |_, _| {
        assert_eq!(std::thread::current().id(), here);
    });
    let mut worker = TestWorker::new(builder).unwrap();
    let row = worker.run_one().unwrap().unwrap();
    assert_eq!((row.job_id, row.state), (id, State::Succeeded));
    assert!(worker.run_one().unwrap().is_none());
}

#[test]
fn a_drain_runs_jobs_that_handlers_enqueue_and_stops_at_its_limit() {
    let bench = Bench::new();
    bench.jobs(1);
    let builder = bench.worker().handle_kind(KIND, 1..=1, |_, context| {
        use queue_table_core::QueueBackendExt;
        context.backend().enqueue_one(&crate::support::job())?;
        Ok::<(), HandlerError>(())
    });
    let mut worker = TestWorker::new(builder).unwrap();
    assert_eq!(worker.drain(7).unwrap().succeeded, 7);
}

#[test]
fn fast_forward_passes_over_retry_delays_and_snoozes() {
    let bench = Bench::new();
    let id = bench.jobs(1)[0];
    let day = Duration::from_secs(86_400);
    let builder = || {
        bench
            .worker()
            .handle_kind(KIND, 1..=1, move |job, _| match job.attempt() {
                1 => Outcome::retry_after("no route", day),
                2 => Outcome::snooze(day),
                _ => Outcome::Done,
            })
    };
    let mut worker = TestWorker::new(builder()).unwrap().fast_forward();
    let report = worker.drain(100).unwrap();
    assert_eq!(
        (report.retried, report.snoozed, report.succeeded),
        (1, 1, 1)
    );
    assert_eq!(bench.state(id), State::Succeeded);

    let waiting = bench.jobs(1)[0];
    let mut patient = TestWorker::new(builder()).unwrap();
    assert_eq!(patient.drain(100).unwrap().retried, 1);
    assert_eq!(bench.state(waiting), State::Ready);
}

#[test]
fn fast_forward_passes_over_delays_of_enqueued_jobs_the_earliest_first() {
    let bench = Bench::new();
    let day = Duration::from_secs(86_400);
    let after = |days: u32| job().with_delay(day * days).unwrap();
    let named = after(3)
        .with_dedup("third", DedupScope::WhileUnfinished)
        .unwrap();
    let third = bench.enqueue(&named.with_max_attempts(7).unwrap());
    let first = bench.enqueue(&after(1).with_priority(-5));
    let second = bench.enqueue(&after(2));
    let now = bench.enqueue(&job());
    let foreign = bench.enqueue(&job_in(QUEUE, "sms.send").with_delay(day).unwrap());
    let elsewhere = bench.enqueue(&job_in("other", KIND).with_delay(day).unwrap());

    let builder = || bench.worker().handle_kind(KIND, 1..=1, |_, _| ());
    assert_eq!(
        TestWorker::new(builder())
            .unwrap()
            .drain(10)
            .unwrap()
            .succeeded,
        1
    );
    let mut worker = TestWorker::new(builder()).unwrap().fast_forward();
    let mut run = || worker.run_one().unwrap();
    for id in [first, second, third] {
        let row = run().unwrap();
        assert_eq!(
            (row.job_id, row.state, row.attempts),
            (id, State::Succeeded, 1)
        );
    }
    assert!(run().is_none());
    assert_eq!(bench.row(third).max_attempts, 7);
    assert_eq!(bench.state(now), State::Succeeded);
    for id in [foreign, elsewhere] {
        assert_eq!((bench.state(id), bench.row(id).attempts), (State::Ready, 0));
    }
}

#[test]
fn fast_forward_leaves_the_jobs_of_a_paused_queue_alone() {
    let bench = Bench::new();
    let id = bench.enqueue(&job().with_delay(Duration::from_secs(60)).unwrap());
    let queue = queue_table_core::QueueName::new(QUEUE).unwrap();
    bench.backend.pause(&queue).unwrap();
    let before = bench.row(id);
    let builder = bench.worker().handle_kind(KIND, 1..=1, |_, _| ());
    let mut worker = TestWorker::new(builder).unwrap().fast_forward();
    assert!(worker.run_one().unwrap().is_none());
    assert_eq!(bench.row(id), before);
}

#[test]
fn a_job_acknowledged_in_its_transaction_needs_no_second_ack() {
    let bench = Bench::new();
    bench.jobs(1);
    let builder = bench.worker().handle_kind(KIND, 1..=1, |_, context| {
        context.transaction(|_| Ok::<(), Error>(()))
    });
    let mut worker = TestWorker::new(builder).unwrap();
    assert_eq!(worker.run_one().unwrap().unwrap().state, State::Succeeded);
    assert_eq!(bench.backend.calls("ack"), 0);
}

#[test]
fn a_result_that_cannot_be_stored_is_an_error() {
    let bench = Bench::new();
    bench.jobs(1);
    bench.backend.fail("ack", [Fault::Unavailable; 50]);
    let builder = bench.worker().handle_kind(KIND, 1..=1, |_, _| ());
    let mut worker = TestWorker::new(builder).unwrap();
    assert!(matches!(worker.run_one(), Err(Error::Unavailable(_))));
}
