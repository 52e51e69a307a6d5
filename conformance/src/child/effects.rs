//! A worker that leaves effects, and stands still at a given moment, to be killed there.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use queue_table_core::worker::HandlerError;
use queue_table_core::{
    Administration, Context, Kind, NewJob, Payload, QueueName, TransactionalBackend,
};

use super::watched::Watched;
use super::{builder, say, work_until_the_end};
use crate::check::Check;

/// The queue of the effects: a job with an even number leaves one there, in one commit with its
/// acknowledgement. Nobody works on it.
pub(crate) const EFFECTS: &str = "effects";

/// A moment in the life of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// The claim is about to be sent.
    BeforeClaim,
    /// The claim is stored, and no handler has been started.
    AfterClaim,
    /// The handler runs.
    InHandler,
    /// The effect is stored in a transaction that is open, the ack not yet.
    InTransaction,
    /// The effect and the ack are stored in a transaction that is open.
    BeforeCommit,
    /// The effect and the ack are committed, and the handler does not know.
    AfterCommit,
    /// The handlers have ended, and their batch of acks is about to be sent.
    BeforeAck,
    /// The batch of acks is stored, and the worker does not know.
    AfterAck,
    /// The leases are about to be renewed.
    BeforeRenewal,
    /// The worker stops, and is about to give back what never started.
    BeforeRelease,
    /// The worker stops, and has given back what never started.
    AfterRelease,
}

impl Moment {
    pub(crate) const ALL: [Self; 11] = [
        Self::BeforeClaim,
        Self::AfterClaim,
        Self::InHandler,
        Self::InTransaction,
        Self::BeforeCommit,
        Self::AfterCommit,
        Self::BeforeAck,
        Self::AfterAck,
        Self::BeforeRenewal,
        Self::BeforeRelease,
        Self::AfterRelease,
    ];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::BeforeClaim => "before claim",
            Self::AfterClaim => "after claim",
            Self::InHandler => "in handler",
            Self::InTransaction => "in transaction",
            Self::BeforeCommit => "before commit",
            Self::AfterCommit => "after transaction",
            Self::BeforeAck => "before ack",
            Self::AfterAck => "after ack",
            Self::BeforeRenewal => "before renew",
            Self::BeforeRelease => "before fail",
            Self::AfterRelease => "after fail",
        }
    }

    /// Whether it comes only when the worker is told to stop.
    pub(crate) const fn is_in_a_stop(self) -> bool {
        matches!(self, Self::BeforeRelease | Self::AfterRelease)
    }
}

/// Stands still for ever at the moment, when it comes for the second time, or for the first in a
/// stop.
#[derive(Debug)]
struct Doom {
    moment: Option<Moment>,
    seen: AtomicU32,
}

impl Doom {
    fn reached(&self, moment: &str) {
        let Some(doom) = self.moment.filter(|doom| doom.as_str() == moment) else {
            return;
        };
        if self.seen.fetch_add(1, Ordering::SeqCst) + 1 >= 2 || doom.is_in_a_stop() {
            say(format_args!("reached 0 0"));
            loop {
                std::thread::park();
            }
        }
    }
}

pub(super) fn work<B: Administration + TransactionalBackend + 'static>(
    backend: B,
    queue: &QueueName,
    moment: Option<Moment>,
) -> Check {
    let doom = Arc::new(Doom {
        moment,
        seen: AtomicU32::new(0),
    });
    let (at_calls, at_steps) = (Arc::clone(&doom), doom);
    let watched = Watched::new(backend, move |moment| at_calls.reached(moment));
    let builder = builder(watched, queue)?
        .slots(2)
        .prefetch(6)
        .ack_batches(4, Duration::from_millis(5));
    // Renewals are a moment too, and come every third of the lease while a job is held.
    let (builder, longer) = match moment {
        Some(Moment::BeforeRenewal) => {
            let lease = Duration::from_secs(1);
            (builder.lease(lease), lease)
        }
        _ => (builder, Duration::ZERO),
    };
    work_until_the_end(builder.handle_kind("note", 1..=1, move |job, context| {
        say(format_args!("began {} {}", job.job_id(), job.attempt()));
        at_steps.reached(Moment::InHandler.as_str());
        std::thread::sleep(Duration::from_millis(job.payload.decode()?) + longer);
        if job.job_id().get() % 2 == 0 {
            leave_effect(context, &at_steps)?;
        }
        Ok::<(), HandlerError>(())
    }))
}

fn leave_effect<B: Administration + TransactionalBackend>(
    context: &mut Context<'_, B>,
    doom: &Doom,
) -> Result<(), HandlerError> {
    let payload = Payload::from_json(context.effect_key().get().to_string())?;
    let effect = NewJob::new(&QueueName::new(EFFECTS)?, Kind::new("effect")?, payload);
    let backend = context.backend();
    context.transaction(|tx| {
        backend.enqueue_in(tx, &[effect])?;
        doom.reached(Moment::InTransaction.as_str());
        Ok::<(), HandlerError>(())
    })
}
