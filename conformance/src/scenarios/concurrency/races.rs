//! Operations that race for one job: exactly one wins.

use std::collections::BTreeSet;

use queue_table_core::{
    BatchSize, ClaimedJob, Delay, ErrorText, Fenced, JobId, LeaseLength, MaxAttempts, PurgeRequest,
    ReapRequest, RetryPolicy,
};

use crate::scenarios::prelude::*;
use crate::scenarios::together::at_once;

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            a_receipt_acked_by_many_sessions_at_once_is_acked_once,
            "Of many sessions that ack the same receipts at once, in opposite orders, one acks each job",
            [C13, C16],
        ),
        scenario!(
            a_job_is_either_acked_or_reaped,
            "While leases end, each job is either acked or reaped, never both and never neither",
            [C13, C14, C18],
        ),
        scenario!(
            a_claim_is_either_renewed_or_reaped,
            "While leases end, each claim is either renewed and left alone, or reaped",
            [C13, C14, C18],
        ),
        scenario!(
            a_job_is_reaped_by_one_of_many_reapers,
            "Many reapers at once move each overdue job once",
            [C18, C19],
        ),
        scenario!(
            a_cancelled_job_stays_dead_beside_reapers,
            "A job that is cancelled while reapers look at it stays dead",
            [C18, C20],
        ),
        scenario!(
            a_job_is_either_acked_or_cancelled,
            "Of an ack and a cancel at once exactly one goes through",
            [C13, C15, C20],
        ),
        scenario!(
            a_dead_job_is_replayed_once,
            "Of many replays of one dead job at once one goes through",
            [C20],
        ),
        scenario!(
            a_row_is_purged_by_one_of_many_purgers,
            "Many purgers at once delete each row once, and none fails",
            [C22],
        ),
    ]
}

/// Claimed jobs, all of one worker.
fn held<F: Fixture>(arena: &Arena<'_, F>, jobs: u32) -> Check<Vec<ClaimedJob>> {
    arena.enqueue(jobs as usize)?;
    let claimed = arena.claim("worker-a", jobs)?;
    expect_that("claimed jobs", claimed.len(), jobs as usize)?;
    Ok(claimed)
}

/// The same when every lease is over.
fn overdue<F: Fixture>(arena: &Arena<'_, F>, jobs: u32) -> Check<Vec<ClaimedJob>> {
    let claimed = held(arena, jobs)?;
    for job in &claimed {
        arena.let_lease_expire(job)?;
    }
    Ok(claimed)
}

fn few_at_a_time() -> Check<ReapRequest> {
    let policy = RetryPolicy::fixed(Duration::from_secs(60))?;
    Ok(ReapRequest::new(BatchSize::new(3)?, policy))
}

/// Batches in opposite orders would deadlock if rows were locked in the order given.
fn a_receipt_acked_by_many_sessions_at_once_is_acked_once<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    let jobs = held(arena, 40)?;

    let answers = at_once(arena, 4, |number, session| {
        let mut receipts: Vec<_> = jobs.iter().map(|job| job.receipt.clone()).collect();
        if number % 2 == 1 {
            receipts.reverse();
        }
        let answers = session.ack(&receipts)?;
        let acked = receipts
            .iter()
            .zip(&answers)
            .filter(|(_, answer)| answer.is_ok());
        Ok(acked
            .map(|(receipt, _)| receipt.job_id())
            .collect::<Vec<JobId>>())
    })?;

    let mut acked = answers.concat();
    acked.sort_unstable();
    expect_that("acked jobs", acked, arena.probe.ids()?)?;
    for job in jobs {
        arena.expect_state(job, State::Succeeded)?;
    }
    Ok(())
}

/// Two sessions while short leases end: one settles the claims one by one, the other reaps.
fn while_leases_end<F: Fixture>(
    arena: &Arena<'_, F>,
    settle: impl Fn(&F::Backend, &Receipt) -> Check<bool> + Sync,
) -> Check<BTreeSet<JobId>> {
    arena.enqueue(30)?;
    let (limit, lease) = (
        BatchSize::new(30)?,
        LeaseLength::new(Duration::from_millis(150))?,
    );
    let request = arena
        .request("worker-a")?
        .with_lease(lease)
        .with_limit(limit);
    let claimed = arena.backend.claim(&request)?;
    let until = std::time::Instant::now() + Duration::from_millis(320);

    let settled = at_once(arena, 2, |number, session| {
        let mut mine = Vec::new();
        if number == 0 {
            for job in &claimed {
                std::thread::sleep(Duration::from_millis(9));
                if settle(session, &job.receipt)? {
                    mine.push(job.job_id());
                }
            }
        } else {
            while std::time::Instant::now() < until {
                session.reap(&few_at_a_time()?)?;
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(mine)
    })?;
    arena.reap()?;
    Ok(settled.concat().into_iter().collect())
}

/// Whether the claim held; else its lease must be over.
fn held_or_expired(answers: Vec<Fenced<()>>) -> Check<bool> {
    match expect_one(answers, "answer")? {
        Ok(()) => Ok(true),
        Err(lost) => expect_that("reason", lost.reason(), LostReason::Expired).map(|()| false),
    }
}

/// Report 23.
fn a_job_is_either_acked_or_reaped<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let acked = while_leases_end(arena, |session, receipt| {
        held_or_expired(session.ack(std::slice::from_ref(receipt))?)
    })?;

    for row in arena.rows()? {
        let expected = if acked.contains(&row.job_id) {
            State::Succeeded
        } else {
            State::Ready
        };
        expect_that(row.job_id, row.state, expected)?;
        expect_that("attempts", row.attempts, 1)?;
    }
    let reaped = arena.probe.ids()?.len() - acked.len();
    expect_that("failures", arena.probe.count("failure")?, reaped as u64)
}

fn a_claim_is_either_renewed_or_reaped<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let renewed = while_leases_end(arena, |session, receipt| {
        let lease = LeaseLength::default();
        held_or_expired(session.renew(std::slice::from_ref(receipt), lease)?)
    })?;

    for row in arena.rows()? {
        let expected = if renewed.contains(&row.job_id) {
            State::Running
        } else {
            State::Ready
        };
        expect_that(row.job_id, row.state, expected)?;
    }
    Ok(())
}

fn a_job_is_reaped_by_one_of_many_reapers<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let jobs = overdue(arena, 24)?;
    let left = || Check::Ok(arena.rows()?.iter().any(|row| row.state == State::Running));

    let reaped = at_once(arena, 4, |_, session| {
        let mut mine = Vec::new();
        while left()? {
            mine.extend(
                session
                    .reap(&few_at_a_time()?)?
                    .into_iter()
                    .map(|job| job.job_id),
            );
        }
        Ok(mine)
    })?;

    let mut reaped = reaped.concat();
    reaped.sort_unstable();
    expect_that("reaped jobs", reaped, arena.probe.ids()?)?;
    expect_that("failures", arena.probe.count("failure")?, 24)?;
    for job in jobs {
        let row = arena.row(job)?;
        expect_eq((row.state, row.attempts), (State::Ready, 1))?;
    }
    Ok(())
}

/// Report 23, second form: what moved between a reaper's look and its update is not its any more.
fn a_cancelled_job_stays_dead_beside_reapers<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let jobs = overdue(arena, 20)?;
    let reason = ErrorText::new("no longer wanted");

    at_once(arena, 3, |number, session| {
        if number > 0 {
            for _ in 0..10 {
                session.reap(&few_at_a_time()?)?;
            }
            return Ok(());
        }
        for job in &jobs {
            session.cancel(job.job_id(), &reason)?;
        }
        Ok(())
    })?;

    for row in arena.rows()? {
        expect_that(row.job_id, row.state, State::Dead)?;
        expect_that(
            "last error",
            row.last_error.as_deref(),
            Some(reason.as_str()),
        )?;
    }
    Ok(())
}

fn a_job_is_either_acked_or_cancelled<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let jobs = held(arena, 20)?;
    let reason = ErrorText::new("no longer wanted");

    let won = at_once(arena, 2, |number, session| {
        let won = jobs.iter().map(|job| match number {
            0 => match session.ack(std::slice::from_ref(&job.receipt))?.pop() {
                Some(answer) => Ok(answer.is_ok()),
                None => Err(Failed::new("no answer")),
            },
            _ => match session.cancel(job.job_id(), &reason) {
                Ok(()) => Ok(true),
                refused => expect_rejected(refused).map(|_| false),
            },
        });
        won.collect::<Check<Vec<_>>>()
    })?;

    for (at, job) in jobs.iter().enumerate() {
        expect(
            won[0][at] != won[1][at],
            format_args!("job {} had two ends or none", job.job_id()),
        )?;
        let expected = if won[0][at] {
            State::Succeeded
        } else {
            State::Dead
        };
        arena.expect_state(job, expected)?;
    }
    Ok(())
}

fn a_dead_job_is_replayed_once<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.dead_job()?;

    let replayed = at_once(arena, 4, |_, session| {
        match session.replay(job, MaxAttempts::new(2)?) {
            Ok(budget) => expect_that("budget", budget, 3).map(|()| 1),
            refused => expect_rejected(refused).map(|_| 0),
        }
    })?;

    expect_that("replays", replayed.iter().sum::<u32>(), 1)?;
    let row = arena.row(job)?;
    expect_eq((row.state, row.max_attempts), (State::Ready, 3))
}

fn a_row_is_purged_by_one_of_many_purgers<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let receipts: Vec<_> = held(arena, 40)?
        .into_iter()
        .map(|job| job.receipt)
        .collect();
    arena.backend.ack(&receipts)?;
    let spared = arena.dead_job()?;
    let request = PurgeRequest {
        succeeded_after: Some(Delay::ZERO),
        dead_after: None,
        limit: BatchSize::new(3)?,
        cursor: None,
    };

    let deleted = at_once(arena, 4, |_, session| {
        let mut mine = 0;
        while arena.probe.ids()?.len() > 1 {
            let purged = session.purge(&request)?;
            expect_eq(purged.kept.len(), 0)?;
            mine += purged.deleted;
        }
        Ok(mine)
    })?;

    expect_that("deleted rows", deleted.iter().sum::<u32>(), 40)?;
    expect_eq(arena.probe.ids()?, [spared])
}
