//! Renew and ack.

use queue_table_core::{LEASE_MAX, LeaseLength};

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
