//! Both sides of each deadline.

use queue_table_core::{BatchSize, Delay, LeaseLength, PurgeRequest};

use crate::scenarios::prelude::*;

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            a_delayed_job_is_never_claimed_early,
            "A job with a short delay is claimed once it is due and not before, without help",
            [C7, C24],
        ),
        scenario!(
            a_job_without_delay_is_there_at_once_for_everybody,
            "A job without a delay is claimed by another session straight after its enqueue, every time",
            [C7, C24],
        ),
        scenario!(
            a_job_is_due_from_its_instant_on,
            "A job that was due a moment ago is claimed, one that will be due in a minute is not",
            [C7],
        ),
        scenario!(
            a_lease_holds_until_its_instant,
            "A claim whose lease ended a moment ago is lost, one whose lease ends in a minute holds",
            [C13],
        ),
        scenario!(
            reap_takes_what_is_overdue_and_nothing_else,
            "A reap takes the job whose lease ended a moment ago and leaves the one whose lease ends in a minute",
            [C18],
        ),
        scenario!(
            a_renewed_lease_outlives_the_first_one,
            "A claim that was renewed holds when its first lease is over, and nobody reaps it",
            [C13, C18],
        ),
        scenario!(
            a_short_lease_ends_by_itself,
            "A lease that nobody renews ends after its length, without help, and its job comes back",
            [C13, C18],
        ),
        scenario!(
            purge_keeps_what_is_younger_than_the_window,
            "A purge deletes what was finished before its window and keeps what was finished in it",
            [C22],
        ),
    ]
}

/// Reports 35 and 39: rounding and time zones make jobs due early or late.
fn a_delayed_job_is_never_claimed_early<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let delayed = Duration::from_nanos(120_000_400);
    let job = arena.job()?.with_delay(delayed)?;
    let (job, call) = Span::of(arena, || arena.store(&job))?;
    let start = std::time::Instant::now();

    let claimed = loop {
        if let Some(claimed) = arena.claim("worker-a", 1)?.pop() {
            break claimed;
        }
        expect_within(start, Duration::from_secs(20), "the wait for a due job")?;
        std::thread::sleep(Duration::from_millis(5));
    };

    let row = arena.row(job)?;
    call.expect("run_at", row.run_at, delayed)?;
    expect(
        claimed.claimed_at >= row.run_at,
        "claimed before it was due",
    )
}

/// Report 39: a stored due time that is rounded up hides a new job for a while.
fn a_job_without_delay_is_there_at_once_for_everybody<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let (other, request) = (arena.session()?, arena.request("worker-a")?);

    for round in 0..60 {
        let job = arena.enqueue_one()?;
        let claimed = other.claim(&request)?;
        let claimed = expect_one(claimed, format_args!("claimed job in round {round}"))?;
        expect_that("the claimed job", claimed.job_id(), job)?;
    }

    expect_eq(arena.claim("worker-b", 1)?, [])
}

/// Just behind the database's now, in microseconds, and well ahead of it.
const A_MOMENT_AGO: i64 = -1_000;
const IN_A_MINUTE: i64 = 60_000_000;

fn a_job_is_due_from_its_instant_on<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let jobs = arena.enqueue(2)?;
    arena.probe.write(jobs[0], &[Change::RunAt(IN_A_MINUTE)])?;
    arena.probe.write(jobs[1], &[Change::RunAt(A_MOMENT_AGO)])?;

    let claimed = arena.claim("worker-a", 10)?;

    let claimed = expect_one(claimed, "claimed job")?;
    expect_that("the claimed job", claimed.job_id(), jobs[1])?;
    arena.expect_state(jobs[0], State::Ready)
}

fn a_lease_holds_until_its_instant<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let over = arena.enqueue_and_claim("worker-a")?;
    let holds = arena.enqueue_and_claim("worker-a")?;
    arena
        .probe
        .write(over.job_id(), &[Change::LeaseUntil(Some(A_MOMENT_AGO))])?;
    arena
        .probe
        .write(holds.job_id(), &[Change::LeaseUntil(Some(IN_A_MINUTE))])?;

    let answers = arena
        .backend
        .ack(&[over.receipt.clone(), holds.receipt.clone()])?;

    let reasons = answers
        .into_iter()
        .map(|answer| answer.err().map(|lost| lost.reason()));
    expect_eq(
        reasons.collect::<Vec<_>>(),
        [Some(LostReason::Expired), None],
    )?;
    arena.expect_state(&over, State::Running)?;
    arena.expect_state(&holds, State::Succeeded)
}

/// Reports 43 and 44: times compared as text, or as text with numbers.
fn reap_takes_what_is_overdue_and_nothing_else<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let over = arena.enqueue_and_claim("worker-a")?;
    let holds = arena.enqueue_and_claim("worker-a")?;
    arena
        .probe
        .write(over.job_id(), &[Change::LeaseUntil(Some(A_MOMENT_AGO))])?;
    arena
        .probe
        .write(holds.job_id(), &[Change::LeaseUntil(Some(IN_A_MINUTE))])?;

    let reaped = expect_one(arena.reap()?, "reaped job")?;

    expect_that("the reaped job", reaped.job_id, over.job_id())?;
    Ok(arena.backend.ack_one(&holds.receipt)?)
}

fn a_renewed_lease_outlives_the_first_one<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let held = arena.enqueue_and_claim("worker-a")?;
    let first = held.lease_until.since(held.claimed_at);
    arena
        .backend
        .renew_one(&held.receipt, LeaseLength::new(3 * first)?)?;

    arena.probe.rewind(held.job_id(), 2 * first)?;

    expect_eq(arena.reap()?, [])?;
    Ok(arena.backend.ack_one(&held.receipt)?)
}

fn a_short_lease_ends_by_itself<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    arena.enqueue_one()?;
    let lease = LeaseLength::new(Duration::from_millis(100))?;
    let request = arena.request("worker-a")?.with_lease(lease);
    let claimed = expect_one(arena.backend.claim(&request)?, "claimed job")?;

    std::thread::sleep(Duration::from_millis(130));

    expect_lost(arena.backend.ack_one(&claimed.receipt), LostReason::Expired)?;
    let reaped = arena.reap_one()?;
    expect_that("the reaped job", reaped.job_id, claimed.job_id())
}

/// Report 43: windows within one day, and from one day to the next.
fn purge_keeps_what_is_younger_than_the_window<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let second = Duration::from_secs(1);
    for window in [300, 86_400, 40 * 86_400].map(|seconds| seconds * second) {
        let (old, young) = (arena.succeeded_job()?, arena.succeeded_job()?);
        arena.probe.rewind(old, window + second)?;
        arena.probe.rewind(young, window - 30 * second)?;

        let purged = arena.backend.purge(&PurgeRequest {
            succeeded_after: Some(Delay::new(window)?),
            dead_after: None,
            limit: BatchSize::MAX,
            cursor: None,
        })?;

        expect_that("deleted rows", purged.deleted, 1)?;
        expect_eq(arena.probe.row(old)?, None)?;
        arena.probe.delete(young)?;
    }
    Ok(())
}
