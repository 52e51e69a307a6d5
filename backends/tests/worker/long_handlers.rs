//! A thousand jobs that each take three leases, on eight handler threads and two connections: no
//! claim is lost.
//!
//! The handlers sleep, so that the run takes as long as the lease says: 125 rounds of three leases.
//! The default keeps CI short. At other lengths, for example with leases of ten seconds (63
//! minutes):
//!
//! ```sh
//! QUEUE_TABLE_LEASE_MS=10000 QUEUE_TABLE_REQUIRE=sqlite,postgres,mysql,mariadb \
//!     cargo test --features postgres,mysql,rustls --test worker -- --nocapture three_leases
//! ```
//!
//! A lease of half a second is short for a disk that others use: one that stands still for a second
//! takes the leases with it, whatever the worker does. So a watch on connections of its own writes
//! all the time. While it sees no standstill, no claim may be lost; each one that it sees may cost
//! the claims that were held, and no job.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use queue_table::{
    Administration, BatchSize, JobId, JobRecord, Kind, ListRequest, NewJob, Payload, QueueName,
    State, TransactionalBackend, Worker, WorkerBuilder,
};

use crate::engines::{OnEngine, on_every_engine};

const JOBS: usize = 1_000;
const SLOTS: usize = 8;

/// How many leases a handler takes.
const LEASES: u32 = 3;

const LEASE_MS: u64 = 500;

#[test]
fn handlers_of_three_leases_behind_two_connections_lose_no_claim() {
    let millis = std::env::var("QUEUE_TABLE_LEASE_MS");
    let millis = millis.map_or(LEASE_MS, |millis| millis.parse().unwrap());
    on_every_engine(LongHandlers {
        lease: Duration::from_millis(millis),
    });
}

#[derive(Debug, Clone, Copy)]
struct LongHandlers {
    lease: Duration,
}

/// How often a handler of each job was begun.
type Runs = Arc<Mutex<BTreeMap<JobId, u32>>>;

impl OnEngine for LongHandlers {
    fn pool(self) -> u32 {
        2
    }

    fn run<Q>(self, engine: &'static str, queue: &Arc<Q>, beside: &Q)
    where
        Q: Administration + TransactionalBackend + 'static,
    {
        let long = QueueName::new("long").unwrap();
        let payload = Payload::from_json("{}").unwrap();
        let job = NewJob::new(&long, Kind::new("three.leases").unwrap(), payload);
        queue.enqueue(&vec![job; JOBS]).unwrap();

        let (runs, began, ended) = (Runs::default(), Instant::now(), AtomicBool::new(false));
        let worker = self.worker(queue, &long, &runs).start().unwrap();
        let watched = std::thread::scope(|scope| {
            let watch = scope.spawn(|| self.watch(beside, &ended));
            // Twice as long as the handlers sleep, and a minute.
            let rounds = u32::try_from(JOBS.div_ceil(SLOTS)).unwrap();
            let patience = self.lease * LEASES * rounds * 2 + Duration::from_secs(60);
            let done = || queue.stats(Some(&long)).unwrap()[0].succeeded == JOBS as u64;
            while !done() && began.elapsed() < patience {
                std::thread::sleep(Duration::from_millis(500));
            }
            ended.store(true, Ordering::Relaxed);
            watch.join().unwrap()
        });
        let report = worker.stop(Duration::from_secs(20));

        let took = began.elapsed();
        println!(
            "{engine}: lease {:?}, {took:?}: {watched:?}, {report:?}",
            self.lease
        );
        assert_eq!(report.succeeded, JOBS as u64, "{engine}: {report:?}");
        let lost = report.lost.total() + report.unconfirmed;
        let excused = (SLOTS * watched.standstills) as u64;
        assert!(lost <= excused, "{engine}: {watched:?}, {report:?}");
        let repeated: u32 = runs.lock().unwrap().values().map(|runs| runs - 1).sum();
        assert!(
            u64::from(repeated) <= lost,
            "{engine}: {repeated}, {report:?}"
        );
        let rows = queue.list(&ListRequest::first(BatchSize::MAX)).unwrap();
        let once = |row: &&JobRecord| (row.state, row.attempts) == (State::Succeeded, 1);
        let more = rows.len() - rows.iter().filter(once).count();
        // What a standstill kept from its start was given back, or ran out before it was here.
        assert!(
            rows.len() == JOBS && more as u64 <= lost + report.released + excused,
            "{engine}: {more}, {report:?}"
        );
    }
}

/// What the watch saw.
#[derive(Debug, Default)]
struct Watched {
    longest: Duration,
    standstills: usize,
}

impl LongHandlers {
    /// It reaps often: a lease that ran out is found out about, and its job run again.
    fn worker<Q>(self, queue: &Arc<Q>, long: &QueueName, runs: &Runs) -> WorkerBuilder<Q>
    where
        Q: Administration + 'static,
    {
        let (runs, took) = (Arc::clone(runs), self.lease * LEASES);
        Worker::builder(Arc::clone(queue))
            .queue(long)
            .slots(SLOTS)
            .lease(self.lease)
            .reap_every(self.lease / 10)
            .handle_kind("three.leases", 1..=1, move |job, _| {
                *runs.lock().unwrap().entry(job.job_id()).or_default() += 1;
                std::thread::sleep(took);
            })
    }

    /// Writes a little, again and again. A lease is in danger when a beat, which comes every third
    /// of it, is held up for two thirds; a third is a standstill.
    fn watch<Q: Administration>(self, queue: &Q, ended: &AtomicBool) -> Watched {
        let (watch, every) = (QueueName::new("watch").unwrap(), self.lease / 10);
        let mut watched = Watched::default();
        while !ended.load(Ordering::Relaxed) {
            let began = Instant::now();
            std::thread::sleep(every);
            queue.pause(&watch).unwrap();
            queue.resume(&watch).unwrap();
            let held_up = began.elapsed().saturating_sub(every);
            watched.longest = watched.longest.max(held_up);
            watched.standstills += usize::from(held_up > self.lease / 3);
        }
        watched
    }
}
