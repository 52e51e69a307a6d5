//! Rows that somebody else has locked, and the one writer that somebody else is.

use std::time::Instant;

use queue_table_core::{BatchSize, EffectName, PromoteRequest};

use crate::scenario::Need;
use crate::scenarios::prelude::*;
use crate::scenarios::together::at_once;
use crate::scenarios::tx::{Left, told};

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    let mut all = one_writer();
    all.extend(row_locks());
    all
}

fn one_writer<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            a_claim_waits_its_turn_to_write,
            "While another session writes, a claim waits for it and then succeeds",
            [C10],
        )
        .needs(Need::RowLocks(false)),
        scenario!(
            every_write_waits_its_turn,
            "While another session writes, enqueue, renew, ack and reap wait for it and then succeed",
            [C10, C26],
        )
        .needs(Need::RowLocks(false)),
        scenario!(
            transactions_wait_for_each_other,
            "Transactions that touch the same jobs in opposite orders run one after the other",
            [C17, C26],
        )
        .needs(Need::RowLocks(false)),
    ]
}

fn row_locks<F: Fixture>() -> Vec<Scenario<F>> {
    let all = vec![
        scenario!(
            a_claim_steps_over_a_locked_row,
            "A claim takes the free rows and does not wait for a locked one",
            [C10, C11],
        ),
        scenario!(
            a_queue_of_locked_rows_is_not_empty_for_good,
            "A claim of locked rows only is empty at once, and gets them all when they are let go",
            [C10, C11],
        ),
        scenario!(
            a_claim_steps_over_an_open_claim,
            "A claim takes what another session's open claim transaction has left",
            [C10],
        ),
        scenario!(
            an_enqueue_does_not_wait_for_an_open_claim,
            "An enqueue goes through beside an open claim transaction that has read to the end of the queue",
            [C10],
        ),
        scenario!(
            an_ack_does_not_wait_for_the_ack_of_another_job,
            "An ack goes through beside an open transaction that has acked another job",
            [C13, C16],
        ),
        scenario!(
            a_job_that_commits_late_is_claimed,
            "A job with a lower id that commits after a higher one was claimed is not passed over",
            [C1, C7],
        ),
        scenario!(
            a_reap_steps_over_a_locked_row,
            "A reap moves the free overdue rows and does not wait for a locked one",
            [C18],
        ),
        scenario!(
            a_promotion_steps_over_a_locked_row,
            "A promotion takes the free ones of the oldest jobs and does not wait for a locked one",
            [C28],
        ),
        scenario!(
            a_promotion_does_not_wait_for_an_open_claim,
            "A promotion goes through beside an open claim transaction, and leaves its jobs as they are",
            [C10, C28],
        ),
        scenario!(
            a_deadlock_victim_is_told_to_run_the_whole_again,
            "Of two transactions in each other's way one is told, has stored nothing, and succeeds when run again",
            [C17, C26],
        ),
    ];
    let only_with_row_locks = |scenario: Scenario<F>| scenario.needs(Need::RowLocks(true));
    all.into_iter().map(only_with_row_locks).collect()
}

/// Long enough that a wait for it is seen, and far longer than anything that does not wait.
const HELD: Duration = Duration::from_secs(3);
const AT_ONCE: Duration = Duration::from_secs(2);

fn a_claim_waits_its_turn_to_write<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let jobs = arena.enqueue(3)?;
    let held = arena.hold(jobs[0], Duration::from_millis(300))?;

    let claimed = arena.claim("worker-a", 10)?;

    let ids: Vec<_> = claimed.iter().map(|job| job.job_id()).collect();
    expect_that("claimed jobs", ids, jobs)?;
    Ok(held.released()?)
}

fn every_write_waits_its_turn<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let overdue = arena.enqueue_and_claim("worker-a")?;
    arena.let_lease_expire(&overdue)?;
    let held = arena.enqueue_and_claim("worker-a")?;
    let writer = arena.hold(&held, Duration::from_millis(300))?;

    let reaped = at_once(arena, 4, |number, session| {
        let receipt = &held.receipt;
        match number {
            0 => session.enqueue_one(&arena.job()?).map(drop)?,
            1 => session.renew_one(receipt, queue_table_core::LeaseLength::default())?,
            2 => {
                let name = EffectName::new("paid")?;
                session.transaction(|tx| session.record_effect_in(tx, receipt, &name))?;
            }
            _ => return Ok(arena.reap()?.len()),
        }
        Ok(0)
    })?;

    writer.released()?;
    expect_that("reaped", reaped, [0, 0, 0, 1])?;
    expect_that("rows", arena.probe.ids()?.len(), 3)?;
    Ok(arena.backend.ack_one(&held.receipt)?)
}

fn transactions_wait_for_each_other<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let one = arena.enqueue_and_claim("worker-a")?;
    let two = arena.enqueue_and_claim("worker-a")?;
    let name = EffectName::new("paid")?;

    let firsts = at_once(arena, 2, |number, session| {
        let order = if number == 0 {
            [&one, &two]
        } else {
            [&two, &one]
        };
        let firsts = session.transaction(|tx| {
            let first = session.record_effect_in(tx, &order[0].receipt, &name)?;
            std::thread::sleep(Duration::from_millis(50));
            let second = session.record_effect_in(tx, &order[1].receipt, &name)?;
            Ok::<_, Left>([first, second])
        })?;
        Ok(firsts)
    })?;

    let mut firsts = firsts;
    firsts.sort_unstable();
    expect_eq(firsts, [[false, false], [true, true]])
}

fn a_claim_steps_over_a_locked_row<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let jobs = arena.enqueue(3)?;
    let held = arena.hold(jobs[0], HELD)?;

    let start = Instant::now();
    let claimed = arena.claim("worker-a", 10)?;

    expect_within(start, AT_ONCE, "the claim")?;
    let ids: Vec<_> = claimed.iter().map(|job| job.job_id()).collect();
    expect_that("claimed jobs", &*ids, &jobs[1..])?;
    Ok(held.released()?)
}

/// Report 16.
fn a_queue_of_locked_rows_is_not_empty_for_good<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let jobs = arena.enqueue(3)?;
    let held = jobs.iter().map(|job| arena.hold(job, HELD));
    let held = held.collect::<Check<Vec<_>>>()?;

    let start = Instant::now();
    let claimed = arena.claim("worker-a", 10)?;

    expect_within(start, AT_ONCE, "the claim")?;
    expect_eq(claimed, [])?;
    for lock in held {
        lock.released()?;
    }
    expect_that("claimed", arena.claim("worker-a", 10)?.len(), 3)
}

fn a_claim_steps_over_an_open_claim<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let (jobs, other) = (arena.enqueue(4)?, arena.session()?);
    let two = queue_table_core::BatchSize::new(2)?;
    let request = arena.request("worker-a")?.with_limit(two);

    arena.backend.transaction(|tx| {
        let first = arena.backend.claim_in(tx, &request)?;
        let start = Instant::now();
        let second = other.claim(&request)?;
        expect_within(start, AT_ONCE, "the claim")?;
        let both = first.iter().chain(&second);
        expect_eq(both.map(|job| job.job_id()).collect::<Vec<_>>(), &*jobs)?;
        Ok::<(), Left>(())
    })?;

    expect_eq(arena.claim("worker-b", 10)?, [])
}

/// Report 4: a locking read of a range may lock the gaps in it.
fn an_enqueue_does_not_wait_for_an_open_claim<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    arena.enqueue(3)?;
    let (job, other) = (arena.job()?, arena.session()?);
    let all = queue_table_core::BatchSize::new(100)?;
    let request = arena.request("worker-a")?.with_limit(all);

    let claimed = arena.backend.transaction(|tx| {
        let claimed = arena.backend.claim_in(tx, &request)?;
        let start = Instant::now();
        other.enqueue_one(&job)?;
        expect_within(start, AT_ONCE, "the enqueue")?;
        Ok::<_, Left>(claimed.len())
    })?;

    expect_that("claimed", claimed, 3)?;
    arena.claim_one("worker-b").map(|_| ())
}

/// Report 11: a scan where a seek is needed locks the whole table.
fn an_ack_does_not_wait_for_the_ack_of_another_job<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let (one, two) = (
        arena.enqueue_and_claim("worker-a")?,
        arena.enqueue_and_claim("worker-a")?,
    );
    let other = arena.session()?;

    arena.backend.transaction(|tx| {
        arena.backend.ack_in(tx, &one.receipt)?;
        let start = Instant::now();
        other.ack_one(&two.receipt)?;
        expect_within(start, AT_ONCE, "the ack")?;
        Ok::<(), Left>(())
    })?;

    arena.expect_state(&one, State::Succeeded)?;
    arena.expect_state(&two, State::Succeeded)
}

/// Report 20.
fn a_job_that_commits_late_is_claimed<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let (job, other) = (arena.job()?, arena.session()?);
    let request = arena.request("worker-a")?;

    let late = arena.backend.transaction(|tx| {
        let late = arena.backend.enqueue_in(tx, std::slice::from_ref(&job))?;
        let early = other.enqueue_one(&job)?.job_id();
        let claimed = expect_one(other.claim(&request)?, "claimed job")?;
        expect_that("the claimed job", claimed.job_id(), early)?;
        for _ in 0..3 {
            expect_eq(other.claim(&request)?, [])?;
        }
        Ok::<_, Left>(expect_one(late, "late job")?)
    })?;

    let claimed = expect_one(other.claim(&request)?, "claimed job")?;
    expect_that("the claimed job", claimed.job_id(), late.job_id())
}

fn a_reap_steps_over_a_locked_row<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    arena.enqueue(3)?;
    let overdue = arena.claim("worker-a", 3)?;
    for claimed in &overdue {
        arena.let_lease_expire(claimed)?;
    }
    let held = arena.hold(&overdue[1], HELD)?;

    let start = Instant::now();
    let reaped = arena.reap()?;

    expect_within(start, AT_ONCE, "the reap")?;
    expect_that("reaped", reaped.len(), 2)?;
    arena.expect_state(&overdue[1], State::Running)?;
    held.released()?;
    let late = arena.reap_one()?;
    expect_that("reaped late", late.job_id, overdue[1].job_id())
}

fn a_promotion_steps_over_a_locked_row<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let jobs = arena.enqueue(3)?;
    for (job, hours) in jobs.iter().zip([4, 3, 2]) {
        arena.probe.rewind(*job, HOUR * hours)?;
    }
    let held = arena.hold(jobs[0], HELD)?;
    let start = Instant::now();

    let first = arena.backend.promote(&promotion(arena, 1)?)?;
    let rest = arena.backend.promote(&promotion(arena, 10)?)?;

    expect_within(start, AT_ONCE, "promotions")?;
    expect_that("promoted", (first, rest), (1, 1))?;
    let priorities = arena.rows()?.into_iter().map(|row| row.priority);
    expect_eq(priorities.collect::<Vec<_>>(), [0, 9, 9])?;
    held.released()?;
    let late = arena.backend.promote(&promotion(arena, 10)?)?;
    expect_that("promoted once it is let go", late, 1)
}

fn a_promotion_does_not_wait_for_an_open_claim<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let jobs = arena.enqueue(4)?;
    for job in &jobs {
        arena.probe.rewind(*job, 2 * HOUR)?;
    }
    let (session, request) = (arena.session()?, arena.request("worker-a")?);
    let start = Instant::now();

    let claimed = session.transaction(|tx| {
        let claimed = session.claim_in(tx, &request)?;
        let promoted = arena.backend.promote(&promotion(arena, 10)?)?;
        expect_that("promoted", promoted, 3)?;
        Ok::<_, Failed>(claimed)
    })?;

    expect_within(start, AT_ONCE, "promotion")?;
    let claimed = expect_one(claimed, "claimed job")?;
    let row = arena.row(&claimed)?;
    expect_eq((row.state, row.priority), (State::Running, 0))?;
    let rest = ids(&arena.claim("worker-b", 10)?);
    expect_that("the others", rest, &jobs[1..])
}

const HOUR: Duration = Duration::from_secs(3_600);

/// Up to so many jobs that have waited for an hour, to priority 9.
fn promotion<F: Fixture>(arena: &Arena<'_, F>, limit: u32) -> Check<PromoteRequest> {
    let request = PromoteRequest::new(arena.queue.clone(), delay(HOUR)?, 9);
    Ok(request.with_limit(BatchSize::new(limit)?))
}

/// Report 56: the whole transaction of a victim is gone, so a retry of the last statement would
/// store half of it.
fn a_deadlock_victim_is_told_to_run_the_whole_again<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let one = arena.enqueue_and_claim("worker-a")?;
    let two = arena.enqueue_and_claim("worker-a")?;
    let (name, both_hold_one) = (EffectName::new("paid")?, std::sync::Barrier::new(2));

    let told_so = at_once(arena, 2, |number, session| {
        let order = if number == 0 {
            [&one, &two]
        } else {
            [&two, &one]
        };
        let (mut times, mut meet) = (0, true);
        loop {
            times += 1;
            let ended = session.transaction(|tx| {
                arena.probe.effect_in(tx, "run")?;
                session.record_effect_in(tx, &order[0].receipt, &name)?;
                if std::mem::take(&mut meet) {
                    both_hold_one.wait();
                }
                session.record_effect_in(tx, &order[1].receipt, &name)?;
                Ok::<(), Left>(())
            });
            match told(ended)? {
                Ok(()) => return Ok(times - 1),
                Err(error) => expect_that("the victim's error", error.kind(), "contention")?,
            }
            expect(times < 10, "still a victim after ten runs")?;
        }
    })?;

    let victims: u32 = told_so.into_iter().sum();
    expect(
        victims > 0,
        "both transactions held what the other wanted, and neither was told",
    )?;
    expect_eq(arena.probe.effects()?, ["run", "run"])?;
    expect_that("recorded effects", arena.probe.count("effect")?, 2)
}
