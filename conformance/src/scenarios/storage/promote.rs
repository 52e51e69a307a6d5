//! Promote: which jobs, and what is stored of them.

use queue_table_core::{BatchSize, DELAY_MAX, Delay, JobId, PromoteRequest};

use super::super::prelude::*;

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            only_ready_jobs_that_waited_long_below_the_priority_are_promoted,
            "Of due, future, running, finished, exhausted and urgent jobs only the ready ones that waited long are promoted",
            [C28],
        ),
        scenario!(
            a_promotion_leaves_other_queues_alone,
            "Jobs of other queues are not promoted, however long they have waited",
            [C28],
        ),
        scenario!(
            a_promotion_changes_the_priority_only,
            "Of a job that failed before, with columns, failures and a key, a promotion changes nothing but the priority",
            [C4, C28],
        ),
        scenario!(
            a_promotion_takes_the_oldest_up_to_its_limit,
            "A promotion of fewer jobs than there are takes those that have waited longest, of whatever priority",
            [C28],
        ),
        scenario!(
            a_promoted_job_keeps_its_priority,
            "A promoted job is shown with its new priority, and keeps it when it is retried, released, reaped and replayed",
            [C18, C20, C28],
        ),
        scenario!(
            priorities_and_waits_at_their_ends_can_be_promoted,
            "The lowest priority is promoted to the highest, after no wait at all, and no job after the longest",
            [C28],
        ),
        scenario!(
            a_pause_does_not_keep_jobs_from_being_promoted,
            "Jobs of a paused queue are promoted as others are",
            [C7, C28],
        ),
    ]
}

const HOUR: Duration = Duration::from_secs(3_600);
const MINUTE: Duration = Duration::from_secs(60);

/// Promotes up to so many jobs that have waited for an hour to priority 5.
fn promote<F: Fixture>(arena: &Arena<'_, F>, limit: u32) -> Check<u32> {
    let request = PromoteRequest::new(arena.queue.clone(), Delay::new(HOUR)?, 5);
    let request = request.with_limit(BatchSize::new(limit)?);
    Ok(arena.backend.promote(&request)?)
}

/// Stores a job of this priority that has been due for so long.
fn waiting<F: Fixture>(arena: &Arena<'_, F>, priority: i32, waited: Duration) -> Check<JobId> {
    let job = arena.store(&arena.job()?.with_priority(priority))?;
    arena.probe.rewind(job, waited)?;
    Ok(job)
}

fn only_ready_jobs_that_waited_long_below_the_priority_are_promoted<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    let finished = [arena.succeeded_job()?, arena.dead_job()?];
    let running = arena.enqueue_and_claim("worker-a")?.job_id();
    for job in finished.into_iter().chain([running]) {
        arena.probe.rewind(job, 2 * HOUR)?;
    }
    let exhausted = waiting(arena, 0, 2 * HOUR)?;
    let spent = [Change::Attempts(1), Change::MaxAttempts(1)];
    let written = arena.probe.write(exhausted, &spent)?;
    expect_that("raw attempts", written, Written::Stored)?;
    arena.store(&arena.job()?.with_delay(2 * HOUR)?)?;
    waiting(arena, 4, Duration::ZERO)?;
    waiting(arena, 4, HOUR - MINUTE)?;
    let old = [
        waiting(arena, 0, HOUR + MINUTE)?,
        waiting(arena, 4, 2 * HOUR)?,
        waiting(arena, -7, 3 * HOUR)?,
    ];
    for priority in [5, 6, i32::MAX] {
        waiting(arena, priority, 2 * HOUR)?;
    }
    let mut expected = arena.rows()?;

    expect_that("promoted", promote(arena, 100)?, 3)?;

    let promoted = expected.iter_mut().filter(|row| old.contains(&row.job_id));
    promoted.for_each(|row| row.priority = 5);
    expect_that("rows", arena.rows()?, expected)?;
    expect_that("promoted once more", promote(arena, 100)?, 0)
}

fn a_promotion_leaves_other_queues_alone<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    for queue in ["billing", "mai", "mail2", "zeta"] {
        let job = arena.store(&job_for(queue)?)?;
        arena.probe.rewind(job, 2 * HOUR)?;
    }
    let before = arena.snapshot()?;

    expect_that("promoted", promote(arena, 100)?, 0)?;

    arena.expect_unchanged(&before)
}

fn a_promotion_changes_the_priority_only<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.job_with(r#"{ "b": 1.50, "a": "\u00e9 🍺" }"#)?;
    let job = job.with_dedup("order-7", queue_table_core::DedupScope::WhileUnfinished)?;
    let job = arena.store(&job.with_payload_version(3).with_max_attempts(9)?)?;
    let claimed = arena.claim_one("worker-a")?;
    arena.backend.fail_one(&retry(&claimed, 0, "again")?)?;
    arena.probe.rewind(job, 2 * HOUR)?;
    let (row, failures) = (arena.row(job)?, arena.backend.failures(job)?);

    expect_that("promoted", promote(arena, 100)?, 1)?;

    let expected = crate::fixture::Row { priority: 5, ..row };
    expect_that("row", arena.row(job)?, expected)?;
    expect_that("failures", arena.backend.failures(job)?, failures)?;
    expect_that("keys", arena.probe.count("dedup")?, 1)
}

fn a_promotion_takes_the_oldest_up_to_its_limit<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let mut jobs = Vec::new();
    for (priority, hours) in [(0, 2), (3, 5), (0, 4), (-9, 3), (3, 6), (0, 7)] {
        jobs.push((hours, waiting(arena, priority, HOUR * hours)?));
    }
    jobs.sort_unstable_by_key(|(hours, _)| std::cmp::Reverse(*hours));
    let oldest: Vec<_> = jobs.into_iter().map(|(_, job)| job).collect();

    for (limit, promoted, so_far) in [(1, 1, 1), (3, 3, 4), (3, 2, 6), (3, 0, 6)] {
        expect_that("promoted", promote(arena, limit)?, promoted)?;

        let mut rows = arena.rows()?;
        rows.retain(|row| row.priority == 5);
        let mut expected = oldest[..so_far].to_vec();
        expected.sort_unstable();
        let found: Vec<_> = rows.iter().map(|row| row.job_id).collect();
        expect_that(format_args!("after {so_far}"), found, expected)?;
    }
    Ok(())
}

fn a_promoted_job_keeps_its_priority<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = waiting(arena, 0, 2 * HOUR)?;
    expect_that("promoted", promote(arena, 100)?, 1)?;
    let shown = expect_some(arena.backend.get(job)?, "job")?;
    expect_that("shown", shown.priority, 5)?;

    let first = arena.claim_one("worker-a")?;
    expect_that("claimed with", first.priority, 5)?;
    arena.backend.fail_one(&retry(&first, 0, "again")?)?;
    expect_that("retried", arena.row(job)?.priority, 5)?;
    let second = arena.claim_one("worker-a")?;
    let release = queue_table_core::Failure::release(second.receipt, Delay::ZERO);
    arena.backend.fail_one(&release)?;
    expect_that("released", arena.row(job)?.priority, 5)?;
    let third = arena.claim_one("worker-a")?;
    arena.let_lease_expire(&third)?;
    arena.reap_one()?;
    expect_that("reaped", arena.row(job)?.priority, 5)?;
    let stop = queue_table_core::ErrorText::new("stop");
    arena.backend.cancel(job, &stop)?;
    arena
        .backend
        .replay(job, queue_table_core::MaxAttempts::new(1)?)?;
    expect_that("replayed", arena.claim_one("worker-a")?.priority, 5)
}

fn priorities_and_waits_at_their_ends_can_be_promoted<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    for priority in [i32::MIN, i32::MIN + 1, -1, i32::MAX - 1, i32::MAX] {
        arena.store(&arena.job()?.with_priority(priority))?;
    }
    let promote = |waited, to| {
        let request = PromoteRequest::new(arena.queue.clone(), Delay::new(waited)?, to);
        Ok::<_, Failed>(arena.backend.promote(&request)?)
    };
    let before = arena.snapshot()?;

    expect_that("longest wait", promote(DELAY_MAX, i32::MAX)?, 0)?;
    expect_that("lowest priority", promote(Duration::ZERO, i32::MIN)?, 0)?;
    arena.expect_unchanged(&before)?;
    expect_that("lowest but one", promote(Duration::ZERO, i32::MIN + 1)?, 1)?;
    expect_that("highest", promote(Duration::ZERO, i32::MAX)?, 4)?;

    let rows = arena.rows()?;
    let highest = rows.iter().filter(|row| row.priority == i32::MAX);
    expect_that("rows of the highest priority", highest.count(), 5)
}

fn a_pause_does_not_keep_jobs_from_being_promoted<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = waiting(arena, 0, 2 * HOUR)?;
    arena.backend.pause(&arena.queue)?;

    expect_that("promoted", promote(arena, 100)?, 1)?;

    expect_that("priority", arena.row(job)?.priority, 5)?;
    expect_eq(arena.claim("worker-a", 10)?, [])
}
