//! From the server's codes and the driver's errors to what the caller does next. The one table of
//! this backend.

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

/// An answer of the server that the statements cannot give: a column that is missing or of another
/// type.
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
///
/// A row: the codes, what they say, the caller's next step. None stands twice: a test compares.
const CODES: [(&[u16], Next); 15] = [
    // deadlock, lock wait timeout, XA deadlock, lock aborted for DDL
    (&[1213, 1205, 1614, 1689], Next::Again),
    // NOWAIT (MySQL); record changed since the snapshot (MariaDB); certification failed in a group
    (&[3572, 1020, 3101], Next::Again),
    // the table's definition changed; the statement is to be prepared again
    (&[1412, 1615], Next::Again),
    // gone, lost, network
    (&[2006, 2013, 1158, 1159, 1160, 1161], Next::Later),
    // too many connections in all, of this account; resource limit; host blocked; offline
    (&[1040, 1203, 1226, 1129, 3032], Next::Later),
    // shutdown; killed (MariaDB, MySQL); interrupted; idle for too long
    (&[1053, 1077, 1079, 1927, 3169, 1317, 4031], Next::Later),
    // the statement took too long (MySQL, MariaDB)
    (&[3024, 1969], Next::Later),
    // read-only server, transaction, InnoDB; the cluster's node is not ready
    (&[1290, 1792, 1836, 1874, 1047], Next::Later),
    // disk full, out of memory, lock table full, table full
    (&[1021, 1037, 1038, 1041, 1206, 1114], Next::Later),
    // duplicate key; CHECK (MySQL, MariaDB); foreign keys; a trigger's SIGNAL
    (
        &[1062, 3819, 4025, 1451, 1452, 1216, 1217, 1644],
        Next::Constraint,
    ),
    // NULL; no default; too long; out of range; not of the type; cut; no such instant
    (
        &[1048, 1364, 1406, 1264, 1366, 1265, 1441, 1292],
        Next::Constraint,
    ),
    // no such table
    (&[1146], Next::Migrate),
    // account, privileges, authentication
    (
        &[1045, 1044, 1142, 1143, 1227, 1698, 1251, 1524, 1820, 1862],
        Next::SetUp,
    ),
    // no such database, column, index; packet too large; syntax that this server does not have
    (&[1049, 1054, 1176, 1153, 1235], Next::SetUp),
    // binlog_format STATEMENT
    (&[1665], Next::SetUp),
];

fn next_step(code: u16) -> Next {
    let row = CODES.iter().find(|(codes, _)| codes.contains(&code));
    row.map_or(Next::Read, |(_, next)| *next)
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

/// The constraint's or column's name, as far as the message tells it; never a value, which may be
/// secret.
fn constraint(message: &str) -> String {
    let after = |words: &str, quote: char| {
        let (_, rest) = message.split_once(words)?;
        rest.split(quote).next()
    };
    // Check constraint (MySQL); CHECK and foreign keys (MariaDB, both); duplicate key; a column's
    // own rules
    let name = after("Check constraint '", '\'')
        .or_else(|| after("CONSTRAINT `", '`'))
        .or_else(|| {
            message
                .rsplit_once(" for key '")
                .map(|(_, key)| key.trim_end_matches('\''))
        })
        .or_else(|| after("olumn '", '\''));
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

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::io;

    use super::*;

    fn of(code: u16, message: &str) -> Error {
        let error = MySqlError {
            state: "HY000".to_owned(),
            message: message.to_owned(),
            code,
        };
        failed("mysql", "ack")(mysql::Error::MySqlError(error))
    }

    #[test]
    fn no_code_stands_twice() {
        let all: Vec<u16> = CODES
            .iter()
            .flat_map(|(codes, _)| codes.iter().copied())
            .collect();
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
    }

    #[test]
    fn every_code_tells_the_callers_next_step() {
        for (code, kind) in [
            (1213, "contention"),
            (1205, "contention"),
            (1020, "contention"),
            (3572, "contention"),
            (1614, "contention"),
            (1689, "contention"),
            (3101, "contention"),
            (1412, "contention"),
            (1615, "contention"),
            (2006, "unavailable"),
            (2013, "unavailable"),
            (1040, "unavailable"),
            (1203, "unavailable"),
            (1226, "unavailable"),
            (1129, "unavailable"),
            (3032, "unavailable"),
            (1053, "unavailable"),
            (1927, "unavailable"),
            (3169, "unavailable"),
            (1317, "unavailable"),
            (4031, "unavailable"),
            (3024, "unavailable"),
            (1969, "unavailable"),
            (1290, "unavailable"),
            (1792, "unavailable"),
            (1836, "unavailable"),
            (1047, "unavailable"),
            (1021, "unavailable"),
            (1114, "unavailable"),
            (1062, "rejected"),
            (3819, "rejected"),
            (4025, "rejected"),
            (1451, "rejected"),
            (1452, "rejected"),
            (1644, "rejected"),
            (1048, "rejected"),
            (1406, "rejected"),
            (1146, "schema"),
            (1045, "unsupported"),
            (1044, "unsupported"),
            (1142, "unsupported"),
            (1049, "unsupported"),
            (1054, "unsupported"),
            (1176, "unsupported"),
            (1153, "unsupported"),
            (1235, "unsupported"),
            (1665, "unsupported"),
            (1064, "engine"),
            (1467, "engine"),
        ] {
            assert_eq!(of(code, "said").kind(), kind, "{code}");
        }
    }

    #[test]
    fn a_constraint_is_told_by_name_and_without_values() {
        for (code, message, name) in [
            (
                3819,
                "Check constraint 'job_state' is violated.",
                "job_state",
            ),
            (
                4025,
                "CONSTRAINT `job_state` failed for `shop`.`job`",
                "job_state",
            ),
            (
                1062,
                "Duplicate entry 'secret-1' for key 'job.user_key'",
                "job.user_key",
            ),
            (
                1062,
                "Duplicate entry 'it's' for key 'user_key'",
                "user_key",
            ),
            (
                1452,
                "Cannot add or update a child row: a foreign key constraint fails (`shop`.`job`, CONSTRAINT `job_order` \
                 FOREIGN KEY (`order_id`) REFERENCES `customer_order` (`id`))",
                "job_order",
            ),
            (1048, "Column 'order_id' cannot be null", "order_id"),
            (1406, "Data too long for column 'tenant' at row 1", "tenant"),
            (
                1366,
                "Incorrect integer value: 'secret' for column 'n' at row 1",
                "n",
            ),
            (1644, "no jobs on Sundays", "no jobs on Sundays"),
        ] {
            let error = of(code, message);
            let Error::Rejected(Rejected::Constraint { constraint, .. }) = &error else {
                panic!("{error:?}");
            };
            assert_eq!(constraint, name);
        }
    }

    #[test]
    fn a_lost_connection_is_unavailable_and_while_committing_in_doubt() {
        let cut = || mysql::Error::IoError(io::Error::from(io::ErrorKind::ConnectionReset));
        assert_eq!(failed("mysql", "ack")(cut()).kind(), "unavailable");
        assert!(leaves_doubt(&cut()));
        let deadlock = MySqlError {
            state: "40001".to_owned(),
            message: String::new(),
            code: 1213,
        };
        assert!(!leaves_doubt(&mysql::Error::MySqlError(deadlock)));
    }

    #[test]
    fn a_packet_that_is_too_large_names_the_setting() {
        let error = mysql::Error::DriverError(DriverError::PacketTooLarge);
        let error = failed("mysql", "enqueue")(error);
        assert!(error.to_string().contains("max_allowed_packet"), "{error}");
    }

    #[test]
    fn the_drivers_text_is_told_once() {
        let error = mysql::Error::IoError(io::Error::other("broken pipe"));
        let text = queue_table_core::ErrorText::of(&failed("mysql", "ack")(error));
        assert!(text.as_str().ends_with("mysql ack: broken pipe"), "{text}");
    }
}
