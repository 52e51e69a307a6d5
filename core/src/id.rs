//! The identity of a job, and the state it is in.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Identifies a job for ever: ids are never used again. It is also the key for effects outside the
/// database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(i64);

impl JobId {
    /// Wraps an id read from the table.
    #[must_use]
    pub const fn new(id: i64) -> Self {
        Self(id)
    }

    /// The id as stored.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where a job stands.
///
/// ```text
///            claim            ack
///   ready ----------> running -----> succeeded
///     ^  <- retry, release, reap - |
///     |                            | fail, or reap, with no attempt left
///     +-------- replay -- dead <---+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Waiting to be claimed, from its due time on.
    Ready,
    /// Claimed by a worker whose lease may or may not have run out.
    Running,
    /// Finished. Terminal.
    Succeeded,
    /// Given up, until somebody replays it. Terminal.
    Dead,
}

impl State {
    /// Every state, in the order of a job's life.
    pub const ALL: [Self; 4] = [Self::Ready, Self::Running, Self::Succeeded, Self::Dead];

    /// The word stored in the table.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Dead => "dead",
        }
    }

    /// The state of a stored word; `None` for any other word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// Whether no claim can follow.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Dead)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
