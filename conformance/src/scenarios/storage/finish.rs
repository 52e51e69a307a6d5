//! Renew, ack and recorded effects.

use queue_table_core::{EffectName, LEASE_MAX, LeaseLength};

use super::super::prelude::*;
use crate::fixture::Row;

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            renew_moves_the_deadline_only,
            "A renewed claim ends at the database's now plus the new lease, earlier or later than before",
            [C13, C24],
        ),
        scenario!(
            ack_finishes_the_job,
            "An acked job is succeeded, has its end, and carries neither worker nor lease nor an old error",
            [C13, C24],
        ),
        scenario!(
            acks_finish_their_own_jobs_only,
            "A batch of acks finishes exactly the jobs of its receipts",
            [C13, C16],
        ),
        scenario!(
            more_receipts_than_allowed_are_refused,
            "More than 1,000 receipts in one call are refused, and none of them is looked at",
            [C3, C26],
        ),
        scenario!(
            an_effect_is_stored_once,
            "A recorded effect changes no row, and is known to the same claim and to every later one of its job",
            [C13, C17],
        ),
    ]
}

fn renew_moves_the_deadline_only<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let claimed = arena.enqueue_and_claim("worker-a")?;
    for seconds in [600, 5, 60] {
        let (before, length) = (arena.row(&claimed)?, Duration::from_secs(seconds));
        let lease = LeaseLength::new(length)?;

        let (_, span) = Span::of(arena, || {
            Ok(arena.backend.renew_one(&claimed.receipt, lease)?)
        })?;

        let row = arena.row(&claimed)?;
        span.expect("lease_until", row.lease_until, length)?;
        let expected = Row {
            lease_until: row.lease_until,
            ..before
        };
        expect_eq(&row, &expected)?;
    }
    let longest = LeaseLength::new(LEASE_MAX)?;
    let (_, span) = Span::of(arena, || {
        Ok(arena.backend.renew_one(&claimed.receipt, longest)?)
    })?;
    span.expect("lease_until", arena.row(&claimed)?.lease_until, LEASE_MAX)
}

fn ack_finishes_the_job<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let failed = arena.enqueue_and_claim("worker-a")?;
    arena.backend.fail_one(&retry(&failed, 0, "no route")?)?;
    let claimed = arena.claim_one("worker-a")?;
    let before = arena.row(&claimed)?;

    let (_, span) = Span::of(arena, || Ok(arena.backend.ack_one(&claimed.receipt)?))?;

    let row = arena.row(&claimed)?;
    span.expect("finished_at", row.finished_at, Duration::ZERO)?;
    let expected = Row {
        state: State::Succeeded,
        worker_id: None,
        lease_until: None,
        finished_at: row.finished_at,
        last_error: None,
        ..before
    };
    expect_eq(&row, &expected)?;
    expect_that("failures", arena.probe.count("failure")?, 1)
}

fn acks_finish_their_own_jobs_only<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    arena.enqueue(6)?;
    let claimed = arena.claim("worker-a", 5)?;
    let acked = [4, 0, 2].map(|number| claimed[number].receipt.clone());

    let answers = arena.backend.ack(&acked)?;

    expect_that("answers", answers, [Ok(()), Ok(()), Ok(())])?;
    let states: Vec<_> = arena.rows()?.into_iter().map(|row| row.state).collect();
    let (done, running) = (State::Succeeded, State::Running);
    expect_that(
        "states",
        states,
        [done, running, done, running, done, State::Ready],
    )
}

fn more_receipts_than_allowed_are_refused<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let claimed = arena.enqueue_and_claim("worker-a")?;
    let receipts = vec![claimed.receipt.clone(); 1_001];
    let failures = vec![retry(&claimed, 0, "again")?; 1_001];
    let before = arena.snapshot()?;
    let lease = LeaseLength::new(LEASE_MAX)?;

    let refused = [
        expect_rejected(arena.backend.renew(&receipts, lease))?,
        expect_rejected(arena.backend.ack(&receipts))?,
        expect_rejected(arena.backend.fail(&failures))?,
    ];

    let invalid = refused
        .iter()
        .all(|one| matches!(one, Rejected::Invalid(_)));
    expect(invalid, format_args!("other rejections: {refused:?}"))?;
    arena.expect_unchanged(&before)?;
    Ok(arena.backend.ack_one(&claimed.receipt)?)
}

fn an_effect_is_stored_once<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let first = arena.enqueue_and_claim("worker-a")?;
    let before = arena.row(&first)?;
    let record = |receipt: &Receipt, name: &str| -> Check<bool> {
        let name = EffectName::new(name)?;
        let recorded = arena
            .backend
            .transaction(|tx| arena.backend.record_effect_in(tx, receipt, &name))?;
        Ok(recorded)
    };

    expect_that("first time", record(&first.receipt, "charge")?, true)?;

    expect_that("row", arena.row(&first)?, before)?;
    expect_that("second time", record(&first.receipt, "charge")?, false)?;
    expect_that("another effect", record(&first.receipt, "send")?, true)?;
    let later = arena.reclaim(&first, "worker-b")?;
    expect_that("later claim", record(&later.receipt, "charge")?, false)?;
    let other = arena.enqueue_and_claim("worker-b")?;
    expect_that("another job", record(&other.receipt, "charge")?, true)?;
    expect_that("stored", arena.probe.count("effect")?, 3)
}
