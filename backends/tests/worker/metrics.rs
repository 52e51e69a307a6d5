//! What the backends themselves record: jobs enqueued, and waits for a connection.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics::{
    Counter, CounterFn, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use queue_table::{
    Administration, DedupScope, Error, Kind, NewJob, Payload, QueueName, TransactionalBackend,
};

use crate::engines::{OnEngine, on_every_engine};

#[test]
fn enqueued_jobs_and_waits_for_a_connection_are_recorded() {
    on_every_engine(Recorded);
}

#[derive(Debug, Clone, Copy)]
struct Recorded;

impl OnEngine for Recorded {
    fn pool(self) -> u32 {
        1
    }

    fn run<Q>(self, engine: &'static str, queue: &Arc<Q>, _: &Q)
    where
        Q: Administration + TransactionalBackend + 'static,
    {
        let seen = Seen::default();
        metrics::with_local_recorder(&seen, || record(&**queue));

        let counted = |kind, by| seen.count("queue_table_enqueued_total", engine, &[kind, by]);
        assert_eq!(counted("a", "enqueue"), 2, "{engine}: the twin is not new");
        assert_eq!(counted("b", "enqueue"), 1, "{engine}");
        assert_eq!(
            counted("a", "enqueue_in"),
            3,
            "{engine}: rolled back or not"
        );
        let waits = |operation| seen.waits(engine, operation);
        assert_eq!(waits("transaction").len(), 2, "{engine}");
        let longest = waits("enqueue").into_iter().fold(0.0, f64::max);
        assert!(
            longest >= 0.2,
            "{engine}: {longest} s for a connection that was held"
        );
    }
}

fn job(kind: &str) -> NewJob {
    let payload = Payload::from_json("{}").unwrap();
    NewJob::new(
        &QueueName::new("mail").unwrap(),
        Kind::new(kind).unwrap(),
        payload,
    )
}

fn record<Q: TransactionalBackend>(queue: &Q) {
    let named = job("a")
        .with_dedup("a", DedupScope::WhileRowExists)
        .unwrap();
    let jobs = [named.clone(), job("a"), job("b"), named];
    queue.enqueue(&jobs).unwrap();
    queue
        .transaction(|tx| {
            queue.enqueue_in(tx, &[job("a"), job("a")])?;
            Ok::<(), Error>(())
        })
        .unwrap();
    let rolled_back = queue.transaction(|tx| {
        queue.enqueue_in(tx, &[job("a")])?;
        Err::<(), _>(Error::from(QueueName::new("").unwrap_err()))
    });
    assert!(rolled_back.is_err());
    // The only connection is held for a while by somebody else.
    std::thread::scope(|scope| {
        let (holds, held) = std::sync::mpsc::channel();
        scope.spawn(move || {
            let hold = |_: &mut Q::Tx<'_>| {
                holds.send(()).unwrap();
                std::thread::sleep(Duration::from_millis(300));
                Ok::<(), Error>(())
            };
            queue.transaction(hold).unwrap();
        });
        held.recv().unwrap();
        queue.enqueue(&[job("c")]).unwrap();
    });
}

/// A recorder that keeps everything, by name and labels.
#[derive(Debug, Default)]
struct Seen {
    counters: Mutex<BTreeMap<Key, Arc<Count>>>,
    histograms: Mutex<BTreeMap<Key, Arc<Values>>>,
}

#[derive(Debug, Default)]
struct Count(Mutex<u64>);

#[derive(Debug, Default)]
struct Values(Mutex<Vec<f64>>);

impl CounterFn for Count {
    fn increment(&self, by: u64) {
        *self.0.lock().unwrap() += by;
    }

    fn absolute(&self, value: u64) {
        *self.0.lock().unwrap() = value;
    }
}

impl HistogramFn for Values {
    fn record(&self, value: f64) {
        self.0.lock().unwrap().push(value);
    }
}

fn has(key: &Key, name: &str, values: &[&str]) -> bool {
    let given: Vec<_> = key.labels().map(metrics::Label::value).collect();
    key.name() == name && values.iter().all(|value| given.contains(value))
}

impl Seen {
    fn count(&self, name: &str, engine: &str, labels: &[&str]) -> u64 {
        let counters = self.counters.lock().unwrap();
        let of_it = counters
            .iter()
            .filter(|(key, _)| has(key, name, labels) && has(key, name, &[engine, "mail"]));
        of_it.map(|(_, count)| *count.0.lock().unwrap()).sum()
    }

    fn waits(&self, engine: &str, operation: &str) -> Vec<f64> {
        let name = "queue_table_connection_wait_seconds";
        let histograms = self.histograms.lock().unwrap();
        let of_it = histograms
            .iter()
            .filter(|(key, _)| has(key, name, &[engine, operation]));
        of_it
            .flat_map(|(_, values)| values.0.lock().unwrap().clone())
            .collect()
    }
}

impl Recorder for Seen {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let mut counters = self.counters.lock().unwrap();
        Counter::from_arc(Arc::clone(counters.entry(key.clone()).or_default()))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        let mut histograms = self.histograms.lock().unwrap();
        Histogram::from_arc(Arc::clone(histograms.entry(key.clone()).or_default()))
    }
}
