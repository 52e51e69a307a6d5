//! One table from SQL Server's error numbers to what the caller does next.

use std::error::Error as StdError;

use crate::{ENGINE, SCHEMA_VERSION};
use queue_table_core::{Error, Failed, Rejected};

/// Severities from 20 on end the connection.
const FATAL_CLASS: u8 = 20;

/// Maps an error of `operation`, before its commit.
pub(crate) fn map(operation: &'static str) -> impl Fn(tiberius::error::Error) -> Error + Copy {
    move |error| classify(operation, error)
}

/// Maps an error of the COMMIT of `operation`.
///
/// An answer from a server that goes on means that nothing was stored. Without an answer nobody
/// knows.
pub(crate) fn commit(operation: &'static str) -> impl Fn(tiberius::error::Error) -> Error + Copy {
    move |error| match &error {
        tiberius::error::Error::Server(answer) if is_decisive(answer.class()) => {
            classify(operation, error)
        }
        _ => Error::OutcomeUnknown(failed(operation, error)),
    }
}

fn is_decisive(class: u8) -> bool {
    class < FATAL_CLASS
}

pub(crate) fn failed(
    operation: &'static str,
    source: impl Into<Box<dyn StdError + Send + Sync>>,
) -> Failed {
    Failed::new(ENGINE, operation, source)
}

/// An answer of the server that this crate cannot make sense of.
pub(crate) fn unexpected(operation: &'static str, text: impl Into<String>) -> Error {
    Error::Engine(failed(operation, text.into()))
}

pub(crate) fn never_migrated() -> Error {
    Error::Schema {
        engine: ENGINE,
        found: None,
        needed: SCHEMA_VERSION,
    }
}

pub(crate) fn unsupported(lacks: impl Into<String>) -> Error {
    Error::Unsupported {
        engine: ENGINE,
        lacks: lacks.into(),
    }
}

/// Whether the connection must not be used again after this error.
pub(crate) fn ends_connection(error: &Error) -> bool {
    matches!(
        error,
        Error::Unavailable(_) | Error::OutcomeUnknown(_) | Error::Engine(_)
    )
}

fn classify(operation: &'static str, error: tiberius::error::Error) -> Error {
    use tiberius::error::Error as Driver;
    match &error {
        Driver::Server(answer) => {
            let answer = Answer {
                number: answer.code(),
                class: answer.class(),
                message: answer.message().to_owned(),
            };
            answer.judge(operation, error)
        }
        // A timeout, a cut connection, or one that an earlier timeout left out of step.
        Driver::Io { .. } | Driver::Tls(_) | Driver::Protocol(_) | Driver::Routing { .. } => {
            Error::Unavailable(failed(operation, error))
        }
        _ => Error::Engine(failed(operation, error)),
    }
}

/// What the server said.
struct Answer {
    number: u32,
    class: u8,
    message: String,
}

impl Answer {
    fn judge(
        self,
        operation: &'static str,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Error {
        match next_step(self.number) {
            Step::Contention => Error::Contention(failed(operation, source)),
            Step::Unavailable => Error::Unavailable(failed(operation, source)),
            Step::Constraint => Error::Rejected(Rejected::Constraint {
                engine: ENGINE,
                operation,
                constraint: self.constraint(),
            }),
            Step::Migrate => never_migrated(),
            Step::Unsupported(lacks) => unsupported(format!("{lacks} (error {})", self.number)),
            Step::Engine if self.class >= FATAL_CLASS => {
                Error::Unavailable(failed(operation, source))
            }
            Step::Engine => Error::Engine(failed(operation, source)),
        }
    }

    /// The constraint's, index's or column's name, which stands between quotes at a place of its
    /// own in each message.
    fn constraint(&self) -> String {
        let behind = match self.number {
            547 => "constraint \"",
            2601 => "unique index '",
            2627 => "constraint '",
            515 | 2628 => "column '",
            _ => return format!("error {}", self.number),
        };
        let name = self
            .message
            .split_once(behind)
            .and_then(|(_, rest)| rest.split(['"', '\'']).next());
        name.map_or_else(|| format!("error {}", self.number), str::to_owned)
    }
}

/// What the caller does next.
enum Step {
    Contention,
    Unavailable,
    Constraint,
    Migrate,
    Unsupported(&'static str),
    Engine,
}

fn next_step(number: u32) -> Step {
    match number {
        // 1205 deadlock victim; 1222 lock timeout; 3960, 3961 snapshot conflict; 3902, 3903 no
        // transaction, 3930, 3998 a transaction that cannot be committed: the server has rolled
        // back, or will.
        1205 | 1222 | 3902 | 3903 | 3930 | 3960 | 3961 | 3998 => Step::Contention,

        // 547 CHECK or FOREIGN KEY; 515 NULL; 2601, 2627 duplicate key; 2628, 8152 too long for its
        // column.
        547 | 515 | 2601 | 2627 | 2628 | 8152 => Step::Constraint,

        208 => Step::Migrate,

        334 => Step::Unsupported(
            "a trigger on the job table makes OUTPUT fail; put its work into a table of your own",
        ),
        650 | 651 => Step::Unsupported(
            "READPAST needs READ COMMITTED or REPEATABLE READ; the transaction is at another isolation level",
        ),
        1047 | 4140 => Step::Unsupported("the server refuses the lock hints"),
        1934 => Step::Unsupported(
            "an indexed view, a filtered index or an indexed computed column on the tables needs other SET options",
        ),
        195 | 317 => Step::Unsupported("SQL Server 2019 or newer is needed"),
        319 | 13609 => Step::Unsupported("the database's compatibility level must be 130 or more"),

        // Memory, locks, log or disk used up; a database that is read-only, closed, starting or
        // failing over.
        701 | 802 | 1101 | 1105 | 1204 | 8645 | 8651 | 9002 => Step::Unavailable,
        596 | 615 | 921..=927 | 941 | 942 | 945 | 952 | 976 | 978 | 979 | 983 => Step::Unavailable,
        3906 | 3908 | 4060 | 4221 | 6005 | 17142 | 18401 => Step::Unavailable,

        // Azure: fail-over, throttling, resource limits.
        10928 | 10929 | 10936 | 40197 | 40501 | 40540 | 40544 | 40549..=40553 | 40613 => {
            Step::Unavailable
        }
        49918..=49920 => Step::Unavailable,

        // Everything else, 18456 (login failed) and 229 (permission denied) among them: trying
        // again does not help.
        _ => Step::Engine,
    }
}

#[cfg(test)]
mod tests;
