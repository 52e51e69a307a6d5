//! Holders that die within this process: panics, and sessions dropped in the middle of their work.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use queue_table_core::EffectName;

use crate::scenarios::prelude::*;
use crate::scenarios::together::at_once;
use crate::scenarios::tx::Left;

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            a_panic_inside_a_transaction_leaves_nothing,
            "Work that panics inside a transaction leaves no job, no effect and no open transaction",
            [C1, C17, C27],
        ),
        scenario!(
            panics_in_every_kind_of_transaction_leave_the_session_clean,
            "After a dozen panics with rows locked in them, the same session claims and acks as before",
            [C17, C27],
        ),
        scenario!(
            a_session_that_is_dropped_leaves_its_claims_to_their_leases,
            "Claims outlive the session that made them, and come back when their leases are over",
            [C8, C18, C27],
        ),
        scenario!(
            sessions_that_come_and_go_leave_nothing_behind,
            "Dozens of sessions opened, used and dropped beside each other leave the tables usable",
            [C27],
        ),
        scenario!(
            a_worker_whose_session_dies_in_its_handler_repeats_no_effect,
            "An effect committed before a holder died is not repeated by its replacement, and the job is finished once",
            [C17, C18],
        ),
    ]
}

fn a_panic_inside_a_transaction_leaves_nothing<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let (job, before) = (arena.job()?, arena.snapshot()?);

    let unwound = catch_unwind(AssertUnwindSafe(|| {
        arena.backend.transaction(|tx| {
            arena.probe.effect_in(tx, "order")?;
            arena.backend.enqueue_in(tx, &[job])?;
            // Unwinds as a panic does, without its message on the test's output.
            resume_unwind(Box::new("unwound"));
            #[expect(unreachable_code, reason = "it gives the closure its type")]
            Ok::<(), Failed>(())
        })
    }));

    expect(unwound.is_err(), "the panic was swallowed")?;
    arena.expect_unchanged(&before)?;
    arena.enqueue_and_claim("worker-a").map(|_| ())
}

/// Reports 63 and 66: what a panic leaves open on a pooled connection stops or swallows what comes
/// after it.
fn panics_in_every_kind_of_transaction_leave_the_session_clean<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    let held = arena.enqueue_and_claim("worker-a")?;
    let (job, request, before) = (arena.job()?, arena.request("worker-b")?, arena.snapshot()?);

    for round in 0..12 {
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            arena.backend.transaction(|tx| {
                match round % 3 {
                    0 => drop(arena.backend.enqueue_in(tx, std::slice::from_ref(&job))?),
                    1 => drop(arena.backend.claim_in(tx, &request)?),
                    _ => arena.backend.ack_in(tx, &held.receipt)?,
                }
                resume_unwind(Box::new("unwound"));
                #[expect(unreachable_code, reason = "it gives the closure its type")]
                Ok::<(), Left>(())
            })
        }));
        expect(unwound.is_err(), "the panic was swallowed")?;
    }

    arena.expect_unchanged(&before)?;
    arena.session()?.ack_one(&held.receipt)?;
    arena.enqueue_and_claim("worker-b").map(|_| ())
}

fn a_session_that_is_dropped_leaves_its_claims_to_their_leases<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    arena.enqueue(3)?;
    let session = arena.session()?;
    let request = arena
        .request("worker-a")?
        .with_limit(queue_table_core::BatchSize::MAX);
    let claimed = session.claim(&request)?;

    drop(session);

    expect_that("claimed jobs", claimed.len(), 3)?;
    expect_eq(arena.claim("worker-b", 10)?, [])?;
    arena.backend.ack_one(&claimed[0].receipt)?;
    for job in &claimed[1..] {
        arena.let_lease_expire(job)?;
    }
    expect_that("reaped", arena.reap()?.len(), 2)?;
    expect_lost(
        arena.backend.ack_one(&claimed[1].receipt),
        LostReason::Expired,
    )
}

fn sessions_that_come_and_go_leave_nothing_behind<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    at_once(arena, 3, |number, _| {
        let worker = format!("worker-{number}");
        for _ in 0..8 {
            let session = arena.session()?;
            let job = session.enqueue_one(&arena.job()?)?;
            let claimed = session.claim(&arena.request(&worker)?)?;
            for job in &claimed {
                session.ack_one(&job.receipt)?;
            }
            expect_some(session.get(job.job_id())?, "job just enqueued")?;
        }
        Ok(())
    })?;

    for job in arena.claim("worker-a", 100)? {
        arena.backend.ack_one(&job.receipt)?;
    }
    let rows = arena.rows()?;
    expect_that("rows", rows.len(), 24)?;
    let unfinished = rows.iter().filter(|row| row.state != State::Succeeded);
    expect_that("unfinished jobs", unfinished.count(), 0)
}

fn a_worker_whose_session_dies_in_its_handler_repeats_no_effect<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    let (paid, job) = (EffectName::new("paid")?, arena.enqueue_one()?);
    let pay = |session: &F::Backend, receipt: &Receipt| {
        session.transaction(|tx| {
            let first = session.record_effect_in(tx, receipt, &paid)?;
            if first {
                arena.probe.effect_in(tx, receipt.worker().as_str())?;
            }
            Ok::<_, Left>(first)
        })
    };
    let dying = arena.session()?;
    let first = expect_one(dying.claim(&arena.request("worker-a")?)?, "claimed job")?;
    expect_that("first time", pay(&dying, &first.receipt)?, true)?;

    drop(dying);

    let second = arena.reclaim(&first, "worker-b")?;
    expect_that("first time", pay(arena.backend, &second.receipt)?, false)?;
    arena.backend.ack_one(&second.receipt)?;
    expect_eq(arena.probe.effects()?, ["worker-a"])?;
    arena.expect_state(job, State::Succeeded)
}
