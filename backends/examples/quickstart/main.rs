//! From a CSV of orders to invoices: enqueue with the order, work under a lease, lose a worker,
//! lose nothing.

mod arguments;
mod doomed;
mod invoices;
mod orders;
mod progress;
mod shop;
mod summary;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use queue_table::sqlite::SqliteQueue;
use queue_table::worker::{Context, Worker};
use queue_table::{Administration, QueueName};

use arguments::Arguments;
use doomed::Doomed;
use invoices::WriteInvoice;
use progress::Progress;
use shop::Failure;

const WORKERS: usize = 4;

/// Short, so that the reader need not wait long for the dead worker's job. A service takes a
/// minute.
const LEASE: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args().skip(1)) {
        Ok(Some(arguments)) => arguments,
        Ok(None) => {
            println!("{}", arguments::HELP);
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("quickstart: {error}\n\n{}", arguments::HELP);
            return ExitCode::from(2);
        }
    };
    let ran = if arguments.doomed {
        doomed::be(&arguments)
    } else {
        run(&arguments)
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quickstart: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let began = Instant::now();
    for directory in [
        arguments.database.parent(),
        Some(arguments.invoices.as_path()),
    ] {
        std::fs::create_dir_all(directory.unwrap_or(Path::new(".")))?;
    }
    let queue = Arc::new(shop::open(&arguments.database)?);
    let invoices = QueueName::new("invoices")?;

    let import = shop::import(&queue, &invoices, &arguments.orders)?;
    println!(
        "{} new orders, each stored with its invoice job in one transaction",
        import.new
    );

    let doomed = Doomed::start(arguments, &queue, &invoices)?;
    let succeeded_before = succeeded(&queue, &invoices)?;
    let mut workers = Vec::new();
    for number in 1..=WORKERS {
        workers.push(worker(&queue, &invoices, &arguments.invoices, number)?);
    }
    println!("{WORKERS} workers started");
    watch(&queue, &invoices, succeeded_before, doomed.as_ref())?;
    let refused = doomed
        .as_ref()
        .map(|doomed| doomed.acknowledge_late(&queue))
        .transpose()?;
    let reports: Vec<_> = workers
        .iter()
        .map(|worker| worker.stop(Duration::from_secs(10)))
        .collect();

    let files = invoices::tidy(&arguments.invoices)?;
    summary::print(
        &queue,
        &invoices,
        &import,
        &reports,
        refused.is_some(),
        files,
    )?;
    println!("invoices are in {}", arguments.invoices.display());
    println!("took {:.1} s", began.elapsed().as_secs_f64());
    Ok(())
}

/// One worker with one slot, as a process of its own would have it.
fn worker(
    queue: &Arc<SqliteQueue>,
    invoices: &QueueName,
    directory: &Path,
    number: usize,
) -> Result<Worker<SqliteQueue>, Failure> {
    let directory = directory.to_owned();
    let write = move |invoice: &WriteInvoice, context: &mut Context<'_, SqliteQueue>| {
        let (job, attempt) = (context.effect_key(), context.job().attempt());
        invoice
            .write(&directory, job, attempt)
            .map(drop)
            .map_err(Failure::from)
    };
    let worker = Worker::builder(Arc::clone(queue))
        .name(&format!("invoicer-{number}"))
        .queue(invoices)
        .slots(1)
        .lease(LEASE)
        .reap_every(Duration::from_millis(500))
        .retry_policy(queue_table::RetryPolicy::fixed(Duration::from_millis(200))?)
        .handle(write)
        .start()?;
    Ok(worker)
}

/// Waits until nothing is left to do, and tells what becomes of the dead worker's job meanwhile.
fn watch(
    queue: &SqliteQueue,
    invoices: &QueueName,
    before: u64,
    doomed: Option<&Doomed>,
) -> Result<(), Failure> {
    let mut progress = Progress::new("invoices");
    let mut told = doomed.map(Doomed::story);
    loop {
        let stats = queue.stats(Some(invoices))?;
        let Some(stats) = stats.first() else { break };
        let left = stats.due + stats.scheduled + stats.running;
        let done = stats.succeeded - before;
        progress.show(done, Some(done + left));
        if let Some(story) = &mut told {
            story.tell(queue)?;
        }
        if left == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    progress.finish();
    Ok(())
}

fn succeeded(queue: &SqliteQueue, invoices: &QueueName) -> Result<u64, Failure> {
    Ok(queue
        .stats(Some(invoices))?
        .first()
        .map_or(0, |stats| stats.succeeded))
}
