//! A thousand jobs that each take three leases, on eight handler threads and two connections: no
//! claim is lost.
//!
//! The handlers sleep, so that the run takes as long as the lease says: 125 rounds of three leases.
//! The default keeps CI short. At other lengths, for example with leases of ten seconds (63
//! minutes):
//!
//! ```sh
//! QUEUE_TABLE_LEASE_MS=10000 QUEUE_TABLE_REQUIRE=sqlite,postgres,mysql,mariadb \
//!     cargo test --features postgres,mysql --test worker -- --nocapture three_leases
//! ```

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use queue_table::{
    Administration, BatchSize, JobId, Kind, ListRequest, NewJob, Payload, QueueName, State, Worker,
};

use crate::engines::{OnEngine, on_every_engine};

const JOBS: usize = 1_000;
const SLOTS: usize = 8;

/// Three leases are how long a handler takes.
const LEASES: u32 = 3;

/// Short enough for CI, long enough for a beat that is late by a tenth of a second on a busy
/// machine.
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

impl OnEngine for LongHandlers {
    fn pool(self) -> u32 {
        2
    }

    fn run<Q: Administration + 'static>(self, engine: &'static str, queue: &Arc<Q>) {
        let long = QueueName::new("long").unwrap();
        let payload = Payload::from_json("{}").unwrap();
        let job = NewJob::new(&long, Kind::new("three.leases").unwrap(), payload);
        queue.enqueue(&vec![job; JOBS]).unwrap();

        let took = self.lease * LEASES;
        let runs: Arc<Mutex<BTreeMap<JobId, u32>>> = Arc::default();
        let stale = Arc::new(AtomicU32::new(0));
        let (note, doubt) = (Arc::clone(&runs), Arc::clone(&stale));
        let began = Instant::now();
        // It reaps often: a lease that ran out is found out about, and its job run again.
        let worker = Worker::builder(Arc::clone(queue))
            .queue(&long)
            .slots(SLOTS)
            .lease(self.lease)
            .reap_every(self.lease / 10)
            .handle_kind("three.leases", 1..=1, move |job, context| {
                *note.lock().unwrap().entry(job.job_id()).or_default() += 1;
                std::thread::sleep(took);
                doubt.fetch_add(u32::from(!context.is_current()), Ordering::Relaxed);
            })
            .start()
            .unwrap();
        // Twice as long as the handlers sleep, and a minute.
        let rounds = u32::try_from(JOBS.div_ceil(SLOTS)).unwrap();
        let patience = took * rounds * 2 + Duration::from_secs(60);
        let ended = |queue: &Q| queue.stats(Some(&long)).unwrap()[0].succeeded == JOBS as u64;
        while !ended(queue) {
            assert!(
                began.elapsed() < patience,
                "{engine}: {:?}",
                worker.report()
            );
            std::thread::sleep(Duration::from_millis(500));
        }
        let report = worker.stop(Duration::from_secs(20));

        println!(
            "{engine}: {JOBS} jobs of {took:?} in {:?}: {report:?}",
            began.elapsed()
        );
        let lost = (report.lost.total(), report.unconfirmed, report.reaped);
        assert_eq!(lost, (0, 0, 0), "{engine}: {report:?}");
        assert_eq!(report.succeeded, JOBS as u64, "{engine}: {report:?}");
        assert_eq!(
            stale.load(Ordering::Relaxed),
            0,
            "{engine}: claims held in doubt"
        );
        let runs = runs.lock().unwrap();
        assert!(runs.len() == JOBS && runs.values().all(|runs| *runs == 1));
        let rows = queue.list(&ListRequest::first(BatchSize::MAX)).unwrap();
        let once =
            |row: &queue_table::JobRecord| (row.state, row.attempts) == (State::Succeeded, 1);
        assert!(rows.iter().all(once), "{engine}: {rows:?}");
    }
}
