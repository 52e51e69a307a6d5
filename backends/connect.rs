//! One address for any engine: what an operator's tool needs.

use queue_table_core::{Administration, Error, Result, Table};

/// Opens the queue at an address, on whichever engine it names, for operators' work.
///
/// | address | engine | feature |
/// | --- | --- | --- |
/// | `sqlite:FILE` | SQLite | `sqlite` |
/// | `postgres://…`, `postgresql://…` | PostgreSQL | `postgres` |
/// | `mysql://…` | MySQL, MariaDB | `mysql` |
/// | `sqlserver://…`, `mssql://…` | SQL Server | `sqlserver` |
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
///
/// let refused = connect("oracle://app:secret@db/shop", Table::default()).err().unwrap();
/// assert!(!refused.to_string().contains("secret"));
/// # }
/// ```
pub fn connect(address: &str, table: Table) -> Result<Box<dyn Administration>> {
    let scheme = address.split_once(':').map_or("", |(scheme, _)| scheme);
    match scheme {
        "sqlite" => sqlite(address, table),
        "postgres" | "postgresql" => postgres(address, table),
        "mysql" => mysql(address, table),
        "sqlserver" | "mssql" => sqlserver(address, table),
        _ => Err(Error::Unsupported {
            engine: "queue-table",
            lacks: "the address begins with none of sqlite:, postgres:, mysql:, sqlserver:".into(),
        }),
    }
}

#[cfg(feature = "sqlite")]
fn sqlite(address: &str, table: Table) -> Result<Box<dyn Administration>> {
    let file = address.strip_prefix("sqlite:").unwrap_or(address);
    Ok(Box::new(
        crate::sqlite::SqliteQueue::builder(file)
            .table(table)
            .build()?,
    ))
}

#[cfg(feature = "postgres")]
fn postgres(address: &str, table: Table) -> Result<Box<dyn Administration>> {
    Ok(Box::new(
        crate::postgres::PostgresQueue::builder(address)
            .table(table)
            .build()?,
    ))
}

#[cfg(feature = "mysql")]
fn mysql(address: &str, table: Table) -> Result<Box<dyn Administration>> {
    Ok(Box::new(
        crate::mysql::MysqlQueue::builder(address)?
            .table(table)
            .build()?,
    ))
}

#[cfg(feature = "sqlserver")]
fn sqlserver(address: &str, table: Table) -> Result<Box<dyn Administration>> {
    Ok(Box::new(
        crate::sqlserver::SqlServerQueue::builder(address)
            .table(table)
            .build()?,
    ))
}

macro_rules! without {
    ($feature:literal, $name:ident) => {
        #[cfg(not(feature = $feature))]
        fn $name(_address: &str, _table: Table) -> Result<Box<dyn Administration>> {
            let lacks = concat!("this build has no feature `", $feature, "`").to_owned();
            Err(Error::Unsupported {
                engine: $feature,
                lacks,
            })
        }
    };
}

without!("sqlite", sqlite);
without!("postgres", postgres);
without!("mysql", mysql);
without!("sqlserver", sqlserver);
