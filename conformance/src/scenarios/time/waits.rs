//! Lock first, then judge: a lease that runs out while the call waits is over. Reports 21 and 22.

use queue_table_core::{ClaimedJob, Delay, Error, ErrorText, Failure, Fenced, LeaseLength};

use crate::scenarios::prelude::*;
use crate::scenarios::tx::Left;

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            a_lease_that_ends_while_ack_waits_for_the_row_is_over,
            "An ack that waits for the row's lock until after the deadline is refused",
            [C14, C15],
        ),
        scenario!(
            a_lease_that_ends_while_renew_waits_for_the_row_is_over,
            "A renewal that waits for the row's lock until after the deadline is refused",
            [C14, C15],
        ),
        scenario!(
            a_lease_that_ends_while_retry_waits_for_the_row_is_over,
            "A failure to be tried again that waits for the row's lock until after the deadline is refused",
            [C14, C15],
        ),
        scenario!(
            a_lease_that_ends_while_release_waits_for_the_row_is_over,
            "A release that waits for the row's lock until after the deadline is refused",
            [C14, C15],
        ),
        scenario!(
            a_lease_that_ends_while_a_batch_of_acks_waits_is_over,
            "Of a batch of acks that waits for one row until after its deadline, that one is refused and the others are not",
            [C14, C16],
        ),
        scenario!(
            a_lease_that_ends_while_a_batch_of_renewals_waits_is_over,
            "Of a batch of renewals that waits for one row until after its deadline, that one is refused and the others are not",
            [C14, C16],
        ),
        scenario!(
            a_lease_that_ends_while_a_batch_of_failures_waits_is_over,
            "Of a batch of failures that waits for one row until after its deadline, that one is refused and the others are not",
            [C14, C16],
        ),
        scenario!(
            a_lease_that_ends_during_the_callers_transaction_is_over,
            "An ack in a transaction that began before the deadline is judged by the time of the ack",
            [C14, C17, C24],
        ),
        scenario!(
            a_failure_or_effect_late_in_a_transaction_is_refused,
            "A failure and a recorded effect in a transaction are judged by their own time, not by its beginning",
            [C14, C17, C24],
        ),
        scenario!(
            a_claim_late_in_a_transaction_has_its_whole_lease,
            "The lease of a claim made late in a transaction begins with the claim",
            [C8, C24],
        ),
        scenario!(
            a_job_enqueued_late_in_a_transaction_has_its_whole_delay,
            "The delay of a job enqueued late in a transaction begins with the enqueue",
            [C24],
        ),
    ]
}

const LEASE: Duration = Duration::from_millis(300);
const HOLD: Duration = Duration::from_millis(600);

fn claim_for<F: Fixture>(arena: &Arena<'_, F>, lease: Duration) -> Check<ClaimedJob> {
    arena.enqueue_one()?;
    let request = arena
        .request("worker-a")?
        .with_lease(LeaseLength::new(lease)?);
    expect_one(arena.backend.claim(&request)?, "claimed job")
}

fn retry(receipt: &Receipt) -> Failure {
    Failure::retry(receipt.clone(), Delay::ZERO, ErrorText::new("too late"))
}

/// Holds the claim's row until after its deadline and tries to act on it meanwhile.
fn refused_after_the_wait<F: Fixture>(
    arena: &Arena<'_, F>,
    act: impl FnOnce(&F::Backend, &Receipt) -> Result<(), Error>,
) -> Check {
    let claimed = claim_for(arena, LEASE)?;
    let before = arena.snapshot()?;
    let held = arena.hold(&claimed, HOLD)?;

    let answer = act(arena.backend, &claimed.receipt);

    held.released()?;
    expect_lost(answer, LostReason::Expired)?;
    arena.expect_unchanged(&before)
}

fn a_lease_that_ends_while_ack_waits_for_the_row_is_over<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    refused_after_the_wait(arena, |backend, receipt| backend.ack_one(receipt))
}

fn a_lease_that_ends_while_renew_waits_for_the_row_is_over<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    refused_after_the_wait(arena, |backend, receipt| {
        backend.renew_one(receipt, LeaseLength::default())
    })
}

fn a_lease_that_ends_while_retry_waits_for_the_row_is_over<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    refused_after_the_wait(arena, |backend, receipt| {
        backend.fail_one(&retry(receipt)).map(drop)
    })
}

fn a_lease_that_ends_while_release_waits_for_the_row_is_over<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    refused_after_the_wait(arena, |backend, receipt| {
        let release = Failure::release(receipt.clone(), Delay::ZERO);
        backend.fail_one(&release).map(drop)
    })
}

/// The same with a batch whose other claims have time left.
fn one_refused_after_the_wait<F: Fixture>(
    arena: &Arena<'_, F>,
    act: impl FnOnce(&F::Backend, &[Receipt]) -> Result<Vec<Fenced<()>>, Error>,
) -> Check {
    let minute = Duration::from_secs(60);
    let (first, late) = (claim_for(arena, minute)?, claim_for(arena, LEASE)?);
    let last = claim_for(arena, minute)?;
    let before = arena.row(&late)?;
    let held = arena.hold(&late, HOLD)?;

    let answers = act(
        arena.backend,
        &[&last, &late, &first].map(|claimed| claimed.receipt.clone()),
    )?;

    held.released()?;
    let reasons = answers
        .into_iter()
        .map(|answer| answer.err().map(|lost| lost.reason()));
    expect_eq(
        reasons.collect::<Vec<_>>(),
        [None, Some(LostReason::Expired), None],
    )?;
    expect_eq(arena.row(&late)?, before)
}

fn a_lease_that_ends_while_a_batch_of_acks_waits_is_over<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    one_refused_after_the_wait(arena, |backend, receipts| backend.ack(receipts))
}

fn a_lease_that_ends_while_a_batch_of_renewals_waits_is_over<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    one_refused_after_the_wait(arena, |backend, receipts| {
        backend.renew(receipts, LeaseLength::default())
    })
}

fn a_lease_that_ends_while_a_batch_of_failures_waits_is_over<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    one_refused_after_the_wait(arena, |backend, receipts| {
        let failures: Vec<_> = receipts.iter().map(retry).collect();
        let answers = backend.fail(&failures)?;
        Ok(answers.into_iter().map(|answer| answer.map(drop)).collect())
    })
}

/// The clock of some engines stands still inside a transaction.
fn refused_late_in_a_transaction<F: Fixture>(
    arena: &Arena<'_, F>,
    act: impl FnOnce(&mut <F::Backend as TransactionalBackend>::Tx<'_>, &Receipt) -> Result<(), Error>,
) -> Check {
    let claimed = claim_for(arena, LEASE)?;
    let before = arena.snapshot()?;

    let answer = arena.backend.transaction(|tx| {
        arena.probe.effect_in(tx, "begun in time")?;
        std::thread::sleep(LEASE + Duration::from_millis(50));
        act(tx, &claimed.receipt)?;
        Ok::<(), Left>(())
    });

    expect_lost(answer, LostReason::Expired)?;
    arena.expect_unchanged(&before)
}

fn a_lease_that_ends_during_the_callers_transaction_is_over<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    refused_late_in_a_transaction(arena, |tx, receipt| arena.backend.ack_in(tx, receipt))
}

fn a_failure_or_effect_late_in_a_transaction_is_refused<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    refused_late_in_a_transaction(arena, |tx, receipt| {
        arena.backend.fail_in(tx, &retry(receipt)).map(drop)
    })?;
    let name = queue_table_core::EffectName::new("paid")?;
    refused_late_in_a_transaction(arena, |tx, receipt| {
        arena.backend.record_effect_in(tx, receipt, &name).map(drop)
    })
}

fn a_claim_late_in_a_transaction_has_its_whole_lease<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    arena.enqueue_one()?;
    let request = arena.request("worker-a")?;

    let (claimed, earliest) = arena.backend.transaction(|tx| {
        arena.probe.effect_in(tx, "begun")?;
        std::thread::sleep(Duration::from_millis(200));
        let earliest = arena.probe.now()?;
        let claimed = arena.backend.claim_in(tx, &request)?;
        Ok::<_, Left>((expect_one(claimed, "claimed job")?, earliest))
    })?;

    let lease = claimed.lease_until.as_micros() - earliest.as_micros();
    expect(
        lease >= request.lease.as_micros(),
        format_args!("the lease is {lease} us of {}", request.lease.as_micros()),
    )?;
    expect_that(
        "stored",
        arena.row(&claimed)?.lease_until,
        Some(claimed.lease_until),
    )
}

fn a_job_enqueued_late_in_a_transaction_has_its_whole_delay<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    let delayed = Duration::from_secs(60);
    let job = arena.job()?.with_delay(delayed)?;

    let (stored, earliest) = arena.backend.transaction(|tx| {
        arena.probe.effect_in(tx, "begun")?;
        std::thread::sleep(Duration::from_millis(200));
        let earliest = arena.probe.now()?;
        Ok::<_, Left>((arena.backend.enqueue_in(tx, &[job])?, earliest))
    })?;

    let row = arena.row(stored[0])?;
    expect(row.enqueued_at >= earliest, "enqueued before the enqueue")?;
    expect(
        row.run_at.since(earliest) >= delayed,
        "due before its delay",
    )
}
