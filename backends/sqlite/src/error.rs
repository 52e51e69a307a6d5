//! One table from SQLite's result codes to what the caller does next.

use queue_table_core::{Error, Failed, Rejected};
use rusqlite::ffi;

use crate::{ENGINE, SCHEMA_VERSION};

/// Maps an error of `operation`, before its commit.
pub(crate) fn map(operation: &'static str) -> impl Fn(rusqlite::Error) -> Error + Copy {
    move |error| classify(operation, error)
}

/// Maps an error of the COMMIT of `operation`.
///
/// A busy or refused commit is rolled back. Only when the file could not be written to the end may
/// the change have reached the disk.
pub(crate) fn commit(operation: &'static str) -> impl Fn(rusqlite::Error) -> Error + Copy {
    move |error| match code(&error) {
        Some(extended) if primary(extended) == ffi::SQLITE_IOERR => {
            Error::OutcomeUnknown(failed(operation, error))
        }
        _ => classify(operation, error),
    }
}

/// Whether a constraint or a trigger of the user's refused a change.
pub(crate) fn is_kept(error: &rusqlite::Error) -> bool {
    matches!(
        code(error),
        Some(ffi::SQLITE_CONSTRAINT_FOREIGNKEY | ffi::SQLITE_CONSTRAINT_TRIGGER)
    )
}

/// Whether SQLite said that somebody else is at the file.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    code(error).is_some_and(|extended| primary(extended) == ffi::SQLITE_BUSY)
}

pub(crate) fn failed(
    operation: &'static str,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Failed {
    Failed::new(ENGINE, operation, source)
}

pub(crate) fn never_migrated() -> Error {
    Error::Schema {
        engine: ENGINE,
        found: None,
        needed: SCHEMA_VERSION,
    }
}

fn classify(operation: &'static str, error: rusqlite::Error) -> Error {
    let Some(extended) = code(&error) else {
        return Error::Engine(failed(operation, error));
    };
    match primary(extended) {
        ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED | ffi::SQLITE_PROTOCOL => {
            Error::Contention(failed(operation, error))
        }
        ffi::SQLITE_READONLY
        | ffi::SQLITE_IOERR
        | ffi::SQLITE_FULL
        | ffi::SQLITE_CANTOPEN
        | ffi::SQLITE_PERM
        | ffi::SQLITE_NOMEM
        | ffi::SQLITE_NOLFS => Error::Unavailable(failed(operation, error)),
        ffi::SQLITE_CONSTRAINT => Error::Rejected(Rejected::Constraint {
            engine: ENGINE,
            operation,
            constraint: constraint(message(&error)),
        }),
        ffi::SQLITE_ERROR if message(&error).starts_with("no such table") => never_migrated(),
        _ => Error::Engine(failed(operation, error)),
    }
}

fn primary(extended: i32) -> i32 {
    extended & 0xff
}

fn code(error: &rusqlite::Error) -> Option<i32> {
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => Some(failure.extended_code),
        rusqlite::Error::SqlInputError { error, .. } => Some(error.extended_code),
        _ => None,
    }
}

fn message(error: &rusqlite::Error) -> &str {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => message,
        rusqlite::Error::SqlInputError { msg, .. } => msg,
        _ => "",
    }
}

/// SQLite names the constraint behind a colon, where it names one:
/// `CHECK constraint failed: job_state`.
fn constraint(message: &str) -> String {
    let name = message.split_once(": ").map_or(message, |(_, name)| name);
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(extended: i32, message: &str) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(extended), Some(message.to_owned()))
    }

    /// One row per code that a queue can meet.
    const TABLE: &[(i32, &str, &str)] = &[
        (ffi::SQLITE_BUSY, "database is locked", "contention"),
        (
            ffi::SQLITE_BUSY_SNAPSHOT,
            "database is locked",
            "contention",
        ),
        (
            ffi::SQLITE_BUSY_RECOVERY,
            "database is locked",
            "contention",
        ),
        (ffi::SQLITE_BUSY_TIMEOUT, "database is locked", "contention"),
        (ffi::SQLITE_LOCKED, "database table is locked", "contention"),
        (
            ffi::SQLITE_LOCKED_SHAREDCACHE,
            "database table is locked: job",
            "contention",
        ),
        (ffi::SQLITE_PROTOCOL, "locking protocol", "contention"),
        (
            ffi::SQLITE_READONLY,
            "attempt to write a readonly database",
            "unavailable",
        ),
        (
            ffi::SQLITE_READONLY_DBMOVED,
            "attempt to write a readonly database",
            "unavailable",
        ),
        (ffi::SQLITE_IOERR, "disk I/O error", "unavailable"),
        (ffi::SQLITE_IOERR_WRITE, "disk I/O error", "unavailable"),
        (ffi::SQLITE_FULL, "database or disk is full", "unavailable"),
        (
            ffi::SQLITE_CANTOPEN,
            "unable to open database file",
            "unavailable",
        ),
        (ffi::SQLITE_PERM, "access permission denied", "unavailable"),
        (ffi::SQLITE_NOMEM, "out of memory", "unavailable"),
        (
            ffi::SQLITE_NOLFS,
            "large file support is disabled",
            "unavailable",
        ),
        (
            ffi::SQLITE_CONSTRAINT_CHECK,
            "CHECK constraint failed: job_state",
            "rejected",
        ),
        (
            ffi::SQLITE_CONSTRAINT_FOREIGNKEY,
            "FOREIGN KEY constraint failed",
            "rejected",
        ),
        (
            ffi::SQLITE_CONSTRAINT_NOTNULL,
            "NOT NULL constraint failed: job.order_id",
            "rejected",
        ),
        (
            ffi::SQLITE_CONSTRAINT_UNIQUE,
            "UNIQUE constraint failed: job.order_id",
            "rejected",
        ),
        (
            ffi::SQLITE_CONSTRAINT_TRIGGER,
            "not on a Sunday",
            "rejected",
        ),
        (
            ffi::SQLITE_CONSTRAINT_DATATYPE,
            "cannot store TEXT value in INTEGER column job.run_at",
            "rejected",
        ),
        (ffi::SQLITE_ERROR, "no such table: main.job", "schema"),
        (
            ffi::SQLITE_ERROR,
            "table job has no column named order_id",
            "engine",
        ),
        (
            ffi::SQLITE_CORRUPT,
            "database disk image is malformed",
            "engine",
        ),
        (ffi::SQLITE_NOTADB, "file is not a database", "engine"),
        (ffi::SQLITE_INTERRUPT, "interrupted", "engine"),
        (ffi::SQLITE_TOOBIG, "string or blob too big", "engine"),
        (
            ffi::SQLITE_MISUSE,
            "bad parameter or other API misuse",
            "engine",
        ),
    ];

    #[test]
    fn every_code_tells_the_next_step() {
        for (extended, message, kind) in TABLE {
            let error = map("ack")(failure(*extended, message));
            assert_eq!(error.kind(), *kind, "{extended}: {message}");
        }
    }

    #[test]
    fn only_an_io_error_leaves_the_outcome_of_a_commit_open() {
        for (extended, message, kind) in TABLE {
            let io = primary(*extended) == ffi::SQLITE_IOERR;
            let expected = if io { "outcome_unknown" } else { kind };
            let error = commit("ack")(failure(*extended, message));
            assert_eq!(error.kind(), expected, "{extended}: {message}");
        }
    }

    #[test]
    fn a_refused_row_names_the_constraint() {
        let refused = map("enqueue")(failure(
            ffi::SQLITE_CONSTRAINT_CHECK,
            "CHECK constraint failed: job_state",
        ));
        assert_eq!(
            refused.to_string(),
            "sqlite enqueue: constraint `job_state` refused the row"
        );
    }

    #[test]
    fn an_error_of_the_driver_itself_is_an_engine_error_with_its_source() {
        let error = map("get")(rusqlite::Error::InvalidQuery);
        assert_eq!(error.to_string(), "sqlite get");
        let source = std::error::Error::source(&error).and_then(|failed| failed.source());
        assert_eq!(
            source.unwrap().to_string(),
            rusqlite::Error::InvalidQuery.to_string()
        );
    }

    #[test]
    fn a_foreign_key_and_a_trigger_keep_a_row() {
        assert!(is_kept(&failure(ffi::SQLITE_CONSTRAINT_FOREIGNKEY, "")));
        assert!(is_kept(&failure(ffi::SQLITE_CONSTRAINT_TRIGGER, "")));
        assert!(!is_kept(&failure(ffi::SQLITE_CONSTRAINT_CHECK, "")));
        assert!(!is_kept(&failure(ffi::SQLITE_BUSY, "")));
    }
}
