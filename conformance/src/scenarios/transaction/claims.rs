//! Claims, acks and failures that commit and roll back with the caller.

use queue_table_core::{Delay, ErrorText, Failure, LeaseLength};

use crate::scenarios::prelude::*;
use crate::scenarios::tx::{Left, roll_back};

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            an_effect_and_its_ack_are_one_commit,
            "An effect and the ack of its claim are stored together",
            [C17],
        ),
        scenario!(
            an_ack_rolls_back_with_the_caller,
            "An ack in a transaction that rolls back is not stored, and the claim still holds",
            [C17],
        ),
        scenario!(
            a_stale_ack_rolls_the_effect_back,
            "A worker that was replaced cannot commit its effect with an ack",
            [C15, C17],
        ),
        scenario!(
            a_refusal_that_the_caller_ignores_changes_nothing_of_the_job,
            "A caller that commits in spite of a lost claim changes its own rows only",
            [C15, C17],
        ),
        scenario!(
            a_failure_commits_with_the_caller,
            "A retry, a failure for good and a release in a transaction are stored with the caller's own change",
            [C13, C17, C19],
        ),
        scenario!(
            a_failure_rolls_back_with_the_caller,
            "A retry, a failure for good and a release in a transaction that rolls back are not stored",
            [C17],
        ),
        scenario!(
            a_claim_returns_to_the_queue_when_the_caller_rolls_back,
            "A claim in a transaction that rolls back leaves the job as it was, with no attempt spent",
            [C17],
        ),
        scenario!(
            a_job_can_be_done_inside_its_claim_transaction,
            "Claim, effect and ack in one transaction are one commit",
            [C8, C17],
        ),
        scenario!(
            a_claim_that_commits_holds_after_the_transaction,
            "A claim made in a transaction can be renewed and acked after the commit",
            [C8, C13, C17],
        ),
        scenario!(
            an_operation_inside_a_transaction_sees_the_ones_before_it,
            "A receipt that was used up in a transaction is used up for the rest of it",
            [C15, C17],
        ),
    ]
}

fn an_effect_and_its_ack_are_one_commit<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let held = arena.enqueue_and_claim("worker-a")?;

    arena.backend.transaction(|tx| {
        arena.probe.effect_in(tx, "paid")?;
        arena.backend.ack_in(tx, &held.receipt)?;
        Ok::<(), Left>(())
    })?;

    arena.expect_state(&held, State::Succeeded)?;
    expect_eq(arena.probe.effects()?, ["paid"])
}

fn an_ack_rolls_back_with_the_caller<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let held = arena.enqueue_and_claim("worker-a")?;
    let before = arena.snapshot()?;

    let rolled_back = arena.backend.transaction(|tx| {
        arena.probe.effect_in(tx, "paid")?;
        arena.backend.ack_in(tx, &held.receipt)?;
        roll_back::<()>()
    });

    expect(rolled_back.is_err(), "the transaction's error is lost")?;
    arena.expect_unchanged(&before)?;
    Ok(arena.backend.ack_one(&held.receipt)?)
}

fn a_stale_ack_rolls_the_effect_back<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let first = arena.enqueue_and_claim("worker-a")?;
    let second = arena.reclaim(&first, "worker-b")?;
    let before = arena.snapshot()?;

    let refused = arena.backend.transaction(|tx| {
        arena.probe.effect_in(tx, "paid by worker-a")?;
        arena.backend.ack_in(tx, &first.receipt)?;
        Ok::<(), Left>(())
    });

    expect_lost(refused, LostReason::Superseded)?;
    arena.expect_unchanged(&before)?;
    Ok(arena.backend.ack_one(&second.receipt)?)
}

fn a_refusal_that_the_caller_ignores_changes_nothing_of_the_job<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    let first = arena.enqueue_and_claim("worker-a")?;
    let second = arena.reclaim(&first, "worker-a")?;
    let before = arena.row(&second)?;

    arena.backend.transaction(|tx| {
        let answer = arena.backend.ack_in(tx, &first.receipt);
        expect_lost(answer, LostReason::Superseded)?;
        arena.probe.effect_in(tx, "the caller's own")?;
        Ok::<(), Left>(())
    })?;

    expect_eq(arena.probe.effects()?, ["the caller's own"])?;
    expect_eq(arena.row(&second)?, before)?;
    Ok(arena.backend.ack_one(&second.receipt)?)
}

/// How a claim can be given up, with the state that the job is in afterwards.
fn failures(receipt: &Receipt) -> [(Failure, State); 3] {
    let (receipt, error) = (receipt.clone(), ErrorText::new("no route"));
    let retry = Failure::retry(receipt.clone(), Delay::ZERO, error.clone());
    let release = Failure::release(receipt.clone(), Delay::ZERO);
    [
        (retry, State::Ready),
        (release, State::Ready),
        (Failure::dead(receipt, error), State::Dead),
    ]
}

fn a_failure_commits_with_the_caller<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.enqueue_one()?;
    for round in 0..3 {
        let held = arena.claim_one("worker-a")?;
        let (failure, state) = failures(&held.receipt)[round].clone();

        arena.backend.transaction(|tx| {
            arena.probe.effect_in(tx, "reported")?;
            arena.backend.fail_in(tx, &failure)?;
            Ok::<(), Left>(())
        })?;

        arena.expect_state(job, state)?;
        expect_that("effects", arena.probe.effects()?.len(), round + 1)?;
    }
    let row = arena.row(job)?;
    expect_that("attempts", row.attempts, 3)?;
    expect_that("last error", row.last_error.as_deref(), Some("no route"))?;
    expect_that("failures", arena.probe.count("failure")?, 2)
}

fn a_failure_rolls_back_with_the_caller<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let held = arena.enqueue_and_claim("worker-a")?;
    let before = arena.snapshot()?;

    for (failure, _) in failures(&held.receipt) {
        let rolled_back = arena.backend.transaction(|tx| {
            arena.probe.effect_in(tx, "reported")?;
            arena.backend.fail_in(tx, &failure)?;
            roll_back::<()>()
        });
        expect(rolled_back.is_err(), "the transaction's error is lost")?;
        arena.expect_unchanged(&before)?;
    }

    Ok(arena.backend.ack_one(&held.receipt)?)
}

fn a_claim_returns_to_the_queue_when_the_caller_rolls_back<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    let jobs = arena.enqueue(3)?;
    let (request, before) = (arena.request("worker-a")?, arena.snapshot()?);

    let rolled_back = arena.backend.transaction(|tx| {
        let claimed = expect_one(arena.backend.claim_in(tx, &request)?, "claimed job")?;
        expect_that("the claimed job", claimed.job_id(), jobs[0])?;
        roll_back::<()>()
    });

    expect(rolled_back.is_err(), "the transaction's error is lost")?;
    arena.expect_unchanged(&before)?;
    let claimed = arena.claim_one("worker-b")?;
    expect_eq((claimed.job_id(), claimed.attempt()), (jobs[0], 1))
}

fn a_job_can_be_done_inside_its_claim_transaction<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.enqueue_one()?;
    let request = arena.request("worker-a")?;

    arena.backend.transaction(|tx| {
        let claimed = expect_one(arena.backend.claim_in(tx, &request)?, "claimed job")?;
        arena.probe.effect_in(tx, "paid")?;
        arena.backend.ack_in(tx, &claimed.receipt)?;
        Ok::<(), Left>(())
    })?;

    let row = arena.row(job)?;
    expect_eq((row.state, row.attempts), (State::Succeeded, 1))?;
    expect_eq(arena.probe.effects()?, ["paid"])
}

fn a_claim_that_commits_holds_after_the_transaction<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.enqueue_one()?;
    let request = arena.request("worker-a")?;

    let claimed = arena.backend.transaction(|tx| {
        let claimed = arena.backend.claim_in(tx, &request)?;
        Ok::<_, Left>(expect_one(claimed, "claimed job")?)
    })?;

    let row = arena.row(job)?;
    expect_eq(
        (row.state, row.attempts),
        (State::Running, claimed.attempt()),
    )?;
    expect_that("lease", row.lease_until, Some(claimed.lease_until))?;
    let lease = LeaseLength::default();
    arena.backend.renew_one(&claimed.receipt, lease)?;
    Ok(arena.backend.ack_one(&claimed.receipt)?)
}

fn an_operation_inside_a_transaction_sees_the_ones_before_it<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    let held = arena.enqueue_and_claim("worker-a")?;

    arena.backend.transaction(|tx| {
        arena.backend.ack_in(tx, &held.receipt)?;
        let again = arena.backend.ack_in(tx, &held.receipt);
        expect_lost(again, LostReason::Finished)?;
        Ok::<(), Left>(())
    })?;

    arena.expect_state(&held, State::Succeeded)
}
