//! Every instant is the database's now, between what its clock said before the call and after it.
//! Report 32.

use queue_table_core::{Delay, ErrorText, Failure, LeaseLength, MaxAttempts};

use crate::scenarios::prelude::*;

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            enqueue_takes_the_databases_time,
            "A job is enqueued at the database's now, and due exactly its delay later",
            [C24],
        ),
        scenario!(
            claim_takes_the_databases_time,
            "A claim is made at the database's now, and ends its lease later; the answer says what is stored",
            [C8, C24],
        ),
        scenario!(
            renew_takes_the_databases_time,
            "A renewed lease ends its new length after the database's now, whether it gets longer or shorter",
            [C13, C24],
        ),
        scenario!(
            ack_takes_the_databases_time,
            "A job is finished at the database's now, by an ack, a failure for good and a cancel",
            [C24],
        ),
        scenario!(
            retry_takes_the_databases_time,
            "A job that failed or was released is due exactly its delay after the database's now",
            [C19, C24],
        ),
        scenario!(
            reap_takes_the_databases_time,
            "A reaped job is due the policy's delay after the database's now, not after its lost deadline",
            [C18, C24],
        ),
        scenario!(
            replay_takes_the_databases_time,
            "A replayed job is due at the database's now",
            [C20, C24],
        ),
    ]
}

const LENGTH: Duration = Duration::from_millis(90_500);

fn enqueue_takes_the_databases_time<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.job()?.with_delay(LENGTH)?;

    let (stored, call) = Span::of(arena, || arena.store(&job))?;

    let row = arena.row(stored)?;
    call.expect("enqueued_at", row.enqueued_at, Duration::ZERO)?;
    call.expect("run_at", row.run_at, LENGTH)?;
    Ok(())
}

fn claim_takes_the_databases_time<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    arena.enqueue_one()?;
    let request = arena
        .request("worker-a")?
        .with_lease(LeaseLength::new(LENGTH)?);

    let (claimed, call) = Span::of(arena, || Ok(arena.backend.claim(&request)?))?;

    let claimed = expect_one(claimed, "claimed job")?;
    let row = arena.row(&claimed)?;
    call.expect("claimed_at", row.claimed_at, Duration::ZERO)?;
    call.expect("lease_until", row.lease_until, LENGTH)?;
    let told = (Some(claimed.claimed_at), Some(claimed.lease_until));
    expect_eq(told, (row.claimed_at, row.lease_until))
}

fn renew_takes_the_databases_time<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let held = arena.enqueue_and_claim("worker-a")?;
    for length in [LENGTH, Duration::from_secs(10), 20 * LENGTH] {
        let lease = LeaseLength::new(length)?;

        let ((), call) = Span::of(arena, || {
            Ok(arena.backend.renew_one(&held.receipt, lease)?)
        })?;

        let row = arena.row(&held)?;
        call.expect("lease_until", row.lease_until, length)?;
        expect_that("claimed_at", row.claimed_at, Some(held.claimed_at))?;
    }
    Ok(arena.backend.ack_one(&held.receipt)?)
}

fn ack_takes_the_databases_time<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let end: [fn(&Arena<'_, F>, &Receipt) -> Check; 3] = [
        |arena, held| Ok(arena.backend.ack_one(held)?),
        |arena, held| {
            let failure = Failure::dead(held.clone(), ErrorText::new("given up"));
            Ok(arena.backend.fail_one(&failure).map(drop)?)
        },
        |arena, held| {
            let reason = ErrorText::new("no longer wanted");
            Ok(arena.backend.cancel(held.job_id(), &reason)?)
        },
    ];
    for end in end {
        let held = arena.enqueue_and_claim("worker-a")?;

        let ((), call) = Span::of(arena, || end(arena, &held.receipt))?;

        let row = arena.row(&held)?;
        call.expect("finished_at", row.finished_at, Duration::ZERO)?;
    }
    Ok(())
}

fn retry_takes_the_databases_time<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let after = delay(LENGTH)?;
    let failures: [fn(Receipt, Delay) -> Failure; 2] = [Failure::release, |receipt, after| {
        Failure::retry(receipt, after, ErrorText::new("no route"))
    }];
    for failure in failures {
        let held = arena.enqueue_and_claim("worker-a")?;
        let failure = failure(held.receipt.clone(), after);

        let (disposition, call) = Span::of(arena, || Ok(arena.backend.fail_one(&failure)?))?;

        let run_at = arena.row(&held)?.run_at;
        call.expect("run_at", run_at, LENGTH)?;
        expect_eq(disposition, queue_table_core::Disposition::Ready { run_at })?;
    }
    Ok(())
}

fn reap_takes_the_databases_time<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let held = arena.enqueue_and_claim("worker-a")?;
    arena.let_lease_expire(&held)?;

    let (reaped, call) = Span::of(arena, || arena.reap())?;

    let reaped = expect_one(reaped, "reaped job")?;
    let run_at = arena.row(&held)?.run_at;
    call.expect("run_at", run_at, Duration::from_secs(60))?;
    expect_eq(
        reaped.disposition,
        queue_table_core::Disposition::Ready { run_at },
    )
}

fn replay_takes_the_databases_time<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.dead_job()?;

    let (_, call) = Span::of(arena, || {
        Ok(arena.backend.replay(job, MaxAttempts::new(1)?)?)
    })?;

    call.expect("run_at", arena.row(job)?.run_at, Duration::ZERO)?;
    arena.claim_one("worker-a").map(|_| ())
}
