//! Several queues in one worker, kinds it does not know, and how little an idle one asks.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use queue_table_core::{QueueBackend, State, Worker};

use crate::support::{Bench, KIND, QUEUE, job_in, ms, until};

#[test]
fn full_queues_are_worked_in_the_ratio_of_their_weights() {
    let bench = Bench::new();
    let jobs: Vec<_> = (0..400)
        .map(|n| job_in(if n % 2 == 0 { "bulk" } else { "urgent" }, KIND))
        .collect();
    bench.backend.enqueue(&jobs).unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = Arc::clone(&order);
    let worker = Worker::builder(Arc::clone(&bench.backend))
        .weighted_queue("bulk", 1)
        .weighted_queue("urgent", 4)
        .slots(1)
        .handle_kind(KIND, 1..=1, move |job, _| {
            note.lock().unwrap().push(job.queue.clone());
        })
        .start()
        .unwrap();
    until("all have run", || worker.report().succeeded == 400);
    let order = order.lock().unwrap();
    let urgent = order[..200]
        .iter()
        .filter(|queue| queue.as_str() == "urgent")
        .count();
    assert!((155..=165).contains(&urgent), "{urgent} of 200");
}

#[test]
fn kinds_that_a_worker_does_not_know_are_left_alone() {
    let bench = Bench::new();
    let foreign = bench.enqueue(&job_in(QUEUE, "sms.send").with_priority(100));
    let own = bench.jobs(3);
    let _worker = bench
        .worker()
        .handle_kind(KIND, 1..=1, |_, _| ())
        .start()
        .unwrap();
    bench.until_all(&own, State::Succeeded);
    std::thread::sleep(ms(60));
    let row = bench.row(foreign);
    assert_eq!((row.state, row.attempts), (State::Ready, 0));
}

#[test]
fn an_idle_worker_asks_less_than_once_a_second() {
    let bench = Bench::new();
    let _worker = Worker::builder(Arc::clone(&bench.backend))
        .queue("one")
        .queue("two")
        .queue("three")
        .keep_succeeded_for(Duration::from_secs(60))
        .handle_kind(KIND, 1..=1, |_, _| ())
        .start()
        .unwrap();
    // The back-off grows from 10 ms to three queues times two seconds first.
    std::thread::sleep(Duration::from_secs(6));
    let before = bench.backend.queries();
    std::thread::sleep(Duration::from_secs(12));
    let queries = bench.backend.queries() - before;
    assert!(queries <= 12, "{queries} queries in 12 seconds");
}

#[test]
fn rings_for_jobs_that_are_not_its_own_do_not_become_a_poll_each() {
    let bench = Bench::new();
    let _worker = bench
        .worker()
        .handle_kind(KIND, 1..=1, |_, _| ())
        .start()
        .unwrap();
    std::thread::sleep(ms(100));
    let before = bench.backend.calls("claim");
    let queue = queue_table_core::QueueName::new(QUEUE).unwrap();
    for _ in 0..1_000 {
        bench.backend.ring(&queue);
        std::thread::sleep(Duration::from_micros(500));
    }
    let claims = bench.backend.calls("claim") - before;
    assert!(claims < 100, "{claims} claims for 1,000 rings");
}

#[test]
fn retention_deletes_old_succeeded_jobs_and_keeps_the_rest() {
    use queue_table_conformance::Probe;
    let bench = Bench::new();
    let ids = bench.jobs(3);
    let worker = bench
        .worker()
        .keep_succeeded_for(Duration::from_secs(600))
        .purge_every(ms(20))
        .handle_kind(KIND, 1..=1, |_, _| ())
        .start()
        .unwrap();
    bench.until_all(&ids, State::Succeeded);
    for id in &ids[..2] {
        bench.probe.rewind(*id, Duration::from_secs(3_600)).unwrap();
    }
    until("two are deleted", || worker.report().purged == 2);
    assert_eq!(bench.probe.ids().unwrap(), ids[2..]);
}
