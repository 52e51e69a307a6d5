//! Which function runs which kind of job, and how its end is told from its panic.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::ErrorText;
use crate::invalid::{Invalid, Problem};
use crate::job::{ClaimedJob, Job};
use crate::name::Kind;
use crate::payload::PayloadError;
use crate::request::Accepts;
use crate::retry::RetryPolicy;

use super::context::Context;
use super::outcome::Outcome;
use super::upcast::Upcasters;

type Run<B> = dyn Fn(&mut Context<'_, B>) -> Result<Outcome, PayloadError> + Send + Sync;

/// The function for one kind, and the payload versions it can read.
pub(super) struct Handler<B: ?Sized> {
    versions: RangeInclusive<u16>,
    run: Box<Run<B>>,
}

/// How a handler ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// It returned.
    Returned(Outcome),
    /// It panicked, or the payload could not be decoded and it was not called.
    Broke(Broken),
}

/// Why there is no outcome.
#[derive(Debug)]
pub(super) enum Broken {
    /// The panic's message.
    Panicked(ErrorText),
    /// What is wrong with the payload. Trying again cannot help.
    Undecodable(ErrorText),
}

impl<B: ?Sized> Handler<B> {
    /// A function of the payload as a `J`.
    pub(super) fn typed<J, R>(
        upcasters: Upcasters<J>,
        function: impl Fn(&J, &mut Context<'_, B>) -> R + Send + Sync + 'static,
    ) -> Result<Self, Invalid>
    where
        J: Job + 'static,
        R: Into<Outcome>,
    {
        Ok(Self {
            versions: upcasters.versions()?,
            run: Box::new(move |context| {
                let payload = upcasters.decode(context.job())?;
                Ok(function(&payload, context).into())
            }),
        })
    }

    /// A function of the job as it was claimed.
    pub(super) fn untyped<R: Into<Outcome>>(
        versions: RangeInclusive<u16>,
        function: impl Fn(&ClaimedJob, &mut Context<'_, B>) -> R + Send + Sync + 'static,
    ) -> Self {
        Self {
            versions,
            run: Box::new(move |context| Ok(function(context.job(), context).into())),
        }
    }

    /// Runs the function. A panic ends the job and not the thread.
    fn call(&self, context: &mut Context<'_, B>) -> Ended {
        // Unwind safety: the context and the job are not looked at again but for the flag that the
        // claim was acked, which is set last.
        match catch_unwind(AssertUnwindSafe(|| (self.run)(context))) {
            Ok(Ok(outcome)) => Ended::Returned(outcome),
            Ok(Err(error)) => Ended::Broke(Broken::Undecodable(ErrorText::of(&error))),
            Err(panic) => {
                let message = message(&*panic);
                discard(panic);
                Ended::Broke(Broken::Panicked(message))
            }
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> ErrorText {
    let said = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    ErrorText::new(format!("panicked: {}", said.unwrap_or("(not a text)")))
}

/// Drops what a panic carried, which is anything, and may panic when it is dropped.
fn discard(panic: Box<dyn Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(again);
    }
}

/// The handlers of a worker, by kind.
pub(super) struct Handlers<B: ?Sized> {
    by_kind: BTreeMap<Kind, Handler<B>>,
    retry: RetryPolicy,
    retry_by_kind: BTreeMap<Kind, RetryPolicy>,
}

impl<B: ?Sized> Handlers<B> {
    pub(super) fn new() -> Self {
        Self {
            by_kind: BTreeMap::new(),
            retry: RetryPolicy::default(),
            retry_by_kind: BTreeMap::new(),
        }
    }

    pub(super) fn add(&mut self, kind: Kind, handler: Handler<B>) -> Result<(), Invalid> {
        if self.by_kind.insert(kind, handler).is_some() {
            let rule = "was given twice for one kind; a kind has one handler";
            return Err(Invalid::new("handler", Problem::Other(rule)));
        }
        Ok(())
    }

    pub(super) fn set_retry(&mut self, kind: Option<Kind>, policy: RetryPolicy) {
        match kind {
            Some(kind) => drop(self.retry_by_kind.insert(kind, policy)),
            None => self.retry = policy,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_kind.is_empty()
    }

    /// The kinds and payload versions to claim: others wait for a worker that knows them.
    pub(super) fn accepts(&self) -> Accepts {
        self.by_kind
            .iter()
            .map(|(kind, handler)| (kind.clone(), handler.versions.clone()))
            .collect()
    }

    /// How long a job waits whose worker died, and a failed one whose kind has no policy of its
    /// own.
    pub(super) fn default_retry(&self) -> &RetryPolicy {
        &self.retry
    }

    /// How long a failed job of this kind waits.
    pub(super) fn retry(&self, kind: &Kind) -> &RetryPolicy {
        self.retry_by_kind.get(kind).unwrap_or(&self.retry)
    }

    /// Runs the handler of the job's kind; `None` when there is none, which a claim by
    /// [`Handlers::accepts`] rules out.
    pub(super) fn call(&self, context: &mut Context<'_, B>) -> Option<Ended> {
        let handler = self.by_kind.get(&context.job().kind)?;
        Some(handler.call(context))
    }
}

impl<B: ?Sized> fmt::Debug for Handlers<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.accepts()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::super::held::tests::held;
    use super::super::signal::Signal;
    use super::*;

    fn call(
        function: impl Fn(&ClaimedJob, &mut Context<'_, ()>) -> Outcome + Send + Sync + 'static,
    ) -> Ended {
        let (held, signal) = (held(1, Duration::from_secs(60)), Arc::new(Signal::new()));
        let handler = Handler::untyped(1..=1, function);
        handler.call(&mut Context::new(&(), &held, &signal))
    }

    fn panic_text(ended: &Ended) -> &str {
        match ended {
            Ended::Broke(Broken::Panicked(text)) => text.as_str(),
            other => panic!("not a panic: {other:?}"),
        }
    }

    #[test]
    fn a_panic_is_told_by_its_message() {
        assert_eq!(
            panic_text(&call(|_, _| panic!("no disk"))),
            "panicked: no disk"
        );
        let number = 7;
        assert_eq!(
            panic_text(&call(move |_, _| panic!("no {number}"))),
            "panicked: no 7"
        );
        let ended = call(|_, _| std::panic::panic_any(7_u8));
        assert_eq!(panic_text(&ended), "panicked: (not a text)");
    }

    #[test]
    fn a_panic_that_carries_another_is_told_as_one() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("once more");
            }
        }
        let ended = call(|_, _| std::panic::panic_any(Bomb));
        assert_eq!(panic_text(&ended), "panicked: (not a text)");
    }

    #[test]
    fn a_second_handler_of_a_kind_is_refused() {
        let mut handlers = Handlers::<()>::new();
        let kind = Kind::new("mail.send").unwrap();
        let handler = || Handler::untyped(1..=2, |_, _| Outcome::Done);
        handlers.add(kind.clone(), handler()).unwrap();
        assert!(handlers.add(kind.clone(), handler()).is_err());
        assert_eq!(handlers.accepts(), Accepts::from([(kind, 1..=2)]));
    }

    #[test]
    fn a_kind_without_a_policy_of_its_own_has_the_workers() {
        let mut handlers = Handlers::<()>::new();
        let [mail, sms] = ["mail", "sms"].map(|kind| Kind::new(kind).unwrap());
        let fixed = |seconds| RetryPolicy::fixed(Duration::from_secs(seconds)).unwrap();
        handlers.set_retry(None, fixed(1));
        handlers.set_retry(Some(mail.clone()), fixed(2));
        assert_eq!(handlers.retry(&mail), &fixed(2));
        assert_eq!(handlers.retry(&sms), &fixed(1));
    }
}
