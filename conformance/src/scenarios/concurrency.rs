//! Several sessions at once.

use std::collections::BTreeSet;

use super::prelude::*;
use crate::scenario::Need;

pub(crate) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            sessions_share_the_jobs_without_overlap,
            "Eight sessions claim 200 jobs; none is claimed twice and none is left",
            [C8, C10],
        ),
        scenario!(
            a_claim_steps_over_a_locked_row,
            "A claim takes the free rows and does not wait for a locked one",
            [C10, C11],
        )
        .needs(Need::RowLocks(true)),
        scenario!(
            a_claim_waits_its_turn_to_write,
            "While another session writes, a claim waits for it and then succeeds",
            [C10],
        )
        .needs(Need::RowLocks(false)),
    ]
}

fn sessions_share_the_jobs_without_overlap<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let jobs: BTreeSet<_> = arena.enqueue(200)?.into_iter().collect();
    let drain = |number: usize| {
        let session = arena.session()?;
        let request = arena.request(&format!("worker-{number}"))?;
        let mut mine = Vec::new();
        while let [claimed] = &*session.claim(&request)? {
            mine.push(claimed.job_id());
        }
        Ok(mine)
    };

    let drained = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|number| scope.spawn(move || drain(number)))
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|result| result.map_err(|_| Failed::new("a session panicked"))?)
            .collect::<Check<Vec<_>>>()
    })?;

    let claimed = drained.concat();
    expect_that("claims", claimed.len(), jobs.len())?;
    expect_eq(claimed.into_iter().collect::<BTreeSet<_>>(), jobs)
}

fn a_claim_steps_over_a_locked_row<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let jobs = arena.enqueue(3)?;
    let held = arena.hold(jobs[0], Duration::from_secs(3))?;

    let start = std::time::Instant::now();
    let claimed = arena.claim("worker-a", 10)?;

    expect_within(start, Duration::from_secs(2), "the claim")?;
    let ids: Vec<_> = claimed.iter().map(|job| job.job_id()).collect();
    expect_that("claimed jobs", &*ids, &jobs[1..])?;
    Ok(held.released()?)
}

fn a_claim_waits_its_turn_to_write<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let jobs = arena.enqueue(3)?;
    let held = arena.hold(jobs[0], Duration::from_millis(300))?;

    let claimed = arena.claim("worker-a", 10)?;

    let ids: Vec<_> = claimed.iter().map(|job| job.job_id()).collect();
    expect_that("claimed jobs", ids, jobs)?;
    Ok(held.released()?)
}
