//! Everything at once: producers, workers, reapers and a purger.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use queue_table_core::{
    BatchSize, ClaimedJob, Delay, Disposition, ErrorText, Failure, JobId, LeaseLength,
    PurgeRequest, ReapRequest, RetryPolicy,
};

use crate::scenarios::prelude::*;
use crate::scenarios::together::at_once;

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![
        scenario!(
            mixed_load_loses_nothing_and_shows_no_conflict,
            "Producers, workers that fail or vanish, reapers and a purger at once: every job ends once, and no conflict reaches a caller",
            [C10, C13, C16, C18, C19, C22, C26],
        ),
        scenario!(
            heavy_mixed_load_loses_nothing_and_shows_no_conflict,
            "The same with 2,000 jobs and 15 sessions",
            [C10, C13, C16, C18, C19, C22, C26],
        )
        .slow(),
    ]
}

/// Report 5.
fn mixed_load_loses_nothing_and_shows_no_conflict<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let load = Load {
        producers: 2,
        jobs_each: 40,
        workers: 4,
    };
    soak(arena, load, Duration::from_secs(50))
}

/// Report 5, as it stands there.
fn heavy_mixed_load_loses_nothing_and_shows_no_conflict<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let load = Load {
        producers: 4,
        jobs_each: 500,
        workers: 8,
    };
    soak(arena, load, Duration::from_secs(280))
}

#[derive(Clone, Copy)]
struct Load {
    producers: usize,
    jobs_each: usize,
    workers: usize,
}

/// What the sessions have seen.
#[derive(Default)]
struct Census {
    claims: Mutex<BTreeMap<JobId, Vec<u32>>>,
    claimed: AtomicUsize,
    acks: Mutex<BTreeMap<JobId, u32>>,
    ended: AtomicUsize,
    broken: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn soak<F: Fixture>(arena: &Arena<'_, F>, load: Load, at_most: Duration) -> Check {
    let (census, start) = (Census::default(), Instant::now());
    let jobs = load.producers * load.jobs_each;
    let goes_on = || {
        expect_within(start, at_most, "the load")?;
        // Far more than the drawn failures ask for: a job that never ends must not keep us busy.
        expect(
            census.claimed.load(Ordering::Relaxed) < jobs * 20,
            "jobs are claimed again and again",
        )?;
        let broken = census.broken.load(Ordering::Relaxed);
        Check::Ok(!broken && census.ended.load(Ordering::Relaxed) < jobs)
    };
    let reapers_from = load.producers + load.workers;

    at_once(arena, reapers_from + 3, |number, session| {
        let work = || {
            if number < load.producers {
                return produce(arena, session, load.jobs_each);
            }
            while goes_on()? {
                if number < reapers_from {
                    work(arena, session, number, &census)?;
                } else if number < reapers_from + 2 {
                    reap(session, &census)?;
                } else {
                    purge(session)?;
                }
            }
            Ok(())
        };
        // Any error, a conflict above all, ends the others too and fails the scenario.
        let worked: Check = work();
        census.broken.fetch_or(worked.is_err(), Ordering::Relaxed);
        worked
    })?;

    judge(arena, &census, jobs)
}

fn produce<F: Fixture>(arena: &Arena<'_, F>, session: &F::Backend, jobs: usize) -> Check {
    for number in 0..jobs.div_ceil(10) {
        let job = arena.job()?.with_max_attempts(5)?;
        let job = job.with_priority(i32::try_from(number % 3).unwrap_or(0));
        session.enqueue(&vec![job; 10.min(jobs - number * 10)])?;
    }
    Ok(())
}

/// Claims a batch and settles it as the jobs' ids and attempts say, or vanishes with all of it.
fn work<F: Fixture>(
    arena: &Arena<'_, F>,
    session: &F::Backend,
    number: usize,
    census: &Census,
) -> Check {
    let vanishes = lock(&census.claims).len() % 7 == 6;
    let lease = if vanishes {
        Duration::from_millis(100)
    } else {
        Duration::from_secs(60)
    };
    let limit = BatchSize::new(1 + u32::try_from(number).unwrap_or(0))?;
    let request = arena.request(&format!("worker-{number}"))?;
    let request = request
        .with_lease(LeaseLength::new(lease)?)
        .with_limit(limit);
    let claimed = session.claim(&request)?;
    for job in &claimed {
        lock(&census.claims)
            .entry(job.job_id())
            .or_default()
            .push(job.attempt());
    }
    census.claimed.fetch_add(claimed.len(), Ordering::Relaxed);
    if claimed.is_empty() {
        std::thread::sleep(Duration::from_millis(2));
    }
    if vanishes {
        return Ok(());
    }
    settle(session, &claimed, census)
}

/// Acks and fails the jobs. Nobody else may have them: their leases are long.
fn settle<B: QueueBackend>(session: &B, claimed: &[ClaimedJob], census: &Census) -> Check {
    let (good, bad): (Vec<_>, Vec<_>) = claimed.iter().partition(|job| draw(job) < 14);
    let receipts: Vec<_> = good.iter().map(|job| job.receipt.clone()).collect();
    for (receipt, answer) in receipts.iter().zip(session.ack(&receipts)?) {
        answer?;
        *lock(&census.acks).entry(receipt.job_id()).or_default() += 1;
        census.ended.fetch_add(1, Ordering::Relaxed);
    }
    let failures: Vec<_> = bad.into_iter().map(failure).collect();
    for answer in session.fail(&failures)? {
        let dead = usize::from(answer? == Disposition::Dead);
        census.ended.fetch_add(dead, Ordering::Relaxed);
    }
    Ok(())
}

/// A number below 20 that is the same whenever the scenario is run.
fn draw(job: &ClaimedJob) -> i64 {
    (job.job_id().get() * 7 + i64::from(job.attempt()) * 3) % 20
}

fn failure(job: &ClaimedJob) -> Failure {
    let (receipt, error) = (job.receipt.clone(), ErrorText::new("drawn"));
    match draw(job) {
        19 => Failure::dead(receipt, error),
        18 => Failure::release(receipt, Delay::ZERO),
        _ => Failure::retry(receipt, Delay::ZERO, error),
    }
}

fn reap<B: QueueBackend>(session: &B, census: &Census) -> Check {
    let policy = RetryPolicy::fixed(Duration::from_millis(1))?;
    for reaped in session.reap(&ReapRequest::new(BatchSize::new(5)?, policy))? {
        let dead = usize::from(reaped.disposition == Disposition::Dead);
        census.ended.fetch_add(dead, Ordering::Relaxed);
    }
    std::thread::sleep(Duration::from_millis(5));
    Ok(())
}

fn purge<B: Administration>(session: &B) -> Check {
    let request = PurgeRequest {
        succeeded_after: Some(Delay::ZERO),
        dead_after: None,
        limit: BatchSize::new(4)?,
        cursor: None,
    };
    session.purge(&request)?;
    std::thread::sleep(Duration::from_millis(5));
    Ok(())
}

fn judge<F: Fixture>(arena: &Arena<'_, F>, census: &Census, jobs: usize) -> Check {
    let (claims, acks) = (lock(&census.claims), lock(&census.acks));
    expect_that("jobs claimed", claims.len(), jobs)?;
    for (job, attempts) in &*claims {
        let mut attempts = attempts.clone();
        attempts.sort_unstable();
        let in_a_row: Vec<_> = (1..).take(attempts.len()).collect();
        expect_that(format_args!("attempts of job {job}"), attempts, in_a_row)?;
        let acked = acks.get(job).copied().unwrap_or(0);
        let row = arena.probe.row(*job)?;
        let state = row.map_or(State::Succeeded, |row| row.state);
        let expected = if acked == 0 {
            State::Dead
        } else {
            State::Succeeded
        };
        expect_that(format_args!("acks of job {job}"), acked.max(1), 1)?;
        expect_that(format_args!("state of job {job}"), state, expected)?;
    }
    Ok(())
}
