//! Dedup keys: one logical job.

use queue_table_core::{DedupScope, Enqueued, JobId, NewJob};

use super::super::prelude::*;

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            a_second_enqueue_finds_the_first,
            "A second enqueue with the same key returns the first job's id and changes nothing",
            [C5],
        ),
        scenario!(
            a_key_stands_once_within_a_batch,
            "A key that stands twice in a batch names the first of the two",
            [C5, C6],
        ),
        scenario!(
            a_large_batch_finds_its_own_duplicates,
            "A batch of 2,000 jobs with 1,000 keys stores 1,000 jobs, and each key's second job is its first",
            [C5, C6],
        ),
        scenario!(
            the_same_key_in_two_queues_is_two_jobs,
            "A key names one job in each queue",
            [C5],
        ),
        scenario!(
            a_key_holds_through_failures_and_lost_leases,
            "A key names its job while that is ready, running, failed and reaped",
            [C5, C18],
        ),
        scenario!(
            jobs_without_a_key_are_never_duplicates,
            "Equal jobs without a key are different jobs",
            [C5, C6],
        ),
    ]
}

/// A job with the key `order-42`.
pub(super) fn keyed<F: Fixture>(arena: &Arena<'_, F>, scope: DedupScope) -> Check<NewJob> {
    Ok(arena.job()?.with_dedup("order-42", scope)?)
}

/// Fails unless enqueueing the job finds that one, and changes nothing.
#[track_caller]
pub(super) fn expect_existing<F: Fixture>(
    arena: &Arena<'_, F>,
    job: &NewJob,
    existing: JobId,
) -> Check {
    let before = arena.snapshot()?;
    let stored = arena.backend.enqueue_one(job)?;
    expect_that("enqueue", stored, Enqueued::Existing(existing))?;
    arena.expect_unchanged(&before)
}

fn a_second_enqueue_finds_the_first<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.job_with(r#"{"first":true}"#)?;
    let first = arena.store(&job.with_dedup("order-42", DedupScope::WhileUnfinished)?)?;
    expect_that("keys", arena.probe.count("dedup")?, 1)?;
    let other = arena.job_with(r#"{"second":true}"#)?.with_priority(9);
    let other = other.with_delay(Duration::from_secs(60))?;

    for scope in [DedupScope::WhileUnfinished, DedupScope::WhileRowExists] {
        let second = other.clone().with_dedup("order-42", scope)?;
        expect_existing(arena, &second, first)?;
    }

    let second = other.with_dedup("order-42", DedupScope::WhileUnfinished)?;
    let before = arena.snapshot()?;
    let stored = arena
        .backend
        .transaction(|tx| arena.backend.enqueue_in(tx, &[second]))?;
    expect_that("in a transaction", stored, [Enqueued::Existing(first)])?;
    arena.expect_unchanged(&before)
}

fn a_key_stands_once_within_a_batch<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let numbered = |number: usize, key: &str| {
        let job = arena.job_with(&number.to_string())?;
        Ok::<_, Failed>(job.with_dedup(key, DedupScope::WhileUnfinished)?)
    };
    let batch = [
        numbered(0, "a")?,
        numbered(1, "b")?,
        numbered(2, "a")?,
        arena.job_with("3")?,
        numbered(4, "a")?,
    ];

    let stored = arena.backend.enqueue(&batch)?;

    let new: Vec<_> = stored.iter().map(|stored| stored.is_new()).collect();
    expect_that("new", new, [true, true, false, true, false])?;
    let first = Enqueued::Existing(stored[0].job_id());
    expect_that("third and fifth", (stored[2], stored[4]), (first, first))?;
    let payloads = arena.rows()?.into_iter().map(|row| row.payload);
    expect_that("payloads", payloads.collect::<Vec<_>>(), [b"0", b"1", b"3"])?;
    expect_that("keys", arena.probe.count("dedup")?, 2)
}

fn a_large_batch_finds_its_own_duplicates<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let scope = DedupScope::WhileUnfinished;
    let job = |number: usize| {
        let job = arena.job_with(&number.to_string())?;
        Ok(job.with_dedup(&format!("key-{}", number % 1_000), scope)?)
    };
    let batch = (0..2_000).map(job).collect::<Check<Vec<_>>>()?;

    let stored = arena.backend.enqueue(&batch)?;

    let (first, second) = stored.split_at(1_000);
    expect(
        first.iter().all(|stored| stored.is_new()),
        "a first job was not new",
    )?;
    let existing = first.iter().map(|one| Enqueued::Existing(one.job_id()));
    expect_that("second jobs", second, &*existing.collect::<Vec<_>>())?;
    expect_that("rows", arena.probe.ids()?.len(), 1_000)
}

fn the_same_key_in_two_queues_is_two_jobs<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let scope = DedupScope::WhileRowExists;
    let mail = keyed(arena, scope)?;
    let billing = job_for("billing")?.with_dedup("order-42", scope)?;

    let (in_mail, in_billing) = (arena.store(&mail)?, arena.store(&billing)?);

    expect(in_mail != in_billing, "both are one job")?;
    expect_existing(arena, &mail, in_mail)?;
    expect_existing(arena, &billing, in_billing)?;
    expect_that("billing's queue", arena.row(in_billing)?.queue, "billing")
}

fn a_key_holds_through_failures_and_lost_leases<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = keyed(arena, DedupScope::WhileUnfinished)?;
    let id = arena.store(&job)?;

    let claimed = arena.claim_one("worker-a")?;
    expect_existing(arena, &job, id)?;
    arena.backend.fail_one(&retry(&claimed, 60, "again")?)?;
    expect_existing(arena, &job, id)?;
    arena.let_come_due(id)?;
    let claimed = arena.claim_one("worker-a")?;
    arena.let_lease_expire(&claimed)?;
    expect_existing(arena, &job, id)?;
    arena.reap_one()?;
    expect_existing(arena, &job, id)?;
    expect_that("rows", arena.probe.ids()?, [id])
}

fn jobs_without_a_key_are_never_duplicates<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.job()?;

    let stored = arena.backend.enqueue(&[job.clone(), job.clone()])?;
    let again = arena.store(&job)?;

    expect(
        stored.iter().all(|stored| stored.is_new()),
        format_args!("not all are new: {stored:?}"),
    )?;
    let expected = [stored[0].job_id(), stored[1].job_id(), again];
    expect_that("rows", arena.probe.ids()?, expected)?;
    expect_that("keys", arena.probe.count("dedup")?, 0)
}
