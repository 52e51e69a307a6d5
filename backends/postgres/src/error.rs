//! What PostgreSQL and diesel report, sorted by what the caller does next.
//!
//! diesel 2.3 tells the SQLSTATE of some errors by their kind, and hides it for the rest. Those are
//! told apart by the server's message, which is English where `lc_messages` is `C` or `en_*`;
//! `check` warns about any other. An error that is not recognised becomes [`Error::Engine`], with
//! the server's message as its source.

use diesel::result::{DatabaseErrorInformation, DatabaseErrorKind, Error as DieselError};
use queue_table_core::{Error, Failed, Rejected};

use crate::migrate::VERSION;

/// The engine's name in errors and logs.
pub(crate) const ENGINE: &str = "postgres";

/// The server's message with its detail, kept as the source of an error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Told(String);

/// What a message that has no kind of its own means. The texts are fixed in the server's sources.
const MESSAGES: [(&str, Meaning); 26] = [
    ("deadlock detected", Meaning::Contention), // 40P01
    (
        "canceling statement due to lock timeout",
        Meaning::Contention,
    ), // 55P03
    ("could not obtain lock on", Meaning::Contention), // 55P03
    ("could not serialize access", Meaning::Contention), // 40001
    ("due to conflict with recovery", Meaning::Unavailable), // 40001 or 57014 on a standby
    ("canceling statement due to", Meaning::Unavailable), // 57014: statement timeout, user request
    ("terminating connection", Meaning::Unavailable), // 57P01, 57P02, 25P03, 57P05
    ("the database system is", Meaning::Unavailable), // 57P03: starting up, shutting down, in recovery
    (
        "server closed the connection unexpectedly",
        Meaning::Unavailable,
    ), // 08006, by libpq
    ("connection not open", Meaning::Unavailable),    // by libpq
    ("no connection to the server", Meaning::Unavailable), // by libpq
    ("could not send data to server", Meaning::Unavailable), // by libpq
    ("could not receive data from server", Meaning::Unavailable), // by libpq
    ("SSL connection has been closed", Meaning::Unavailable), // by libpq
    ("SSL SYSCALL error", Meaning::Unavailable),      // by libpq
    ("too many connections for", Meaning::Unavailable), // 53300
    ("too many clients already", Meaning::Unavailable), // 53300
    (
        "remaining connection slots are reserved",
        Meaning::Unavailable,
    ), // 53300
    ("out of memory", Meaning::Unavailable),          // 53200
    ("No space left on device", Meaning::Unavailable), // 53100
    ("out of shared memory", Meaning::Unavailable),   // 53200
    ("permission denied for", Meaning::Unsupported),  // 42501
    ("prepared statement", Meaning::Unsupported), // 26000, 42P05: a transaction pooler swapped the session
    ("unrecognized configuration parameter", Meaning::Unsupported), // 42704
    ("no such savepoint", Meaning::Engine),       // 3B001
    ("current transaction is aborted", Meaning::Engine), // 25P02: the caller went on after an error
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Contention,
    Unavailable,
    Unsupported,
    Engine,
}

/// Sorts what diesel reported for an operation before its commit.
pub(crate) fn failed(operation: &'static str) -> impl Fn(DieselError) -> Error {
    move |error| sort(operation, error)
}

/// The database cannot be reached; the text holds no secret.
pub(crate) fn unavailable(operation: &'static str, text: impl Into<String>) -> Error {
    Error::Unavailable(Failed::new(ENGINE, operation, Told(text.into())))
}

/// Something that must not happen, in words.
pub(crate) fn broken(operation: &'static str, text: impl Into<String>) -> Error {
    Error::Engine(Failed::new(ENGINE, operation, Told(text.into())))
}

/// The connection was lost while it committed.
pub(crate) fn outcome_unknown(operation: &'static str, error: &DieselError) -> Error {
    Error::OutcomeUnknown(Failed::new(ENGINE, operation, Told(error.to_string())))
}

fn sort(operation: &'static str, error: DieselError) -> Error {
    let (kind, told) = match error {
        DieselError::DatabaseError(kind, told) => (kind, told),
        // The connection died before, and diesel refuses to go on with it.
        DieselError::BrokenTransactionManager => {
            return unavailable(operation, "the connection is lost");
        }
        other => return Error::Engine(Failed::new(ENGINE, operation, other)),
    };
    let source = Failed::new(ENGINE, operation, Told(text(&*told)));
    match kind {
        DatabaseErrorKind::SerializationFailure => Error::Contention(source),
        DatabaseErrorKind::ClosedConnection
        | DatabaseErrorKind::UnableToSendCommand
        | DatabaseErrorKind::ReadOnlyTransaction => Error::Unavailable(source),
        DatabaseErrorKind::CheckViolation
        | DatabaseErrorKind::ForeignKeyViolation
        | DatabaseErrorKind::RestrictViolation
        | DatabaseErrorKind::NotNullViolation
        | DatabaseErrorKind::ExclusionViolation
        | DatabaseErrorKind::UniqueViolation => constraint(operation, &*told),
        _ => unsorted(operation, &*told, source),
    }
}

fn unsorted(
    operation: &'static str,
    told: &(dyn DatabaseErrorInformation + Send + Sync),
    source: Failed,
) -> Error {
    match meaning(told.message()) {
        Some(Meaning::Contention) => Error::Contention(source),
        Some(Meaning::Unavailable) => Error::Unavailable(source),
        Some(Meaning::Unsupported) => Error::Unsupported {
            engine: ENGINE,
            lacks: format!("{operation}: {}", text(told)),
        },
        Some(Meaning::Engine) => Error::Engine(source),
        None if is_missing_table(told.message()) => Error::Schema {
            engine: ENGINE,
            found: None,
            needed: VERSION,
        },
        None => Error::Engine(source),
    }
}

fn meaning(message: &str) -> Option<Meaning> {
    let found = MESSAGES.iter().find(|(text, _)| message.contains(text));
    found.map(|(_, meaning)| *meaning)
}

/// 42P01, as the server words it for a table; a missing column is worded differently.
fn is_missing_table(message: &str) -> bool {
    message.starts_with("relation ")
        && message.ends_with(" does not exist")
        && !message.starts_with("relation with OID")
}

fn constraint(
    operation: &'static str,
    told: &(dyn DatabaseErrorInformation + Send + Sync),
) -> Error {
    // A NOT NULL has no name before version 18: its column tells as much.
    let name = told
        .constraint_name()
        .or_else(|| told.column_name())
        .unwrap_or("unnamed");
    Error::Rejected(Rejected::Constraint {
        engine: ENGINE,
        operation,
        constraint: name.to_owned(),
    })
}

/// The message, and for a conflict its detail, which tells who waited for whom. Other details may
/// show a payload.
fn text(told: &(dyn DatabaseErrorInformation + Send + Sync)) -> String {
    match told.details() {
        Some(detail) if meaning(told.message()) == Some(Meaning::Contention) => {
            format!("{} ({})", told.message(), detail.replace('\n', " "))
        }
        _ => told.message().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(kind: DatabaseErrorKind, message: &str) -> Error {
        sort(
            "ack",
            DieselError::DatabaseError(kind, Box::new(message.to_owned())),
        )
    }

    #[test]
    fn kinds_that_diesel_tells_are_sorted_without_their_message() {
        for (kind, wanted) in [
            (DatabaseErrorKind::SerializationFailure, "contention"),
            (DatabaseErrorKind::ClosedConnection, "unavailable"),
            (DatabaseErrorKind::UnableToSendCommand, "unavailable"),
            (DatabaseErrorKind::ReadOnlyTransaction, "unavailable"),
            (DatabaseErrorKind::CheckViolation, "rejected"),
            (DatabaseErrorKind::ForeignKeyViolation, "rejected"),
            (DatabaseErrorKind::NotNullViolation, "rejected"),
            (DatabaseErrorKind::UniqueViolation, "rejected"),
            (DatabaseErrorKind::Unknown, "engine"),
        ] {
            assert_eq!(sorted(kind, "etwas anderes").kind(), wanted);
        }
    }

    #[test]
    fn hidden_codes_are_sorted_by_their_english_message() {
        for (message, wanted) in [
            ("deadlock detected", "contention"),
            ("canceling statement due to lock timeout", "contention"),
            (
                "canceling statement due to statement timeout",
                "unavailable",
            ),
            ("canceling statement due to user request", "unavailable"),
            (
                "terminating connection due to administrator command",
                "unavailable",
            ),
            ("the database system is shutting down", "unavailable"),
            ("sorry, too many clients already", "unavailable"),
            ("too many connections for role \"app\"", "unavailable"),
            ("relation \"app.job\" does not exist", "schema"),
            ("permission denied for table job", "unsupported"),
            (
                "prepared statement \"__diesel_stmt_0\" does not exist",
                "unsupported",
            ),
            (
                "current transaction is aborted, commands ignored until end of transaction block",
                "engine",
            ),
            (
                "column \"order_id\" of relation \"job\" does not exist",
                "engine",
            ),
        ] {
            assert_eq!(
                sorted(DatabaseErrorKind::Unknown, message).kind(),
                wanted,
                "{message}"
            );
        }
    }

    #[test]
    fn a_broken_transaction_manager_is_a_lost_connection() {
        assert_eq!(
            sort("ack", DieselError::BrokenTransactionManager).kind(),
            "unavailable"
        );
        assert_eq!(sort("ack", DieselError::NotFound).kind(), "engine");
    }
}
