//! Transactions: the crate's own, at READ COMMITTED whatever the role's default is, and the
//! caller's.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use diesel::connection::{AnsiTransactionManager, SimpleConnection, TransactionManager};
use diesel::pg::PgConnection;
use diesel::r2d2::R2D2Connection;
use diesel::result::Error as DieselError;
use queue_table_core::{Error, Rejected, Result};

use crate::error::{ENGINE, failed, outcome_unknown};
use crate::pool::{Connection, Pool, condemn};

/// A role's default may be serializable, where a claim fails on every row that another claim has
/// changed.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// How often an operation is run before contention reaches its caller.
const TRIES: u32 = 6;

/// The wait before the second try; each further one is up to twice as long.
const RETRY_WAIT: Duration = Duration::from_millis(4);

/// Runs one operation in a transaction of its own on a pooled connection, again when others are in
/// its way.
pub(crate) fn own<T>(
    pool: &Pool,
    operation: &'static str,
    mut work: impl FnMut(&mut PgConnection) -> Result<T>,
) -> Result<T> {
    again(|| {
        let mut connection = begin_on(pool, operation)?;
        finish(&mut connection, operation, |connection| work(connection))
    })
}

/// Runs one operation in a transaction of its own on a connection that is kept from one call to the
/// next.
pub(crate) fn kept<T>(
    slot: &Mutex<Option<Connection>>,
    pool: &Pool,
    operation: &'static str,
    mut work: impl FnMut(&mut PgConnection) -> Result<T>,
) -> Result<T> {
    let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
    again(|| {
        // A connection that died since the last call shows itself here, before anything was done on
        // it.
        let mut old = slot.take();
        let begun = old.as_mut().map(|old| begin(old, operation));
        let mut connection = match (old, begun) {
            (Some(old), Some(Ok(()))) => old,
            _ => {
                let mut new = pool.get_apart(operation)?;
                begin(&mut new, operation)?;
                new
            }
        };
        let result = finish(&mut connection, operation, |connection| work(connection));
        if !connection.is_broken() {
            *slot = Some(connection);
        }
        result
    })
}

/// Runs the caller's work once in one transaction.
pub(crate) fn once<R, E: From<Error>>(
    pool: &Pool,
    work: impl FnOnce(&mut PgConnection) -> Result<R, E>,
) -> Result<R, E> {
    let mut connection = begin_on(pool, "transaction")?;
    let result = work(&mut connection);
    if result.is_err() {
        roll_back(&mut connection);
        return result;
    }
    // After an error that the caller passed over, COMMIT would roll back and report success; the
    // SELECT fails then.
    commit(&mut connection, "transaction", "SELECT 1; COMMIT")?;
    result
}

/// Refuses a connection without a transaction, where a lock would end with the statement that took
/// it.
pub(crate) fn require_transaction(
    connection: &mut PgConnection,
    operation: &'static str,
) -> Result<()> {
    let status = AnsiTransactionManager::transaction_manager_status_mut(connection);
    match status.transaction_depth() {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(Rejected::NotInTransaction {
            engine: ENGINE,
            operation,
        }
        .into()),
        Err(error) => Err(failed(operation)(error)),
    }
}

fn again<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let mut wait = RETRY_WAIT;
    for _ in 1..TRIES {
        match attempt() {
            Err(Error::Contention(_)) => {
                std::thread::sleep(wait.mul_f64(fastrand::f64()));
                wait *= 2;
            }
            result => return result,
        }
    }
    attempt()
}

/// A pooled connection inside a new transaction. After a server's restart every pooled connection
/// may be dead, which BEGIN finds out before anything was done.
fn begin_on(pool: &Pool, operation: &'static str) -> Result<Connection> {
    for _ in 0..pool.max_size() {
        let mut connection = pool.get(operation)?;
        match begin(&mut connection, operation) {
            Ok(()) => return Ok(connection),
            Err(Error::Unavailable(_)) if connection.is_broken() => {}
            Err(error) => return Err(error),
        }
    }
    let mut connection = pool.get(operation)?;
    begin(&mut connection, operation)?;
    Ok(connection)
}

fn begin(connection: &mut PgConnection, operation: &'static str) -> Result<()> {
    AnsiTransactionManager::begin_transaction_sql(connection, BEGIN).map_err(failed(operation))
}

fn finish<T>(
    connection: &mut PgConnection,
    operation: &'static str,
    work: impl FnOnce(&mut PgConnection) -> Result<T>,
) -> Result<T> {
    let result = work(connection);
    if result.is_err() {
        roll_back(connection);
        if matches!(result, Err(Error::Unavailable(_))) {
            // The server takes no writes, is going down or is gone; the next connection may lead to
            // a better one.
            condemn(connection);
        }
        return result;
    }
    commit(connection, operation, "COMMIT")?;
    result
}

fn commit(connection: &mut PgConnection, operation: &'static str, sql: &str) -> Result<()> {
    let Err(error) = connection.batch_execute(sql) else {
        return Ok(());
    };
    if connection.is_broken() && is_connection_lost(connection) {
        return Err(outcome_unknown(operation, &error));
    }
    roll_back(connection);
    Err(failed(operation)(error))
}

/// Whether the connection itself is gone, other than a transaction still open on it.
fn is_connection_lost(connection: &mut PgConnection) -> bool {
    let status = AnsiTransactionManager::transaction_manager_status_mut(connection);
    matches!(
        status.transaction_depth(),
        Err(DieselError::BrokenTransactionManager)
    )
}

/// Rolls back what is left of the transaction. Where that fails the connection is gone, and the
/// server rolls back.
fn roll_back(connection: &mut PgConnection) {
    if connection.is_broken() && connection.batch_execute("ROLLBACK").is_err() {
        condemn(connection);
    }
}
