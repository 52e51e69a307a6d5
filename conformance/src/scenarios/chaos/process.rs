//! A second process that is killed, stopped, or dies of its own job.

use std::collections::BTreeSet;

use queue_table_core::JobId;

use crate::Row;
use crate::child::{Child, Role};
use crate::scenario::Need;
use crate::scenarios::prelude::*;

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    let all = vec![
        scenario!(
            a_killed_workers_jobs_are_not_lost,
            "A worker killed in the middle of its work loses no job, and only what it held runs again",
            [C8, C18, C19],
        ),
        scenario!(
            a_worker_that_stood_still_cannot_finish_a_job_taken_over,
            "A process that is stopped until its job was claimed by another cannot finish it when it goes on",
            [C13, C15],
        ),
        scenario!(
            a_job_that_kills_its_worker_dies_at_its_limit,
            "A job that ends its worker's process is begun as often as its budget allows, and others get done",
            [C18, C19],
        ),
        scenario!(
            two_processes_share_the_jobs,
            "Two processes on the same tables begin 400 jobs once each",
            [C8, C10],
        ),
        scenario!(
            a_process_killed_inside_a_transaction_leaves_nothing,
            "A process killed inside a transaction leaves no job, no claim, no ack and no lock",
            [C1, C17, C27],
        ),
    ];
    let with_processes = |scenario: Scenario<F>| scenario.needs(Need::Processes(true));
    all.into_iter().map(with_processes).collect()
}

pub(super) fn start<F: Fixture>(arena: &Arena<'_, F>, role: Role) -> Check<Child> {
    Child::start(role, &arena.probe.address()?)
}

/// Stores so many jobs that take a few milliseconds each.
fn enqueue<F: Fixture>(arena: &Arena<'_, F>, jobs: usize, millis: u32) -> Check {
    let job = arena.job_with(&millis.to_string())?;
    arena.backend.enqueue(&vec![job; jobs]).map(drop)?;
    Ok(())
}

/// What a dead process held comes back, and may be claimed at once.
pub(super) fn take_back<F: Fixture>(arena: &Arena<'_, F>) -> Check<BTreeSet<JobId>> {
    let rows = settled(arena)?.into_iter();
    let held: Vec<_> = rows.filter(|row| row.state == State::Running).collect();
    for row in &held {
        arena.let_lease_expire(row)?;
    }
    expect_that("reaped", arena.reap()?.len(), held.len())?;
    for row in &held {
        if arena.row(row)?.state == State::Ready {
            arena.let_come_due(row)?;
        }
    }
    Ok(held.into_iter().map(|row| row.job_id).collect())
}

/// The rows once they have stopped changing: a server may still carry out what a process sent
/// before it was killed.
fn settled<F: Fixture>(arena: &Arena<'_, F>) -> Check<Vec<Row>> {
    let start = std::time::Instant::now();
    let mut before = arena.rows()?;
    loop {
        std::thread::sleep(Duration::from_millis(150));
        let now = arena.rows()?;
        if now == before {
            return Ok(now);
        }
        before = now;
        expect_within(
            start,
            Duration::from_secs(20),
            "rows of a dead process at rest",
        )?;
    }
}

/// Waits until no job is ready or running, and ends the child.
fn drain<F: Fixture>(arena: &Arena<'_, F>, child: &mut Child) -> Check {
    let start = std::time::Instant::now();
    while arena.rows()?.iter().any(|row| !row.state.is_terminal()) {
        expect_within(start, Duration::from_secs(40), "draining the queue")?;
        std::thread::sleep(Duration::from_millis(10));
    }
    child.tell_to_stop();
    Ok(())
}

fn a_killed_workers_jobs_are_not_lost<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    enqueue(arena, 40, 15)?;
    let mut killed = start(arena, Role::Worker)?;
    for _ in 0..10 {
        expect_some(killed.hear("ended")?, "job done by the child")?;
    }
    let next = expect_some(killed.hear("began")?, "job begun by the child")?;

    killed.kill()?;

    let rest = killed.hear_out();
    let held = take_back(arena)?;
    for [job, attempt] in std::iter::once(next).chain(begun_only(&rest)) {
        let done = rest.contains(&("ended".to_owned(), [job, attempt]));
        expect(
            done || held.contains(&JobId::new(job)),
            format_args!("job {job} was not done, and does not come back"),
        )?;
    }
    let mut other = start(arena, Role::Worker)?;
    drain(arena, &mut other)?;
    let begun = other.hear_all("began")?;
    let again = begun.iter().filter(|[_, attempt]| *attempt > 1);
    let again: BTreeSet<_> = again.map(|[job, _]| JobId::new(*job)).collect();
    expect_that("jobs begun again", again, held.clone())?;
    for row in arena.rows()? {
        let attempts = 1 + u32::from(held.contains(&row.job_id));
        expect_eq((row.state, row.attempts), (State::Succeeded, attempts))?;
    }
    Ok(())
}

fn a_worker_that_stood_still_cannot_finish_a_job_taken_over<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    enqueue(arena, 1, 1_500)?;
    let mut stopped = start(arena, Role::Worker)?;
    expect_some(stopped.hear("began")?, "job begun by the child")?;
    stopped.signal("STOP")?;
    take_back(arena)?;
    let taken_over = arena.claim_one("worker-b")?;
    let before = arena.snapshot()?;

    stopped.signal("CONT")?;

    expect_some(stopped.hear("ended")?, "end of the child's handler")?;
    stopped.tell_to_stop();
    let [succeeded, lost] = expect_some(stopped.hear("stopped")?, "report of the child")?;
    expect_eq((succeeded, lost), (0, 1))?;
    arena.expect_unchanged(&before)?;
    Ok(arena.backend.ack_one(&taken_over.receipt)?)
}

fn begun_only(said: &[(String, [i64; 2])]) -> impl Iterator<Item = [i64; 2]> + '_ {
    let begun = said.iter().filter(|(word, _)| word == "began");
    begun.map(|(_, numbers)| *numbers)
}

/// Report 26: attempts are counted by the claim, not by whoever lives to report a failure.
fn a_job_that_kills_its_worker_dies_at_its_limit<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let deadly = arena.job_with("\"abort\"")?.with_max_attempts(3)?;
    let deadly = arena.store(&deadly.with_priority(1))?;
    enqueue(arena, 6, 5)?;

    for attempt in 1..=3 {
        let child = start(arena, Role::Worker)?;
        let begun = child.hear_all("began")?;
        let deaths = begun.iter().filter(|[job, _]| JobId::new(*job) == deadly);
        let attempts: Vec<_> = deaths.map(|[_, attempt]| *attempt).collect();
        expect_that("begun", attempts, [attempt])?;
        take_back(arena)?;
    }
    let mut last = start(arena, Role::Worker)?;
    drain(arena, &mut last)?;

    let begun = last.hear_all("began")?;
    let again = begun.iter().any(|[job, _]| JobId::new(*job) == deadly);
    expect(!again, "a dead job was begun")?;
    for row in arena.rows()? {
        let dead = row.job_id == deadly;
        let expected = if dead { State::Dead } else { State::Succeeded };
        expect_that(row.job_id, row.state, expected)?;
    }
    expect_that("attempts", arena.row(deadly)?.attempts, 3)
}

/// Report 17.
fn two_processes_share_the_jobs<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    enqueue(arena, 400, 0)?;

    let mut both = [start(arena, Role::Worker)?, start(arena, Role::Worker)?];
    for child in &mut both {
        drain(arena, child)?;
    }

    let begun = both.iter().map(|child| child.hear_all("began"));
    let mut begun = begun.collect::<Check<Vec<_>>>()?.concat();
    begun.sort_unstable();
    let each_once: Vec<_> = arena
        .probe
        .ids()?
        .iter()
        .map(|job| [job.get(), 1])
        .collect();
    expect_that("jobs begun", begun, each_once)
}

fn a_process_killed_inside_a_transaction_leaves_nothing<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.enqueue_one()?;
    let mut child = start(arena, Role::Transaction)?;
    let [acked, _] = expect_some(child.hear("began")?, "claim in the child's transaction")?;
    expect_that("the child's job", acked, job.get())?;

    child.kill()?;

    // The server may need a moment to see that the connection is gone.
    let start = std::time::Instant::now();
    let claimed = loop {
        if let Some(claimed) = arena.claim("worker-a", 10)?.pop() {
            break claimed;
        }
        expect_within(start, Duration::from_secs(20), "the release of the lock")?;
        std::thread::sleep(Duration::from_millis(20));
    };
    expect_eq((claimed.job_id(), claimed.attempt()), (job, 1))?;
    expect_eq(arena.probe.ids()?, [job])?;
    Ok(arena.backend.ack_one(&claimed.receipt)?)
}
