//! Batches with a row in them that somebody keeps locked: its neighbours are not held up.

use std::time::Instant;

use queue_table_core::{ClaimedJob, Delay, Error, ErrorText, Failure, Fenced, LeaseLength};

use crate::fixture::Row;
use crate::scenario::Need;
use crate::scenarios::prelude::*;

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    let all = vec![
        scenario!(
            renewals_do_not_wait_for_each_other,
            "Of a batch of renewals whose one row stays locked, the others are made within their leases",
            [C16],
        ),
        scenario!(
            acks_do_not_wait_for_each_other,
            "Of a batch of acks whose one row stays locked, the others are made within their leases",
            [C16],
        ),
        scenario!(
            failures_do_not_wait_for_each_other,
            "Of a batch of failures whose one row stays locked, the others are made within their leases",
            [C16],
        ),
        scenario!(
            a_renewal_beside_a_locked_row_is_answered_in_time_for_the_next,
            "A renewal of a batch whose one row stays locked is answered within a third of the lease it gives",
            [C16],
        ),
    ];
    let only_with_row_locks = |scenario: Scenario<F>| scenario.needs(Need::RowLocks(true));
    all.into_iter().map(only_with_row_locks).collect()
}

const LEASE: Duration = Duration::from_secs(1);

/// Longer than the leases, and shorter than what a lock is waited for.
const HOLD: Duration = Duration::from_millis(1_600);

fn renewals_do_not_wait_for_each_other<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let renewed = |before: &Row, now: &Row| now.lease_until > before.lease_until;
    neighbours_are_not_held_up(arena, renewed, |backend, receipts| {
        backend.renew(receipts, LeaseLength::default())
    })
}

fn acks_do_not_wait_for_each_other<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let acked = |_: &Row, now: &Row| now.state == State::Succeeded;
    neighbours_are_not_held_up(arena, acked, |backend, receipts| backend.ack(receipts))
}

fn failures_do_not_wait_for_each_other<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let failed = |_: &Row, now: &Row| now.state == State::Ready;
    neighbours_are_not_held_up(arena, failed, |backend, receipts| {
        let retry = |receipt: &Receipt| {
            Failure::retry(receipt.clone(), Delay::ZERO, ErrorText::new("tried"))
        };
        let failures: Vec<_> = receipts.iter().map(retry).collect();
        let answers = backend.fail(&failures)?;
        Ok(answers.into_iter().map(|answer| answer.map(drop)).collect())
    })
}

fn a_renewal_beside_a_locked_row_is_answered_in_time_for_the_next<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    let lease = Duration::from_secs(9);
    arena.enqueue(3)?;
    let jobs = arena.claim("worker-a", 3)?;
    let before = arena.row(&jobs[0])?;
    let receipts: Vec<_> = jobs.iter().map(|job| job.receipt.clone()).collect();
    let held = arena.hold(&jobs[1], lease / 2)?;
    let locked = arena.row(&jobs[1])?;
    let start = Instant::now();

    let answer = arena.backend.renew(&receipts, LeaseLength::new(lease)?);

    expect_within(start, lease / 3, "the renewal")?;
    let is_unknown = matches!(answer, Err(Error::OutcomeUnknown(_)));
    expect(is_unknown, format_args!("answered {answer:?}"))?;
    let renewed = arena.row(&jobs[0])?.lease_until;
    expect(
        renewed != before.lease_until,
        "the free row was not renewed",
    )?;
    expect_eq(&arena.row(&jobs[1])?, &locked)?;
    Ok(held.released()?)
}

/// Locks the row in the middle until after all deadlines, and acts on it and its neighbours
/// meanwhile.
fn neighbours_are_not_held_up<F: Fixture>(
    arena: &Arena<'_, F>,
    is_done: impl Fn(&Row, &Row) -> bool,
    act: impl FnOnce(&F::Backend, &[Receipt]) -> Result<Vec<Fenced<()>>, Error> + Send,
) -> Check {
    arena.enqueue(3)?;
    let three = queue_table_core::BatchSize::new(3)?;
    let request = arena.request("worker-a")?.with_limit(three);
    let jobs = arena
        .backend
        .claim(&request.with_lease(LeaseLength::new(LEASE)?))?;
    let before = jobs
        .iter()
        .map(|job| arena.row(job))
        .collect::<Check<Vec<_>>>()?;
    let receipts: Vec<_> = jobs.iter().map(|job| job.receipt.clone()).collect();
    let held = arena.hold(&jobs[1], HOLD)?;
    let start = Instant::now();

    let answers = std::thread::scope(|scope| {
        let acting = scope.spawn(|| act(arena.backend, &receipts));
        let neighbours = [(&jobs[0], &before[0]), (&jobs[2], &before[2])];
        until_done(arena, start, &neighbours, is_done)?;
        expect_eq(&arena.row(&jobs[1])?, &before[1])?;
        let answers = acting.join();
        answers
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            .map_err(Failed::from)
    })?;

    held.released()?;
    let reasons = answers
        .into_iter()
        .map(|answer| answer.err().map(|lost| lost.reason()));
    let late = Some(LostReason::Expired);
    expect_eq(reasons.collect::<Vec<_>>(), [None, late, None])?;
    expect_eq(&arena.row(&jobs[1])?, &before[1])
}

/// Waits until the neighbours' rows are as they should be, while the lock is held and their first
/// leases have time left.
fn until_done<F: Fixture>(
    arena: &Arena<'_, F>,
    start: Instant,
    neighbours: &[(&ClaimedJob, &Row)],
    is_done: impl Fn(&Row, &Row) -> bool,
) -> Check {
    for (job, before) in neighbours {
        while !is_done(before, &arena.row(job)?) {
            expect_within(start, LEASE, format_args!("job {}", job.job_id()))?;
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    Ok(())
}
