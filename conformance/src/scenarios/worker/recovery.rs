//! Leases kept and leases lost.

use queue_table_core::{ReapRequest, RetryPolicy};

use super::super::prelude::*;
use super::steps::{Diary, OFTEN, start, wait_for_state, wait_until, worker};

pub(crate) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            a_long_job_keeps_its_lease,
            "A job that runs for three leases is renewed, and nobody else gets it",
            [C13, C18],
        ),
        scenario!(
            a_crashed_workers_job_is_run_by_another,
            "A job whose worker died is brought back by another worker and run as the next attempt",
            [C18, C19],
        ),
        scenario!(
            a_replaced_workers_result_is_dropped,
            "A worker whose claim was taken over while its handler ran does not finish the job",
            [C13, C15],
        ),
        scenario!(
            a_worker_deletes_old_finished_jobs,
            "A worker deletes finished jobs past their window and no others",
            [C22],
        ),
    ]
}

/// Report 30: a job that takes long is no job whose worker is gone.
fn a_long_job_keeps_its_lease<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.enqueue_one()?;
    let diary = Diary::default();
    let notes = diary.clone();

    let builder = worker(arena)?.lease(Duration::from_millis(500));
    let worker = start::<F>(builder.handle_kind("note", 1..=1, move |job, _| {
        notes.note(job);
        std::thread::sleep(Duration::from_millis(1_500));
    }))?;
    wait_until("the job is done", || {
        expect_eq(arena.reap()?, [])?;
        Ok(arena.row(job)?.state == State::Succeeded)
    })?;
    let report = worker.stop(Duration::from_secs(5));

    expect_that("runs", diary.seen(), [(job, 1)])?;
    expect_that("lost claims", report.lost.total(), 0)
}

fn a_crashed_workers_job_is_run_by_another<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let crashed = arena.enqueue_and_claim("crashed")?;
    arena.let_lease_expire(&crashed)?;
    let diary = Diary::default();
    let notes = diary.clone();

    let builder = worker(arena)?.reap_every(OFTEN);
    let worker = start::<F>(builder.handle_kind("note", 1..=1, move |job, _| notes.note(job)))?;
    wait_for_state(arena, crashed.job_id(), State::Succeeded)?;
    let report = worker.stop(Duration::from_secs(5));

    expect_that("runs", diary.seen(), [(crashed.job_id(), 2)])?;
    expect_that("reaped jobs", report.reaped, 1)?;
    expect_lost(
        arena.backend.ack_one(&crashed.receipt),
        LostReason::Finished,
    )
}

fn a_replaced_workers_result_is_dropped<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.enqueue_one()?;
    let (probe, rival) = (arena.shared_probe(), arena.session()?);
    let claim = arena.request("rival")?;
    let policy = RetryPolicy::fixed(Duration::from_millis(1))?;
    let reap = ReapRequest::new(claim.limit, policy);

    // The handler itself sees to it that it is replaced before it returns. One slot: else its own
    // worker, which has a slot free, may be quicker than the rival.
    let builder = worker(arena)?.slots(1);
    let worker = start::<F>(builder.handle_kind("note", 1..=1, move |job, _| {
        probe.rewind(job.job_id(), Duration::from_secs(3_600))?;
        rival.reap(&reap)?;
        probe.rewind(job.job_id(), Duration::from_secs(1))?;
        let claimed = expect_one(rival.claim(&claim)?, "job for the rival")?;
        expect_that("attempt", claimed.attempt(), 2)
    }))?;
    wait_until("the worker has lost the claim", || {
        Ok(worker.report().lost.total() == 1)
    })?;
    worker.stop(Duration::from_secs(5));

    let row = arena.row(job)?;
    expect_that("state", row.state, State::Running)?;
    expect_that("attempts", row.attempts, 2)?;
    expect_that("worker", row.worker_id.as_deref(), Some("rival"))
}

fn a_worker_deletes_old_finished_jobs<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let hour = Duration::from_secs(3_600);
    let old = arena.succeeded_job()?;
    arena.probe.rewind(old, 2 * hour)?;
    let young = arena.succeeded_job()?;
    let dead = arena.dead_job()?;
    arena.probe.rewind(dead, 2 * hour)?;

    let builder = worker(arena)?.keep_succeeded_for(hour).purge_every(OFTEN);
    let worker = start::<F>(builder.handle_kind("other", 1..=1, |_, _| ()))?;
    wait_until("the old job is deleted", || {
        Ok(arena.probe.row(old)?.is_none())
    })?;
    worker.stop(Duration::from_secs(5));

    expect_eq(arena.probe.ids()?, [young, dead])
}
