//! A worker as a service: it works until it is told to stop, and stops without losing a job.
//!
//! SIGTERM (what a supervisor sends) and SIGINT (Ctrl-C) let running handlers end, give back what
//! no handler has begun, and end the process with 0. A second signal ends it at once; the leases
//! then run out, and the jobs are run again.
//!
//! ```sh
//! cargo run --example service -- jobs.db
//! ```

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use queue_table::sqlite::SqliteQueue;
use queue_table::worker::{Context, Outcome, Worker};
use queue_table::{Administration, Job};
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;

/// How long running handlers may take to end. Less than the supervisor waits before it kills:
/// systemd 90 seconds, Kubernetes 30, `docker stop` 10.
const DRAIN: Duration = Duration::from_secs(20);

#[derive(Serialize, Deserialize)]
struct Render {
    pages: u32,
}

impl Job for Render {
    const KIND: &'static str = "render";
}

/// Looks between two steps whether its time is over: then the job goes back, and no attempt is
/// spent.
fn render(job: &Render, context: &mut Context<'_, SqliteQueue>) -> Outcome {
    for _ in 0..job.pages {
        if context.is_cancelled() {
            return Outcome::Release;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Outcome::Done
}

/// Works on the jobs of a file until a signal comes.
fn serve(file: &Path) -> Result<(), Box<dyn std::error::Error>> {
    // Before the first job is claimed: a signal that comes early is not missed.
    let second = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        // In this order: the flag is set by the first signal, and looked at by the second.
        flag::register_conditional_shutdown(signal, 1, Arc::clone(&second))?;
        flag::register(signal, Arc::clone(&second))?;
    }
    let mut signals = Signals::new([SIGTERM, SIGINT])?;

    let queue = Arc::new(SqliteQueue::open(file)?);
    queue.migrate()?;
    let worker = Worker::builder(queue)
        .queue("render")
        .slots(2)
        .prefetch(4)
        .keep_succeeded_for(Duration::from_secs(7 * 86_400))
        .handle(render)
        .start()?;
    println!("working as {}", worker.id());

    signals.forever().next();
    println!("stopping");
    let report = worker.stop(DRAIN);
    println!("{report:?}");
    Ok(())
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args_os().nth(1);
    serve(Path::new(&file.ok_or("usage: service FILE")?))
}
