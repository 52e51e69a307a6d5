//! How a scenario leaves a transaction of the caller's.

use std::fmt::Debug;

use queue_table_core::{Error, LostClaim};

use crate::check::{Check, Failed, MaybeLost};
use crate::fixture::PortError;

/// Why the work of a transaction ended early, with the queue's own error kept.
#[derive(Debug)]
pub(super) enum Left {
    /// The queue refused something, or could not begin or commit.
    Queue(Error),
    /// The scenario wants it rolled back, or a step of it failed.
    Scenario(Failed),
}

/// What a scenario returns to have a transaction rolled back.
#[track_caller]
pub(super) fn roll_back<T>() -> Result<T, Left> {
    Err(Left::Scenario(Failed::new("rolled back by the scenario")))
}

/// What the queue answered, when the scenario's own steps went well.
pub(super) fn told<T>(ended: Result<T, Left>) -> Check<Result<T, Error>> {
    match ended {
        Ok(value) => Ok(Ok(value)),
        Err(Left::Queue(error)) => Ok(Err(error)),
        Err(Left::Scenario(failed)) => Err(failed),
    }
}

impl From<Error> for Left {
    fn from(error: Error) -> Self {
        Self::Queue(error)
    }
}

impl From<Failed> for Left {
    fn from(failed: Failed) -> Self {
        Self::Scenario(failed)
    }
}

impl From<PortError> for Left {
    #[track_caller]
    fn from(error: PortError) -> Self {
        Self::Scenario(error.into())
    }
}

impl From<Left> for Failed {
    #[track_caller]
    fn from(left: Left) -> Self {
        match left {
            Left::Queue(error) => error.into(),
            Left::Scenario(failed) => failed,
        }
    }
}

impl<T: Debug> MaybeLost for Result<T, Left> {
    fn lost(self) -> Result<LostClaim, String> {
        match self {
            Ok(value) => Ok::<T, Error>(value).lost(),
            Err(Left::Queue(error)) => Err::<T, Error>(error).lost(),
            Err(Left::Scenario(failed)) => Err(failed.to_string()),
        }
    }
}
