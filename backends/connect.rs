//! One address for any engine: what an operator's tool needs.

use queue_table_core::{Administration, Error, Result, Table};

/// Opens the queue at an address, on whichever engine it names, for operators' work.
///
/// | address | engine | feature |
/// | --- | --- | --- |
/// | `sqlite:FILE` | SQLite | `sqlite` |
///
/// No connection is made before the first operation.
///
/// # Errors
/// [`Error::Unsupported`] when the address names no engine, or one whose feature is not enabled;
/// those of the backend's own builder. No message repeats the address: it may hold a password.
///
/// ```
/// # #[cfg(feature = "sqlite")] {
/// use queue_table::{Table, connect};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let address = format!("sqlite:{}", folder.path().join("shop.db").display());
/// let queue = connect(&address, Table::default()).unwrap();
/// assert_eq!(queue.migrate().unwrap().from, None);
/// assert!(connect("oracle://db", Table::default()).is_err());
/// # }
/// ```
pub fn connect(address: &str, table: Table) -> Result<Box<dyn Administration>> {
    let (scheme, _rest) = address.split_once(':').unwrap_or(("", address));
    match scheme {
        #[cfg(feature = "sqlite")]
        "sqlite" => Ok(Box::new(
            crate::sqlite::SqliteQueue::builder(_rest)
                .table(table)
                .build()?,
        )),
        _ => {
            drop(table);
            Err(unknown(scheme))
        }
    }
}

/// The scheme is repeated only when it is one: in a mistyped address, what stands before the first
/// colon may be anything.
fn unknown(scheme: &str) -> Error {
    const KNOWN: [&str; 4] = ["sqlite", "postgres", "mysql", "sqlserver"];
    let lacks = match KNOWN.iter().find(|known| **known == scheme) {
        Some(known) => format!("this build has no feature `{known}`"),
        None => format!(
            "the address begins with none of {}",
            KNOWN.join(":, ") + ":"
        ),
    };
    Error::Unsupported {
        engine: "queue-table",
        lacks,
    }
}
