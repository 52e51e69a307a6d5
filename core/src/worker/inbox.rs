//! The results on their way from the handlers to the database.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::error::ErrorText;
use crate::job::ClaimedJob;
use crate::request::{FailAction, Failure};

use super::aftermath::Asked;
use super::held::Held;
use super::{lock, wait, wait_for};

/// What the database is to be told of one claim.
#[derive(Debug)]
pub(super) struct Completion {
    pub(super) held: Arc<Held>,
    pub(super) wish: Wish,
    /// The reply to an earlier try was lost: a refusal may be of our own making.
    pub(super) doubt: Option<Doubt>,
    /// A batch with this result in it was refused as a whole: it travels alone from now on.
    pub(super) alone: bool,
    /// How often it was refused when it travelled alone.
    pub(super) refusals: u32,
}

/// A result that may be stored or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Doubt {
    /// When a reply was lost first.
    pub(super) since: Instant,
    /// How often it was put off since.
    pub(super) tries: u32,
}

/// What is to become of the claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wish {
    /// Succeeded.
    Ack,
    /// Given up.
    Fail {
        action: FailAction,
        error: Option<ErrorText>,
        why: Why,
    },
}

/// Why a claim is given up, as metrics say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    Error,
    Panic,
    Undecodable,
    Snooze,
    Release,
    Unstarted,
}

impl Why {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Panic => "panic",
            Self::Undecodable => "undecodable",
            Self::Snooze => "snooze",
            Self::Release => "release",
            Self::Unstarted => "unstarted",
        }
    }
}

impl Completion {
    pub(super) fn new(held: Arc<Held>, wish: Wish) -> Self {
        Self {
            held,
            wish,
            doubt: None,
            alone: false,
            refusals: 0,
        }
    }

    /// Gives a job back that no handler has begun.
    pub(super) fn unstarted(held: Arc<Held>) -> Self {
        let action = FailAction::Release {
            after: crate::Delay::ZERO,
        };
        let (error, why) = (None, Why::Unstarted);
        Self::new(held, Wish::Fail { action, error, why })
    }

    pub(super) fn job(&self) -> &ClaimedJob {
        &self.held.job
    }

    /// Its reply was lost, now or once more.
    pub(super) fn doubted(&mut self, now: Instant) {
        let (since, tries) = (now, 0);
        self.doubt.get_or_insert(Doubt { since, tries });
    }

    /// The failure to be sent; `None` for an ack.
    pub(super) fn failure(&self) -> Option<Failure> {
        match &self.wish {
            Wish::Ack => None,
            Wish::Fail { action, error, .. } => Some(Failure {
                receipt: self.held.receipt().clone(),
                action: *action,
                error: error.clone(),
            }),
        }
    }

    pub(super) fn asked(&self) -> Asked {
        match &self.wish {
            Wish::Ack => Asked::Ack,
            Wish::Fail { action, .. } => match action {
                FailAction::Retry { .. } | FailAction::Dead => Asked::Fail,
                FailAction::Release { .. } => Asked::Release,
            },
        }
    }
}

/// A queue of results, taken in batches, and those that are to be tried later. Bounded by the
/// number of live claims.
#[derive(Debug)]
pub(super) struct Inbox {
    batch: usize,
    linger: Duration,
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct State {
    results: VecDeque<Completion>,
    later: Vec<(Instant, Completion)>,
    /// Set when no more results are waited for: until when those that are there may be tried.
    closed: Option<Instant>,
}

impl Inbox {
    /// Batches of `batch`, or of what has come within `linger` of the first.
    pub(super) fn new(batch: usize, linger: Duration) -> Self {
        Self {
            batch,
            linger,
            state: Mutex::new(State::default()),
            arrived: Condvar::new(),
        }
    }

    /// Takes a result in; gives it back when nobody will send it any more.
    pub(super) fn push(&self, result: Completion) -> Result<(), Completion> {
        let mut state = lock(&self.state);
        if state.closed.is_some() {
            return Err(result);
        }
        state.results.push_back(result);
        let enough = state.results.len() == 1 || state.results.len() >= self.batch;
        drop(state);
        if enough {
            self.arrived.notify_all();
        }
        Ok(())
    }

    /// Takes results back that are to be tried again, in their order: before the others, but those
    /// that travel alone behind them.
    pub(super) fn put_back(&self, results: Vec<Completion>) {
        let (alone, first): (Vec<_>, Vec<_>) = results.into_iter().partition(|result| result.alone);
        let mut state = lock(&self.state);
        state.results.extend(alone);
        for result in first.into_iter().rev() {
            state.results.push_front(result);
        }
    }

    /// Takes a result back that is to be tried again at `due`, behind those that are there then and
    /// alone.
    pub(super) fn put_off(&self, mut result: Completion, due: Instant) {
        result.alone = true;
        lock(&self.state).later.push((due, result));
    }

    /// The next batch; waits for it. `None` once closed and either empty or out of time.
    pub(super) fn take(&self) -> Option<Vec<Completion>> {
        let mut state = self.first_result()?;
        let until = Instant::now() + self.linger;
        while state.results.len() < self.batch && state.closed.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = wait(&self.arrived, state, left);
        }
        if state.closed.is_some_and(|until| until <= Instant::now()) {
            return None;
        }
        let batch = next_batch(&state.results, self.batch);
        Some(state.results.drain(..batch).collect())
    }

    /// Waits until there is a result to be tried. `None` once closed and either empty or out of
    /// time.
    fn first_result(&self) -> Option<MutexGuard<'_, State>> {
        let mut state = lock(&self.state);
        loop {
            let now = Instant::now();
            state.fetch_due(now);
            if !state.results.is_empty() {
                return Some(state);
            }
            let next = state.later.iter().map(|(due, _)| *due).min();
            let until = match (next, state.closed) {
                (None, Some(_)) => return None,
                (Some(_), Some(closed)) if closed <= now => return None,
                (next, closed) => next.into_iter().chain(closed).min(),
            };
            state = match until {
                Some(until) => wait(&self.arrived, state, until.saturating_duration_since(now)),
                None => wait_for(&self.arrived, state),
            };
        }
    }

    /// Takes no more results, and lets those that are there be tried until `until`.
    pub(super) fn close(&self, until: Instant) {
        lock(&self.state).closed.get_or_insert(until);
        self.arrived.notify_all();
    }

    /// What nobody has taken, after the end.
    pub(super) fn rest(&self) -> Vec<Completion> {
        let mut state = lock(&self.state);
        let later: Vec<_> = state.later.drain(..).map(|(_, result)| result).collect();
        state.results.drain(..).chain(later).collect()
    }
}

impl State {
    /// Lines up what was put off until now.
    fn fetch_due(&mut self, now: Instant) {
        let due = self.later.extract_if(.., |(due, _)| *due <= now);
        self.results.extend(due.map(|(_, result)| result));
    }
}

/// How many results from the front travel together.
fn next_batch(results: &VecDeque<Completion>, most: usize) -> usize {
    let together = results.iter().take(most).take_while(|result| !result.alone);
    together.count().max(1)
}

#[cfg(test)]
mod tests {
    use super::super::held::tests::held;
    use super::*;

    const LEASE: Duration = Duration::from_secs(60);

    fn ack(id: i64) -> Completion {
        Completion::new(held(id, LEASE), Wish::Ack)
    }

    fn ids(batch: &[Completion]) -> Vec<i64> {
        batch
            .iter()
            .map(|result| result.job().job_id().get())
            .collect()
    }

    fn inbox_of(batch: usize, ids: std::ops::RangeInclusive<i64>) -> Inbox {
        let inbox = Inbox::new(batch, Duration::from_millis(1));
        for id in ids {
            inbox.push(ack(id)).unwrap();
        }
        inbox
    }

    #[test]
    fn a_full_batch_goes_at_once_and_the_rest_after_a_moment() {
        let inbox = inbox_of(3, 1..=4);
        assert_eq!(ids(&inbox.take().unwrap()), [1, 2, 3]);
        assert_eq!(ids(&inbox.take().unwrap()), [4]);
    }

    #[test]
    fn results_put_back_come_before_later_ones() {
        let inbox = inbox_of(2, 1..=3);
        let first = inbox.take().unwrap();
        inbox.put_back(first);
        assert_eq!(ids(&inbox.take().unwrap()), [1, 2]);
    }

    #[test]
    fn a_result_that_was_refused_with_its_batch_travels_alone() {
        let inbox = inbox_of(10, 1..=4);
        let mut batch = inbox.take().unwrap();
        batch[1].alone = true;
        batch[2].alone = true;
        inbox.put_back(batch);
        inbox.push(ack(5)).unwrap();
        let batches: Vec<_> = (0..3).map(|_| ids(&inbox.take().unwrap())).collect();
        assert_eq!(batches, [vec![1, 4], vec![2], vec![3]]);
        assert_eq!(ids(&inbox.take().unwrap()), [5]);
    }

    #[test]
    fn a_result_put_off_holds_up_no_other_and_comes_when_it_is_due() {
        let inbox = inbox_of(1, 1..=3);
        let first = inbox.take().unwrap().remove(0);
        let due = Instant::now() + Duration::from_millis(30);
        inbox.put_off(first, due);
        assert_eq!(ids(&inbox.take().unwrap()), [2]);
        assert_eq!(ids(&inbox.take().unwrap()), [3]);
        assert_eq!(ids(&inbox.take().unwrap()), [1]);
        assert!(Instant::now() >= due);
    }

    #[test]
    fn a_result_put_off_takes_no_other_with_it() {
        let inbox = inbox_of(10, 1..=1);
        let first = inbox.take().unwrap().remove(0);
        inbox.put_off(first, Instant::now());
        inbox.push(ack(2)).unwrap();
        inbox.push(ack(3)).unwrap();
        let batches: Vec<_> = (0..2).map(|_| ids(&inbox.take().unwrap())).collect();
        assert_eq!(batches, [vec![2, 3], vec![1]]);
    }

    #[test]
    fn a_closed_inbox_waits_for_what_was_put_off_until_its_time_is_up() {
        for (due, given) in [(Duration::from_millis(20), true), (LEASE, false)] {
            let inbox = inbox_of(1, 1..=1);
            let first = inbox.take().unwrap().remove(0);
            inbox.put_off(first, Instant::now() + due);
            inbox.close(Instant::now() + Duration::from_millis(200));
            assert_eq!(inbox.take().is_some(), given);
            assert_eq!(inbox.rest().len(), usize::from(!given));
        }
    }

    #[test]
    fn a_closed_inbox_gives_out_what_it_has_and_takes_no_more() {
        let inbox = inbox_of(10, 1..=2);
        inbox.close(Instant::now() + LEASE);
        assert!(inbox.push(ack(3)).is_err());
        assert_eq!(ids(&inbox.take().unwrap()), [1, 2]);
        assert!(inbox.take().is_none());
    }

    #[test]
    fn a_closed_inbox_out_of_time_keeps_the_rest() {
        let inbox = inbox_of(10, 1..=2);
        inbox.close(Instant::now());
        assert!(inbox.take().is_none());
        assert_eq!(ids(&inbox.rest()), [1, 2]);
    }
}
