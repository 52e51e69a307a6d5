//! What is claimed, and in which order.

use std::cmp::Reverse;

use queue_table_core::{
    Accepts, BatchSize, ClaimRequest, ErrorText, JobId, Kind, NewJob, QueueName,
};

use super::prelude::*;

pub(crate) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    let mut scenarios = in_order();
    scenarios.extend(which());
    scenarios
}

fn in_order<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            a_batch_comes_in_claim_order,
            "A batch comes back by priority from high to low, then due time, then id",
            [C9],
        ),
        scenario!(
            shuffled_and_equal_jobs_come_in_claim_order,
            "Fifty jobs of shuffled priorities and twenty equal ones of one transaction come back in claim order",
            [C9],
        ),
        scenario!(
            the_most_urgent_jobs_are_chosen,
            "A claim of fewer jobs than there are takes the first in claim order, not just any in order",
            [C7, C9],
        ),
        scenario!(
            one_by_one_is_the_same_order,
            "Jobs claimed one by one come in the order in which a batch would have come",
            [C8, C9],
        ),
        scenario!(
            a_retried_job_stands_behind_those_due_before,
            "A job that failed stands in the order by its new due time, not by its id or its first due time",
            [C9, C18],
        ),
        scenario!(
            a_job_that_comes_due_late_is_not_passed_over,
            "A job of a low id that comes due after younger ones have run is claimed like any other",
            [C7, C11],
        ),
    ]
}

fn which<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            a_claim_takes_no_more_than_its_limit,
            "A claim takes as many jobs as asked for, and all there are when there are fewer",
            [C7, C11],
        ),
        scenario!(
            a_claim_takes_only_its_queues_jobs,
            "A claim takes no job of another queue, however urgent",
            [C7],
        ),
        scenario!(
            jobs_that_are_not_due_are_not_claimed,
            "A job that is not due is not claimed, whatever its priority, until it is",
            [C7],
        ),
        scenario!(
            only_accepted_kinds_are_claimed,
            "A worker that names its kinds is given those and leaves the others as they were",
            [C7],
        ),
        scenario!(
            each_kind_has_versions_of_its_own,
            "Payload versions are accepted kind by kind, both ends of the range included",
            [C7],
        ),
        scenario!(
            a_worker_that_accepts_nothing_gets_nothing,
            "A claim that accepts no kind at all is empty, not one of all kinds",
            [C7, C11],
        ),
        scenario!(
            exhausted_jobs_neither_block_nor_fail_a_claim,
            "Ready jobs without attempts left are stepped over, even when they come first and fill a batch",
            [C7, C21],
        ),
        scenario!(
            overdue_claims_are_not_claimed_past_the_reaper,
            "A running job whose lease is over is claimed only after a reap has brought it back",
            [C7, C18],
        ),
        scenario!(
            terminal_jobs_are_never_claimed,
            "Succeeded, dead and cancelled jobs are never claimed, whatever is left of their budget",
            [C7, C20],
        ),
    ]
}

/// The ids of all stored jobs in claim order.
fn in_claim_order<F: Fixture>(arena: &Arena<'_, F>) -> Check<Vec<JobId>> {
    let mut rows = arena.rows()?;
    rows.sort_by_key(|row| (Reverse(row.priority), row.run_at, row.job_id));
    Ok(rows.into_iter().map(|row| row.job_id).collect())
}

fn a_batch_comes_in_claim_order<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    for priority in [0, 7, -3, 7, i32::MIN, i32::MAX, 0] {
        arena.store(&arena.job()?.with_priority(priority))?;
    }
    let late = arena.enqueue_one()?;
    arena.probe.rewind(late, Duration::from_secs(3_600))?;
    let expected = in_claim_order(arena)?;

    let claimed = arena.claim("worker-a", 100)?;

    expect_that("claimed jobs", ids(&claimed), expected)
}

// Report 14: a batch comes back in arbitrary order, https://github.com/graphile/worker/issues/457.
fn shuffled_and_equal_jobs_come_in_claim_order<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    for round in 0..5 {
        let shuffled =
            (0..10).map(|number| Ok(arena.job()?.with_priority(number * 7 % 10 - round)));
        let shuffled = shuffled.collect::<Check<Vec<_>>>()?;
        arena.backend.enqueue(&shuffled)?;
    }
    arena.backend.enqueue(&vec![arena.job()?; 20])?;
    let expected = in_claim_order(arena)?;

    let claimed = arena.claim("worker-a", 70)?;

    expect_that("claimed jobs", ids(&claimed), expected)?;
    expect_that("their number", claimed.len(), 70)
}

fn the_most_urgent_jobs_are_chosen<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    for (priority, minutes) in [(0, 1), (5, 1), (0, 9), (5, 2), (-1, 99), (5, 3), (0, 5)] {
        let job = arena.store(&arena.job()?.with_priority(priority))?;
        arena.probe.rewind(job, Duration::from_secs(minutes * 60))?;
    }
    let expected = in_claim_order(arena)?;

    let first = ids(&arena.claim("worker-a", 4)?);
    let second = ids(&arena.claim("worker-b", 100)?);

    expect_that("first batch", first, &expected[..4])?;
    expect_that("second batch", second, &expected[4..])
}

fn one_by_one_is_the_same_order<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    for (priority, minutes) in [(0, 0), (2, 0), (0, 7), (-2, 9), (2, 3), (1, 0)] {
        let job = arena.store(&arena.job()?.with_priority(priority))?;
        arena.probe.rewind(job, Duration::from_secs(minutes * 60))?;
    }
    let expected = in_claim_order(arena)?;

    let one_by_one = (0..6).map(|_| Ok(arena.claim_one("worker-a")?.job_id()));

    expect_that(
        "claimed jobs",
        one_by_one.collect::<Check<Vec<_>>>()?,
        expected,
    )?;
    expect_eq(arena.claim("worker-a", 1)?, [])
}

fn a_retried_job_stands_behind_those_due_before<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let jobs = arena.enqueue(4)?;
    for (job, minutes) in jobs.iter().zip([40, 30, 20, 10]) {
        arena
            .probe
            .rewind(*job, Duration::from_secs(minutes * 60))?;
    }
    let first = arena.claim("worker-a", 2)?;
    expect_that("first batch", ids(&first), &jobs[..2])?;
    arena.backend.fail_one(&retry(&first[1], 0, "again")?)?;
    arena.probe.rewind(jobs[1], Duration::from_secs(15 * 60))?;
    arena.backend.fail_one(&retry(&first[0], 0, "again")?)?;

    let second = arena.claim("worker-a", 4)?;

    let expected = [jobs[2], jobs[1], jobs[3], jobs[0]];
    expect_that("second batch", ids(&second), expected)
}

// Reports 20 and 16: a job with a lower id that comes late is never picked; an empty claim is taken
// for an empty queue, https://github.com/cockroachdb/cockroach/issues/121917.
fn a_job_that_comes_due_late_is_not_passed_over<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let minute = Duration::from_secs(60);
    let late = arena.store(&arena.job()?.with_delay(minute)?)?;
    let younger = arena.enqueue_one()?;
    expect_that(
        "first claim",
        arena.claim_one("worker-a")?.job_id(),
        younger,
    )?;
    for _ in 0..3 {
        expect_eq(arena.claim("worker-a", 10)?, [])?;
    }
    let stats = expect_one(arena.backend.stats(None)?, "queue")?;
    expect_that("scheduled while claims are empty", stats.scheduled, 1)?;

    arena.let_come_due(late)?;

    expect_that("claimed", arena.claim_one("worker-a")?.job_id(), late)
}

fn a_claim_takes_no_more_than_its_limit<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let jobs = arena.enqueue(5)?;
    for (limit, expected) in [(1, &jobs[..1]), (3, &jobs[1..4]), (3, &jobs[4..])] {
        let claimed = arena.claim("worker-a", limit)?;

        expect_that(format_args!("claim of {limit}"), ids(&claimed), expected)?;
        let running = arena
            .rows()?
            .into_iter()
            .filter(|row| row.state == State::Running);
        let last = expected
            .last()
            .and_then(|last| jobs.iter().position(|job| job == last));
        expect_that(
            "running rows",
            Some(running.count()),
            last.map(|last| last + 1),
        )?;
    }
    expect_eq(arena.claim("worker-a", 3)?, [])
}

fn a_claim_takes_only_its_queues_jobs<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let urgent = |queue| Ok::<_, Failed>(job_for(queue)?.with_priority(100));
    let others = [
        urgent("billing")?,
        urgent("mai")?,
        urgent("mail2")?,
        urgent("zeta")?,
    ];
    arena.backend.enqueue(&others)?;
    let mail = arena.enqueue_one()?;

    let claimed = arena.claim("worker-a", 100)?;

    expect_that("claimed jobs", ids(&claimed), [mail])?;
    let request = ClaimRequest::new(QueueName::new("empty")?, WorkerId::new("worker-a")?);
    expect_that("an unknown queue's", arena.backend.claim(&request)?, [])?;
    let ready = arena
        .rows()?
        .into_iter()
        .filter(|row| row.state == State::Ready);
    expect_that("rows left ready", ready.count(), others.len())
}

fn jobs_that_are_not_due_are_not_claimed<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let urgent = arena.job()?.with_priority(9);
    let soon = arena.store(&urgent.clone().with_delay(Duration::from_secs(60))?)?;
    let far = arena.store(&urgent.with_delay(Duration::from_secs(864_000))?)?;
    let due = arena.enqueue_one()?;

    expect_that("claimed", ids(&arena.claim("worker-a", 10)?), [due])?;

    arena.let_come_due(soon)?;
    expect_that("claimed", ids(&arena.claim("worker-a", 10)?), [soon])?;
    let row = arena.row(far)?;
    expect_eq((row.state, row.attempts), (State::Ready, 0))
}

/// Stores a job of this kind and payload version.
fn store_kind<F: Fixture>(arena: &Arena<'_, F>, kind: &str, version: u16) -> Check<JobId> {
    let payload = arena.job()?.payload().clone();
    let job = NewJob::new(&arena.queue, Kind::new(kind)?, payload);
    arena.store(&job.with_payload_version(version))
}

/// Claims up to 100 jobs that the worker accepts.
fn claim_accepted<F: Fixture>(arena: &Arena<'_, F>, accepts: Accepts) -> Check<Vec<JobId>> {
    let request = arena.request("worker-a")?;
    let request = request.with_limit(BatchSize::new(100)?).accepting(accepts);
    Ok(ids(&arena.backend.claim(&request)?))
}

fn only_accepted_kinds_are_claimed<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let jobs = ["a", "b", "c", "a", "aa"].map(|kind| store_kind(arena, kind, 1));
    let jobs = jobs.into_iter().collect::<Check<Vec<_>>>()?;
    let accepts = |kinds: &[&str]| -> Check<Accepts> {
        let each = kinds
            .iter()
            .map(|kind| Ok((Kind::new(kind)?, 0..=u16::MAX)));
        each.collect()
    };

    let one = claim_accepted(arena, accepts(&["a", "unknown"])?)?;
    expect_that("kind a", one, [jobs[0], jobs[3]])?;
    let row = arena.row(jobs[1])?;
    expect_that("kind b", (row.state, row.attempts), (State::Ready, 0))?;
    let two = claim_accepted(arena, accepts(&["b", "c"])?)?;
    expect_that("kinds b and c", two, [jobs[1], jobs[2]])?;
    expect_that("any kind", ids(&arena.claim("worker-a", 100)?), [jobs[4]])
}

fn each_kind_has_versions_of_its_own<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let mut wanted = Vec::new();
    for version in [0, 1, 2, 3, 4, u16::MAX] {
        let (a, b) = (
            store_kind(arena, "a", version)?,
            store_kind(arena, "b", version)?,
        );
        wanted.extend((2..=3).contains(&version).then_some(a));
        wanted.extend((version == 0 || version == u16::MAX).then_some(b));
    }
    let narrow: Accepts = [(Kind::new("a")?, 2..=3), (Kind::new("b")?, 0..=0)].into();
    let last: Accepts = [(Kind::new("b")?, u16::MAX..=u16::MAX)].into();

    let mut claimed = claim_accepted(arena, narrow)?;
    claimed.extend(claim_accepted(arena, last)?);

    expect_that("claimed jobs", claimed, wanted)
}

fn a_worker_that_accepts_nothing_gets_nothing<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.enqueue_one()?;
    let before = arena.snapshot()?;

    expect_that("no kind", claim_accepted(arena, Accepts::new())?, [])?;
    #[expect(clippy::reversed_empty_ranges, reason = "an empty range is the point")]
    let no_version: Accepts = [(Kind::new("note")?, 2..=1)].into();
    expect_that("no version", claim_accepted(arena, no_version)?, [])?;

    arena.expect_unchanged(&before)?;
    expect_that("all kinds", arena.claim_one("worker-a")?.job_id(), job)
}

// Report 27: a row at the limit makes every claim fail or blocks the queue,
// https://github.com/oban-bg/oban/pull/1059.
fn exhausted_jobs_neither_block_nor_fail_a_claim<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    for spent in [1, 1, 2, 7, 1, 1, 1, 1] {
        let job = arena.store(&arena.job()?.with_priority(9))?;
        let changes = [Change::Attempts(spent), Change::MaxAttempts(1)];
        let written = arena.probe.write(job, &changes)?;
        expect_that("raw attempts", written, Written::Stored)?;
    }
    let healthy = arena.enqueue(5)?;

    let claimed = arena.claim("worker-a", 5)?;

    expect_that("claimed jobs", ids(&claimed), healthy)?;
    expect_eq(arena.claim("worker-a", 5)?, [])?;
    let ready = arena
        .rows()?
        .into_iter()
        .filter(|row| row.state == State::Ready);
    expect_that("exhausted jobs left", ready.count(), 8)
}

fn overdue_claims_are_not_claimed_past_the_reaper<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let claimed = arena.enqueue_and_claim("worker-a")?;
    arena.let_lease_expire(&claimed)?;
    let before = arena.snapshot()?;

    expect_eq(arena.claim("worker-b", 10)?, [])?;

    arena.expect_unchanged(&before)?;
    arena.reap_one()?;
    expect_that("attempt", arena.claim_one("worker-b")?.attempt(), 2)
}

fn terminal_jobs_are_never_claimed<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    arena.succeeded_job()?;
    arena.dead_job()?;
    let cancelled = arena.enqueue_one()?;
    arena
        .backend
        .cancel(cancelled, &ErrorText::new("not needed"))?;
    for job in arena.probe.ids()? {
        arena.probe.rewind(job, Duration::from_secs(864_000))?;
    }
    let before = arena.snapshot()?;

    expect_eq(arena.claim("worker-a", 10)?, [])?;
    expect_eq(arena.reap()?, [])?;
    expect_eq(arena.claim("worker-a", 10)?, [])?;

    arena.expect_unchanged(&before)
}
