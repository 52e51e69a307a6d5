//! From the server's codes and the driver's errors to what the caller does next. The one table of this backend.

use std::fmt;

use mysql::{DriverError, MySqlError};
use queue_table_core::{Error, Failed, Rejected};

use crate::migrate::VERSION;

/// Turns the driver's error of one operation into the contract's. For `map_err`.
pub(crate) fn failed(
    engine: &'static str,
    operation: &'static str,
) -> impl Fn(mysql::Error) -> Error {
    move |error| translate(engine, operation, error)
}

/// An answer of the server that the statements cannot give: a column that is missing or of another type.
pub(crate) fn undecodable(engine: &'static str, operation: &'static str, what: &str) -> Error {
    Error::Engine(Failed::new(
        engine,
        operation,
        format!("the server's answer has no usable {what}"),
    ))
}

/// What the caller does next, by the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Runs the whole transaction again.
    Again,
    /// Tries again later.
    Later,
    /// Changes the request, or looks at the constraint that refused it.
    Constraint,
    /// Migrates.
    Migrate,
    /// Changes how the server, the account or the session is set up.
    SetUp,
    /// Reads the source.
    Read,
}

/// The server's codes. MySQL and MariaDB number their common errors alike.
fn next_step(code: u16) -> Next {
    match code {
        // deadlock; lock wait timeout; record changed since the snapshot (MariaDB); NOWAIT; XA deadlock; table
        // definition changed; statement to be prepared again; lock aborted for DDL; certification failure in a group
        1213 | 1205 | 1020 | 3572 | 1614 | 1412 | 1615 | 1689 | 3101 => Next::Again,
        // gone; lost; too many connections (of all, of this account); resource limits; host blocked; offline
        2006 | 2013 | 1040 | 1203 | 1226 | 1129 | 3032 => Next::Later,
        // shutdown; killed; interrupted; execution time; idle time-out; network
        1053 | 1077 | 1079 | 1927 | 3169 | 1317 | 3024 | 1969 | 4031 | 1158..=1161 => Next::Later,
        // read-only server, transaction, or InnoDB; cluster node not ready
        1290 | 1792 | 1836 | 1874 | 1047 => Next::Later,
        // disk full; out of memory; lock table full; table full
        1021 | 1037 | 1038 | 1041 | 1206 | 1114 => Next::Later,
        // duplicate key; CHECK (MySQL, MariaDB); foreign keys; NULL; no default; value too long, out of range, not of
        // the type; trigger's SIGNAL; data truncated; time overflow
        1062 | 3819 | 4025 | 1451 | 1452 | 1216 | 1217 | 1048 | 1364 | 1406 | 1264 | 1366
        | 1644 | 1265 | 1441 | 1292 => Next::Constraint,
        1146 => Next::Migrate,
        // account, privileges and authentication; unknown database or column; statement binlog; packet too large;
        // syntax the server does not have
        1045 | 1044 | 1142 | 1143 | 1227 | 1698 | 1251 | 1524 | 1820 | 1862 | 1049 | 1054
        | 1665 | 1153 | 1235 => Next::SetUp,
        _ => Next::Read,
    }
}

fn translate(engine: &'static str, operation: &'static str, error: mysql::Error) -> Error {
    match error {
        mysql::Error::MySqlError(error) => of_server(engine, operation, error),
        mysql::Error::DriverError(error) if is_misuse(&error) => {
            Error::Engine(Failed::new(engine, operation, error))
        }
        mysql::Error::FromValueError(_) | mysql::Error::FromRowError(_) => {
            undecodable(engine, operation, "value")
        }
        // The address and its password stay out of the message.
        mysql::Error::UrlError(_) => Error::Unsupported {
            engine,
            lacks: "a valid connection address".to_owned(),
        },
        mysql::Error::DriverError(DriverError::PacketTooLarge) => Error::Unsupported {
            engine,
            lacks: format!("{operation}: a larger max_allowed_packet"),
        },
        mysql::Error::CodecError(error) if error.to_string().contains("max_allowed_packet") => {
            Error::Unsupported {
                engine,
                lacks: format!("{operation}: a larger max_allowed_packet: {error}"),
            }
        }
        other => Error::Unavailable(Failed::new(engine, operation, Source(other))),
    }
}

fn of_server(engine: &'static str, operation: &'static str, error: MySqlError) -> Error {
    match next_step(error.code) {
        Next::Again => Error::Contention(Failed::new(engine, operation, error)),
        Next::Later => Error::Unavailable(Failed::new(engine, operation, error)),
        Next::Constraint => Error::Rejected(Rejected::Constraint {
            engine,
            operation,
            constraint: constraint(&error.message),
        }),
        Next::Migrate => Error::Schema {
            engine,
            found: None,
            needed: VERSION,
        },
        Next::SetUp => Error::Unsupported {
            engine,
            lacks: format!("{operation}: {error}"),
        },
        Next::Read => Error::Engine(Failed::new(engine, operation, error)),
    }
}

/// The driver was called wrongly: nothing is the matter with the connection.
fn is_misuse(error: &DriverError) -> bool {
    matches!(
        error,
        DriverError::MismatchedStmtParams(..) | DriverError::MixedParams | DriverError::Params(_)
    )
}

/// The constraint's name: what stands last in quotes of either kind, else the whole message.
fn constraint(message: &str) -> String {
    let name = match message {
        // MariaDB: CONSTRAINT `name` failed for `schema`.`table`
        _ if message.starts_with("CONSTRAINT `") => message.split('`').nth(1),
        // Cannot add or update a child row: ... CONSTRAINT `name` FOREIGN KEY ...
        _ if message.contains("CONSTRAINT `") => message
            .split("CONSTRAINT `")
            .nth(1)
            .and_then(|rest| rest.split('`').next()),
        // Duplicate entry 'value' for key 'name': the value is left out, it may be secret
        _ if message.starts_with("Duplicate entry") => message.rsplit('\'').nth(1),
        // MySQL: Check constraint 'name' is violated. Column 'name' cannot be null. Data too long for column 'name' ...
        _ => message
            .split('\'')
            .nth(1)
            .filter(|_| !message.starts_with("Incorrect")),
    };
    name.unwrap_or(message).to_owned()
}

/// The driver's error without its wrapper's name, so that texts read well.
#[derive(Debug)]
struct Source(mysql::Error);

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            mysql::Error::IoError(error) => error.fmt(f),
            mysql::Error::CodecError(error) => error.fmt(f),
            mysql::Error::DriverError(error) => error.fmt(f),
            other => other.fmt(f),
        }
    }
}

impl std::error::Error for Source {}

/// Whether a commit that failed so may have been stored all the same.
pub(crate) fn leaves_doubt(error: &mysql::Error) -> bool {
    match error {
        // The server said so itself: not committed. Killed while committing is the exception.
        mysql::Error::MySqlError(error) => {
            matches!(error.code, 1053 | 1927 | 1317 | 3169 | 2006 | 2013)
        }
        _ => true,
    }
}
