//! Pause and resume.

use queue_table_core::{ClaimRequest, LeaseLength, QueueName};

use super::super::prelude::*;

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            a_paused_queue_yields_nothing_until_resumed,
            "A paused queue yields nothing, in the caller's transaction neither, and everything once resumed",
            [C7, C11],
        ),
        scenario!(
            a_pause_stops_one_queue,
            "Other queues go on while one is paused",
            [C7],
        ),
        scenario!(
            claims_held_go_on_under_a_pause,
            "Claims that are held when their queue is paused are renewed, failed, reaped and acked as always",
            [C7, C13, C18],
        ),
        scenario!(
            pausing_twice_is_pausing,
            "Pausing a paused queue and resuming one that is not paused change nothing",
            [C7],
        ),
    ]
}

fn a_paused_queue_yields_nothing_until_resumed<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let first = arena.enqueue_one()?;
    arena.backend.pause(&arena.queue)?;
    let second = arena.enqueue_one()?;
    let before = arena.snapshot()?;

    expect_eq(arena.claim("worker-a", 10)?, [])?;
    let request = arena.request("worker-a")?;
    let claimed = arena
        .backend
        .transaction(|tx| arena.backend.claim_in(tx, &request))?;
    expect_that("in a transaction", claimed, [])?;
    expect_eq(arena.session()?.claim(&request)?, [])?;
    arena.expect_unchanged(&before)?;

    arena.backend.resume(&arena.queue)?;
    expect_that("pauses", arena.probe.count("queue")?, 0)?;
    let claimed = arena.claim("worker-a", 10)?;
    expect_that("after resuming", ids(&claimed), [first, second])
}

fn a_pause_stops_one_queue<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    arena.store(&job_for("billing")?)?;
    let mail = arena.enqueue_one()?;

    arena.backend.pause(&QueueName::new("billing")?)?;

    expect_that("mail's", ids(&arena.claim("worker-a", 10)?), [mail])?;
    let billing = QueueName::new("billing")?;
    let request = ClaimRequest::new(billing, WorkerId::new("worker-a")?);
    expect_that("billing's", arena.backend.claim(&request)?, [])
}

fn claims_held_go_on_under_a_pause<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    arena.enqueue(3)?;
    let claimed = arena.claim("worker-a", 3)?;

    arena.backend.pause(&arena.queue)?;

    arena
        .backend
        .renew_one(&claimed[0].receipt, LeaseLength::default())?;
    arena.backend.ack_one(&claimed[0].receipt)?;
    arena.backend.fail_one(&retry(&claimed[1], 0, "again")?)?;
    arena.let_lease_expire(&claimed[2])?;
    let reaped = expect_one(arena.reap()?, "reaped job")?;
    expect_that("reaped", reaped.job_id, claimed[2].job_id())?;
    arena.expect_state(&claimed[0], State::Succeeded)?;
    arena.expect_state(&claimed[1], State::Ready)?;
    arena.expect_state(&claimed[2], State::Ready)?;
    expect_eq(arena.claim("worker-a", 10)?, [])
}

fn pausing_twice_is_pausing<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    arena.backend.resume(&arena.queue)?;
    expect_that("pauses", arena.probe.count("queue")?, 0)?;
    arena.enqueue_one()?;
    arena.backend.pause(&arena.queue)?;
    arena.backend.pause(&arena.queue)?;
    expect_that("pauses", arena.probe.count("queue")?, 1)?;
    expect_eq(arena.claim("worker-a", 1)?, [])?;

    arena.backend.resume(&arena.queue)?;

    arena.backend.resume(&arena.queue)?;
    expect_that("claimed", arena.claim("worker-a", 1)?.len(), 1)
}
