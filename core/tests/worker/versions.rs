//! Payloads: typed, of several versions, and broken.

use std::sync::{Arc, Mutex};

use queue_table_conformance::{Change, Probe, Written};
use queue_table_core::worker::Upcasters;
use queue_table_core::{Job, Kind, NewJob, Payload, QueueName, State};
use serde::{Deserialize, Serialize};

use crate::support::{Bench, QUEUE, ms, until};

#[derive(Serialize, Deserialize)]
struct V1(u32);

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Price {
    cents: u32,
}

impl Job for Price {
    const KIND: &'static str = "price";
    const VERSION: u16 = 2;
}

fn stored(version: u16, payload: &str) -> NewJob {
    let (queue, kind) = (
        QueueName::new(QUEUE).unwrap(),
        Kind::new(Price::KIND).unwrap(),
    );
    NewJob::new(&queue, kind, Payload::from_json(payload).unwrap()).with_payload_version(version)
}

#[test]
fn older_payloads_are_upcast_and_newer_ones_wait_for_newer_workers() {
    let bench = Bench::new();
    let old = bench.enqueue(&stored(1, "4"));
    let own =
        bench.enqueue(&NewJob::of(&QueueName::new(QUEUE).unwrap(), &Price { cents: 5 }).unwrap());
    let newer = bench.enqueue(&stored(3, r#"{"milli":1}"#).with_priority(9));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = Arc::clone(&seen);
    let upcasters = Upcasters::new().step(1, |V1(euros)| Price { cents: euros * 100 });
    let _worker = bench
        .worker()
        .handle_versions(upcasters, move |price: &Price, _| {
            note.lock().unwrap().push(price.cents);
        })
        .start()
        .unwrap();
    bench.until_all(&[old, own], State::Succeeded);
    std::thread::sleep(ms(60));
    let row = bench.row(newer);
    assert_eq!((row.state, row.attempts), (State::Ready, 0));
    let mut seen = seen.lock().unwrap().clone();
    seen.sort_unstable();
    assert_eq!(seen, [5, 400]);
}

#[test]
fn a_worker_without_upcasters_leaves_older_payloads_alone() {
    let bench = Bench::new();
    let old = bench.enqueue(&stored(1, "4"));
    let own = bench.enqueue(&stored(2, r#"{"cents":1}"#));
    let _worker = bench.worker().handle(|_: &Price, _| ()).start().unwrap();
    bench.until_all(&[own], State::Succeeded);
    std::thread::sleep(ms(60));
    assert_eq!(
        (bench.state(old), bench.row(old).attempts),
        (State::Ready, 0)
    );
}

#[test]
fn a_payload_that_cannot_be_decoded_goes_dead_as_it_is_and_spoils_no_neighbour() {
    let bench = Bench::new();
    let mut ids: Vec<_> = (0..9)
        .map(|_| bench.enqueue(&stored(2, r#"{"cents":1}"#)))
        .collect();
    let wrong_shape = bench.enqueue(&stored(2, r#"["cents"]"#));
    let broken = ids.remove(4);
    let undecodable = bench.probe.write(broken, &[Change::Undecodable]).unwrap();
    assert_eq!(undecodable, Written::Stored);
    let bytes = bench.row(broken).payload;
    let worker = bench
        .worker()
        .slots(10)
        .handle(|_: &Price, _| ())
        .start()
        .unwrap();
    bench.until_all(&ids, State::Succeeded);
    bench.until_all(&[broken, wrong_shape], State::Dead);
    until("all is counted", || worker.report().undecodable == 2);
    let row = bench.row(broken);
    assert_eq!((row.payload, row.attempts), (bytes, 1));
    assert!(
        row.last_error
            .unwrap()
            .starts_with("payload cannot be decoded")
    );
}
