//! When a dedup key is free again: the scope of the job that holds it decides.

use queue_table_core::{BatchSize, DedupScope, Delay, Enqueued, ErrorText, PurgeRequest};

use super::super::prelude::*;
use super::dedup::{expect_existing, keyed};

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            a_key_while_unfinished_is_free_once_its_job_is_finished,
            "A key of the scope `unfinished` names a new job once its job is succeeded, dead or cancelled",
            [C5],
        ),
        scenario!(
            a_key_while_the_row_exists_outlives_its_job,
            "A key of the scope `row` still names its job when that is succeeded or dead",
            [C5],
        ),
        scenario!(
            the_holders_scope_decides,
            "Whether a key is free is decided by the scope of the job that holds it, not by the newcomer's",
            [C5],
        ),
        scenario!(
            a_key_whose_row_is_gone_is_free,
            "A key names a new job when somebody has deleted its job's row",
            [C5],
        ),
        scenario!(
            purging_the_job_frees_its_key,
            "A key of the scope `row` is free when its job has been purged",
            [C5, C22],
        ),
        scenario!(
            a_batch_takes_a_finished_jobs_key_over_once,
            "A key of a finished job that stands twice in a batch names one new job",
            [C5, C6],
        ),
    ]
}

fn a_key_while_unfinished_is_free_once_its_job_is_finished<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    let job = keyed(arena, DedupScope::WhileUnfinished)?;
    let first = arena.store(&job)?;
    arena
        .backend
        .ack_one(&arena.claim_one("worker-a")?.receipt)?;

    let second = arena.store(&job)?;
    expect_existing(arena, &job, second)?;
    arena
        .backend
        .cancel(second, &ErrorText::new("not needed"))?;
    let third = arena.store(&job)?;
    let claimed = arena.claim_one("worker-a")?;
    let dead = queue_table_core::Failure::dead(claimed.receipt, ErrorText::new("given up"));
    arena.backend.fail_one(&dead)?;
    let fourth = arena.store(&job)?;

    expect_existing(arena, &job, fourth)?;
    expect_that("rows", arena.probe.ids()?, [first, second, third, fourth])?;
    expect_that("keys", arena.probe.count("dedup")?, 1)
}

fn a_key_while_the_row_exists_outlives_its_job<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = keyed(arena, DedupScope::WhileRowExists)?;
    let id = arena.store(&job)?;
    let claimed = arena.claim_one("worker-a")?;
    arena.backend.ack_one(&claimed.receipt)?;
    expect_existing(arena, &job, id)?;

    let other = arena.job()?;
    let other = other.with_dedup("order-43", DedupScope::WhileRowExists)?;
    let dead = arena.store(&other)?;
    arena.backend.cancel(dead, &ErrorText::new("not needed"))?;
    expect_existing(arena, &other, dead)
}

fn the_holders_scope_decides<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let while_unfinished = keyed(arena, DedupScope::WhileUnfinished)?;
    let while_row = keyed(arena, DedupScope::WhileRowExists)?;
    let first = arena.store(&while_unfinished)?;
    arena
        .backend
        .ack_one(&arena.claim_one("worker-a")?.receipt)?;

    let second = arena.store(&while_row)?;

    expect(first != second, "a finished job held its key")?;
    arena
        .backend
        .ack_one(&arena.claim_one("worker-a")?.receipt)?;
    expect_existing(arena, &while_unfinished, second)?;
    expect_existing(arena, &while_row, second)
}

fn a_key_whose_row_is_gone_is_free<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    for scope in [DedupScope::WhileRowExists, DedupScope::WhileUnfinished] {
        let job = keyed(arena, scope)?;
        let first = arena.store(&job)?;
        arena.probe.delete(first)?;

        let second = arena.store(&job)?;

        expect(second > first, format_args!("{second} after {first}"))?;
        expect_existing(arena, &job, second)?;
        expect_that("keys", arena.probe.count("dedup")?, 1)?;
        arena.probe.delete(second)?;
    }
    Ok(())
}

fn purging_the_job_frees_its_key<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = keyed(arena, DedupScope::WhileRowExists)?;
    let first = arena.store(&job)?;
    arena
        .backend
        .ack_one(&arena.claim_one("worker-a")?.receipt)?;
    let purge = PurgeRequest {
        succeeded_after: Some(Delay::ZERO),
        dead_after: None,
        limit: BatchSize::MAX,
        cursor: None,
    };

    expect_that("purged", arena.backend.purge(&purge)?.deleted, 1)?;

    expect_that("keys", arena.probe.count("dedup")?, 0)?;
    let second = arena.store(&job)?;
    expect(second > first, format_args!("{second} after {first}"))?;
    expect_existing(arena, &job, second)
}

fn a_batch_takes_a_finished_jobs_key_over_once<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = keyed(arena, DedupScope::WhileUnfinished)?;
    let first = arena.store(&job)?;
    arena
        .backend
        .ack_one(&arena.claim_one("worker-a")?.receipt)?;

    let stored = arena.backend.enqueue(&[job.clone(), job.clone()])?;

    let second = stored[0].job_id();
    let expected = [Enqueued::Inserted(second), Enqueued::Existing(second)];
    expect_that("answers", stored, expected)?;
    expect_that("rows", arena.probe.ids()?, [first, second])?;
    expect_existing(arena, &job, second)
}
