//! What operators see: get, list, stats, failures.

use queue_table_core::{
    BatchSize, JobId, JobRecord, Kind, ListRequest, NewJob, QueueName, QueueStats,
};

use super::super::prelude::*;
use crate::fixture::Row;

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            a_record_is_the_row,
            "Reading a job tells every column as it is stored, in every state, and nothing for an unknown id",
            [C4, C24],
        ),
        scenario!(
            lists_are_filtered,
            "A list has the jobs of the queue, state and kind asked for, and no others",
            [C25],
        ),
        scenario!(
            lists_go_on_behind_the_last_id,
            "A list goes by id, page by page, each job once",
            [C6],
        ),
        scenario!(
            stats_count_every_job_once,
            "Stats count due, scheduled, running, overdue, succeeded and dead jobs, and tell the longest wait",
            [C24],
        ),
        scenario!(
            stats_tell_every_queue_by_name,
            "Stats tell every queue by name, a paused one without jobs too, and only the one asked for",
            [C7, C25],
        ),
        scenario!(
            looking_changes_nothing,
            "Get, list, failures and stats change no row, not even overdue and exhausted ones",
            [C27],
        ),
    ]
}

/// The record as a row, for comparing all columns at once.
fn as_row(record: JobRecord) -> Row {
    Row {
        job_id: record.job_id,
        queue: record.queue.into(),
        kind: record.kind.into(),
        payload: record.payload.as_bytes().to_vec(),
        payload_version: record.payload_version,
        state: record.state,
        priority: record.priority,
        run_at: record.run_at,
        attempts: record.attempts,
        max_attempts: record.max_attempts,
        worker_id: record.worker.map(String::from),
        lease_until: record.lease_until,
        enqueued_at: record.enqueued_at,
        claimed_at: record.claimed_at,
        finished_at: record.finished_at,
        last_error: record.last_error,
        columns: record.columns,
    }
}

/// One job in each state, and one that is scheduled.
fn one_of_each<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    arena.succeeded_job()?;
    arena.dead_job()?;
    arena.enqueue_and_claim("worker-a")?;
    let job = arena.job_with(r#"{"to":"x"}"#)?.with_priority(5);
    arena.store(&job.with_payload_version(2))?;
    arena.store(&arena.job()?.with_delay(Duration::from_secs(3_600))?)?;
    Ok(())
}

fn a_record_is_the_row<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    one_of_each(arena)?;

    for row in arena.rows()? {
        let record = expect_some(arena.backend.get(row.job_id)?, "record")?;
        expect_that("record", as_row(record), row)?;
    }

    let list = ListRequest::first(BatchSize::MAX);
    let listed: Vec<_> = arena.backend.list(&list)?.into_iter().map(as_row).collect();
    expect_that("list", listed, arena.rows()?)?;
    expect_eq(arena.backend.get(JobId::new(i64::MAX))?, None)?;
    expect_eq(arena.backend.failures(JobId::new(i64::MAX))?, [])
}

fn lists_are_filtered<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    one_of_each(arena)?;
    let (queue, kind) = (QueueName::new("billing")?, Kind::new("invoice")?);
    let payload = arena.job()?.payload().clone();
    arena.store(&NewJob::new(&queue, kind.clone(), payload.clone()))?;
    arena.store(&NewJob::new(&arena.queue, kind.clone(), payload))?;
    let rows = arena.rows()?;
    let states = State::ALL.map(Some).into_iter().chain([None]);

    for state in states {
        for queue in [None, Some(queue.clone()), Some(arena.queue.clone())] {
            for kind in [None, Some(kind.clone())] {
                let request = ListRequest {
                    queue: queue.clone(),
                    state,
                    kind: kind.clone(),
                    ..ListRequest::first(BatchSize::MAX)
                };
                let asked = rows.iter().filter(|row| {
                    state.is_none_or(|state| row.state == state)
                        && queue
                            .as_ref()
                            .is_none_or(|queue| row.queue == queue.as_str())
                        && kind.as_ref().is_none_or(|kind| row.kind == kind.as_str())
                });
                let asked: Vec<_> = asked.map(|row| row.job_id).collect();
                let listed = arena.backend.list(&request)?.into_iter();
                let listed: Vec<_> = listed.map(|record| record.job_id).collect();
                expect_that(format_args!("{request:?}"), listed, asked)?;
            }
        }
    }
    Ok(())
}

fn lists_go_on_behind_the_last_id<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let jobs = arena.enqueue(7)?;
    arena.claim("worker-a", 3)?;
    let page = |after, state| {
        let request = ListRequest {
            after,
            state,
            ..ListRequest::first(BatchSize::new(3)?)
        };
        let listed = arena.backend.list(&request)?.into_iter();
        Ok::<_, Failed>(listed.map(|record| record.job_id).collect::<Vec<_>>())
    };

    expect_that("first page", page(None, None)?, &jobs[..3])?;
    expect_that("second page", page(Some(jobs[2]), None)?, &jobs[3..6])?;
    expect_that("third page", page(Some(jobs[5]), None)?, &jobs[6..])?;
    expect_that("behind the last", page(Some(jobs[6]), None)?, [])?;
    let ready = Some(State::Ready);
    expect_that("first ready", page(None, ready)?, &jobs[3..6])?;
    expect_that("second ready", page(Some(jobs[5]), ready)?, &jobs[6..])
}

fn stats_count_every_job_once<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    arena.dead_job()?;
    one_of_each(arena)?;
    let jobs = arena.enqueue(3)?;
    arena.probe.rewind(jobs[1], Duration::from_secs(600))?;
    let overdue = arena.row(expect_one(
        arena
            .rows()?
            .into_iter()
            .filter(|row| row.state == State::Running)
            .collect(),
        "running job",
    )?)?;
    let held = arena.claim_one("worker-b")?;
    arena.let_lease_expire(&overdue)?;

    let stats = expect_one(arena.backend.stats(None)?, "queue")?;

    let waited = expect_some(stats.oldest_due, "longest wait")?;
    expect(
        (Duration::from_secs(600)..Duration::from_secs(660)).contains(&waited),
        format_args!("the longest wait is {waited:?}"),
    )?;
    expect(held.priority == 5, "the urgent job was not claimed first")?;
    let expected = QueueStats {
        queue: arena.queue.clone(),
        due: 3,
        scheduled: 1,
        running: 2,
        overdue: 1,
        succeeded: 1,
        dead: 2,
        oldest_due: stats.oldest_due,
        paused: false,
    };
    expect_eq(stats, expected)
}

fn stats_tell_every_queue_by_name<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    arena.store(&job_for("zeta")?)?;
    arena.store(&job_for("alpha")?)?;
    arena.enqueue_one()?;
    let (idle, zeta) = (QueueName::new("idle")?, QueueName::new("zeta")?);
    arena.backend.pause(&idle)?;
    arena.backend.pause(&zeta)?;
    let stats = |queue: Option<&QueueName>| {
        let stats = arena.backend.stats(queue)?.into_iter();
        let told = stats.map(|one| (String::from(one.queue), one.due, one.paused));
        Ok::<_, Failed>(told.collect::<Vec<_>>())
    };
    let told = |queue: &str, due, paused| (queue.to_owned(), due, paused);

    let expected = [
        told("alpha", 1, false),
        told("idle", 0, true),
        told("mail", 1, false),
        told("zeta", 1, true),
    ];
    expect_that("all queues", stats(None)?, &expected[..])?;
    expect_that("one queue", stats(Some(&zeta))?, &expected[3..])?;
    expect_that("a paused queue", stats(Some(&idle))?, &expected[1..2])?;
    let unknown = QueueName::new("unknown")?;
    expect_that("an unknown queue", stats(Some(&unknown))?, [])
}

fn looking_changes_nothing<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    one_of_each(arena)?;
    let claimed = arena.claim_one("worker-b")?;
    arena.let_lease_expire(&claimed)?;
    let spent = arena.enqueue_one()?;
    arena
        .probe
        .write(spent, &[Change::Attempts(2), Change::MaxAttempts(1)])?;
    let before = arena.snapshot()?;

    for row in arena.rows()? {
        arena.backend.get(row.job_id)?;
        arena.backend.failures(row.job_id)?;
    }
    arena.backend.list(&ListRequest::first(BatchSize::MAX))?;
    arena.backend.stats(None)?;

    arena.expect_unchanged(&before)?;
    let failure = retry(&claimed, 0, "again")?;
    expect_lost(arena.backend.fail_one(&failure), LostReason::Expired)
}
