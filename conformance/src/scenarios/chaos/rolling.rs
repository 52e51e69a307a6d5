//! Two versions of one service beside each other, as during a deploy.

use super::process::start;
use crate::child::versions::{ENQUEUED, new_jobs, old_jobs};
use crate::child::{Child, Role};
use crate::scenario::Need;
use crate::scenarios::prelude::*;

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            two_versions_of_a_worker_run_side_by_side,
            "While an old and a new version of a service run as two processes, each job is run once, by one that can read it",
            [C7, C8, C10, C19],
        )
        .needs(Need::Processes(true)),
    ]
}

fn two_versions_of_a_worker_run_side_by_side<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let (backend, queue) = (arena.backend, &arena.queue);
    backend.enqueue(&old_jobs(queue, 20)?)?;
    backend.enqueue(&new_jobs(queue, 20)?)?;
    let mut old = start(arena, Role::OldVersion)?;
    let mut by_old = vec![expect_some(
        old.hear("began")?,
        "job begun by the old version",
    )?];

    let mut new = start(arena, Role::NewVersion)?;
    let mut by_new = vec![expect_some(
        new.hear("began")?,
        "job begun by the new version",
    )?];
    backend.enqueue(&old_jobs(queue, 40)?)?;
    // The old version is replaced in the middle of its work.
    old.tell_to_stop();
    by_old.extend(until_stopped(&old)?);
    backend.enqueue(&old_jobs(queue, 20)?)?;
    backend.enqueue(&new_jobs(queue, 20)?)?;
    let start = std::time::Instant::now();
    while arena.rows()?.iter().any(|row| !row.state.is_terminal()) {
        expect_within(start, Duration::from_secs(40), "draining the queue")?;
        std::thread::sleep(Duration::from_millis(10));
    }
    new.tell_to_stop();
    by_new.extend(until_stopped(&new)?);

    let of_version = |runs: &[[i64; 2]], version| {
        let of_it = runs.iter().filter(|[_, of]| *of == version);
        of_it.count()
    };
    expect_that("new jobs run by the old", of_version(&by_old, 2), 0)?;
    expect_that("new jobs", of_version(&by_new, 2), 40 + ENQUEUED)?;
    let rows = arena.rows()?;
    expect_that("jobs", rows.len(), 120 + 2 * ENQUEUED)?;
    let mut run: Vec<_> = by_old.iter().chain(&by_new).map(|[job, _]| *job).collect();
    run.sort_unstable();
    let each_once: Vec<_> = rows.iter().map(|row| row.job_id.get()).collect();
    expect_that("jobs run", run, each_once)?;
    // What a stop gives back has spent no attempt: its budget grew with it.
    for row in rows {
        let spent = row.attempts + queue_table_core::MAX_ATTEMPTS_DEFAULT - row.max_attempts;
        expect_that(row.job_id, (row.state, spent), (State::Succeeded, 1))?;
    }
    Ok(())
}

/// What the child begins until it has stopped; it must lose no claim.
fn until_stopped(child: &Child) -> Check<Vec<[i64; 2]>> {
    let mut begun = Vec::new();
    while let Some((word, numbers)) = child.hear_next()? {
        match word.as_str() {
            "began" => begun.push(numbers),
            "stopped" => {
                expect_that("lost claims", numbers[1], 0)?;
                return Ok(begun);
            }
            _ => {}
        }
    }
    Err(Failed::new("the child ended without a report"))
}
