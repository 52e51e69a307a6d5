//! Everything at once: no transient conflict reaches a caller, and nothing is lost.
//!
//! `QUEUE_TABLE_SOAK_SECS` says how long producers go on, 5 seconds by default.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use queue_table_core::{
    Administration, BatchSize, DedupScope, Delay, ErrorText, Failure, JobId, LeaseLength,
    PurgeRequest, QueueBackend, ReapRequest, RetryPolicy, WorkerId,
};
use queue_table_mysql::MysqlQueue;

use crate::support::{job, lease, on_each, request};

/// Each producer's pace, so that the workers keep up and the load lasts for the whole time.
const JOBS_PER_SECOND: u128 = 400;

/// What everybody counts.
#[derive(Default)]
struct Counts {
    enqueued: AtomicU64,
    purged: AtomicU64,
    /// Acknowledgements and last attempts seen, by job.
    attempts: Mutex<HashMap<JobId, (u32, u32)>>,
    done: AtomicBool,
}

fn produce(queue: &MysqlQueue, counts: &Counts, producer: u64, until: Instant) {
    let (began, mut mine) = (Instant::now(), 0);
    while Instant::now() < until {
        if u128::from(mine) * 1_000 > began.elapsed().as_millis() * JOBS_PER_SECOND {
            thread::sleep(Duration::from_millis(2));
            continue;
        }
        let count = 1 + fastrand_like(mine) % 10;
        let jobs: Vec<_> = (0..count)
            .map(|at| {
                let job = job()
                    .with_priority((at % 3) as i32)
                    .with_max_attempts(1_000)
                    .unwrap();
                let key = format!("{producer}-{}", (mine + at) / 2);
                if at % 4 == 0 {
                    job.with_dedup(&key, DedupScope::WhileUnfinished).unwrap()
                } else {
                    job
                }
            })
            .collect();
        let new = queue
            .enqueue(&jobs)
            .unwrap()
            .iter()
            .filter(|enqueued| enqueued.is_new())
            .count();
        counts.enqueued.fetch_add(new as u64, Ordering::SeqCst);
        mine += count;
    }
}

/// A number without a pattern that anybody could see, the same in every run.
fn fastrand_like(seed: u64) -> u64 {
    seed.wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407)
        >> 33
}

fn work(queue: &MysqlQueue, counts: &Counts, worker: u64) {
    let name = WorkerId::new(format!("w{worker}")).unwrap();
    for round in 0.. {
        if counts.done.load(Ordering::SeqCst) {
            return;
        }
        let mut request = request(1 + (fastrand_like(round) % 10) as u32);
        request.worker = name.clone();
        request.lease = lease(Duration::from_millis(400));
        let claims = queue.claim(&request).unwrap();
        for claim in &claims {
            let mut attempts = counts.attempts.lock().unwrap();
            let seen = attempts.entry(claim.job_id()).or_default();
            assert_eq!(claim.attempt(), seen.0 + 1, "attempts go up by one");
            seen.0 = claim.attempt();
        }
        let receipts: Vec<_> = claims.into_iter().map(|claim| claim.receipt).collect();
        match fastrand_like(round + worker) % 10 {
            // A crash.
            0 => {}
            1 => {
                let failures: Vec<_> = receipts
                    .into_iter()
                    .map(|receipt| Failure::retry(receipt, Delay::ZERO, ErrorText::new("x")))
                    .collect();
                queue.fail(&failures).unwrap();
            }
            _ => {
                queue.renew(&receipts, LeaseLength::default()).unwrap();
                for (answer, receipt) in queue.ack(&receipts).unwrap().iter().zip(&receipts) {
                    if answer.is_ok() {
                        counts
                            .attempts
                            .lock()
                            .unwrap()
                            .entry(receipt.job_id())
                            .or_default()
                            .1 += 1;
                    }
                }
            }
        }
        if receipts_are_few(round) {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn receipts_are_few(round: u64) -> bool {
    round.is_multiple_of(16)
}

fn reap(queue: &MysqlQueue, counts: &Counts) {
    let request = ReapRequest::new(
        BatchSize::new(50).unwrap(),
        RetryPolicy::fixed(Duration::from_millis(1)).unwrap(),
    );
    while !counts.done.load(Ordering::SeqCst) {
        queue.reap(&request).unwrap();
        thread::sleep(Duration::from_millis(20));
    }
}

fn purge(queue: &MysqlQueue, counts: &Counts) {
    while !counts.done.load(Ordering::SeqCst) {
        let request = PurgeRequest {
            succeeded_after: Some(Delay::new(Duration::from_millis(500)).unwrap()),
            dead_after: None,
            limit: BatchSize::new(100).unwrap(),
            cursor: None,
        };
        let purged = queue.purge(&request).unwrap();
        counts
            .purged
            .fetch_add(u64::from(purged.deleted), Ordering::SeqCst);
        thread::sleep(Duration::from_millis(30));
    }
}

#[test]
fn eight_workers_four_producers_two_reapers_and_a_purger_meet_no_conflict_and_lose_nothing() {
    let seconds = std::env::var("QUEUE_TABLE_SOAK_SECS").map_or(5, |text| text.parse().unwrap());
    on_each(|server| {
        let tables = server.tables();
        let queue = tables.builder().pool_size(16).build().unwrap();
        let counts = Counts::default();
        let until = Instant::now() + Duration::from_secs(seconds);
        thread::scope(|scope| {
            let (queue, counts) = (&queue, &counts);
            let producers: Vec<_> = (0..4)
                .map(|at| scope.spawn(move || produce(queue, counts, at, until)))
                .collect();
            for at in 0..8 {
                scope.spawn(move || work(queue, counts, at));
            }
            scope.spawn(move || reap(queue, counts));
            scope.spawn(move || reap(queue, counts));
            scope.spawn(move || purge(queue, counts));
            let ended = producers
                .into_iter()
                .all(|producer| producer.join().is_ok());
            let drained = ended && drain(queue, until + Duration::from_secs(60));
            counts.done.store(true, Ordering::SeqCst);
            assert!(
                drained,
                "producers failed, or the queue was not drained in time"
            );
        });
        let attempts = counts.attempts.into_inner().unwrap();
        let enqueued = counts.enqueued.into_inner();
        assert_eq!(attempts.len() as u64, enqueued, "every job was claimed");
        assert!(
            attempts.values().all(|(_, acks)| *acks == 1),
            "every job was acknowledged once"
        );
        let stored = tables.number("SELECT COUNT(*) FROM {job}") as u64;
        assert_eq!(stored + counts.purged.into_inner(), enqueued);
        let odd = "SELECT COUNT(*) FROM {job} WHERE state <> 'succeeded'";
        assert_eq!(tables.number(odd), 0);
        println!("{}: {enqueued} jobs in {seconds} s", server.engine);
    });
}

fn drain(queue: &MysqlQueue, until: Instant) -> bool {
    while Instant::now() < until {
        let stats = queue.stats(None).unwrap();
        if stats
            .iter()
            .all(|queue| queue.due + queue.scheduled + queue.running == 0)
        {
            return true;
        }
        thread::sleep(Duration::from_millis(50));
    }
    false
}
