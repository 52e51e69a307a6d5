//! How long jobs of low priority wait under a stream that comes faster than it is worked, with and without
//! `promote_after`, and what it costs the rest.
//!
//! `cargo bench -p queue-table-sqlite --bench ageing`. Each run is on a fresh file, at WAL and synchronous = FULL: one
//! worker with 4 slots and handlers of 1 ms, 500 jobs of priority 10 kept due, and one of priority 0 each 100 ms.

use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use queue_table_core::{
    Administration, JobId, Kind, NewJob, Payload, QueueBackend, QueueBackendExt, QueueName, Worker,
};
use queue_table_sqlite::SqliteQueue;

const ROUND: Duration = Duration::from_secs(30);
const WAITED: Duration = Duration::from_secs(5);
const HIGH: i32 = 10;
const BACKLOG: u64 = 500;
const LOW_EVERY: Duration = Duration::from_millis(100);

type Outcome<T> = Result<T, Box<dyn Error>>;

/// What one run came to.
struct Round {
    jobs_per_second: f64,
    /// How long the jobs of low priority waited that were run.
    waits: Vec<Duration>,
    low_enqueued: usize,
    promoted: u64,
}

fn main() -> Outcome<()> {
    println!(
        "SQLite {}, {} s a run",
        rusqlite::version(),
        ROUND.as_secs()
    );
    println!("promote_after   jobs/s   low run   of   wait median   wait longest   promoted");
    for turn in 0..4 {
        let promotes = turn % 2 == 1;
        let mut round = round(promotes)?;
        round.waits.sort_unstable();
        let median = round.waits.get(round.waits.len() / 2);
        let seconds =
            |wait: Option<&Duration>| wait.map_or("never".to_owned(), |w| format!("{w:.1?}"));
        println!(
            "{:>13} {:>8.0} {:>9} {:>4} {:>13} {:>14} {:>10}",
            if promotes { "5 s" } else { "off" },
            round.jobs_per_second,
            round.waits.len(),
            round.low_enqueued,
            seconds(median),
            seconds(round.waits.last()),
            round.promoted,
        );
    }
    Ok(())
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
        Some(at.saturating_duration_since(*since))
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
