//! What can go wrong, sorted by what the caller does next.

use std::error::Error as StdError;
use std::fmt;

use crate::id::{JobId, State};
use crate::invalid::Invalid;
use crate::receipt::LostClaim;

/// The result of every operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation failed. Each variant is a next step for the caller.
///
/// [`Error::LostClaim`], [`Error::Contention`], [`Error::Unavailable`], [`Error::Rejected`],
/// [`Error::Schema`] and [`Error::Unsupported`] changed nothing. Inside a caller's transaction
/// "nothing" means: nothing once the caller rolls back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The claim no longer holds; drop the job's result. Never try again.
    #[error(transparent)]
    LostClaim(#[from] LostClaim),

    /// Another transaction was in the way: deadlock, lock timeout, serialization failure, busy
    /// file.
    ///
    /// Run the whole transaction again, from its beginning. Operations that own their transaction
    /// have already tried again a bounded number of times.
    #[error("{0}: another transaction was in the way; run the whole transaction again")]
    Contention(#[source] Failed),

    /// The database cannot be reached, or takes no writes. Try again later, with a growing delay.
    #[error("{0}: the database is unavailable; try again later")]
    Unavailable(#[source] Failed),

    /// The connection was lost while it committed, and the change may be stored or not; or one part
    /// of a batch of receipts is stored, and the rows of the rest stayed locked.
    ///
    /// Look before trying again: an enqueue with a dedup key and a renewal may simply be repeated,
    /// and the row of an ack tells whether it went through.
    #[error("{0}: it may be stored, in whole or in part; look before trying again")]
    OutcomeUnknown(#[source] Failed),

    /// The request itself is wrong. Change it; the same request will fail again.
    #[error(transparent)]
    Rejected(#[from] Rejected),

    /// The tables are missing, or of another version than this build works with. Run `migrate`, or
    /// update the program.
    #[error("{engine}: the tables are of version {found}, this build needs {needed}", found = version(*found))]
    Schema {
        /// The engine.
        engine: &'static str,
        /// The version found; `None` when there are no tables.
        found: Option<u32>,
        /// The version this build works with.
        needed: u32,
    },

    /// The server, or the way it or the session is set up, lacks something the queue cannot work
    /// without.
    #[error("{engine}: not supported: {lacks}")]
    Unsupported {
        /// The engine.
        engine: &'static str,
        /// What it lacks and what is needed, with versions or settings by name.
        lacks: String,
    },

    /// Anything else that the engine or its driver reported. Read the source; a bug or a damaged
    /// table is likely.
    #[error("{0}")]
    Engine(#[source] Failed),
}

fn version(found: Option<u32>) -> String {
    found.map_or_else(
        || "none (never migrated)".to_owned(),
        |found| found.to_string(),
    )
}

/// Which operation failed on which engine, with the driver's own error as its source.
#[derive(Debug)]
pub struct Failed {
    engine: &'static str,
    operation: &'static str,
    source: Box<dyn StdError + Send + Sync>,
}

impl Failed {
    /// Wraps a driver's error. The source must not hold a password: drivers that put connection
    /// strings into their messages are cleaned by the backend first.
    pub fn new(
        engine: &'static str,
        operation: &'static str,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self {
            engine,
            operation,
            source: source.into(),
        }
    }

    /// The engine, such as `sqlite`.
    #[must_use]
    pub fn engine(&self) -> &'static str {
        self.engine
    }

    /// The operation, such as `ack`.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        self.operation
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.engine, self.operation)
    }
}

impl StdError for Failed {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.source)
    }
}

/// Why a request was refused. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejected {
    /// A value is outside its limits.
    #[error(transparent)]
    Invalid(#[from] Invalid),

    /// An `_in` operation was given a connection with no transaction open on it, where locks would
    /// not last.
    #[error("{engine} {operation}: the connection is not inside a transaction; open one first")]
    NotInTransaction {
        /// The engine.
        engine: &'static str,
        /// The operation.
        operation: &'static str,
    },

    /// There is no such job.
    #[error("there is no job {0}")]
    NoSuchJob(JobId),

    /// The job's state does not allow the operation.
    #[error("job {job_id} is {state}; {operation} is for {allowed} jobs")]
    WrongState {
        /// The job.
        job_id: JobId,
        /// The state it is in.
        state: State,
        /// The operation.
        operation: &'static str,
        /// The states it is for.
        allowed: &'static str,
    },

    /// The dedup key of a job to be replayed meanwhile names another unfinished job.
    #[error("the dedup key of job {job_id} now names job {holder}, which is unfinished")]
    DedupKeyTaken {
        /// The job that was to be replayed.
        job_id: JobId,
        /// The job that holds the key.
        holder: JobId,
    },

    /// The table's own checks, or a constraint of the user's, refused the row.
    #[error("{engine} {operation}: constraint `{constraint}` refused the row")]
    Constraint {
        /// The engine.
        engine: &'static str,
        /// The operation.
        operation: &'static str,
        /// The constraint's name, as far as the engine tells it.
        constraint: String,
    },
}

impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Self {
        Self::Rejected(Rejected::Invalid(invalid))
    }
}

impl Error {
    /// Whether running the same thing again, later or from the transaction's beginning, can help.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Contention(_) | Self::Unavailable(_))
    }

    /// The variant's name in logs and metrics, such as `contention`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::LostClaim(_) => "lost_claim",
            Self::Contention(_) => "contention",
            Self::Unavailable(_) => "unavailable",
            Self::OutcomeUnknown(_) => "outcome_unknown",
            Self::Rejected(_) => "rejected",
            Self::Schema { .. } => "schema",
            Self::Unsupported { .. } => "unsupported",
            Self::Engine(_) => "engine",
        }
    }
}

/// Longest stored error text, in bytes of UTF-8.
pub const ERROR_TEXT_BYTES_MAX: usize = 4_096;

/// The reason of a failure, as it is stored: never refused, because recording a failure must not
/// fail.
///
/// NUL becomes U+FFFD, which every engine can store, and the text is cut at a character boundary to
/// 4,096 bytes.
///
/// ```
/// use queue_table_core::ErrorText;
///
/// assert_eq!(ErrorText::new("a\0b").as_str(), "a\u{fffd}b");
/// assert_eq!(ErrorText::new("🍺".repeat(2_000)).as_str().len(), 4_096);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct ErrorText(String);

impl ErrorText {
    /// Makes the text storable.
    #[must_use]
    pub fn new(text: impl AsRef<str>) -> Self {
        let text =
            crate::name::shorten(text.as_ref(), ERROR_TEXT_BYTES_MAX).replace('\0', "\u{fffd}");
        Self(crate::name::shorten(&text, ERROR_TEXT_BYTES_MAX).to_owned())
    }

    /// The error and its sources, one after the other, each once.
    #[must_use]
    pub fn of(error: &(dyn StdError + 'static)) -> Self {
        let mut text = error.to_string();
        let mut next = error.source();
        while let Some(source) = next {
            if text.len() > ERROR_TEXT_BYTES_MAX {
                break;
            }
            let said = source.to_string();
            if !text.ends_with(&said) {
                text.push_str(": ");
                text.push_str(&said);
            }
            next = source.source();
        }
        Self::new(text)
    }

    /// The storable text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ErrorText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed() -> Failed {
        Failed::new("sqlite", "ack", "disk I/O error")
    }

    #[test]
    fn messages_name_engine_operation_and_next_step() {
        assert_eq!(
            Error::Contention(failed()).to_string(),
            "sqlite ack: another transaction was in the way; run the whole transaction again"
        );
        let error = Error::Schema {
            engine: "sqlite",
            found: None,
            needed: 1,
        };
        assert_eq!(
            error.to_string(),
            "sqlite: the tables are of version none (never migrated), this build needs 1"
        );
    }

    #[test]
    fn the_drivers_error_is_the_last_source_and_told_once() {
        assert_eq!(
            ErrorText::of(&Error::Engine(failed())).as_str(),
            "sqlite ack: disk I/O error"
        );
        let text = ErrorText::of(&Error::Unavailable(failed()));
        assert_eq!(
            text.as_str(),
            "sqlite ack: the database is unavailable; try again later: sqlite ack: disk I/O error"
        );
    }

    #[test]
    fn error_text_is_cut_at_a_character_and_keeps_no_nul() {
        assert_eq!(ErrorText::new("x".repeat(3_000_000)).as_str().len(), 4_096);
        let emoji = ErrorText::new(format!("a{}", "🍣".repeat(3_000)));
        assert_eq!(emoji.as_str().len(), 4_093);
        assert_eq!(ErrorText::new("\0".repeat(4_096)).as_str().len(), 4_095);
    }
}
