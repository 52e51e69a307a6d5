//! Enqueue: one job, delays, batches.

use super::super::prelude::*;
use crate::fixture::Row;

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            enqueue_stores_the_job,
            "An enqueued job is ready, due now, and has everything it was given and nothing else",
            [C1, C4, C24],
        ),
        scenario!(
            a_delayed_job_is_due_after_its_delay,
            "A delayed job is due at the database's now plus its delay, and cannot be claimed before",
            [C7, C24],
        ),
        scenario!(
            delays_of_every_length_are_exact,
            "Delays of nanoseconds, weeks and a hundred years are stored to the microsecond",
            [C3, C24],
        ),
        scenario!(
            a_job_due_now_can_be_claimed_at_once,
            "A job without delay can be claimed by another session as soon as it is enqueued, fifty times in a row",
            [C1, C7, C24],
        ),
        scenario!(
            ids_come_in_the_order_given,
            "The ids of a batch stand in the order of its jobs, whatever queue, priority and delay they have",
            [C6],
        ),
        scenario!(
            ten_thousand_jobs_are_one_batch,
            "A batch of 10,000 jobs is stored in one call, and one more job than that is refused",
            [C3, C6],
        ),
        scenario!(
            a_large_batch_rolls_back_whole,
            "A batch of 2,500 jobs in the caller's transaction is there when that commits, and else not one of it",
            [C1, C6],
        ),
        scenario!(
            empty_batches_do_nothing,
            "An empty batch is answered with nothing, and is no error",
            [C11],
        ),
    ]
}

fn enqueue_stores_the_job<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.job_with(r#"{"to":"x"}"#)?.with_priority(-7);
    let job = job.with_payload_version(3).with_max_attempts(4)?;

    let (id, span) = Span::of(arena, || arena.store(&job))?;

    let row = arena.row(id)?;
    span.expect("run_at", row.run_at, Duration::ZERO)?;
    span.expect("enqueued_at", row.enqueued_at, Duration::ZERO)?;
    let expected = Row {
        job_id: id,
        queue: "mail".to_owned(),
        kind: "note".to_owned(),
        payload: br#"{"to":"x"}"#.to_vec(),
        payload_version: 3,
        state: State::Ready,
        priority: -7,
        run_at: row.run_at,
        attempts: 0,
        max_attempts: 4,
        worker_id: None,
        lease_until: None,
        enqueued_at: row.enqueued_at,
        claimed_at: None,
        finished_at: None,
        last_error: None,
        columns: Vec::new(),
    };
    expect_eq(&row, &expected)?;
    expect_that("rows", arena.probe.ids()?, [id])
}

fn a_delayed_job_is_due_after_its_delay<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let minute = Duration::from_secs(60);
    let job = arena.job()?.with_delay(minute)?;

    let (id, span) = Span::of(arena, || arena.store(&job))?;

    let row = arena.row(id)?;
    span.expect("run_at", row.run_at, minute)?;
    span.expect("enqueued_at", row.enqueued_at, Duration::ZERO)?;
    expect_eq(arena.claim("worker-a", 1)?, [])?;
    arena.let_come_due(id)?;
    expect_that("claimed", arena.claim_one("worker-a")?.job_id(), id)
}

// Reports 38 to 40: far instants wrap or are rounded, such as
// https://github.com/Particular/NServiceBus.SqlServer/issues/504.
fn delays_of_every_length_are_exact<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let day = Duration::from_secs(86_400);
    let delays = [
        Duration::from_nanos(999_999_600),
        Duration::from_secs(36 * 60),
        25 * day,
        400 * day,
        69 * 365 * day,
        36_500 * day,
    ];
    for length in delays {
        let job = arena.job()?.with_delay(length)?;

        let (id, span) = Span::of(arena, || arena.store(&job))?;

        let row = arena.row(id)?;
        span.expect(&format!("run_at after {length:?}"), row.run_at, length)?;
        let record = expect_some(arena.backend.get(id)?, "record")?;
        expect_that("run_at as read", record.run_at, row.run_at)?;
        if length > day {
            expect_eq(arena.claim("worker-a", 1)?, [])?;
        }
        arena.probe.delete(id)?;
    }
    Ok(())
}

// Report 39: a new job is invisible for a while,
// https://github.com/collectiveidea/delayed_job_active_record/issues/95.
fn a_job_due_now_can_be_claimed_at_once<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let (other, request) = (arena.session()?, arena.request("worker-a")?);
    for round in 0..50 {
        let job = arena.enqueue_one()?;

        let claimed = other.claim(&request)?;

        expect_that(format_args!("round {round}"), ids(&claimed), [job])?;
    }
    Ok(())
}

// Report 54: enqueue of many returns the ids of other jobs,
// https://github.com/mariadb-corporation/mariadb-connector-nodejs/issues/263.
fn ids_come_in_the_order_given<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = |number: usize| {
        let job = arena.job_with(&number.to_string())?;
        let priority = i32::try_from(number * 7 % 10).map_err(Failed::new)?;
        let delay = Duration::from_secs((number * 13 % 5) as u64);
        Ok(job.with_priority(priority).with_delay(delay)?)
    };
    let jobs = (0..500).map(job).collect::<Check<Vec<_>>>()?;

    let stored = arena.backend.enqueue(&jobs)?;

    expect_that("answers", stored.len(), jobs.len())?;
    for (number, stored) in stored.into_iter().enumerate() {
        expect(stored.is_new(), format_args!("{stored:?} is not new"))?;
        let row = arena.row(stored)?;
        expect_that("payload", row.payload, number.to_string().as_bytes())?;
        expect_that("priority", row.priority, jobs[number].priority())?;
    }
    Ok(())
}

// Report 53: bulk operations fail above an engine's limit,
// https://github.com/LanternOps/breeze/issues/1696.
fn ten_thousand_jobs_are_one_batch<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let stored = arena.enqueue(10_000)?;

    expect_that("rows", arena.probe.ids()?.len(), 10_000)?;
    for number in [0, 999, 1_000, 4_999, 9_999] {
        let payload = arena.row(stored[number])?.payload;
        expect_that("payload", payload, number.to_string().as_bytes())?;
    }

    let too_many = vec![arena.job()?; 10_001];
    expect_rejected(arena.backend.enqueue(&too_many))?;
    expect_that("rows", arena.probe.ids()?.len(), 10_000)
}

fn a_large_batch_rolls_back_whole<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let (jobs, before) = (vec![arena.job()?; 2_500], arena.snapshot()?);

    let rolled_back = arena.backend.transaction(|tx| {
        let stored = arena.backend.enqueue_in(tx, &jobs)?;
        expect_that("answers", stored.len(), 2_500)?;
        Err::<(), Failed>(Failed::new("rolled back"))
    });

    expect(rolled_back.is_err(), "the transaction's error is lost")?;
    arena.expect_unchanged(&before)?;
    let stored = arena
        .backend
        .transaction(|tx| arena.backend.enqueue_in(tx, &jobs))?;
    let stored: Vec<_> = stored.into_iter().map(|stored| stored.job_id()).collect();
    expect_that("rows", arena.probe.ids()?, stored)
}

fn empty_batches_do_nothing<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    arena.enqueue_and_claim("worker-a")?;
    let before = arena.snapshot()?;
    let lease = queue_table_core::LeaseLength::default();

    expect_that("enqueue", arena.backend.enqueue(&[])?, [])?;
    expect_that("renew", arena.backend.renew(&[], lease)?, [])?;
    expect_that("ack", arena.backend.ack(&[])?, [])?;
    expect_that("fail", arena.backend.fail(&[])?, [])?;
    let stored = arena
        .backend
        .transaction(|tx| arena.backend.enqueue_in(tx, &[]))?;
    expect_that("enqueue in a transaction", stored, [])?;

    arena.expect_unchanged(&before)
}
