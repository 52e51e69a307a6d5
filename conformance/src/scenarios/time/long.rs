//! The longest durations, which overflow where an engine counts in small numbers or ends its calendar. Reports 38, 40
//! and 41.

use queue_table_core::{
    BatchSize, DELAY_MAX, Delay, Disposition, ErrorText, Failure, LEASE_MAX, LeaseLength,
    PurgeRequest, ReapRequest, RetryPolicy,
};

use crate::scenarios::prelude::*;

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            long_delays_are_stored_to_the_microsecond,
            "Delays from 36 minutes to 36,500 days are stored exactly, and keep the job from being claimed",
            [C24],
        ),
        scenario!(
            long_leases_are_stored_to_the_microsecond,
            "The longest lease is stored exactly by claim and renew, and its job is not reaped",
            [C13, C24],
        ),
        scenario!(
            long_retry_delays_are_stored_to_the_microsecond,
            "The longest retry delay is stored exactly by fail and by reap",
            [C18, C19, C24],
        ),
        scenario!(
            the_longest_retention_keeps_everything,
            "A purge with the longest window deletes nothing",
            [C22, C24],
        ),
        scenario!(
            late_attempts_wait_no_longer_than_the_policys_cap,
            "A job that is reaped at its 70th attempt waits the policy's longest delay, neither zero nor more",
            [C18, C19],
        ),
    ]
}

fn long_delays_are_stored_to_the_microsecond<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let days = |days: u64| Duration::from_secs(days * 86_400);
    let micros = Duration::from_micros(123_457);
    let lengths = [
        Duration::from_secs(36 * 60),
        days(25),
        days(400),
        days(69 * 366),
        DELAY_MAX - micros,
    ];
    for length in lengths {
        let job = arena.job()?.with_delay(length + micros)?;
        let row = arena.row(arena.store(&job)?)?;
        let stored = row.run_at.since(row.enqueued_at);
        expect_that("stored delay", stored, length + micros)?;
    }
    expect_eq(arena.claim("worker-a", 10)?, [])
}

fn long_leases_are_stored_to_the_microsecond<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    arena.enqueue_one()?;
    let lease = LeaseLength::new(LEASE_MAX)?;
    let request = arena.request("worker-a")?.with_lease(lease);

    let claimed = expect_one(arena.backend.claim(&request)?, "claimed job")?;
    let stored = claimed.lease_until.since(claimed.claimed_at);
    expect_that("stored lease", stored, LEASE_MAX)?;
    arena.backend.renew_one(&claimed.receipt, lease)?;

    let until = expect_some(arena.row(&claimed)?.lease_until, "lease")?;
    expect(until >= claimed.lease_until, "the renewal cut the lease")?;
    expect_eq(arena.reap()?, [])?;
    Ok(arena.backend.ack_one(&claimed.receipt)?)
}

fn long_retry_delays_are_stored_to_the_microsecond<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let (failed, reaped) = (
        arena.enqueue_and_claim("worker-a")?,
        arena.enqueue_and_claim("worker-a")?,
    );
    arena.let_lease_expire(&reaped)?;
    let before = arena.probe.now()?;

    let after = Delay::new(DELAY_MAX)?;
    let failure = Failure::retry(failed.receipt.clone(), after, ErrorText::new("no route"));
    arena.backend.fail_one(&failure)?;
    let policy = RetryPolicy::fixed(DELAY_MAX)?;
    arena
        .backend
        .reap(&ReapRequest::new(BatchSize::ONE, policy))?;

    let passed = arena.probe.now()?.since(before);
    for job in [&failed, &reaped] {
        let row = arena.row(job)?;
        let stored = row.run_at.since(before);
        expect_that("state", row.state, State::Ready)?;
        expect(
            (DELAY_MAX..=DELAY_MAX + passed).contains(&stored),
            format_args!("due in {stored:?} instead of {DELAY_MAX:?}"),
        )?;
    }
    Ok(())
}

fn the_longest_retention_keeps_everything<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    arena.succeeded_job()?;
    arena.dead_job()?;
    let before = arena.snapshot()?;
    let longest = Some(Delay::new(DELAY_MAX)?);

    let purged = arena.backend.purge(&PurgeRequest {
        succeeded_after: longest,
        dead_after: longest,
        limit: BatchSize::MAX,
        cursor: None,
    })?;

    expect_that("deleted rows", purged.deleted, 0)?;
    arena.expect_unchanged(&before)
}

/// Reports 42 and 45: a delay that overflows, or is computed from a base of zero, burns all attempts at once.
fn late_attempts_wait_no_longer_than_the_policys_cap<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let held = arena.enqueue_and_claim("worker-a")?;
    let late = [Change::Attempts(70), Change::MaxAttempts(100)];
    expect_eq(arena.probe.write(held.job_id(), &late)?, Written::Stored)?;
    arena.let_lease_expire(&held)?;
    let (second, cap) = (Duration::from_secs(1), Duration::from_secs(3_600));
    let policy = RetryPolicy::new(second, 2.0, cap)?.with_jitter(0.0)?;
    let before = arena.probe.now()?;

    let request = ReapRequest::new(BatchSize::ONE, policy);
    let reaped = expect_one(arena.backend.reap(&request)?, "reaped job")?;

    let Disposition::Ready { run_at } = reaped.disposition else {
        return Err(Failed::new("the job is dead with attempts left"));
    };
    let waits = run_at.since(before);
    expect(waits >= cap, format_args!("waits only {waits:?}"))?;
    expect(
        run_at.since(arena.probe.now()?) <= cap,
        format_args!("waits {waits:?}"),
    )
}
