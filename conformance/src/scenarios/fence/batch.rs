//! Batches of receipts are judged receipt by receipt.

use queue_table_core::Fenced;

use super::act::Act;
use super::stale::{Stale, WORKER};
use crate::scenarios::prelude::*;

/// One scenario per operation: `name: operation, sentence;`.
macro_rules! each {
    ($($judged:ident { $($name:ident: $act:ident, $sentence:literal;)+ })+) => {
        pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
            vec![
                $($(scenario!($name, $sentence, [C13, C15, C16]),)+)+
                scenario!(
                    an_empty_batch_does_nothing,
                    "A batch without receipts, failures or jobs is answered with nothing and changes nothing",
                    [C16],
                ),
            ]
        }

        $($(fn $name<F: Fixture>(arena: &Arena<'_, F>) -> Check {
            $judged(arena, Act::$act)
        })+)+
    };
}

each! {
    stale_among_good {
        renew_of_a_batch_spares_the_neighbours: Renew,
            "Each kind of stale receipt in a batch is refused alone, and the claims beside it are renewed";
        ack_of_a_batch_spares_the_neighbours: Ack,
            "Each kind of stale receipt in a batch is refused alone, and the claims beside it are acked";
        retry_of_a_batch_spares_the_neighbours: Retry,
            "Each kind of stale receipt in a batch is refused alone, and the jobs beside it are tried again";
        bury_of_a_batch_spares_the_neighbours: Dead,
            "Each kind of stale receipt in a batch is refused alone, and the jobs beside it are dead";
        release_of_a_batch_spares_the_neighbours: Release,
            "Each kind of stale receipt in a batch is refused alone, and the claims beside it are given back";
    }

    twice_in_one_batch {
        renew_of_one_receipt_twice_is_judged_twice: Renew,
            "A receipt that stands twice in a batch is renewed twice";
        ack_of_one_receipt_twice_is_judged_twice: Ack,
            "A receipt that stands twice in a batch is acked once, and then finished";
        retry_of_one_receipt_twice_is_judged_twice: Retry,
            "A receipt that stands twice in a batch fails once, and then is given back already";
        bury_of_one_receipt_twice_is_judged_twice: Dead,
            "A receipt that stands twice in a batch is dead once, and then finished";
        release_of_one_receipt_twice_is_judged_twice: Release,
            "A receipt that stands twice in a batch is released once, and then is given back already";
    }
}

/// A batch with every kind of stale receipt between good ones, not in the order of ids.
fn stale_among_good<F: Fixture>(arena: &Arena<'_, F>, act: Act) -> Check {
    let mut batch: Vec<(Receipt, Option<LostReason>)> = Vec::new();
    for stale in Stale::ALL {
        batch.push((arena.enqueue_and_claim(WORKER)?.receipt, None));
        batch.push((stale.arrange(arena)?.receipt, Some(stale.reason())));
    }
    batch.rotate_left(5);
    batch.reverse();
    let receipts: Vec<_> = batch.iter().map(|(receipt, _)| receipt.clone()).collect();
    let row = |receipt: &Receipt| Ok(arena.probe.row(receipt.job_id())?);
    let before = receipts.iter().map(row).collect::<Check<Vec<_>>>()?;

    let answers = act.batch(arena.backend, &receipts)?;

    expect_that("answers", answers.len(), batch.len())?;
    for (((receipt, lost), answer), before) in batch.iter().zip(answers).zip(before) {
        expect_that(receipt.job_id(), reason(answer), *lost)?;
        match lost {
            Some(_) => expect_that("a refused row", row(receipt)?, before)?,
            None => arena.expect_state(receipt, act.leaves())?,
        }
    }
    Ok(())
}

fn reason(answer: Fenced<()>) -> Option<LostReason> {
    answer.err().map(|lost| lost.reason())
}

fn twice_in_one_batch<F: Fixture>(arena: &Arena<'_, F>, act: Act) -> Check {
    let held = arena.enqueue_and_claim(WORKER)?;
    let other = arena.enqueue_and_claim(WORKER)?;
    let receipts = [&held, &other, &held].map(|claimed| claimed.receipt.clone());

    let answers = act.batch(arena.backend, &receipts)?;

    let reasons: Vec<_> = answers.into_iter().map(reason).collect();
    expect_eq(reasons, [None, None, act.leaves_lost()])?;
    let row = arena.row(&held)?;
    expect_that("state", row.state, act.leaves())?;
    let budget = held.max_attempts + u32::from(act == Act::Release);
    expect_that("max attempts", row.max_attempts, budget)?;
    let recorded = u64::from(matches!(act, Act::Retry | Act::Dead));
    expect_that("failures", arena.probe.count("failure")?, 2 * recorded)
}

fn an_empty_batch_does_nothing<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    arena.enqueue_and_claim(WORKER)?;
    let before = arena.snapshot()?;

    for act in Act::ALL {
        expect_eq(act.batch(arena.backend, &[])?, [])?;
    }
    expect_eq(arena.backend.enqueue(&[])?, [])?;

    arena.expect_unchanged(&before)
}
