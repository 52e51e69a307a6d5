//! What a scenario says: passed, or failed with what was expected and what was seen.

use std::fmt::{self, Debug, Display};
use std::panic::Location;
use std::time::{Duration, Instant};

use queue_table_core::{Error, ErrorText, Fenced, Invalid, LostClaim, LostReason, Rejected};

use crate::fixture::PortError;

/// The result of a scenario and of each of its steps.
pub type Check<T = ()> = Result<T, Failed>;

/// Why a scenario failed, and where.
///
/// Every error of core and of the fixture converts into it, so that `?` on a step that must succeed
/// is an assertion; the line of that `?` is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    text: String,
    at: &'static Location<'static>,
}

impl Failed {
    /// Fails with this text, at the caller's line.
    #[track_caller]
    pub fn new(text: impl Display) -> Self {
        Self {
            text: text.to_string(),
            at: Location::caller(),
        }
    }

    /// What was expected and what was seen, without the line.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}\n  at {}:{}",
            self.text,
            self.at.file(),
            self.at.line()
        )
    }
}

impl std::error::Error for Failed {}

impl From<Error> for Failed {
    #[track_caller]
    fn from(error: Error) -> Self {
        unexpected(error)
    }
}

impl From<LostClaim> for Failed {
    #[track_caller]
    fn from(lost: LostClaim) -> Self {
        unexpected(lost)
    }
}

impl From<Invalid> for Failed {
    #[track_caller]
    fn from(invalid: Invalid) -> Self {
        unexpected(invalid)
    }
}

impl From<PortError> for Failed {
    #[track_caller]
    fn from(error: PortError) -> Self {
        Self::new(error)
    }
}

/// Fails because of an error where success was expected, with the error's sources.
#[track_caller]
pub(crate) fn unexpected(error: impl std::error::Error + 'static) -> Failed {
    Failed::new(format_args!("unexpected error: {}", ErrorText::of(&error)))
}

/// Fails with `what` unless the condition holds.
#[track_caller]
pub(crate) fn expect(holds: bool, what: impl Display) -> Check {
    if holds {
        Ok(())
    } else {
        Err(Failed::new(what))
    }
}

/// Fails unless both are equal, and shows both.
#[track_caller]
pub(crate) fn expect_eq<A: Debug + PartialEq<E>, E: Debug>(actual: A, expected: E) -> Check {
    if actual == expected {
        return Ok(());
    }
    Err(Failed::new(format_args!(
        "expected {expected:?}, got {actual:?}"
    )))
}

/// As [`expect_eq`], saying what is compared.
#[track_caller]
pub(crate) fn expect_that<A: Debug + PartialEq<E>, E: Debug>(
    what: impl Display,
    actual: A,
    expected: E,
) -> Check {
    if actual == expected {
        return Ok(());
    }
    Err(Failed::new(format_args!(
        "{what}: expected {expected:?}, got {actual:?}"
    )))
}

/// An answer that may be a lost claim: of a batch, or of one receipt.
pub(crate) trait MaybeLost {
    /// The lost claim, or what was answered instead.
    ///
    /// # Errors
    /// The other answer, as text.
    fn lost(self) -> Result<LostClaim, String>;
}

impl<T: Debug> MaybeLost for Fenced<T> {
    fn lost(self) -> Result<LostClaim, String> {
        match self {
            Err(lost) => Ok(lost),
            Ok(value) => Err(format!("Ok({value:?})")),
        }
    }
}

impl<T: Debug> MaybeLost for Result<T, Error> {
    fn lost(self) -> Result<LostClaim, String> {
        match self {
            Err(Error::LostClaim(lost)) => Ok(lost),
            Err(other) => Err(ErrorText::of(&other).to_string()),
            Ok(value) => Err(format!("Ok({value:?})")),
        }
    }
}

/// Fails unless the answer is a lost claim for this reason.
#[track_caller]
pub(crate) fn expect_lost(answer: impl MaybeLost, reason: LostReason) -> Check {
    match answer.lost() {
        Ok(lost) => expect_that("reason of the lost claim", lost.reason(), reason),
        Err(other) => Err(Failed::new(format_args!(
            "expected the claim to be lost ({reason}), got {other}"
        ))),
    }
}

/// Fails unless the request was rejected, and hands the rejection on.
#[track_caller]
pub(crate) fn expect_rejected<T: Debug>(answer: Result<T, Error>) -> Check<Rejected> {
    match answer {
        Err(Error::Rejected(rejected)) => Ok(rejected),
        Err(other) => Err(Failed::new(format_args!(
            "expected a rejection, got {}: {}",
            other.kind(),
            ErrorText::of(&other)
        ))),
        Ok(value) => Err(Failed::new(format_args!(
            "expected a rejection, got Ok({value:?})"
        ))),
    }
}

/// Fails unless the answer is an error of this kind ([`Error::kind`]), and hands the error on.
#[track_caller]
pub(crate) fn expect_kind<T: Debug>(answer: Result<T, Error>, kind: &str) -> Check<Error> {
    match answer {
        Err(error) if error.kind() == kind => Ok(error),
        Err(other) => Err(Failed::new(format_args!(
            "expected an error of kind {kind}, got {}: {}",
            other.kind(),
            ErrorText::of(&other)
        ))),
        Ok(value) => Err(Failed::new(format_args!(
            "expected an error of kind {kind}, got Ok({value:?})"
        ))),
    }
}

/// Fails unless the value is there, and hands it on.
#[track_caller]
pub(crate) fn expect_some<T>(value: Option<T>, what: impl Display) -> Check<T> {
    match value {
        Some(value) => Ok(value),
        None => Err(Failed::new(format_args!("there is no {what}"))),
    }
}

/// Fails unless there is exactly one item, and hands it on.
#[track_caller]
pub(crate) fn expect_one<T: Debug>(items: Vec<T>, what: impl Display) -> Check<T> {
    match <[T; 1]>::try_from(items) {
        Ok([item]) => Ok(item),
        Err(items) => Err(Failed::new(format_args!(
            "expected one {what}, got {items:?}"
        ))),
    }
}

/// Fails when more than `at_most` has passed since `start`: only for waits that must not happen at
/// all, with a limit far above what a slow machine needs.
#[track_caller]
pub(crate) fn expect_within(start: Instant, at_most: Duration, what: impl Display) -> Check {
    let took = start.elapsed();
    expect(
        took <= at_most,
        format_args!("{what} took {took:?}, at most {at_most:?} is allowed"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_both_values_and_the_callers_line() {
        let failed = expect_eq(1, 2).unwrap_err();
        assert_eq!(failed.text(), "expected 2, got 1");
        assert!(failed.to_string().contains("check.rs:"), "{failed}");
    }

    #[test]
    fn the_question_mark_keeps_the_line_it_stands_on() {
        fn step() -> Check {
            Err(PortError::new("no route"))?;
            Ok(())
        }
        let failed = step().unwrap_err();
        assert_eq!(failed.text(), "fixture: no route");
        assert!(failed.at.file().ends_with("check.rs"), "{failed}");
    }

    #[test]
    fn another_answer_than_a_lost_claim_is_told() {
        let failed = expect_lost(Ok::<(), Error>(()), LostReason::Gone).unwrap_err();
        assert_eq!(
            failed.text(),
            "expected the claim to be lost (gone), got Ok(())"
        );
    }
}
