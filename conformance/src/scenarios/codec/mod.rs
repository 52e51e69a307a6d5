//! Values go in and come out unchanged.

mod columns;
mod names;
mod text;

use queue_table_core::JobId;

use super::prelude::*;

pub(crate) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    let numbers = vec![
        scenario!(
            numbers_at_their_limits_come_back,
            "Priority, payload version and budget come back as given, the smallest and the largest",
            [C4],
        ),
        scenario!(
            ids_beyond_32_bits_and_beyond_a_double_are_exact,
            "A job whose id needs more than 32 bits, or more than a double holds, goes through its whole life",
            [C6, C8, C13, C20, C22],
        ),
    ];
    [
        text::scenarios(),
        names::scenarios(),
        columns::scenarios(),
        numbers,
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn numbers_at_their_limits_come_back<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    for (priority, version, budget) in [(i32::MAX, u16::MAX, 1_000_000), (i32::MIN, 0, 1)] {
        let job = arena.job()?.with_priority(priority);
        let job = job
            .with_payload_version(version)
            .with_max_attempts(budget)?;

        let id = arena.store(&job)?;

        let row = arena.row(id)?;
        expect_eq(
            (row.priority, row.payload_version, row.max_attempts),
            (priority, version, budget),
        )?;
        let record = expect_some(arena.backend.get(id)?, "record")?;
        expect_eq(
            (record.priority, record.payload_version, record.max_attempts),
            (priority, version, budget),
        )?;
        let claimed = arena.claim_one("worker-a")?;
        expect_eq(
            (
                claimed.priority,
                claimed.payload_version,
                claimed.max_attempts,
            ),
            (priority, version, budget),
        )?;
    }
    Ok(())
}

// Report 55: ids wrap in a client type, https://github.com/riverqueue/river/issues/720.
fn ids_beyond_32_bits_and_beyond_a_double_are_exact<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    for first in [(1_i64 << 31) + 1, (1 << 53) + 1] {
        arena.probe.skip_to(JobId::new(first))?;
        let jobs = arena.enqueue(3)?;
        let far = jobs.is_sorted() && jobs[0] >= JobId::new(first);
        expect(far, format_args!("ids from {first} on: {jobs:?}"))?;
        expect_that(
            "stored ids",
            arena.probe.ids()?.last_chunk(),
            jobs.last_chunk::<3>(),
        )?;

        let claimed = arena.claim("worker-a", 3)?;

        expect_that("claimed jobs", ids(&claimed), &*jobs)?;
        let lease = queue_table_core::LeaseLength::default();
        arena.backend.renew_one(&claimed[1].receipt, lease)?;
        arena.backend.ack_one(&claimed[1].receipt)?;
        arena.backend.fail_one(&retry(&claimed[0], 60, "again")?)?;
        arena.let_lease_expire(jobs[2])?;
        expect_that("reaped", expect_one(arena.reap()?, "job")?.job_id, jobs[2])?;
        expect_that("failures", arena.backend.failures(jobs[0])?.len(), 1)?;
        let states = jobs.iter().map(|job| Ok(arena.row(job)?.state));
        expect_eq(
            states.collect::<Check<Vec<_>>>()?,
            [State::Ready, State::Succeeded, State::Ready],
        )?;
    }
    Ok(())
}
