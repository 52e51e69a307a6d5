//! How long jobs of low priority wait under a stream that comes faster than it is worked, with and
//! without `promote_after`, and what it costs the rest.
//!
//! `cargo bench -p queue-table-sqlite --bench ageing`. Each run is on a fresh file, at WAL and
//! synchronous = FULL: one worker with 4 slots and handlers of 1 ms, 500 jobs of priority 10 kept
//! due, and one of priority 0 each 100 ms.

use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use queue_table_core::{
    Administration, JobId, Kind, NewJob, Payload, QueueBackend, QueueBackendExt, QueueName, Worker,
};
use queue_table_sqlite::SqliteQueue;

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(12);
const WAITED: Duration = Duration::from_secs(3);
const HIGH: i32 = 10;
const BACKLOG: u64 = 500;
const LOW_EVERY: Duration = Duration::from_millis(100);

type Outcome<T> = Result<T, Box<dyn Error>>;

/// What one run came to.
struct Round {
    jobs_per_second: f64,
    /// How long the jobs of low priority waited that were run, in seconds.
    waits: Vec<f64>,
    low_enqueued: usize,
    promoted: u64,
}

fn main() -> Outcome<()> {
    let (version, seconds) = (rusqlite::version(), ROUND.as_secs());
    println!("SQLite {version}, medians of {ROUNDS} runs of {seconds} s each, one after the other");
    println!("promote_after   jobs/s   low jobs run   wait median   wait longest   promoted");
    let (mut off, mut on) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        off.push(round(false)?);
        on.push(round(true)?);
    }
    for (setting, rounds) in [("off", off), ("3 s", on)] {
        let of = |value: fn(&Round) -> f64| median(rounds.iter().map(value).collect());
        println!(
            "{setting:>13} {:>8.0} {:>12.0} % {:>11.1} s {:>12.1} s {:>10.0}", // NaN s: never
            of(|round| round.jobs_per_second),
            of(|round| 100.0 * round.waits.len() as f64 / round.low_enqueued as f64),
            of(|round| median(round.waits.clone())),
            of(|round| round.waits.iter().copied().fold(f64::NAN, f64::max)),
            of(|round| round.promoted as f64),
        );
    }
    Ok(())
}

/// Not a number where there are no values.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Which jobs were begun, and when.
type Begun = Arc<Mutex<Vec<(JobId, Instant)>>>;

fn round(promotes: bool) -> Outcome<Round> {
    let folder = tempfile::tempdir()?;
    let queue = Arc::new(SqliteQueue::open(folder.path().join("jobs.db"))?);
    queue.migrate()?;
    let name = QueueName::new("mail")?;
    let low = NewJob::new(&name, Kind::new("mail.send")?, Payload::from_json("{}")?);
    let high = low.clone().with_priority(HIGH);
    queue.enqueue(&vec![high.clone(); BACKLOG as usize])?;
    let (begun, done, stop) = (Begun::default(), AtomicU64::new(0), AtomicBool::new(false));
    let done = Arc::new(done);
    let worker = start(&queue, promotes, Arc::clone(&begun), Arc::clone(&done))?;

    let enqueued = std::thread::scope(|scope| {
        let producer = scope.spawn(|| keep_due(&queue, &high, &done, &stop));
        let enqueued = low_jobs(&queue, &low);
        stop.store(true, Ordering::Relaxed);
        producer.join().map_err(|_| "the producer panicked")??;
        Ok::<_, Box<dyn Error>>(enqueued?)
    })?;
    let report = worker.stop(Duration::from_secs(5));

    let begun = begun.lock().unwrap_or_else(PoisonError::into_inner);
    let wait = |(job, since): &(JobId, Instant)| {
        let at = begun.iter().find(|(begun, _)| begun == job)?.1;
        Some(at.saturating_duration_since(*since).as_secs_f64())
    };
    Ok(Round {
        jobs_per_second: report.succeeded as f64 / ROUND.as_secs_f64(),
        waits: enqueued.iter().filter_map(wait).collect(),
        low_enqueued: enqueued.len(),
        promoted: report.promoted,
    })
}

fn start(
    queue: &Arc<SqliteQueue>,
    promotes: bool,
    begun: Begun,
    done: Arc<AtomicU64>,
) -> Outcome<Worker<SqliteQueue>> {
    let builder = Worker::builder(Arc::clone(queue)).queue("mail").slots(4);
    let builder = if promotes {
        builder.promote_after(WAITED, HIGH)
    } else {
        builder
    };
    let builder = builder.handle_kind("mail.send", 1..=1, move |job, _| {
        let mut begun = begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.push((job.job_id(), Instant::now()));
        drop(begun);
        done.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(1));
    });
    Ok(builder.start()?)
}

/// Enqueues jobs of low priority until the round is over.
fn low_jobs(queue: &SqliteQueue, low: &NewJob) -> queue_table_core::Result<Vec<(JobId, Instant)>> {
    let (start, mut enqueued) = (Instant::now(), Vec::new());
    while start.elapsed() < ROUND {
        enqueued.push((queue.enqueue_one(low)?.job_id(), Instant::now()));
        std::thread::sleep(LOW_EVERY);
    }
    Ok(enqueued)
}

/// Enqueues as many jobs of high priority as were run, so that the stream never runs dry.
fn keep_due(
    queue: &SqliteQueue,
    high: &NewJob,
    done: &AtomicU64,
    stop: &AtomicBool,
) -> queue_table_core::Result<()> {
    let mut enqueued = 0;
    while !stop.load(Ordering::Relaxed) {
        let missing = done.load(Ordering::Relaxed) - enqueued;
        if missing > 0 {
            queue.enqueue(&vec![high.clone(); missing as usize])?;
            enqueued += missing;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
