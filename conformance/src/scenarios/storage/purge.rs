//! Purge: old terminal rows, in bounded batches.

use queue_table_core::{
    BatchSize, DedupScope, Delay, EffectName, ErrorText, JobId, PurgeRequest, Purged,
};

use super::super::prelude::*;

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            succeeded_and_dead_jobs_have_windows_of_their_own,
            "Purge deletes succeeded and dead jobs by the window of each, and keeps those without a window",
            [C22],
        ),
        scenario!(
            purge_never_deletes_unfinished_jobs,
            "However old they are, ready, scheduled and running jobs are not purged",
            [C22],
        ),
        scenario!(
            purge_goes_on_batch_by_batch,
            "Purge deletes the oldest ends first, at most its limit, and says where the next batch starts",
            [C22],
        ),
        scenario!(
            rows_that_a_constraint_keeps_are_reported,
            "A row that a user's constraint keeps is reported, does not stop the batch, and is passed by the next",
            [C22],
        ),
        scenario!(
            a_kept_row_keeps_what_belongs_to_it,
            "A finished job that a user's constraint keeps loses neither failures nor effects nor its dedup key",
            [C5, C22],
        ),
        scenario!(
            what_belongs_to_a_purged_job_goes_with_it,
            "The failures, effects and dedup key of a purged job go with it; those of other jobs stay",
            [C5, C22],
        ),
        scenario!(
            a_key_taken_over_outlives_the_purge_of_its_first_job,
            "Purging a job whose dedup key names another job meanwhile leaves that key alone",
            [C5, C22],
        ),
        scenario!(
            a_large_backlog_is_purged_in_batches,
            "Three thousand finished jobs are purged by 500, whatever is enqueued and claimed between",
            [C22],
        ),
    ]
}

/// Both windows, in hours; `None` keeps the state.
fn request(succeeded: Option<u64>, dead: Option<u64>) -> Check<PurgeRequest> {
    let hours = |hours: u64| Delay::new(Duration::from_secs(hours * 3_600));
    Ok(PurgeRequest {
        succeeded_after: succeeded.map(hours).transpose()?,
        dead_after: dead.map(hours).transpose()?,
        limit: BatchSize::MAX,
        cursor: None,
    })
}

/// Lets so many minutes pass since the row was written.
fn age<F: Fixture>(arena: &Arena<'_, F>, job: JobId, minutes: u64) -> Check<JobId> {
    arena.probe.rewind(job, Duration::from_secs(minutes * 60))?;
    Ok(job)
}

fn succeeded_and_dead_jobs_have_windows_of_their_own<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let old = age(arena, arena.succeeded_job()?, 61)?;
    let young = age(arena, arena.succeeded_job()?, 59)?;
    let old_dead = age(arena, arena.dead_job()?, 181)?;
    let young_dead = age(arena, arena.dead_job()?, 179)?;
    let purge = |request: PurgeRequest| -> Check<(u32, Vec<JobId>)> {
        let purged = arena.backend.purge(&request)?;
        Ok((purged.deleted, arena.probe.ids()?))
    };

    let all = vec![old, young, old_dead, young_dead];
    expect_that("no window", purge(request(None, None)?)?, (0, all))?;
    let left = vec![young, old_dead, young_dead];
    expect_that("succeeded", purge(request(Some(1), None)?)?, (1, left))?;
    let left = vec![young, young_dead];
    expect_that("dead", purge(request(None, Some(3))?)?, (1, left.clone()))?;
    expect_that("again", purge(request(Some(1), Some(3))?)?, (0, left))?;
    let both = purge(request(Some(0), Some(0))?)?;
    expect_that("windows of no length", both, (2, vec![]))
}

fn purge_never_deletes_unfinished_jobs<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let running = arena.enqueue_and_claim("worker-a")?.job_id();
    let ready = arena.enqueue_one()?;
    let later = arena.job()?.with_delay(Duration::from_secs(864_000))?;
    let scheduled = arena.store(&later)?;
    let spent = arena.enqueue_one()?;
    let changes = [Change::Attempts(3), Change::MaxAttempts(1)];
    arena.probe.write(spent, &changes)?;
    for job in [running, ready, scheduled, spent] {
        age(arena, job, 60 * 24 * 365)?;
    }
    let before = arena.snapshot()?;

    let purged = arena.backend.purge(&request(Some(0), Some(0))?)?;

    expect_that("answer", purged, Purged::default())?;
    arena.expect_unchanged(&before)
}

fn purge_goes_on_batch_by_batch<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    for minutes in [90, 70, 110, 80, 100] {
        age(arena, arena.succeeded_job()?, minutes)?;
    }
    let mut rows = arena.rows()?;
    rows.sort_by_key(|row| row.finished_at);
    let mut next = PurgeRequest {
        limit: BatchSize::new(2)?,
        ..request(Some(1), None)?
    };

    for (deleted, left) in [(2, 3), (2, 1)] {
        let purged = arena.backend.purge(&next)?;

        expect_that("deleted", purged.deleted, deleted)?;
        let gone = &rows[rows.len() - left - 2..rows.len() - left];
        let cursor = expect_some(purged.cursor, "cursor after a full batch")?;
        expect_that("cursor's job", cursor.job_id, gone[1].job_id)?;
        expect_that(
            "cursor's instant",
            Some(cursor.finished_at),
            gone[1].finished_at,
        )?;
        let mut ids: Vec<_> = rows[rows.len() - left..]
            .iter()
            .map(|row| row.job_id)
            .collect();
        ids.sort_unstable();
        expect_that("rows left", arena.probe.ids()?, ids)?;
        next.cursor = Some(cursor);
    }
    let last = arena.backend.purge(&next)?;
    expect_that("last batch", (last.deleted, last.cursor), (1, None))
}

fn rows_that_a_constraint_keeps_are_reported<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let mut jobs = Vec::new();
    for minutes in [105, 104, 103, 102, 101] {
        jobs.push(age(arena, arena.succeeded_job()?, minutes)?);
    }
    arena.probe.reference(jobs[0])?;
    arena.probe.reference(jobs[1])?;
    let first = PurgeRequest {
        limit: BatchSize::new(2)?,
        ..request(Some(1), None)?
    };

    let purged = arena.backend.purge(&first)?;

    expect_that(
        "first batch",
        (purged.deleted, &*purged.kept),
        (0, &jobs[..2]),
    )?;
    let next = PurgeRequest {
        cursor: Some(expect_some(purged.cursor, "cursor after a full batch")?),
        limit: BatchSize::MAX,
        ..first
    };
    let purged = arena.backend.purge(&next)?;
    expect_that("second batch", (purged.deleted, purged.kept), (3, vec![]))?;
    let whole = arena.backend.purge(&request(Some(1), None)?)?;
    expect_that(
        "from the start",
        (whole.deleted, &*whole.kept),
        (0, &jobs[..2]),
    )?;
    expect_that("rows left", arena.probe.ids()?, &jobs[..2])
}

/// Stores one succeeded job with this key, with a failure and an effect.
fn job_with_sisters<F: Fixture>(arena: &Arena<'_, F>, key: &str) -> Check<JobId> {
    let job = arena.job()?.with_dedup(key, DedupScope::WhileRowExists)?;
    arena.store(&job)?;
    let failed = arena.claim_one("worker-a")?;
    arena.backend.fail_one(&retry(&failed, 0, "no route")?)?;
    let claimed = arena.claim_one("worker-a")?;
    let effect = EffectName::new("charge")?;
    arena.backend.transaction(|tx| {
        let backend = arena.backend;
        backend.record_effect_in(tx, &claimed.receipt, &effect)
    })?;
    arena.backend.ack_one(&claimed.receipt)?;
    Ok(claimed.job_id())
}

fn a_kept_row_keeps_what_belongs_to_it<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let kept = age(arena, job_with_sisters(arena, "a")?, 61)?;
    arena.probe.reference(kept)?;
    let before = arena.snapshot()?;

    let purged = arena.backend.purge(&request(Some(1), None)?)?;

    expect_that("answer", (purged.deleted, purged.kept), (0, vec![kept]))?;
    arena.expect_unchanged(&before)?;
    let job = arena.job()?.with_dedup("a", DedupScope::WhileRowExists)?;
    let again = arena.backend.enqueue_one(&job)?;
    expect_that(
        "by its key",
        (again.is_new(), again.job_id()),
        (false, kept),
    )
}

fn what_belongs_to_a_purged_job_goes_with_it<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let jobs = [job_with_sisters(arena, "a")?, job_with_sisters(arena, "b")?];
    age(arena, jobs[0], 61)?;
    let sisters = || {
        let count = |sister| Ok(arena.probe.count(sister)?);
        let counts = ["dedup", "effect", "failure"].map(count);
        counts.into_iter().collect::<Check<Vec<_>>>()
    };
    expect_that("before", sisters()?, [2, 2, 2])?;

    let purged = arena.backend.purge(&request(Some(1), None)?)?;

    expect_that("deleted", purged.deleted, 1)?;
    expect_that("after", sisters()?, [1, 1, 1])?;
    expect_that("failures", arena.backend.failures(jobs[0])?, [])?;
    expect_that("failures", arena.backend.failures(jobs[1])?.len(), 1)
}

fn a_key_taken_over_outlives_the_purge_of_its_first_job<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.job()?;
    let job = job.with_dedup("order-42", DedupScope::WhileUnfinished)?;
    let first = arena.store(&job)?;
    arena.backend.cancel(first, &ErrorText::new("not needed"))?;
    let second = arena.store(&job)?;

    let purged = arena.backend.purge(&request(None, Some(0))?)?;

    expect_that("deleted", purged.deleted, 1)?;
    expect_that("rows", arena.probe.ids()?, [second])?;
    expect_that("keys", arena.probe.count("dedup")?, 1)?;
    let again = arena.backend.enqueue_one(&job)?;
    expect_that(
        "by its key",
        (again.is_new(), again.job_id()),
        (false, second),
    )
}

// Report 68: retention that never finishes, https://github.com/riverqueue/river/issues/575.
fn a_large_backlog_is_purged_in_batches<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    arena.enqueue(3_000)?;
    for _ in 0..3 {
        let claimed = arena.claim("worker-a", 1_000)?;
        let receipts: Vec<_> = claimed.into_iter().map(|job| job.receipt).collect();
        arena.backend.ack(&receipts)?;
    }
    let mut next = PurgeRequest {
        limit: BatchSize::new(500)?,
        ..request(Some(0), None)?
    };

    for batch in 1..=6 {
        let purged = arena.backend.purge(&next)?;

        expect_that("deleted", purged.deleted, 500)?;
        let left = 3_000 - 500 * batch + (batch - 1);
        expect_that("rows left", arena.probe.ids()?.len(), left)?;
        arena.enqueue_and_claim("worker-b")?;
        next.cursor = purged.cursor;
    }
    let purged = arena.backend.purge(&next)?;
    expect_that("last batch", (purged.deleted, purged.cursor), (0, None))?;
    let rows = arena.rows()?;
    let running = rows.iter().all(|row| row.state == State::Running);
    expect(
        running,
        format_args!("others than the six running: {rows:?}"),
    )
}
