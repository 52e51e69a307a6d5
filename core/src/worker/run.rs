//! Runs one claimed job: handler, outcome, and what the database is to be told.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::backend::QueueBackend;
use crate::error::ErrorText;
use crate::lease::Delay;
use crate::request::FailAction;

use super::context::Context;
use super::handler::{Broken, Ended};
use super::held::Held;
use super::inbox::{self, Why, Wish};
use super::outcome::Outcome;
use super::{Shared, observe};

/// One handler thread: takes jobs until the slots are closed.
pub(super) fn run<B: QueueBackend + ?Sized>(shared: &Shared<B>) {
    while let Some(held) = shared.slots.next() {
        let mut turn = Turn::new(shared, &held);
        note_running(shared);
        turn.took = one(shared, Arc::clone(&held));
        drop(turn);
        note_running(shared);
    }
}

/// A slot while it is busy with a job. The handler's own panic is an outcome; any other (of a
/// metrics recorder, of a tracing layer) passes through here, and must keep neither the slot nor
/// the claim.
struct Turn<'a, B: QueueBackend + ?Sized> {
    shared: &'a Shared<B>,
    held: &'a Held,
    took: Option<Duration>,
}

impl<'a, B: QueueBackend + ?Sized> Turn<'a, B> {
    fn new(shared: &'a Shared<B>, held: &'a Held) -> Self {
        let took = None;
        Self { shared, held, took }
    }
}

impl<B: QueueBackend + ?Sized> Drop for Turn<'_, B> {
    fn drop(&mut self) {
        // Neither metrics nor logs here: a second panic would end the process.
        if std::thread::panicking() {
            self.shared.let_go(self.held);
        }
        self.shared.slots.done(self.took);
    }
}

fn note_running<B: QueueBackend + ?Sized>(shared: &Shared<B>) {
    let (engine, busy) = (shared.backend.engine(), shared.slots.busy());
    observe::running(engine, shared.worker.as_str(), busy);
}

/// Runs the job, if it may still be started, and passes the result on. Returns how long the handler
/// took.
pub(super) fn one<B: QueueBackend + ?Sized>(
    shared: &Shared<B>,
    held: Arc<Held>,
) -> Option<Duration> {
    let began = Instant::now();
    if let Some(reason) = held.lost() {
        shared.lost(&held, reason);
        return None;
    }
    if !held.may_start(began) {
        shared.send(inbox::Completion::unstarted(held));
        return None;
    }
    let engine = shared.backend.engine();
    shared.tally.note(|report| report.started += 1);
    observe::started(engine, &held);
    let wish = handle(shared, &held);
    let took = began.elapsed();
    observe::handled(engine, &held.job, took);
    match wish {
        Some(wish) => shared.send(inbox::Completion::new(held, wish)),
        None => shared.acked_in_transaction(&held),
    }
    Some(took)
}

/// Calls the handler; `None` when the claim was acknowledged in the handler's own transaction.
fn handle<B: QueueBackend + ?Sized>(shared: &Shared<B>, held: &Arc<Held>) -> Option<Wish> {
    let job = &held.job;
    let span = tracing::info_span!(
        "queue_table.job",
        engine = shared.backend.engine(),
        queue = %job.queue,
        kind = %job.kind,
        job_id = %job.job_id(),
        attempt = job.attempt(),
        worker = %job.receipt.worker(),
    );
    let _inside = span.entered();
    let mut context = Context::new(&*shared.backend, held, &shared.signal);
    let Some(ended) = shared.handlers.call(&mut context) else {
        tracing::error!("claimed a job of a kind that was not asked for; giving it back");
        return Some(give_back(Delay::ZERO, Why::Unstarted));
    };
    tracing::debug!(?ended, "handler ended");
    if context.is_acked() {
        if !matches!(
            ended,
            Ended::Returned(Outcome::Done | Outcome::DoneInTransaction)
        ) {
            tracing::warn!(
                ?ended,
                "succeeded in its own transaction; what the handler says after it is not heard"
            );
        }
        return None;
    }
    let policy_delay = || shared.handlers.retry(&job.kind).delay(job.attempt());
    wish(ended, policy_delay)
}

fn wish(ended: Ended, policy_delay: impl Fn() -> Delay) -> Option<Wish> {
    let retry = |after, error, why| fail(FailAction::Retry { after }, error, why);
    Some(match ended {
        Ended::Returned(Outcome::Done) => Wish::Ack,
        Ended::Returned(Outcome::DoneInTransaction) => return None,
        Ended::Returned(Outcome::Retry { error, after }) => {
            retry(after.unwrap_or_else(policy_delay), error, Why::Error)
        }
        Ended::Returned(Outcome::Dead { error }) => fail(FailAction::Dead, error, Why::Error),
        Ended::Returned(Outcome::Snooze { after }) => give_back(after, Why::Snooze),
        Ended::Returned(Outcome::Release) => give_back(Delay::ZERO, Why::Release),
        Ended::Broke(Broken::Panicked(error)) => retry(policy_delay(), error, Why::Panic),
        Ended::Broke(Broken::Undecodable(error)) => fail(FailAction::Dead, error, Why::Undecodable),
    })
}

fn fail(action: FailAction, error: ErrorText, why: Why) -> Wish {
    Wish::Fail {
        action,
        error: Some(error),
        why,
    }
}

fn give_back(after: Delay, why: Why) -> Wish {
    Wish::Fail {
        action: FailAction::Release { after },
        error: None,
        why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delay(seconds: u64) -> Delay {
        Delay::new(Duration::from_secs(seconds)).unwrap()
    }

    fn wished(outcome: Outcome) -> Wish {
        wish(Ended::Returned(outcome), || delay(7)).unwrap()
    }

    fn action(wish: Wish) -> FailAction {
        match wish {
            Wish::Ack => panic!("not a failure"),
            Wish::Fail { action, .. } => action,
        }
    }

    #[test]
    fn each_outcome_is_one_call_of_the_contract() {
        assert_eq!(wished(Outcome::Done), Wish::Ack);
        assert_eq!(action(wished(Outcome::dead("x"))), FailAction::Dead);
        let after = Delay::ZERO;
        assert_eq!(
            action(wished(Outcome::Release)),
            FailAction::Release { after }
        );
        let snooze = Outcome::snooze(Duration::from_secs(3));
        let after = delay(3);
        assert_eq!(action(wished(snooze)), FailAction::Release { after });
        assert_eq!(
            wish(Ended::Returned(Outcome::DoneInTransaction), || delay(7)),
            None
        );
    }

    #[test]
    fn a_retry_without_a_delay_of_its_own_takes_the_policys() {
        let after = delay(7);
        assert_eq!(
            action(wished(Outcome::retry("x"))),
            FailAction::Retry { after }
        );
        let own = Outcome::retry_after("x", Duration::from_secs(2));
        let after = delay(2);
        assert_eq!(action(wished(own)), FailAction::Retry { after });
    }

    #[test]
    fn a_panic_is_tried_again_and_an_undecodable_payload_is_not() {
        let text = || ErrorText::new("x");
        let panic = wish(Ended::Broke(Broken::Panicked(text())), || delay(7)).unwrap();
        let after = delay(7);
        assert_eq!(action(panic), FailAction::Retry { after });
        let undecodable = wish(Ended::Broke(Broken::Undecodable(text())), || delay(7)).unwrap();
        assert_eq!(action(undecodable), FailAction::Dead);
    }
}
