//! What a handler says about the job it ran.

use std::error::Error as StdError;
use std::time::Duration;

use crate::error::ErrorText;
use crate::lease::{DELAY_MAX, Delay};

/// Any error of a handler. `?` makes one of every error type, and `"text".into()` of a text.
pub type HandlerError = Box<dyn StdError + Send + Sync>;

/// What becomes of a job after its handler has run.
///
/// A handler may return an `Outcome`, `()` for done, or a `Result` of either: an error is
/// [`Outcome::Retry`] after the policy's delay, with the error and its sources as the reason.
///
/// ```
/// use std::time::Duration;
/// use queue_table_core::worker::{HandlerError, Outcome};
///
/// fn send(address: &str) -> Result<Outcome, HandlerError> {
///     if address.is_empty() {
///         return Ok(Outcome::dead("no address"));
///     }
///     let port: u16 = address.parse()?;
///     Ok(if port == 0 { Outcome::snooze(Duration::from_secs(60)) } else { Outcome::Done })
/// }
///
/// assert!(matches!(Outcome::from(send("")), Outcome::Dead { .. }));
/// assert!(matches!(Outcome::from(send("x")), Outcome::Retry { after: None, .. }));
/// assert!(matches!(Outcome::from(send("25")), Outcome::Done));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "the worker acts on the outcome only when the handler returns it"]
pub enum Outcome {
    /// Succeeded: the worker acknowledges the claim.
    Done,
    /// Succeeded, and the handler's own transaction has acknowledged the claim already.
    ///
    /// Not needed after [`Context::transaction`](super::Context::transaction), which the worker
    /// knows of. Where it is not true the lease runs out and the job is tried again.
    DoneInTransaction,
    /// Failed: the job is tried again, or dead when no attempt is left.
    Retry {
        /// Why.
        error: ErrorText,
        /// Until the next attempt; `None` for the retry policy's delay.
        after: Option<Delay>,
    },
    /// Failed for good, whatever is left of the budget.
    Dead {
        /// Why.
        error: ErrorText,
    },
    /// Not yet: given back until later, without spending the budget.
    Snooze {
        /// Until the next attempt.
        after: Delay,
    },
    /// Not here: given back at once, without spending the budget. Another worker, or this one,
    /// claims it again.
    Release,
}

impl Outcome {
    /// Failed; tried again after the retry policy's delay.
    pub fn retry(error: impl Into<HandlerError>) -> Self {
        Self::Retry {
            error: text(error),
            after: None,
        }
    }

    /// Failed; tried again after this delay (at most 36,500 days) instead of the retry policy's.
    pub fn retry_after(error: impl Into<HandlerError>, after: Duration) -> Self {
        Self::Retry {
            error: text(error),
            after: Some(bounded(after)),
        }
    }

    /// Failed for good.
    pub fn dead(error: impl Into<HandlerError>) -> Self {
        Self::Dead { error: text(error) }
    }

    /// Not yet; given back for this long (at most 36,500 days) without spending the budget.
    pub fn snooze(after: Duration) -> Self {
        Self::Snooze {
            after: bounded(after),
        }
    }
}

fn text(error: impl Into<HandlerError>) -> ErrorText {
    let error: HandlerError = error.into();
    ErrorText::of(&*error)
}

/// Recording an outcome must not fail, so a delay that is too long is cut to the longest.
fn bounded(delay: Duration) -> Delay {
    Delay::new(delay.min(DELAY_MAX)).unwrap_or_default()
}

impl From<()> for Outcome {
    fn from((): ()) -> Self {
        Self::Done
    }
}

impl<E: Into<HandlerError>> From<Result<(), E>> for Outcome {
    fn from(result: Result<(), E>) -> Self {
        result.map_or_else(Self::retry, |()| Self::Done)
    }
}

impl<E: Into<HandlerError>> From<Result<Self, E>> for Outcome {
    fn from(result: Result<Self, E>) -> Self {
        result.unwrap_or_else(Self::retry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("mail was not sent")]
    struct NotSent(#[source] std::io::Error);

    #[test]
    fn an_error_is_a_retry_with_its_stack_of_causes() {
        let failed: Result<(), NotSent> = Err(NotSent(std::io::Error::other("socket closed")));
        assert_eq!(
            Outcome::from(failed),
            Outcome::Retry {
                error: ErrorText::new("mail was not sent: socket closed"),
                after: None
            }
        );
    }

    #[test]
    fn unit_and_ok_are_done() {
        assert_eq!(Outcome::from(()), Outcome::Done);
        assert_eq!(Outcome::from(Ok::<(), NotSent>(())), Outcome::Done);
        let release = Ok::<Outcome, HandlerError>(Outcome::Release);
        assert_eq!(Outcome::from(release), Outcome::Release);
    }

    #[test]
    fn a_delay_beyond_the_limit_is_cut_and_a_text_with_nul_is_stored() {
        let Outcome::Snooze { after } = Outcome::snooze(Duration::MAX) else {
            panic!("a snooze")
        };
        assert_eq!(after.get(), DELAY_MAX);
        let Outcome::Dead { error } = Outcome::dead("a\0b".repeat(5_000)) else {
            panic!("dead")
        };
        assert!(error.as_str().len() <= crate::ERROR_TEXT_BYTES_MAX);
        assert!(!error.as_str().contains('\0'));
    }
}
