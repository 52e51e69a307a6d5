//! Two versions of one service: the newer one has changed the shape of a payload.

use std::time::Duration;

use queue_table_core::worker::{HandlerError, Upcasters};
use queue_table_core::{Administration, ClaimedJob, Job, NewJob, QueueName};
use serde::{Deserialize, Serialize};

use super::{builder, say, work_until_the_end};
use crate::check::Check;

/// How many jobs of its own version each enqueues.
pub(crate) const ENQUEUED: usize = 15;

/// The payload as the old version knows it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Old {
    name: String,
}

impl Job for Old {
    const KIND: &'static str = "note";
}

/// The payload as the new version knows it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct New {
    first: String,
    last: String,
}

impl Job for New {
    const KIND: &'static str = "note";
    const VERSION: u16 = 2;
}

/// Jobs as the old version enqueues them.
pub(crate) fn old_jobs(queue: &QueueName, count: usize) -> Check<Vec<NewJob>> {
    let name = "Ada Lovelace".to_owned();
    Ok(vec![NewJob::of(queue, &Old { name })?; count])
}

/// Jobs as the new version enqueues them.
pub(crate) fn new_jobs(queue: &QueueName, count: usize) -> Check<Vec<NewJob>> {
    Ok(vec![NewJob::of(queue, &ada())?; count])
}

fn ada() -> New {
    New {
        first: "Ada".to_owned(),
        last: "Lovelace".to_owned(),
    }
}

/// Says who it is that runs a job of which version, and takes a moment for it.
fn run(job: &ClaimedJob) {
    let (id, version) = (job.job_id(), job.payload_version);
    say(format_args!("began {id} {version}"));
    std::thread::sleep(Duration::from_millis(5));
}

pub(super) fn work_as_old<B: Administration + 'static>(backend: B, queue: &QueueName) -> Check {
    backend.enqueue(&old_jobs(queue, ENQUEUED)?)?;
    let builder = builder(backend, queue)?.handle(|_: &Old, context: &mut _| {
        run(queue_table_core::Context::job(context));
    });
    work_until_the_end(builder)
}

pub(super) fn work_as_new<B: Administration + 'static>(backend: B, queue: &QueueName) -> Check {
    backend.enqueue(&new_jobs(queue, ENQUEUED)?)?;
    let upcasters = Upcasters::new().step(1, |old: Old| {
        let (first, last) = old.name.split_once(' ').unwrap_or_default();
        New {
            first: first.to_owned(),
            last: last.to_owned(),
        }
    });
    let builder = builder(backend, queue)?.handle_versions(upcasters, |new: &New, context| {
        run(context.job());
        if *new == ada() {
            Ok(())
        } else {
            Err(HandlerError::from(format!("brought up to {new:?}")))
        }
    });
    work_until_the_end(builder)
}
