//! Connections that are cut, and a server that is out of reach for a while.

use queue_table_core::{LeaseLength, RetryPolicy, Worker};

use crate::Proxy;
use crate::scenario::Need;
use crate::scenarios::prelude::*;
use crate::scenarios::tx::{Left, told};

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    let all = vec![
        scenario!(
            an_idle_connection_that_is_cut_is_replaced,
            "After the connections of an idle session were cut, each operation works or is unavailable, and works then",
            [C26, C27],
        ),
        scenario!(
            work_in_a_transaction_that_is_cut_stores_nothing,
            "A caller's transaction whose connection is cut midway stores nothing, is told so, and its session goes on",
            [C1, C17, C26, C27],
        ),
        scenario!(
            a_worker_goes_on_when_its_server_is_back,
            "A worker whose server is out of reach for a while goes on by itself, and loses no job and repeats none",
            [C8, C26],
        ),
        scenario!(
            a_server_out_of_reach_is_unavailable,
            "While the server is out of reach every operation says so, and changes nothing",
            [C26],
        ),
    ];
    let with_network = |scenario: Scenario<F>| scenario.needs(Need::Network(true));
    all.into_iter().map(with_network).collect()
}

/// The answer, or `None` when the database is said to be unavailable: no other error will do.
fn unless_unavailable<T>(answer: Result<T, queue_table_core::Error>) -> Check<Option<T>> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(queue_table_core::Error::Unavailable(_)) => Ok(None),
        Err(other) => Err(other.into()),
    }
}

/// Cuts everything, and runs the operation until it works: at most three times, as one connection
/// may be kept apart from the others. Says how often it ran.
fn after_a_cut<T>(
    proxy: &Proxy,
    operation: impl Fn() -> Result<T, queue_table_core::Error>,
) -> Check<T> {
    proxy.cut_all();
    for _ in 0..3 {
        if let Some(value) = unless_unavailable(operation())? {
            return Ok(value);
        }
    }
    Err(Failed::new("still unavailable, with the server in reach"))
}

/// Reports 63 and 66: a pool that only hands out what it has hands out what is dead.
fn an_idle_connection_that_is_cut_is_replaced<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let (proxy, session) = arena.through_a_network()?;
    let (job, request) = (arena.job()?, arena.request("worker-a")?);
    let first = session.enqueue_one(&job)?;

    let second = after_a_cut(&proxy, || session.enqueue_one(&job))?;
    let claimed = after_a_cut(&proxy, || session.claim(&request))?;
    let claimed = expect_one(claimed, "claimed job")?;
    let renew = || session.renew_one(&claimed.receipt, LeaseLength::default());
    renew()?;
    after_a_cut(&proxy, renew)?;
    let read = after_a_cut(&proxy, || session.get(second.job_id()))?;
    after_a_cut(&proxy, || session.ack_one(&claimed.receipt))?;

    expect_that("the claimed job", claimed.job_id(), first.job_id())?;
    expect_that("state read", expect_some(read, "job")?.state, State::Ready)?;
    let rows = arena.rows()?.into_iter();
    let rows: Vec<_> = rows.map(|row| (row.state, row.attempts)).collect();
    expect_eq(rows, [(State::Succeeded, 1), (State::Ready, 0)])
}

/// Report 63: what is left of a transaction on a pooled connection swallows what comes after it.
fn work_in_a_transaction_that_is_cut_stores_nothing<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let (proxy, session) = arena.through_a_network()?;
    let held = arena.enqueue_and_claim("worker-a")?;
    let (job, before) = (arena.job()?, arena.snapshot()?);

    for step in 0..3 {
        let cut = |at: usize| {
            if at == step {
                proxy.cut_all();
            }
        };
        let ended = session.transaction(|tx| {
            session.ack_in(tx, &held.receipt)?;
            cut(0);
            session.enqueue_in(tx, std::slice::from_ref(&job))?;
            cut(1);
            session.enqueue_in(tx, std::slice::from_ref(&job))?;
            cut(2);
            Ok::<(), Left>(())
        });
        let error = told(ended)?.err();
        let kind = error.as_ref().map(queue_table_core::Error::kind);
        // The commit itself was under way in the last round; it cannot have got through.
        let honest = if step == 2 {
            matches!(kind, Some("unavailable" | "outcome_unknown"))
        } else {
            kind == Some("unavailable")
        };
        expect(
            honest,
            format_args!("cut after step {step}: answered {error:?}"),
        )?;
        // The server may need a moment to see that the connection is gone, and to let go.
        unlocked(arena, &held)?;
        arena.expect_unchanged(&before)?;
    }

    session.ack_one(&held.receipt)?;
    let stored = session.enqueue_one(&job)?;
    expect_that("rows", arena.probe.ids()?, [held.job_id(), stored.job_id()])
}

/// Waits until nobody holds the job's row.
fn unlocked<F: Fixture>(arena: &Arena<'_, F>, held: impl crate::arena::OfJob) -> Check {
    arena.hold(held, Duration::ZERO)?.released()?;
    Ok(())
}

/// Report 66: after one error of the database the worker's thread is gone, and the queue grows. A
/// claim that was lost on the way comes back when its lease is over, and counts as an attempt
/// (report 65).
fn a_worker_goes_on_when_its_server_is_back<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    const JOBS: usize = 60;
    let outage = Duration::from_millis(1_500);
    let (proxy, session) = arena.through_a_network()?;
    let jobs = arena.enqueue(JOBS)?;
    let begun = Arc::new(std::sync::Mutex::new(Vec::new()));
    let notes = Arc::clone(&begun);
    let worker = Worker::builder(Arc::new(session))
        .queue(&arena.queue)
        .slots(2)
        .lease(Duration::from_secs(20))
        .poll_interval(Duration::from_millis(20))
        .reap_every(Duration::from_secs(3_600))
        .retry_policy(RetryPolicy::fixed(Duration::from_millis(1))?)
        .handle_kind("note", 1..=1, move |job, _| {
            std::thread::sleep(Duration::from_millis(10));
            let mut notes = notes.lock().unwrap_or_else(|broken| broken.into_inner());
            notes.push(job.job_id());
        })
        .start()
        .map_err(Failed::new)?;
    let succeeded = || {
        let rows = arena.rows()?;
        let done = rows.iter().filter(|row| row.state == State::Succeeded);
        Check::Ok(done.count())
    };
    wait("the first jobs are done", || Ok(succeeded()? > 4))?;

    proxy.close();
    let tried = proxy.tried();
    std::thread::sleep(outage);
    let tried = proxy.tried() - tried;
    proxy.open();

    expect(
        tried < 60,
        format_args!("the worker tried to connect {tried} times in {outage:?}"),
    )?;
    wait("all jobs are done", || {
        // Whatever claim or ack was lost on the way: its lease is over.
        let done = succeeded()?;
        if done < JOBS {
            bring_back_what_was_lost(arena)?;
        }
        Ok(done == JOBS)
    })?;
    worker.stop(Duration::from_secs(10));
    let begun = begun.lock().unwrap_or_else(|broken| broken.into_inner());
    for job in jobs {
        let runs = begun.iter().filter(|one| **one == job).count();
        let attempts = arena.row(job)?.attempts as usize;
        expect(
            (1..=attempts).contains(&runs) && attempts <= 2,
            format_args!("job {job} was begun {runs} times with {attempts} claims"),
        )?;
    }
    Ok(())
}

/// Ends the leases of claims that nobody has worked on for a while.
fn bring_back_what_was_lost<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let now = arena.probe.now()?;
    for row in arena.rows()? {
        let since = row.claimed_at.map(|at| now.since(at));
        let stale = since.is_some_and(|since| since > Duration::from_secs(6));
        if row.state == State::Running && stale {
            arena.let_lease_expire(&row)?;
        }
    }
    for reaped in arena.reap()? {
        if arena.row(reaped.job_id)?.state == State::Ready {
            arena.let_come_due(reaped.job_id)?;
        }
    }
    Ok(())
}

/// Waits until something is so.
#[track_caller]
fn wait(what: &str, mut is_so: impl FnMut() -> Check<bool>) -> Check {
    let start = std::time::Instant::now();
    while !is_so()? {
        expect_within(start, Duration::from_secs(45), what)?;
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Report 67, as far as a network goes: an empty claim would look like an empty queue.
fn a_server_out_of_reach_is_unavailable<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let (proxy, session) = arena.through_a_network()?;
    let (job, request) = (arena.job()?, arena.request("worker-b")?);
    let held = arena.enqueue_and_claim("worker-a")?;
    let failure = retry(&held, 0, "again")?;
    session.get(held.job_id())?;
    let before = arena.snapshot()?;

    proxy.close();
    expect_kind(session.claim(&request), "unavailable")?;
    expect_kind(session.enqueue_one(&job), "unavailable")?;
    expect_kind(session.ack_one(&held.receipt), "unavailable")?;
    expect_kind(session.fail_one(&failure), "unavailable")?;
    expect_kind(session.get(held.job_id()), "unavailable")?;
    expect_kind(
        session.transaction(|tx| session.claim_in(tx, &request)),
        "unavailable",
    )?;
    arena.expect_unchanged(&before)?;
    proxy.open();

    session.ack_one(&held.receipt)?;
    arena.expect_state(&held, State::Succeeded)
}
