//! Claims of several sessions are disjoint.

use std::collections::BTreeSet;

use queue_table_core::{BatchSize, Enqueued};

use crate::scenarios::prelude::*;
use crate::scenarios::together::at_once;

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            sessions_share_the_jobs_without_overlap,
            "Eight sessions claim 1,000 jobs; none is claimed twice and none is left",
            [C7, C8, C10],
        ),
        scenario!(
            batches_enqueued_at_once_keep_their_ids,
            "Each id of a batch is the id of its own job, while other sessions enqueue",
            [C6],
        ),
        scenario!(
            a_lower_id_that_comes_due_later_is_claimed,
            "A job with a lower id that comes due after a higher one was claimed is not passed over",
            [C7, C11],
        ),
        scenario!(
            a_receipt_works_in_another_session,
            "A claim made in one session is renewed in another and acked in a third",
            [C13],
        ),
    ]
}

/// Reports 16 and 17. An empty claim does not mean an empty queue: a session ends when the queue
/// has no ready row.
fn sessions_share_the_jobs_without_overlap<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let jobs: BTreeSet<_> = arena.enqueue(1_000)?.into_iter().collect();

    let drained = at_once(arena, 8, |number, session| {
        let limit = BatchSize::new(1 + u32::try_from(number).unwrap_or(0) * 2)?;
        let request = arena
            .request(&format!("worker-{number}"))?
            .with_limit(limit);
        let mut mine = Vec::new();
        loop {
            let claimed = session.claim(&request)?;
            expect(claimed.len() <= limit.get() as usize, "more than asked for")?;
            if claimed.is_empty() && session.stats(Some(&arena.queue))?[0].due == 0 {
                return Ok(mine);
            }
            mine.extend(claimed.iter().map(|job| (job.job_id(), job.attempt())));
        }
    })?;

    let claimed = drained.concat();
    expect_that("claims", claimed.len(), jobs.len())?;
    let first_attempts = jobs.into_iter().map(|job| (job, 1)).collect();
    expect_eq(claimed.into_iter().collect::<BTreeSet<_>>(), first_attempts)
}

/// Report 54: ids are not the first one plus a count.
fn batches_enqueued_at_once_keep_their_ids<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let stored = at_once(arena, 4, |session_number, session| {
        let payload = |number: usize| format!("[{session_number},{number}]");
        let jobs = (0..20).map(|number| arena.job_with(&payload(number)));
        let stored = session.enqueue(&jobs.collect::<Check<Vec<_>>>()?)?;
        let ids = stored.into_iter().map(Enqueued::job_id);
        Ok(ids.zip((0..20).map(payload)).collect::<Vec<_>>())
    })?
    .concat();

    expect_that("rows", arena.probe.ids()?.len(), stored.len())?;
    for (job, payload) in stored {
        expect_that(job, arena.row(job)?.payload, payload.as_bytes())?;
    }
    Ok(())
}

/// Report 20, where a transaction cannot stay open beside another writer.
fn a_lower_id_that_comes_due_later_is_claimed<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let hour = Duration::from_secs(3_600);
    let low = arena.store(&arena.job()?.with_delay(hour)?)?;
    let high = arena.enqueue_one()?;
    expect_that("first", arena.claim_one("worker-a")?.job_id(), high)?;
    for _ in 0..3 {
        expect_eq(arena.claim("worker-a", 10)?, [])?;
    }

    arena.let_come_due(low)?;

    expect_that("second", arena.claim_one("worker-a")?.job_id(), low)
}

fn a_receipt_works_in_another_session<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let held = arena.enqueue_and_claim("worker-a")?;

    let renewed = arena.session()?;
    renewed.renew_one(&held.receipt, queue_table_core::LeaseLength::default())?;
    drop(renewed);
    arena.session()?.ack_one(&held.receipt)?;

    arena.expect_state(&held, State::Succeeded)
}
