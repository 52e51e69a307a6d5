//! What is wrong with a value that core refused before any SQL ran.

use std::fmt;
use std::time::Duration;

/// A value that is outside its limits; nothing was sent to the database.
///
/// The message names the value, what was wrong with it and what is allowed. The value itself is not
/// repeated: it may be long, or secret.
///
/// ```
/// use queue_table_core::QueueName;
///
/// let refused = QueueName::new(" mail").unwrap_err();
/// assert_eq!(
///     refused.to_string(),
///     "queue name begins or ends with a blank; blanks are allowed only inside"
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    what: &'static str,
    problem: Problem,
}

/// The rule that a value broke, with the limit it broke.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// Nothing was given where at least one byte is needed.
    Empty {
        /// Most bytes of UTF-8 allowed.
        bytes_max: usize,
    },
    /// More bytes of UTF-8 than every engine can hold or index.
    TooLong {
        /// Bytes given.
        bytes: usize,
        /// Most bytes allowed.
        bytes_max: usize,
    },
    /// A control character, NUL among them.
    ControlCharacter {
        /// Byte position of the character.
        at: usize,
    },
    /// A blank at either end, which some engines would drop or ignore when comparing.
    BlankEdge,
    /// Not an identifier of lower-case letters, digits and underscores, beginning with a letter.
    NotAnIdentifier,
    /// A number outside its range.
    OutOfRange {
        /// The number given.
        given: i64,
        /// Smallest allowed.
        min: i64,
        /// Largest allowed.
        max: i64,
    },
    /// A duration outside its range.
    DurationOutOfRange {
        /// The duration given.
        given: Duration,
        /// Shortest allowed.
        min: Duration,
        /// Longest allowed.
        max: Duration,
    },
    /// More items in one call than allowed.
    TooMany {
        /// Items given.
        given: usize,
        /// Most items allowed.
        max: usize,
    },
    /// Not one JSON text, or one that not every engine accepts.
    Json {
        /// What the parser said, with line and column.
        reason: String,
    },
    /// A business column the queue was not built with, or a value of another type than the
    /// column's.
    Column {
        /// The column's name.
        column: String,
        /// What is wrong, and what the queue was built with.
        reason: String,
    },
    /// Another rule; the text says which and what is allowed.
    Other(&'static str),
}

impl Invalid {
    /// Says that the value called `what` broke the rule `problem`.
    #[must_use]
    pub fn new(what: &'static str, problem: Problem) -> Self {
        Self { what, problem }
    }

    /// The value's name, such as `queue name`.
    #[must_use]
    pub fn what(&self) -> &'static str {
        self.what
    }

    /// The rule it broke.
    #[must_use]
    pub fn problem(&self) -> &Problem {
        &self.problem
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.what;
        match &self.problem {
            Problem::Empty { bytes_max } => {
                write!(f, "{what} is empty; 1 to {bytes_max} bytes are allowed")
            }
            Problem::TooLong { bytes, bytes_max } => {
                write!(
                    f,
                    "{what} has {bytes} bytes; at most {bytes_max} are allowed"
                )
            }
            Problem::ControlCharacter { at } => {
                write!(
                    f,
                    "{what} has a control character at byte {at}; none are allowed"
                )
            }
            Problem::BlankEdge => write!(
                f,
                "{what} begins or ends with a blank; blanks are allowed only inside"
            ),
            Problem::NotAnIdentifier => write!(
                f,
                "{what} is not an identifier; lower-case letters, digits and underscores are allowed, a letter first"
            ),
            Problem::OutOfRange { given, min, max } => {
                write!(f, "{what} is {given}; {min} to {max} is allowed")
            }
            Problem::DurationOutOfRange { given, min, max } => {
                write!(f, "{what} is {given:?}; {min:?} to {max:?} is allowed")
            }
            Problem::TooMany { given, max } => {
                write!(f, "{what} has {given} items; at most {max} are allowed")
            }
            Problem::Json { reason } => {
                write!(f, "{what} is not JSON that every engine accepts: {reason}")
            }
            Problem::Column { column, reason } => write!(f, "{what} `{column}`: {reason}"),
            Problem::Other(rule) => write!(f, "{what} {rule}"),
        }
    }
}

impl std::error::Error for Invalid {}
