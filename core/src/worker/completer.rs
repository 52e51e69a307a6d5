//! Brings results to the database, in batches, and hears the verdict on each.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::backend::Administration;
use crate::error::{Error, Result};
use crate::id::State;
use crate::receipt::{Fenced, LostClaim, Receipt};
use crate::request::{Disposition, Failure};

use super::aftermath::{self, Aftermath};
use super::idle::{Backoff, jittered};
use super::inbox::{self, Doubt, Why, Wish};
use super::signal::Phase;
use super::{Shared, observe};

/// Pauses before results are tried again: several tries fit into a lease.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MOST: Duration = Duration::from_secs(1);

/// How often a result is refused by itself before it is given up: what the database does not take
/// for a reason that does not pass must not keep its lease for ever.
const REFUSALS_MOST: u32 = 5;

/// Sends results until no more come. A lost reply is looked into, and never becomes a failed job.
pub(super) fn run<B: Administration + ?Sized>(shared: &Shared<B>) {
    let lease = shared.settings.lease.get();
    let pause_most = (lease / 10).clamp(PAUSE_FIRST, PAUSE_MOST);
    let mut backoff = Backoff::new(PAUSE_FIRST, pause_most);
    while let Some(batch) = shared.inbox.take() {
        let mut again = Vec::new();
        for mut result in settle_or_let_go(shared, batch) {
            let now = Instant::now();
            if is_hopeless(&result, now, lease) {
                shared.unconfirmed(&result.held);
            } else if let Some(doubt) = &mut result.doubt {
                // By itself, so that it holds up no other.
                doubt.tries += 1;
                let due = now + backed_off(doubt.tries, pause_most);
                shared.inbox.put_off(result, due);
            } else {
                again.push(result);
            }
        }
        if again.is_empty() {
            backoff.reset();
        } else {
            shared.inbox.put_back(again);
            shared.signal.sleep(backoff.pause(), Phase::Ended);
        }
    }
    for result in shared.inbox.rest() {
        shared.unconfirmed(&result.held);
    }
}

/// Whether a result that could not be settled is given up.
///
/// One whose outcome stays unknown has one lease from the first lost reply, however often its claim
/// is renewed meanwhile: then the lease is let go, and whoever claims the job finds out.
fn is_hopeless(result: &inbox::Completion, now: Instant, lease: Duration) -> bool {
    let long_in_doubt = |doubt: Doubt| now.saturating_duration_since(doubt.since) >= lease;
    result.held.deadline() <= now
        || result.refusals >= REFUSALS_MOST
        || result.doubt.is_some_and(long_in_doubt)
}

/// The pause before a result's next try; the first is number 1.
fn backed_off(tries: u32, most: Duration) -> Duration {
    let doublings = tries.saturating_sub(1).min(16);
    jittered((PAUSE_FIRST * 2_u32.pow(doublings)).min(most))
}

/// Settles a batch. Should the backend panic, or who hears of the verdicts, the leases of the batch
/// are let go, so that none is renewed for ever.
fn settle_or_let_go<B: Administration + ?Sized>(
    shared: &Shared<B>,
    batch: Vec<inbox::Completion>,
) -> Vec<inbox::Completion> {
    let held: Vec<_> = batch
        .iter()
        .map(|result| Arc::clone(&result.held))
        .collect();
    catch_unwind(AssertUnwindSafe(|| settle(shared, batch))).unwrap_or_else(|_| {
        // All are let go before any is spoken of: it may be the metrics recorder that panics.
        let left: Vec<_> = held.iter().filter(|held| shared.live.holds(held)).collect();
        left.iter().for_each(|held| shared.let_go(held));
        left.iter().for_each(|held| shared.unconfirmed(held));
        Vec::new()
    })
}

/// Sends one batch and returns what has to be tried again.
pub(super) fn settle<B: Administration + ?Sized>(
    shared: &Shared<B>,
    batch: Vec<inbox::Completion>,
) -> Vec<inbox::Completion> {
    let (acks, fails): (Vec<_>, Vec<_>) = batch
        .into_iter()
        .partition(|result| result.wish == Wish::Ack);
    let mut again = Vec::new();
    if !acks.is_empty() {
        let receipts: Vec<Receipt> = acks.iter().map(|ack| ack.held.receipt().clone()).collect();
        let answer = shared.backend.ack(&receipts);
        hear(shared, "ack", acks, answer, |_, ()| false, &mut again);
    }
    if !fails.is_empty() {
        let failures: Vec<Failure> = fails
            .iter()
            .filter_map(inbox::Completion::failure)
            .collect();
        let answer = shared.backend.fail(&failures);
        let dead = |_: &inbox::Completion, disposition| disposition == Disposition::Dead;
        hear(shared, "fail", fails, answer, dead, &mut again);
    }
    again
}

/// Acts on the answer to one batch, result by result. `dead` says whether a granted one left the
/// job dead.
fn hear<B: Administration + ?Sized, T>(
    shared: &Shared<B>,
    operation: &'static str,
    batch: Vec<inbox::Completion>,
    answer: Result<Vec<Fenced<T>>>,
    dead: impl Fn(&inbox::Completion, T) -> bool,
    again: &mut Vec<inbox::Completion>,
) {
    let verdicts = match answer {
        Ok(verdicts) => verdicts,
        Err(error) => {
            shared.error(operation, &error);
            return doubt(shared, batch, &error, again);
        }
    };
    let mut verdicts = verdicts.into_iter();
    for result in batch {
        match verdicts.next() {
            Some(Ok(granted)) => {
                let dead = dead(&result, granted);
                stored(shared, &result, dead);
            }
            Some(Err(lost)) if result.doubt.is_none() => refused(shared, &result, &lost),
            Some(Err(_)) => again.extend(look(shared, result).unsettled()),
            None => again.push(result),
        }
    }
}

/// The batch as a whole got no answer.
fn doubt<B: Administration + ?Sized>(
    shared: &Shared<B>,
    batch: Vec<inbox::Completion>,
    error: &Error,
    again: &mut Vec<inbox::Completion>,
) {
    let several = batch.len() > 1;
    let unknown = matches!(error, Error::OutcomeUnknown(_));
    // Where one row cannot be read, the next ones are not tried: each may wait for a connection.
    let mut readable = true;
    for mut result in batch {
        if unknown {
            result.doubted(Instant::now());
            if readable {
                let looked = look(shared, result);
                readable = !matches!(looked, Looked::Unread(_));
                again.extend(looked.unsettled());
                continue;
            }
        } else if !error.is_transient() {
            // One of them may be what is wrong. By itself it is told from its neighbours, and it
            // waits behind them.
            result.alone = true;
            result.refusals += u32::from(!several);
        }
        again.push(result);
    }
}

/// What reading a row has told about a result.
enum Looked {
    Settled,
    /// The claim still holds.
    Open(inbox::Completion),
    /// The row could not be read.
    Unread(inbox::Completion),
}

impl Looked {
    fn unsettled(self) -> Option<inbox::Completion> {
        match self {
            Self::Settled => None,
            Self::Open(result) | Self::Unread(result) => Some(result),
        }
    }
}

/// Reads what became of a result whose reply was lost.
fn look<B: Administration + ?Sized>(shared: &Shared<B>, result: inbox::Completion) -> Looked {
    let receipt = result.held.receipt();
    let read = shared.backend.get(receipt.job_id()).and_then(|row| {
        let failures = shared.backend.failures(receipt.job_id())?;
        Ok((row, failures))
    });
    let (row, failures) = match read {
        Ok(read) => read,
        Err(error) => {
            shared.error("get", &error);
            return Looked::Unread(result);
        }
    };
    match aftermath::judge(result.asked(), receipt, row.as_ref(), &failures) {
        Aftermath::Stored => {
            let dead = row
                .is_some_and(|row| row.state == State::Dead && row.attempts == receipt.attempt());
            stored(shared, &result, dead);
        }
        Aftermath::Lost(lost) => refused(shared, &result, &lost),
        Aftermath::Open => return Looked::Open(result),
    }
    Looked::Settled
}

fn stored<B: Administration + ?Sized>(shared: &Shared<B>, result: &inbox::Completion, dead: bool) {
    shared.live.remove(&result.held);
    let (engine, job) = (shared.backend.engine(), result.job());
    observe::margin(engine, &result.held);
    let Wish::Fail { why, .. } = &result.wish else {
        observe::acked(engine, job);
        return shared.tally.note(|report| report.succeeded += 1);
    };
    match why {
        Why::Error | Why::Panic | Why::Undecodable => {
            observe::failed(engine, job, why.as_str(), dead);
        }
        Why::Snooze | Why::Release | Why::Unstarted => {
            observe::released(engine, job, why.as_str());
        }
    }
    shared.tally.note(|report| {
        match why {
            Why::Snooze => return report.snoozed += 1,
            Why::Release | Why::Unstarted => return report.released += 1,
            Why::Panic => report.panicked += 1,
            Why::Undecodable => report.undecodable += 1,
            Why::Error => {}
        }
        *if dead {
            &mut report.dead
        } else {
            &mut report.retried
        } += 1;
    });
}

fn refused<B: Administration + ?Sized>(
    shared: &Shared<B>,
    result: &inbox::Completion,
    lost: &LostClaim,
) {
    result.held.lose(lost.reason());
    shared.lost(&result.held, lost.reason());
}
