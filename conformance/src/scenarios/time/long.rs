//! The longest durations, which overflow where an engine counts in small numbers or ends its
//! calendar. Reports 38, 40 and 41.

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
        let (stored, call) = Span::of(arena, || arena.store(&job))?;
        call.expect("run_at", arena.row(stored)?.run_at, length + micros)?;
    }
    expect_eq(arena.claim("worker-a", 10)?, [])
}

fn long_leases_are_stored_to_the_microsecond<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    arena.enqueue_one()?;
    let lease = LeaseLength::new(LEASE_MAX)?;
    let request = arena.request("worker-a")?.with_lease(lease);

    let (claimed, call) = Span::of(arena, || Ok(arena.backend.claim(&request)?))?;
    let claimed = expect_one(claimed, "claimed job")?;
    call.expect("claimed lease", arena.row(&claimed)?.lease_until, LEASE_MAX)?;
    let renew = || Ok(arena.backend.renew_one(&claimed.receipt, lease)?);
    let ((), call) = Span::of(arena, renew)?;
    call.expect("renewed lease", arena.row(&claimed)?.lease_until, LEASE_MAX)?;

    expect_eq(arena.reap()?, [])?;
    Ok(arena.backend.ack_one(&claimed.receipt)?)
}

fn long_retry_delays_are_stored_to_the_microsecond<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let (failed, reaped) = (
        arena.enqueue_and_claim("worker-a")?,
        arena.enqueue_and_claim("worker-a")?,
    );
    arena.let_lease_expire(&reaped)?;
    let after = Delay::new(DELAY_MAX)?;
    let failure = Failure::retry(failed.receipt.clone(), after, ErrorText::new("no route"));
    let policy = RetryPolicy::fixed(DELAY_MAX)?;
    let request = ReapRequest::new(BatchSize::ONE, policy);

    let (_, call) = Span::of(arena, || {
        arena.backend.fail_one(&failure)?;
        Ok(arena.backend.reap(&request)?)
    })?;

    for job in [&failed, &reaped] {
        arena.expect_state(job, State::Ready)?;
        call.expect("run_at", arena.row(job)?.run_at, DELAY_MAX)?;
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

/// Reports 42 and 45: a delay that overflows, or is computed from a base of zero, burns all
/// attempts at once.
fn late_attempts_wait_no_longer_than_the_policys_cap<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let held = arena.enqueue_and_claim("worker-a")?;
    let late = [Change::Attempts(70), Change::MaxAttempts(100)];
    expect_eq(arena.probe.write(held.job_id(), &late)?, Written::Stored)?;
    arena.let_lease_expire(&held)?;
    let (second, cap) = (Duration::from_secs(1), Duration::from_secs(3_600));
    let policy = RetryPolicy::new(second, 2.0, cap)?.with_jitter(0.0)?;
    let request = ReapRequest::new(BatchSize::ONE, policy);

    let (reaped, call) = Span::of(arena, || Ok(arena.backend.reap(&request)?))?;

    let reaped = expect_one(reaped, "reaped job")?;
    let run_at = arena.row(&held)?.run_at;
    call.expect("run_at", run_at, cap)?;
    expect_eq(reaped.disposition, Disposition::Ready { run_at })
}
