//! Claim: what it stores and returns.

use queue_table_core::{BatchSize, ErrorText, Failure, LEASE_MAX, LEASE_MIN, LeaseLength};

use super::super::prelude::*;
use crate::fixture::Row;

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            claim_stores_worker_deadline_and_attempt,
            "A claimed job is running, and has worker, deadline, claim time and one attempt more",
            [C8, C24],
        ),
        scenario!(
            a_claimed_job_is_told_as_it_is_stored,
            "What a claim returns is what it stored, and what another read returns",
            [C8],
        ),
        scenario!(
            leases_of_every_length_are_exact,
            "Leases of a tenth of a second, weeks and 30 days end at the database's now plus their length",
            [C3, C8, C24],
        ),
        scenario!(
            the_next_attempt_is_told_the_last_error,
            "A claim keeps the error of the attempt before, and returns it",
            [C8],
        ),
        scenario!(
            the_largest_batches_go_through,
            "A thousand jobs are claimed, renewed, acked, failed and reaped in one call each",
            [C7, C13, C16, C18],
        ),
        scenario!(
            one_undecodable_payload_does_not_spoil_the_batch,
            "A payload that nobody can decode is claimed with its mates, failed alone, and kept as it was",
            [C4, C8],
        ),
    ]
}

fn claim_stores_worker_deadline_and_attempt<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.enqueue_one()?;
    for attempt in 1..=2 {
        let before = arena.row(job)?;

        let (claimed, span) = Span::of(arena, || arena.claim_one("worker-a"))?;

        let row = arena.row(job)?;
        span.expect("claimed_at", row.claimed_at, Duration::ZERO)?;
        span.expect("lease_until", row.lease_until, Duration::from_secs(60))?;
        let expected = Row {
            state: State::Running,
            attempts: attempt,
            worker_id: Some("worker-a".to_owned()),
            lease_until: row.lease_until,
            claimed_at: row.claimed_at,
            ..before
        };
        expect_eq(&row, &expected)?;
        let worker = WorkerId::new("worker-a")?;
        expect_that(
            "receipt",
            &claimed.receipt,
            &Receipt::new(job, attempt, worker),
        )?;
        arena.backend.fail_one(&retry(&claimed, 0, "again")?)?;
    }
    Ok(())
}

fn a_claimed_job_is_told_as_it_is_stored<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.job_with(r#"{"to":"x"}"#)?.with_priority(3);
    arena.store(&job.with_payload_version(2).with_max_attempts(5)?)?;
    let failed = arena.claim_one("worker-a")?;
    arena.backend.fail_one(&retry(&failed, 0, "no route")?)?;

    let claimed = arena.claim_one("worker-b")?;

    let row = arena.row(&claimed)?;
    expect_that("queue", claimed.queue.as_str(), &*row.queue)?;
    expect_that("kind", claimed.kind.as_str(), &*row.kind)?;
    expect_that("payload", claimed.payload.as_bytes(), &*row.payload)?;
    expect_that("version", claimed.payload_version, row.payload_version)?;
    expect_that("priority", claimed.priority, row.priority)?;
    expect_that("budget", claimed.max_attempts, row.max_attempts)?;
    expect_that("run_at", claimed.run_at, row.run_at)?;
    expect_that("enqueued_at", claimed.enqueued_at, row.enqueued_at)?;
    expect_that("claimed_at", Some(claimed.claimed_at), row.claimed_at)?;
    expect_that("lease_until", Some(claimed.lease_until), row.lease_until)?;
    expect_that("last error", claimed.last_error, row.last_error)?;
    expect_that("attempt", claimed.receipt.attempt(), row.attempts)?;
    let worker = Some(claimed.receipt.worker().as_str());
    expect_that("worker", worker, row.worker_id.as_deref())
}

// Reports 40 and 41: arithmetic that overflows for longer durations, or yields NULL,
// https://github.com/Particular/NServiceBus.SqlServer/issues/504.
fn leases_of_every_length_are_exact<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let day = Duration::from_secs(86_400);
    for endless in [LEASE_MAX + day, Duration::MAX] {
        let refused = LeaseLength::new(endless).is_err();
        expect(refused, format_args!("a lease of {endless:?} was taken"))?;
    }
    for length in [LEASE_MIN, Duration::from_secs(36 * 60), 25 * day, LEASE_MAX] {
        let lease = LeaseLength::new(length)?;
        arena.enqueue_one()?;
        let request = arena.request("worker-a")?.with_lease(lease);

        let (claimed, span) = Span::of(arena, || Ok(arena.backend.claim(&request)?))?;

        let claimed = expect_one(claimed, "claimed job")?;
        let what = format!("lease_until after {length:?}");
        span.expect(&what, arena.row(&claimed)?.lease_until, length)?;
        span.expect(&what, claimed.lease_until, length)?;
    }
    Ok(())
}

fn the_next_attempt_is_told_the_last_error<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let first = arena.enqueue_and_claim("worker-a")?;
    expect_that("first attempt", first.last_error, None)?;
    let failure = Failure::retry(
        first.receipt,
        delay(Duration::ZERO)?,
        ErrorText::new("no route"),
    );
    arena.backend.fail_one(&failure)?;

    let second = arena.claim_one("worker-a")?;

    expect_that(
        "second attempt",
        second.last_error.as_deref(),
        Some("no route"),
    )?;
    let row = arena.row(&second.receipt)?;
    expect_that("stored", row.last_error.as_deref(), Some("no route"))?;
    let third = arena.reclaim(&second, "worker-a")?;
    expect_that(
        "third attempt",
        third.last_error.as_deref(),
        Some("lease expired"),
    )
}

// Report 53: bulk operations fail above an engine's limit,
// https://github.com/LanternOps/breeze/issues/1696.
fn the_largest_batches_go_through<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let jobs = arena.enqueue(2_000)?;
    let expect_all = |what: &str, fine: usize| expect_that(what, fine, 1_000);

    let acked = arena.claim("worker-a", 1_000)?;
    expect_that("claimed jobs", ids(&acked), &jobs[..1_000])?;
    let receipts: Vec<_> = acked.iter().map(|job| job.receipt.clone()).collect();
    let answers = arena.backend.renew(&receipts, LeaseLength::default())?;
    expect_all("renewed", answers.iter().flatten().count())?;
    let answers = arena.backend.ack(&receipts)?;
    expect_all("acked", answers.iter().flatten().count())?;

    let short = arena.request("worker-a")?.with_limit(BatchSize::MAX);
    let lost = arena
        .backend
        .claim(&short.with_lease(LeaseLength::new(LEASE_MIN)?))?;
    expect_all("claimed jobs", lost.len())?;
    std::thread::sleep(LEASE_MIN + Duration::from_millis(50));
    let policy = queue_table_core::RetryPolicy::fixed(Duration::from_millis(1))?;
    let request = queue_table_core::ReapRequest::new(BatchSize::MAX, policy);
    expect_all("reaped", arena.backend.reap(&request)?.len())?;
    std::thread::sleep(Duration::from_millis(20));

    let failed = arena.claim("worker-b", 1_000)?;
    let failures = failed.iter().map(|job| retry(job, 60, "again"));
    let failures = failures.collect::<Check<Vec<_>>>()?;
    let answers = arena.backend.fail(&failures)?;
    expect_all("failed", answers.iter().flatten().count())?;
    arena.expect_state(jobs[0], State::Succeeded)?;
    arena.expect_state(jobs[1_999], State::Ready)?;
    expect_that("failures", arena.probe.count("failure")?, 2_000)
}

// Report 52: one row that cannot be decoded makes the whole claimed batch fail,
// https://github.com/freckle/faktory_worker_haskell/pull/101. Where no such row can be stored, the
// batch has none.
fn one_undecodable_payload_does_not_spoil_the_batch<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let jobs = arena.enqueue(10)?;
    let written = arena.probe.write(jobs[4], &[Change::Undecodable])?;
    let refused = matches!(written, Written::Refused(_));
    expect(
        !refused,
        format_args!("the fixture must write past the rules: {written:?}"),
    )?;
    let bytes = arena.row(jobs[4])?.payload;

    let claimed = arena.claim("worker-a", 10)?;

    expect_that("claimed jobs", ids(&claimed), jobs)?;
    expect_that("its payload", claimed[4].payload.as_bytes(), &*bytes)?;
    if written == Written::Stored {
        let decoded = claimed[4].payload.decode::<serde_json::Value>();
        expect(decoded.is_err(), format_args!("decoded as {decoded:?}"))?;
    }
    let record = expect_some(arena.backend.get(claimed[4].job_id())?, "record")?;
    expect_that("its payload as read", record.payload.as_bytes(), &*bytes)?;
    let receipt = claimed[4].receipt.clone();
    let dead = Failure::dead(receipt, ErrorText::new("payload cannot be decoded"));
    arena.backend.fail_one(&dead)?;
    let row = arena.row(&claimed[4])?;
    expect_eq((row.state, row.payload), (State::Dead, bytes))
}
