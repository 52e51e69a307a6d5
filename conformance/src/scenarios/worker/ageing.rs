//! A worker that promotes jobs which have waited long, and its twin that does not.

use queue_table_core::worker::Report;
use queue_table_core::{JobId, WorkerBuilder};

use super::super::prelude::*;
use super::steps::{Diary, start, wait_until, worker};

pub(crate) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            a_worker_that_promotes_runs_a_starved_job,
            "Under a stream that comes faster than it is worked, a worker that promotes runs an old job of low priority",
            [C9, C28],
        ),
        scenario!(
            a_worker_that_does_not_promote_starves_it,
            "Under the same stream a worker as it is by default runs the stream only, and promotes nothing",
            [C9],
        ),
    ]
}

/// The stream's priority.
const HIGH: i32 = 9;

/// Runs a worker of one slot on an old job of low priority and a stream of high priority, of which
/// each job enqueues two more, until `is_over` says so of what was run.
fn under_a_stream<F: Fixture>(
    arena: &Arena<'_, F>,
    set_up: impl FnOnce(WorkerBuilder<F::Backend>) -> WorkerBuilder<F::Backend>,
    is_over: impl Fn(JobId, &[(JobId, u32)]) -> bool,
) -> Check<(JobId, Report, Diary)> {
    let old = arena.enqueue_one()?;
    arena.probe.rewind(old, Duration::from_secs(3_600))?;
    let (producer, next) = (arena.session()?, arena.job()?.with_priority(HIGH));
    producer.enqueue(&vec![next.clone(); 3])?;
    let diary = Diary::default();
    let notes = diary.clone();

    let builder = set_up(worker(arena)?.slots(1));
    let worker = start::<F>(builder.handle_kind("note", 1..=1, move |job, _| {
        notes.note(job);
        if job.job_id() != old {
            producer.enqueue(&[next.clone(), next.clone()])?;
        }
        Ok::<(), queue_table_core::Error>(())
    }))?;
    wait_until("the worker has run what it should", || {
        Ok(is_over(old, &diary.seen()))
    })?;
    let report = worker.stop(Duration::from_secs(5));

    let due = expect_one(arena.backend.stats(None)?, "queue")?.due;
    expect_that("the stream has not run dry", due > 1, true)?;
    Ok((old, report, diary))
}

fn a_worker_that_promotes_runs_a_starved_job<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let (old, report, diary) = under_a_stream(
        arena,
        |builder| builder.promote_after(Duration::from_secs(1), HIGH),
        |old, seen| seen.contains(&(old, 1)),
    )?;

    expect_that("promoted jobs", report.promoted, 1)?;
    let others = diary.seen().into_iter().filter(|(job, _)| *job != old);
    expect_that("the stream was worked too", others.count() > 0, true)?;
    let row = arena.row(old)?;
    expect_eq((row.state, row.priority), (State::Succeeded, HIGH))
}

fn a_worker_that_does_not_promote_starves_it<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let (old, report, _) = under_a_stream(arena, |builder| builder, |_, seen| seen.len() >= 50)?;

    expect_that("promoted jobs", report.promoted, 0)?;
    let row = arena.row(old)?;
    let seen = (row.state, row.attempts, row.priority);
    expect_eq(seen, (State::Ready, 0, 0))
}
