//! Commits whose request or reply is lost on the way.
//!
//! The caller is told that the outcome is unknown. A second look, by another way, shows which it
//! was, and the next step is the same for both: never a double, and never a loss.

use queue_table_core::{DedupScope, Error, ErrorText, LeaseLength, MaxAttempts};

use crate::scenario::Need;
use crate::scenarios::prelude::*;
use crate::{Cut, Proxy};

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    let all = vec![
        scenario!(
            a_claim_without_an_answer_is_handed_out_once,
            "A claim whose commit is cut has an unknown outcome; stored, it keeps the job until its lease is over",
            [C8, C10, C18, C26],
        ),
        scenario!(
            an_enqueue_without_an_answer_may_be_repeated_by_its_key,
            "An enqueue whose commit is cut has an unknown outcome; repeated with its dedup key it is one job",
            [C5, C26],
        ),
        scenario!(
            an_ack_without_an_answer_is_told_by_its_row,
            "An ack whose commit is cut has an unknown outcome; its row tells, and a second ack is no second finish",
            [C13, C15, C26],
        ),
        scenario!(
            a_failure_without_an_answer_is_recorded_once,
            "A fail whose commit is cut has an unknown outcome; its row tells, and a second fail is no second failure",
            [C13, C15, C26],
        ),
        scenario!(
            a_callers_commit_without_an_answer_is_all_or_nothing,
            "A caller's transaction whose commit is cut has an unknown outcome: ack, effect and job are stored together or not at all",
            [C1, C17, C26],
        ),
        scenario!(
            nothing_that_was_stored_is_said_not_to_be,
            "Whatever write has its commit cut, it does not say that nothing was changed when it was",
            [C26],
        ),
    ];
    let with_network = |scenario: Scenario<F>| scenario.needs(Need::Network(true));
    all.into_iter().map(with_network).collect()
}

const BOTH: [Cut; 2] = [Cut::Request, Cut::Reply];

/// Runs an operation whose next commit is cut, and fails unless its outcome is said to be unknown.
#[track_caller]
fn expect_unknown<T: std::fmt::Debug>(
    proxy: &Proxy,
    cut: Cut,
    operation: impl FnOnce() -> Result<T, Error>,
) -> Check {
    proxy.cut_next_commit(cut);
    let answer = operation();
    expect(
        !proxy.still_waits(),
        format_args!("no commit came by; answered {answer:?}"),
    )?;
    expect_kind(answer, "outcome_unknown").map(drop)
}

/// Report 65: a lost claim is one attempt, and its job is not handed out twice.
fn a_claim_without_an_answer_is_handed_out_once<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let (proxy, session) = arena.through_a_network()?;
    for cut in BOTH {
        let (job, request) = (arena.enqueue_one()?, arena.request("worker-a")?);

        expect_unknown(&proxy, cut, || session.claim(&request))?;

        let claimed = match cut {
            Cut::Request => released_to(arena, "worker-b")?,
            Cut::Reply => {
                expect_eq(session.claim(&request)?, [])?;
                let row = arena.row(job)?;
                expect_eq((row.state, row.attempts), (State::Running, 1))?;
                arena.let_lease_expire(job)?;
                arena.reap_one()?;
                arena.claim_one("worker-b")?
            }
        };
        let attempts = if cut == Cut::Request { 1 } else { 2 };
        expect_eq((claimed.job_id(), claimed.attempt()), (job, attempts))?;
        session.ack_one(&claimed.receipt)?;
    }
    Ok(())
}

/// Claims the one job, once the server has seen that the transaction before is gone.
fn released_to<F: Fixture>(
    arena: &Arena<'_, F>,
    worker: &str,
) -> Check<queue_table_core::ClaimedJob> {
    let start = std::time::Instant::now();
    loop {
        if let Some(claimed) = arena.claim(worker, 1)?.pop() {
            return Ok(claimed);
        }
        expect_within(start, Duration::from_secs(20), "the release of the lock")?;
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Report 65: a retry after a lost reply enqueues twice.
fn an_enqueue_without_an_answer_may_be_repeated_by_its_key<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    let (proxy, session) = arena.through_a_network()?;
    for cut in BOTH {
        let before = arena.probe.ids()?.len();
        let job = arena.job_with("1")?;
        let job = job.with_dedup(&format!("{cut:?}"), DedupScope::WhileRowExists)?;

        expect_unknown(&proxy, cut, || session.enqueue_one(&job))?;

        let again = session.enqueue_one(&job)?;
        expect_that("new", again.is_new(), cut == Cut::Request)?;
        expect_that("rows", arena.probe.ids()?.len(), before + 1)?;
        expect_that("keys", arena.probe.count("dedup")?, before as u64 + 1)?;
    }
    arena.claim("worker-a", 10).map(|_| ())
}

/// Report 65, and 67: an ack during an outage is neither lost nor done twice.
fn an_ack_without_an_answer_is_told_by_its_row<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let (proxy, session) = arena.through_a_network()?;
    for cut in BOTH {
        let held = arena.enqueue_and_claim("worker-a")?;

        expect_unknown(&proxy, cut, || session.ack_one(&held.receipt))?;

        let again = session.ack_one(&held.receipt);
        match cut {
            Cut::Request => again?,
            Cut::Reply => expect_lost(again, LostReason::Finished)?,
        }
        arena.expect_state(&held, State::Succeeded)?;
    }
    Ok(())
}

/// Report 65, for the other end of a claim.
fn a_failure_without_an_answer_is_recorded_once<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let (proxy, session) = arena.through_a_network()?;
    for cut in BOTH {
        let held = arena.enqueue_and_claim("worker-a")?;
        let failure = retry(&held, 3_600, "again")?;

        expect_unknown(&proxy, cut, || session.fail_one(&failure))?;

        let again = session.fail_one(&failure);
        match cut {
            Cut::Request => drop(again?),
            Cut::Reply => expect_lost(again, LostReason::Expired)?,
        }
        let row = arena.row(&held)?;
        expect_eq((row.state, row.attempts), (State::Ready, 1))?;
        let failures = arena.backend.failures(held.job_id())?;
        expect_that("failures", failures.len(), 1)?;
    }
    Ok(())
}

/// Report 65, for a transaction of the caller's.
fn a_callers_commit_without_an_answer_is_all_or_nothing<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let (proxy, session) = arena.through_a_network()?;
    for cut in BOTH {
        let held = arena.enqueue_and_claim("worker-a")?;
        let job = arena.job()?.with_delay(Duration::from_secs(3_600))?;
        let (effects, jobs) = (arena.probe.effects()?.len(), arena.probe.ids()?.len());

        expect_unknown(&proxy, cut, || {
            session.transaction(|tx| {
                session.ack_in(tx, &held.receipt)?;
                session.enqueue_in(tx, std::slice::from_ref(&job))?;
                let stored = arena.probe.effect_in(tx, "paid");
                stored.map_err(|error| Error::Unsupported {
                    engine: "fixture",
                    lacks: error.to_string(),
                })
            })
        })?;

        let stored = usize::from(cut == Cut::Reply);
        let again = session.ack_one(&held.receipt);
        match cut {
            Cut::Request => again?,
            Cut::Reply => expect_lost(again, LostReason::Finished)?,
        }
        expect_that("effects", arena.probe.effects()?.len(), effects + stored)?;
        expect_that("jobs", arena.probe.ids()?.len(), jobs + stored)?;
    }
    Ok(())
}

/// What a write is called, and the write.
type Write<'a> = (&'static str, &'a dyn Fn() -> Result<(), Error>);

/// Reports 65 and 63. An operation may well try again by itself where that cannot do harm.
fn nothing_that_was_stored_is_said_not_to_be<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let (proxy, session) = arena.through_a_network()?;
    let (dead, held) = (arena.dead_job()?, arena.enqueue_and_claim("worker-a")?);
    let (overdue, doomed) = (arena.enqueue_and_claim("worker-a")?, arena.enqueue_one()?);
    let (hour, budget) = (Duration::from_secs(3_600), MaxAttempts::default());
    let (lease, reason) = (LeaseLength::new(hour)?, ErrorText::new("stop"));
    arena.let_lease_expire(&overdue)?;
    let policy = queue_table_core::RetryPolicy::fixed(hour)?;
    let reap = queue_table_core::ReapRequest::new(queue_table_core::BatchSize::ONE, policy);
    let writes: [Write<'_>; 5] = [
        ("renew", &|| session.renew_one(&held.receipt, lease)),
        ("reap", &|| session.reap(&reap).map(drop)),
        ("cancel", &|| session.cancel(doomed, &reason)),
        ("replay", &|| session.replay(dead, budget).map(drop)),
        ("pause", &|| session.pause(&arena.queue)),
    ];

    for (what, write) in writes {
        let before = arena.snapshot()?;
        proxy.cut_next_commit(Cut::Reply);
        let answer = write();
        expect(
            !proxy.still_waits(),
            format_args!("{what}: no commit came by"),
        )?;
        let changed = arena.expect_unchanged(&before).is_err();
        expect(changed, format_args!("{what} stored nothing"))?;
        let kind = answer.as_ref().map_or_else(Error::kind, |()| "ok");
        expect(
            matches!(kind, "ok" | "outcome_unknown"),
            format_args!("{what} was stored, and answered {answer:?}"),
        )?;
    }
    Ok(())
}
