//! Cost that must not grow, seen through behaviour.
//!
//! What the ways to keep the cost low get wrong is seen in answers: to step over priorities, to
//! look at a bounded number of candidates, to keep finished rows out of an index. How much a claim
//! reads is seen where the engine counts it for a session: it must not grow with rows that the
//! claim does not want. Plans of other statements are looked at by the tests of each backend.

use queue_table_core::{
    BatchSize, Delay, Kind, NewJob, PromoteRequest, PurgeRequest, ReapRequest, RetryPolicy,
};

use super::prelude::*;
use super::tx::{Left, roll_back};
use crate::scenario::Need;

pub(crate) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    let mut all = answers();
    all.extend(counts());
    all
}

fn counts<F: Fixture>() -> Vec<Scenario<F>> {
    let all = vec![
        scenario!(
            a_claim_reads_no_more_behind_finished_jobs,
            "A claim reads as little behind 5,000 finished jobs as in an empty table",
            [C12],
        ),
        scenario!(
            a_claim_reads_no_more_behind_future_jobs,
            "A claim reads as little behind 5,000 more urgent jobs that are not due as in an empty table",
            [C12],
        ),
        scenario!(
            a_claim_reads_no_more_beside_other_queues,
            "A claim reads as little beside 5,000 due jobs of other queues as in an empty table",
            [C12],
        ),
    ];
    let with_counters = |scenario: Scenario<F>| scenario.needs(Need::Counters(true));
    all.into_iter().map(with_counters).collect()
}

fn answers<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            a_due_job_behind_future_ones_of_higher_priority_is_claimed,
            "A due job is found behind 1,000 jobs of higher priority that are not due yet",
            [C7, C12],
        ),
        scenario!(
            due_jobs_among_many_priorities_are_claimed_in_order,
            "Due jobs are found in order among 400 priorities that have only future jobs",
            [C7, C9, C12],
        ),
        scenario!(
            due_and_future_jobs_of_one_priority_are_told_apart,
            "Where each priority has due and future jobs, a claim takes all due ones in order and no other",
            [C7, C9, C12],
        ),
        scenario!(
            jobs_of_other_kinds_do_not_hide_those_accepted,
            "A job of an accepted kind is found behind 1,500 due jobs that the worker does not accept",
            [C7, C12],
        ),
        scenario!(
            jobs_of_other_queues_do_not_hide_this_ones,
            "A job is found among 2,000 due and more urgent jobs of queues that sort before and behind",
            [C7, C12],
        ),
        scenario!(
            finished_jobs_hide_nothing,
            "Claim, reap and purge find their one row among 2,000 finished ones",
            [C12, C18, C22],
        ),
        scenario!(
            future_and_finished_jobs_hide_none_that_waited_long,
            "A promotion of one job finds it behind 1,000 future and 500 finished ones, at the lowest of 400 priorities",
            [C12, C28],
        ),
        scenario!(
            jobs_of_many_priorities_are_promoted_oldest_first,
            "Of old jobs of 200 priorities a promotion takes the oldest, whatever their priority, in bounded batches",
            [C28],
        ),
        scenario!(
            live_claims_hide_no_overdue_one,
            "A reap of one job finds the overdue claim among 1,000 live ones",
            [C12, C18],
        ),
    ]
}

fn a_due_job_behind_future_ones_of_higher_priority_is_claimed<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    let future = arena.job()?.with_priority(10);
    let future = future.with_delay(Duration::from_secs(3_600))?;
    arena.backend.enqueue(&vec![future; 1_000])?;
    let due = arena.enqueue_one()?;

    let claimed = arena.claim("worker-a", 10)?;

    expect_that("claimed jobs", ids(&claimed), [due])
}

fn due_jobs_among_many_priorities_are_claimed_in_order<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let future = arena.job()?.with_delay(Duration::from_secs(3_600))?;
    let priorities = (-200..200).map(|step| step * 10_000_000);
    let future = priorities.map(|priority| future.clone().with_priority(priority));
    arena.backend.enqueue(&future.collect::<Vec<_>>())?;
    let mut due = Vec::new();
    for priority in [i32::MAX, 1_990_000_000, 5, 0, -1_999_999_999, i32::MIN] {
        due.push(arena.store(&arena.job()?.with_priority(priority))?);
    }

    let first = arena.claim("worker-a", 2)?;
    let rest = arena.claim("worker-a", 100)?;

    expect_that("first batch", ids(&first), &due[..2])?;
    expect_that("second batch", ids(&rest), &due[2..])?;
    expect_eq(arena.claim("worker-a", 100)?, [])
}

fn due_and_future_jobs_of_one_priority_are_told_apart<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let hour = Duration::from_secs(3_600);
    let mut jobs = Vec::new();
    for number in 0..300 {
        let job = arena.job()?.with_priority(number % 3);
        let is_due = number % 2 == 0;
        jobs.push(job.with_delay(if is_due { Duration::ZERO } else { hour })?);
    }
    let stored = arena.backend.enqueue(&jobs)?;
    let due = stored.iter().zip(0..).filter(|(_, number)| number % 2 == 0);
    let mut due: Vec<_> = due
        .map(|(job, number)| (2 - number % 3, job.job_id()))
        .collect();
    due.sort_unstable();
    let due: Vec<_> = due.into_iter().map(|(_, job)| job).collect();

    for batch in due.chunks(60) {
        let claimed = arena.claim("worker-a", 60)?;

        expect_that("claimed jobs", ids(&claimed), batch)?;
    }
    expect_eq(arena.claim("worker-a", 60)?, [])
}

fn jobs_of_other_kinds_do_not_hide_those_accepted<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let payload = arena.job()?.payload().clone();
    let other = NewJob::new(&arena.queue, Kind::new("other")?, payload).with_priority(9);
    let newer = arena.job()?.with_payload_version(2).with_priority(8);
    arena.backend.enqueue(&vec![other; 1_000])?;
    arena.backend.enqueue(&vec![newer; 500])?;
    let wanted = arena.enqueue(2)?;
    let request = arena.request("worker-a")?.with_limit(BatchSize::new(10)?);
    let request = request.accepting([(Kind::new("note")?, 1..=1)].into());

    let claimed = arena.backend.claim(&request)?;

    expect_that("claimed jobs", ids(&claimed), wanted)
}

fn jobs_of_other_queues_do_not_hide_this_ones<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    for queue in ["a", "mai", "mail2", "zeta"] {
        let urgent = job_for(queue)?.with_priority(9);
        arena.backend.enqueue(&vec![urgent; 500])?;
    }
    let wanted = arena.enqueue_one()?;

    let claimed = arena.claim("worker-a", 10)?;

    expect_that("claimed jobs", ids(&claimed), [wanted])?;
    let stats = arena.backend.stats(Some(&arena.queue))?;
    expect_that("running", expect_one(stats, "queue")?.running, 1)
}

fn finished_jobs_hide_nothing<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let urgent = arena.job()?.with_priority(9);
    arena.backend.enqueue(&vec![urgent; 2_000])?;
    for _ in 0..2 {
        let claimed = arena.claim("worker-a", 1_000)?;
        let receipts: Vec<_> = claimed.into_iter().map(|job| job.receipt).collect();
        arena.backend.ack(&receipts)?;
    }
    let old = arena.probe.ids()?[1_234];
    arena.probe.rewind(old, Duration::from_secs(7_200))?;

    let claimed = arena.enqueue_and_claim("worker-b")?;
    arena.let_lease_expire(&claimed)?;
    expect_that("reaped", arena.reap_one()?.job_id, claimed.job_id())?;
    let purge = PurgeRequest {
        succeeded_after: Some(Delay::new(Duration::from_secs(3_600))?),
        dead_after: Some(Delay::ZERO),
        limit: BatchSize::MAX,
        cursor: None,
    };
    expect_that("purged", arena.backend.purge(&purge)?.deleted, 1)?;
    expect_that("the old row", arena.probe.row(old)?, None)?;
    expect_that("rows", arena.probe.ids()?.len(), 2_000)
}

fn live_claims_hide_no_overdue_one<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    arena.enqueue(1_001)?;
    let mut claimed = arena.claim("worker-a", 1_000)?;
    claimed.extend(arena.claim("worker-a", 1)?);
    let overdue = &claimed[777];
    arena.let_lease_expire(overdue)?;
    let policy = RetryPolicy::fixed(Duration::from_secs(60))?;
    let request = ReapRequest::new(BatchSize::ONE, policy);

    let reaped = arena.backend.reap(&request)?;

    let reaped = expect_one(reaped, "reaped job")?;
    expect_that("reaped", reaped.job_id, overdue.job_id())?;
    expect_eq(arena.backend.reap(&request)?, [])?;
    arena.expect_state(&claimed[776], State::Running)
}

/// How many rows a claim must not read.
const MANY: usize = 5_000;

/// A job of the usual size.
fn sized<F: Fixture>(arena: &Arena<'_, F>) -> Check<NewJob> {
    arena.job_with(&format!("\"{}\"", "x".repeat(200)))
}

/// What the claim of one job reads, in a transaction that is rolled back.
fn claim_reads<F: Fixture>(arena: &Arena<'_, F>) -> Check<u64> {
    let (request, mut read) = (arena.request("worker-a")?, None);
    arena.probe.settle()?;
    // The first round fills the caches of the session and of the driver.
    for _ in 0..2 {
        let ended = arena.backend.transaction(|tx| {
            let before = arena.probe.reads_in(tx)?;
            let claimed = arena.backend.claim_in(tx, &request)?;
            read = Some(arena.probe.reads_in(tx)? - before);
            expect_that("claimed jobs", claimed.len(), 1)?;
            roll_back()
        });
        let ended: Result<(), Left> = ended;
        expect(ended.is_err(), "the transaction was committed")?;
    }
    expect_some(read, "count of what was read")
}

/// Fails unless a claim reads about as much as before, once these rows are there.
fn expect_no_growth<F: Fixture>(arena: &Arena<'_, F>, fill: impl FnOnce() -> Check) -> Check {
    let due = vec![sized(arena)?; 3];
    arena.backend.enqueue(&due)?;
    let few = claim_reads(arena)?;
    expect(few > 0, "a claim reads nothing: `reads_in` does not count")?;

    fill()?;

    let many = claim_reads(arena)?;
    expect(
        many <= 2 * few + 20,
        format_args!("a claim reads {many} where it read {few}"),
    )
}

/// Report 13.
fn a_claim_reads_no_more_behind_finished_jobs<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    expect_no_growth(arena, || {
        let urgent = sized(arena)?.with_priority(9);
        arena.backend.enqueue(&vec![urgent; MANY])?;
        for _ in 0..MANY / 1_000 {
            let claimed = arena.claim("worker-b", 1_000)?;
            let receipts: Vec<_> = claimed.into_iter().map(|job| job.receipt).collect();
            arena.backend.ack(&receipts)?;
        }
        Ok(())
    })
}

/// Report 2, as far as a claim reads what it must not.
fn a_claim_reads_no_more_behind_future_jobs<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    expect_no_growth(arena, || {
        let future = sized(arena)?.with_priority(9);
        let future = future.with_delay(Duration::from_secs(3_600))?;
        arena.backend.enqueue(&vec![future; MANY])?;
        Ok(())
    })
}

fn a_claim_reads_no_more_beside_other_queues<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    expect_no_growth(arena, || {
        for queue in ["a", "zeta"] {
            let job = job_for(queue)?;
            let payload = sized(arena)?.payload().clone();
            let job = NewJob::new(job.queue(), Kind::new("note")?, payload).with_priority(9);
            arena.backend.enqueue(&vec![job; MANY / 2])?;
        }
        Ok(())
    })
}

const HOUR: Duration = Duration::from_secs(3_600);

/// Promotes up to so many jobs that have waited for an hour to the highest priority.
fn promote<F: Fixture>(arena: &Arena<'_, F>, limit: u32) -> Check<u32> {
    let request = PromoteRequest::new(arena.queue.clone(), Delay::new(HOUR)?, i32::MAX);
    let request = request.with_limit(BatchSize::new(limit)?);
    Ok(arena.backend.promote(&request)?)
}

fn future_and_finished_jobs_hide_none_that_waited_long<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    arena
        .backend
        .enqueue(&vec![arena.job()?.with_priority(9); 500])?;
    let claimed = arena.claim("worker-a", 500)?;
    let receipts: Vec<_> = claimed.into_iter().map(|job| job.receipt).collect();
    arena.backend.ack(&receipts)?;
    let future = arena.job()?.with_delay(HOUR)?;
    let priorities = (0..1_000).map(|number| (number % 400 - 200) * 10_000_000);
    let future = priorities.map(|priority| future.clone().with_priority(priority));
    arena.backend.enqueue(&future.collect::<Vec<_>>())?;
    let old = arena.store(&arena.job()?.with_priority(i32::MIN))?;
    arena.probe.rewind(old, 2 * HOUR)?;

    expect_that("promoted", promote(arena, 1)?, 1)?;

    expect_that("priority", arena.row(old)?.priority, i32::MAX)?;
    expect_that("promoted once more", promote(arena, 1)?, 0)?;
    expect_that("claimed", ids(&arena.claim("worker-a", 100)?), [old])
}

fn jobs_of_many_priorities_are_promoted_oldest_first<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let jobs = (0..200).map(|number| Ok(arena.job()?.with_priority(number * 7 % 200)));
    let jobs = jobs.collect::<Check<Vec<_>>>()?;
    let stored = arena.backend.enqueue(&jobs)?;
    let mut oldest = Vec::new();
    for (job, number) in stored.iter().zip(0..) {
        let waited = HOUR + Duration::from_secs(60) * (number * 11 % 200);
        arena.probe.rewind(job.job_id(), waited)?;
        oldest.push((waited, job.job_id()));
    }
    oldest.sort_unstable();
    let oldest = oldest.into_iter().rev().map(|(_, job)| job);

    for (limit, promoted) in [(30, 30), (169, 169), (30, 1), (30, 0)] {
        expect_that("promoted", promote(arena, limit)?, promoted)?;
    }
    let claimed = ids(&arena.claim("worker-a", 200)?);
    expect_that("claimed jobs", claimed, oldest.collect::<Vec<_>>())
}
