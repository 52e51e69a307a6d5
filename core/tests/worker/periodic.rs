//! Schedules: each tick once, however many workers have it.

use std::time::Duration;

use queue_table_conformance::Probe;
use queue_table_core::worker::{CatchUp, Periodic, Report, StartError};
use queue_table_core::{State, Worker};

use crate::support::{Bench, Fault, Faulty, KIND, job, ms, until};

fn every_second() -> Periodic {
    Periodic::new("second", "* * * * * *", "UTC", job()).unwrap()
}

fn start(bench: &Bench, schedule: Periodic) -> Worker<Faulty> {
    bench
        .worker()
        .periodic(schedule)
        .handle_kind(KIND, 1..=1, |_, _| ())
        .start()
        .unwrap()
}

fn total(workers: &[Worker<Faulty>], count: impl Fn(&Report) -> u64) -> u64 {
    workers.iter().map(|worker| count(&worker.report())).sum()
}

#[test]
fn two_workers_enqueue_each_tick_once() {
    let bench = Bench::new();
    let workers = [start(&bench, every_second()), start(&bench, every_second())];
    std::thread::sleep(ms(4_000));
    for worker in &workers {
        worker.stop(Duration::from_secs(5));
    }
    let (ticks, rows) = (
        total(&workers, |report| report.ticks),
        bench.probe.ids().unwrap(),
    );
    assert!((3..=5).contains(&ticks), "{ticks} ticks in four seconds");
    assert_eq!(rows.len() as u64, ticks);
    assert_eq!(bench.probe.count("dedup").unwrap(), ticks);
    assert_eq!(
        bench.backend.calls("enqueue") as u64,
        2 * ticks,
        "both tried each"
    );
}

#[test]
fn a_tick_whose_reply_was_lost_is_enqueued_once() {
    let bench = Bench::new();
    let faults = [Fault::ReplyLost, Fault::Unavailable, Fault::RequestLost];
    bench.backend.fail("enqueue", faults);
    let past = CatchUp::Latest {
        within: Duration::from_secs(400 * 86_400),
    };
    let yearly = Periodic::new("yearly", "0 0 1 1 *", "UTC", job()).unwrap();
    let worker = start(&bench, yearly.catch_up(past));
    until("the tick is through", || {
        bench.backend.calls("enqueue") >= 4
    });
    let ids = bench.probe.ids().unwrap();
    assert_eq!(ids.len(), 1);
    bench.until_all(&ids, State::Succeeded);
    drop(worker);
}

#[test]
fn a_tick_that_was_missed_is_made_up_only_when_asked_for() {
    let (day, year) = (
        Duration::from_secs(86_400),
        Duration::from_secs(400 * 86_400),
    );
    // Whatever the date, midnight was within the last day.
    let daily = || Periodic::new("daily", "0 0 * * *", "UTC", job()).unwrap();
    for (catch_up, ticks) in [
        (CatchUp::Skip, 0),
        (CatchUp::Latest { within: year }, 1),
        (CatchUp::All { within: 3 * day }, 3),
    ] {
        let bench = Bench::new();
        let first = start(&bench, daily().catch_up(catch_up));
        std::thread::sleep(ms(200));
        first.stop(Duration::from_secs(5));
        // A second worker makes none of them up again.
        let second = start(&bench, daily().catch_up(catch_up));
        std::thread::sleep(ms(200));
        second.stop(Duration::from_secs(5));
        let made = first.report().ticks + second.report().ticks;
        assert_eq!((made, second.report().ticks), (ticks, 0), "{catch_up:?}");
    }
}

#[test]
fn schedules_that_would_tick_twice_are_refused() {
    let bench = Bench::new();
    let good = || bench.worker().handle_kind(KIND, 1..=1, |_, _| ());
    let twice = good().periodic(every_second()).periodic(every_second());
    let Err(StartError::Invalid(invalid)) = twice.start() else {
        panic!("two schedules of one name")
    };
    assert_eq!(invalid.what(), "schedule");
    let hour = Duration::from_secs(3_600);
    let back = every_second().catch_up(CatchUp::All { within: hour });
    let short = good().keep_succeeded_for(hour).periodic(back);
    let Err(StartError::Invalid(invalid)) = short.start() else {
        panic!("catch-up beyond retention")
    };
    assert_eq!(invalid.what(), "schedule catch-up");
}
