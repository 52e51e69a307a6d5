//! What an idle worker costs on each engine: processor time, and round trips to the server.
//!
//! A program of its own, so that the processor time of the process is that of the workers. It runs
//! on Linux, which tells it.

#![cfg(target_os = "linux")]

#[cfg(test)]
#[path = "worker/engines.rs"]
mod engines;
#[cfg(test)]
#[path = "worker/proxy.rs"]
mod proxy;

#[cfg(test)]
mod idle {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use queue_table::{Administration, TransactionalBackend, Worker};

    use crate::engines::{OnEngine, on_every_engine};
    use crate::proxy;

    /// The pauses between polls grow to their longest first: four seconds with two queues.
    const WARM_UP: Duration = Duration::from_secs(10);

    /// Some eight rounds of polls, three reaps and a purge or none.
    const MEASURED: Duration = Duration::from_secs(30);

    /// One percent of a core for each of the four engines. Measured: 0.13 % for all of them
    /// together.
    const CPU_MOST: f64 = 0.04;

    /// A second. Two polls every four seconds and a reap every ten, each one look, are 0.6.
    const ROUND_TRIPS_MOST: f64 = 1.0;

    #[test]
    fn an_idle_worker_costs_next_to_nothing() {
        let trips = RoundTrips::default();
        on_every_engine(Idle { trips: &trips });
    }

    /// Round trips so far, by engine.
    type RoundTrips = Mutex<BTreeMap<&'static str, Arc<AtomicU64>>>;

    #[derive(Debug, Clone, Copy)]
    struct Idle<'a> {
        trips: &'a RoundTrips,
    }

    impl Idle<'_> {
        fn counter(self, engine: &'static str) -> Arc<AtomicU64> {
            Arc::clone(self.trips.lock().unwrap().entry(engine).or_default())
        }
    }

    impl OnEngine for Idle<'_> {
        fn pool(self) -> u32 {
            4
        }

        fn route(self, engine: &'static str, address: String) -> String {
            proxy::count_round_trips(&address, self.counter(engine))
        }

        fn run<Q>(self, engine: &'static str, queue: &Arc<Q>, _: &Q)
        where
            Q: Administration + TransactionalBackend + 'static,
        {
            let worker = Worker::builder(Arc::clone(queue))
                .queue("mail")
                .queue("reports")
                .keep_succeeded_for(Duration::from_secs(86_400))
                .handle_kind("mail.send", 1..=1, |_, _| ())
                .start()
                .unwrap();
            std::thread::sleep(WARM_UP);
            let (trips, cpu) = (self.counter(engine), cpu_time());
            let before = trips.load(Ordering::Relaxed);
            std::thread::sleep(MEASURED);
            let seconds = MEASURED.as_secs_f64();
            let cpu = (cpu_time() - cpu).as_secs_f64() / seconds;
            let trips = (trips.load(Ordering::Relaxed) - before) as f64 / seconds;
            let report = worker.stop(Duration::ZERO);

            println!(
                "{engine}: {trips:.2} round trips a second, process {:.2} % of a core",
                cpu * 100.0
            );
            assert_eq!(report.errors, 0, "{engine}: {report:?}");
            assert!(cpu < CPU_MOST, "{engine}: {cpu} of a core for all engines");
            assert!(
                trips < ROUND_TRIPS_MOST,
                "{engine}: {trips} round trips a second"
            );
        }
    }

    /// Processor time of this process: fields 14 and 15, in hundredths of a second.
    fn cpu_time() -> Duration {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        // The name of the program, in parentheses, may hold blanks.
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        let ticks = fields.split(' ').skip(11).take(2);
        Duration::from_millis(ticks.map(|ticks| ticks.parse::<u64>().unwrap() * 10).sum())
    }
}
