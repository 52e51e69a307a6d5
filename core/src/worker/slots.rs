//! The handler slots: how many jobs may be claimed, and which one a handler thread takes next.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use super::held::Held;
use super::{lock, wait};

/// Counts handler threads and the jobs that wait for one.
#[derive(Debug)]
pub(super) struct Slots {
    threads: usize,
    prefetch: usize,
    lease: Duration,
    state: Mutex<State>,
    /// A job waits, or the slots were closed: for handler threads.
    work: Condvar,
    /// A handler returned, or the slots were closed: for the poller and for shutdown.
    freed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Arc<Held>>,
    busy: usize,
    closed: bool,
    /// How long a job takes, of late.
    usual: Option<Duration>,
}

impl Slots {
    /// `threads` jobs run at a time; at most `prefetch` more wait, fewer when they could not start
    /// in time.
    pub(super) fn new(threads: usize, prefetch: usize, lease: Duration) -> Self {
        Self {
            threads,
            prefetch,
            lease,
            state: Mutex::new(State::default()),
            work: Condvar::new(),
            freed: Condvar::new(),
        }
    }

    /// How many jobs may be claimed now; waits for the first free slot. Zero when closed, or after
    /// `at_most`.
    pub(super) fn room(&self, at_most: Duration) -> usize {
        let until = Instant::now() + at_most;
        let mut state = lock(&self.state);
        loop {
            let room = self.room_in(&state);
            let left = until.saturating_duration_since(Instant::now());
            if room > 0 || state.closed || left.is_zero() {
                return room;
            }
            state = wait(&self.freed, state, left);
        }
    }

    fn room_in(&self, state: &State) -> usize {
        if state.closed {
            return 0;
        }
        let taken = state.busy + state.waiting.len();
        (self.threads + self.ahead(state)).saturating_sub(taken)
    }

    /// How many jobs beyond the free slots would still start within half a lease, as long as jobs
    /// usually take.
    fn ahead(&self, state: &State) -> usize {
        let Some(usual) = state.usual else { return 0 };
        let each = usual.max(Duration::from_micros(1)).as_secs_f64();
        let rounds = (self.lease.as_secs_f64() / 2.0 / each).floor();
        let startable = (rounds * self.threads as f64).min(self.prefetch as f64);
        startable as usize
    }

    /// Hands claimed jobs to the handler threads. Closed slots take none and return them all.
    pub(super) fn offer(&self, jobs: Vec<Arc<Held>>) -> Vec<Arc<Held>> {
        let mut state = lock(&self.state);
        if state.closed {
            return jobs;
        }
        let several = jobs.len() > 1;
        state.waiting.extend(jobs);
        drop(state);
        if several {
            self.work.notify_all();
        } else {
            self.work.notify_one();
        }
        Vec::new()
    }

    /// The next job for the calling handler thread, whose slot is then busy; `None` once closed.
    pub(super) fn next(&self) -> Option<Arc<Held>> {
        let mut state = lock(&self.state);
        loop {
            if let Some(held) = state.waiting.pop_front() {
                state.busy += 1;
                return Some(held);
            }
            if state.closed {
                return None;
            }
            state = super::wait_for(&self.work, state);
        }
    }

    /// The next job, if one waits; its slot is then busy.
    pub(super) fn try_next(&self) -> Option<Arc<Held>> {
        let mut state = lock(&self.state);
        let held = state.waiting.pop_front()?;
        state.busy += 1;
        Some(held)
    }

    /// A handler thread is done with its job; `took` when a handler really ran.
    pub(super) fn done(&self, took: Option<Duration>) {
        let mut state = lock(&self.state);
        state.busy -= 1;
        if let Some(took) = took {
            state.usual = Some(match state.usual {
                // Slow jobs count at once, fast ones bit by bit: too many waiting jobs are the
                // worse mistake.
                Some(usual) if took < usual => (usual * 7 + took) / 8,
                _ => took,
            });
        }
        drop(state);
        self.freed.notify_all();
    }

    /// Takes out the waiting jobs that can no longer start in time.
    pub(super) fn take_overdue(&self, now: Instant) -> Vec<Arc<Held>> {
        let mut state = lock(&self.state);
        let (fit, overdue) = state
            .waiting
            .drain(..)
            .partition(|held: &Arc<Held>| held.may_start(now));
        state.waiting = fit;
        if !overdue.is_empty() {
            // The jobs that run now take longer than was thought: nothing is claimed ahead until
            // some have ended.
            state.usual = Some(self.lease);
        }
        overdue.into()
    }

    /// Takes no more jobs, ends the handler threads that wait, and returns the jobs that no handler
    /// has begun.
    pub(super) fn close(&self) -> Vec<Arc<Held>> {
        let mut state = lock(&self.state);
        state.closed = true;
        let waiting = state.waiting.drain(..).collect();
        drop(state);
        self.work.notify_all();
        self.freed.notify_all();
        waiting
    }

    /// Waits until no handler runs; `false` when one still does at `until`.
    pub(super) fn wait_idle(&self, until: Instant) -> bool {
        let mut state = lock(&self.state);
        while state.busy > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = wait(&self.freed, state, left);
        }
        true
    }

    /// How many handlers run.
    pub(super) fn busy(&self) -> usize {
        lock(&self.state).busy
    }
}

#[cfg(test)]
mod tests {
    use super::super::held::tests::held;
    use super::*;

    const LEASE: Duration = Duration::from_secs(60);
    const NOW: Duration = Duration::ZERO;

    #[test]
    fn room_is_what_no_thread_and_no_waiting_job_takes() {
        let slots = Slots::new(3, 0, LEASE);
        assert_eq!(slots.room(NOW), 3);
        assert!(slots.offer(vec![held(1, LEASE), held(2, LEASE)]).is_empty());
        assert_eq!(slots.room(NOW), 1);
        assert_eq!(slots.next().unwrap().job.job_id().get(), 1);
        assert_eq!(slots.room(NOW), 1);
        slots.done(None);
        assert_eq!((slots.room(NOW), slots.busy()), (2, 0));
    }

    #[test]
    fn nothing_is_claimed_ahead_before_the_first_job_has_been_timed() {
        let slots = Slots::new(2, 100, LEASE);
        assert_eq!(slots.room(NOW), 2);
        slots.offer(vec![held(1, LEASE)]);
        slots.next().unwrap();
        slots.done(Some(Duration::from_millis(1)));
        assert_eq!(slots.room(NOW), 102);
    }

    #[test]
    fn slow_jobs_stop_claims_ahead_that_would_not_start_within_half_a_lease() {
        let slots = Slots::new(2, 100, LEASE);
        for (took, room) in [(10, 2 + 6), (31, 2), (200, 2)] {
            slots.offer(vec![held(1, LEASE)]);
            slots.next().unwrap();
            slots.done(Some(Duration::from_secs(took)));
            assert_eq!(slots.room(NOW), room, "after a job of {took} s");
        }
    }

    #[test]
    fn waiting_jobs_that_cannot_start_in_time_are_taken_out() {
        let slots = Slots::new(1, 0, LEASE);
        slots.offer(vec![held(1, Duration::ZERO), held(2, LEASE)]);
        let overdue = slots.take_overdue(Instant::now());
        assert_eq!(overdue.len(), 1);
        assert_eq!(overdue[0].job.job_id().get(), 1);
        assert_eq!(slots.next().unwrap().job.job_id().get(), 2);
    }

    #[test]
    fn nothing_is_claimed_ahead_after_waiting_jobs_could_not_start() {
        let slots = Slots::new(1, 5, LEASE);
        slots.offer(vec![held(1, LEASE), held(2, Duration::ZERO)]);
        slots.next().unwrap();
        slots.done(Some(Duration::from_millis(1)));
        assert_eq!(slots.room(NOW), 5);
        slots.take_overdue(Instant::now());
        assert_eq!(slots.room(NOW), 1);
    }

    #[test]
    fn closed_slots_return_what_never_started_and_refuse_more() {
        let slots = Slots::new(1, 0, LEASE);
        slots.offer(vec![held(1, LEASE), held(2, LEASE)]);
        slots.next().unwrap();
        assert_eq!(slots.close().len(), 1);
        assert_eq!(slots.offer(vec![held(3, LEASE)]).len(), 1);
        assert_eq!(slots.room(LEASE), 0);
        assert!(slots.next().is_none());
        assert!(!slots.wait_idle(Instant::now()));
        slots.done(None);
        assert!(slots.wait_idle(Instant::now()));
    }
}
