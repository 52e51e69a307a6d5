//! Many threads on one file.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use queue_table_conformance::Probe;
use queue_table_core::{
    Administration, BatchSize, Delay, ErrorText, Failure, ListRequest, QueueBackend,
    QueueBackendExt, ReapRequest, RetryPolicy, State,
};

use crate::{claim_one, enqueue, fresh, lease, request};

#[test]
fn no_writer_thread_starves() {
    const THREADS: usize = 4;
    const JOBS: usize = 800;
    let (queue, probe) = fresh();
    enqueue(&queue, JOBS);
    let (left, begin) = (AtomicUsize::new(JOBS), std::sync::Barrier::new(THREADS));
    let shares = thread::scope(|scope| {
        let run = |_| {
            scope.spawn(|| {
                let queue = probe.session().unwrap();
                let mut mine = 0;
                begin.wait();
                while left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                        left.checked_sub(1)
                    })
                    .is_ok()
                {
                    queue.ack_one(&claim_one(&queue, "w").receipt).unwrap();
                    mine += 1;
                }
                mine
            })
        };
        let threads: Vec<_> = (0..THREADS).map(run).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect::<Vec<usize>>()
    });
    assert_eq!(shares.iter().sum::<usize>(), JOBS);
    let least = shares.iter().min().copied().unwrap();
    assert!(least >= JOBS / THREADS / 2, "{shares:?}");
}

#[test]
fn eight_threads_of_mixed_operations_meet_no_busy_file() {
    let (queue, probe) = fresh();
    enqueue(&queue, 400);
    let claims = Mutex::new(HashSet::new());
    thread::scope(|scope| {
        for number in 0..8 {
            let (probe, claims) = (&probe, &claims);
            scope.spawn(move || mixed_operations(&probe.session().unwrap(), number, claims));
        }
    });
    let failed = queue.list(&ListRequest::first(BatchSize::MAX)).unwrap();
    assert!(
        failed
            .iter()
            .all(|job| job.attempts == 0 || job.state != State::Ready || job.last_error.is_some())
    );
}

/// 200 operations; each unwrap is the assertion that no contention reaches a caller.
fn mixed_operations(
    queue: &queue_table_sqlite::SqliteQueue,
    number: u32,
    claims: &Mutex<HashSet<(i64, u32)>>,
) {
    for round in 0..200 {
        match (number + round) % 5 {
            0 => {
                enqueue(queue, 3);
            }
            1 => {
                let reap = ReapRequest::new(BatchSize::MAX, RetryPolicy::default());
                queue.reap(&reap).unwrap();
            }
            2 => {
                queue.stats(None).unwrap();
            }
            _ => {
                for job in queue.claim(&request(&format!("w{number}"), 2)).unwrap() {
                    let pair = (job.job_id().get(), job.attempt());
                    assert!(
                        claims.lock().unwrap().insert(pair),
                        "{pair:?} was claimed twice"
                    );
                    queue
                        .renew_one(&job.receipt, lease(Duration::from_secs(60)))
                        .unwrap();
                    if round % 3 == 0 {
                        let failure =
                            Failure::retry(job.receipt, Delay::ZERO, ErrorText::new("again"));
                        queue.fail_one(&failure).unwrap();
                    } else {
                        queue.ack_one(&job.receipt).unwrap();
                    }
                }
            }
        }
    }
}
