//! Stopping without losing a job.

use super::super::prelude::*;
use super::steps::{Diary, start, wait_until, worker};

pub(crate) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![scenario!(
        a_stopping_worker_gives_back_what_it_did_not_begin,
        "A worker that stops finishes what runs, and gives back the rest without spending attempts",
        [C13, C19],
    )]
}

fn a_stopping_worker_gives_back_what_it_did_not_begin<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let jobs = arena.enqueue(5)?;
    let diary = Diary::default();
    let notes = diary.clone();

    // The first job is quick, which makes the worker bold enough to claim ahead.
    let builder = worker(arena)?.slots(1).prefetch(3);
    let worker = start::<F>(builder.handle_kind("note", 1..=1, move |job, context| {
        notes.note(job);
        if job.payload.as_bytes() != b"0" {
            while !context.is_stopping() {
                std::thread::sleep(Duration::from_millis(5));
            }
            // Longer than a stop takes to close the slots: else the next job might still begin.
            std::thread::sleep(Duration::from_millis(100));
        }
    }))?;
    wait_until("the second job runs and three more are held", || {
        Ok(diary.seen().len() == 2 && worker.report().claimed == 5)
    })?;
    let report = worker.stop(Duration::from_secs(10));

    expect_that("given back", (report.succeeded, report.released), (2, 3))?;
    arena.expect_state(jobs[1], State::Succeeded)?;
    for job in &jobs[2..] {
        let row = arena.row(job)?;
        expect_that("state", row.state, State::Ready)?;
        expect_that(
            "attempts and budget",
            (row.attempts, row.max_attempts),
            (1, 21),
        )?;
    }
    Ok(())
}
