//! What a holder learns about a claim that ended without it, and what stale receipts cannot do
//! besides.

use queue_table_core::{EffectName, ErrorText, JobId, MaxAttempts};

use super::act::Act;
use super::stale::{Stale, Stored, WORKER};
use crate::scenarios::prelude::*;
use crate::scenarios::tx::Left;

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            an_effect_of_a_lost_claim_is_not_recorded,
            "No kind of stale receipt records an effect",
            [C13, C15, C17],
        ),
        scenario!(
            a_claim_that_was_given_back_is_over,
            "After a failure or a release of its own, a receipt does nothing more",
            [C13, C15],
        ),
        scenario!(
            a_reaped_claim_is_over_before_anybody_claims_again,
            "Once its job is reaped, a receipt does nothing more, although nobody has claimed the job since",
            [C13, C15, C18],
        ),
        scenario!(
            the_holder_of_a_cancelled_job_learns_it,
            "A holder whose job was cancelled can neither renew nor end its claim, and is told why",
            [C15, C20],
        ),
        scenario!(
            a_receipt_from_before_a_replay_is_superseded,
            "A receipt of a job that died, was replayed and claimed again does nothing",
            [C15, C19, C20],
        ),
        scenario!(
            a_receipt_of_a_job_that_never_was_is_gone,
            "A receipt of an id that no job ever had does nothing",
            [C15],
        ),
        scenario!(
            a_renewal_does_not_revive_a_lease,
            "A lease that is over stays over however often it is renewed, and is reaped",
            [C13, C18],
        ),
    ]
}

fn an_effect_of_a_lost_claim_is_not_recorded<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let name = EffectName::new("paid")?;
    for stale in Stale::ALL {
        let arranged = stale.arrange(arena)?;
        let before = Stored::now(arena, arranged.receipt.job_id())?;

        let answer = arena.backend.transaction(|tx| {
            arena.probe.effect_in(tx, "paid by a claim that is lost")?;
            let first = arena
                .backend
                .record_effect_in(tx, &arranged.receipt, &name)?;
            Ok::<_, Left>(first)
        });

        expect_lost(answer, stale.reason())?;
        before.expect_unchanged(arena)?;
        arranged.holder_can_ack(arena)?;
    }
    Ok(())
}

fn a_claim_that_was_given_back_is_over<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    for first in [Act::Retry, Act::Release] {
        let held = arena.enqueue_and_claim(WORKER)?;
        first.alone(arena.backend, &held.receipt)?;
        let before = Stored::now(arena, held.job_id())?;

        for act in Act::ALL {
            expect_lost(act.alone(arena.backend, &held.receipt), LostReason::Expired)?;
            before.expect_unchanged(arena)?;
        }
    }
    Ok(())
}

fn a_reaped_claim_is_over_before_anybody_claims_again<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let held = arena.enqueue_and_claim(WORKER)?;
    arena.let_lease_expire(&held)?;
    arena.reap_one()?;
    let before = Stored::now(arena, held.job_id())?;

    for act in Act::ALL {
        expect_lost(act.alone(arena.backend, &held.receipt), LostReason::Expired)?;
        before.expect_unchanged(arena)?;
    }
    arena.claim_one(WORKER).map(|_| ())
}

fn the_holder_of_a_cancelled_job_learns_it<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let held = arena.enqueue_and_claim(WORKER)?;
    arena
        .backend
        .cancel(held.job_id(), &ErrorText::new("no longer wanted"))?;
    let before = Stored::now(arena, held.job_id())?;

    for act in Act::ALL {
        expect_lost(
            act.alone(arena.backend, &held.receipt),
            LostReason::Finished,
        )?;
    }

    before.expect_unchanged(arena)?;
    arena.expect_state(&held, State::Dead)
}

/// Report 28: a replay that reset the attempts would let the old receipt match again.
fn a_receipt_from_before_a_replay_is_superseded<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let held = arena.enqueue_and_claim(WORKER)?;
    Act::Dead.alone(arena.backend, &held.receipt)?;
    arena.backend.replay(held.job_id(), MaxAttempts::new(2)?)?;
    let again = arena.claim_one(WORKER)?;
    let before = Stored::now(arena, held.job_id())?;

    for act in Act::ALL {
        expect_lost(
            act.alone(arena.backend, &held.receipt),
            LostReason::Superseded,
        )?;
    }

    before.expect_unchanged(arena)?;
    Ok(arena.backend.ack_one(&again.receipt)?)
}

fn a_receipt_of_a_job_that_never_was_is_gone<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let held = arena.enqueue_and_claim(WORKER)?;
    let unknown = JobId::new(held.job_id().get() + 1_000_000);
    let forged = Receipt::new(unknown, held.attempt(), held.receipt.worker().clone());
    let before = arena.snapshot()?;

    for act in Act::ALL {
        expect_lost(act.alone(arena.backend, &forged), LostReason::Gone)?;
    }

    arena.expect_unchanged(&before)
}

fn a_renewal_does_not_revive_a_lease<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let held = arena.enqueue_and_claim(WORKER)?;
    arena.let_lease_expire(&held)?;

    for _ in 0..2 {
        let answer = Act::Renew.alone(arena.backend, &held.receipt);
        expect_lost(answer, LostReason::Expired)?;
    }

    let reaped = arena.reap_one()?;
    expect_that("the reaped job", reaped.job_id, held.job_id())
}
