//! How connections are opened and set up.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use queue_table_core::{Error, Result};
use rusqlite::{Connection, OpenFlags};

use crate::{ENGINE, busy, error};

/// `unixepoch('subsec')` came with 3.42; STRICT tables and RETURNING are older.
const VERSION_MIN: i32 = 3_042_000;

/// Statements kept prepared on a connection of ours: those of three queues on one file.
const STATEMENTS_KEPT: usize = 128;

/// Opens a connection that writes: WAL, every commit flushed to the disk, foreign keys enforced.
pub(crate) fn open_writer(
    file: &Path,
    operation: &'static str,
    deadline: Instant,
) -> Result<Connection> {
    let connection = open(file).map_err(error::map(operation))?;
    switch_to_wal(&connection, deadline).map_err(error::map(operation))?;
    connection
        .execute_batch("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;")
        .map_err(error::map(operation))?;
    Ok(connection)
}

/// Opens a connection that reads. It may create the file, as every connection of SQLite does, and
/// nothing in it.
pub(crate) fn open_reader(file: &Path) -> rusqlite::Result<Connection> {
    let connection = open(file)?;
    connection.execute_batch("PRAGMA query_only = ON;")?;
    Ok(connection)
}

/// A name is a path, never a URI. Each connection is used by one thread at a time, so SQLite need
/// not lock it.
fn open(file: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(file, flags)?;
    busy::install(&mut connection)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    Ok(connection)
}

/// Refuses a library that lacks what the statements use.
pub(crate) fn check_version(found: i32) -> Result<()> {
    if found >= VERSION_MIN {
        return Ok(());
    }
    Err(Error::Unsupported {
        engine: ENGINE,
        lacks: format!(
            "SQLite {} is too old; 3.42 or newer is needed",
            rusqlite::version()
        ),
    })
}

/// Switches the file to WAL, where readers and the writer do not block each other. Once done it
/// stays in the file.
///
/// The switch does not ask the busy handler in every case, so it is tried again here. A file that
/// cannot be switched (a file system without shared memory) works as it is, and `check` says so.
fn switch_to_wal(connection: &Connection, deadline: Instant) -> rusqlite::Result<()> {
    let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
    if mode == "wal" || connection.is_readonly("main")? {
        return Ok(());
    }
    loop {
        match connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())) {
            Err(busy) if error::is_busy(&busy) && Instant::now() < deadline => {
                sleep(Duration::from_micros(fastrand::u64(500..5_000)));
            }
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_library_is_unsupported_and_named() {
        assert!(check_version(VERSION_MIN).is_ok());
        let refused = check_version(3_040_001).unwrap_err();
        assert_eq!(refused.kind(), "unsupported");
        assert!(refused.to_string().contains("3.42 or newer"), "{refused}");
    }

    #[test]
    fn a_writer_has_wal_full_and_foreign_keys() {
        let folder = tempfile::tempdir().unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        let writer = open_writer(&folder.path().join("jobs.db"), "test", deadline).unwrap();
        let pragma = |name: &str| writer.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        assert_eq!(pragma("synchronous"), Ok(2));
        assert_eq!(pragma("foreign_keys"), Ok(1));
        let mode: String = writer
            .pragma_query_value(None, "journal_mode", |row| row.get(0))
            .unwrap();
        assert_eq!(mode, "wal");
    }

    #[test]
    fn a_reader_cannot_write() {
        let folder = tempfile::tempdir().unwrap();
        let reader = open_reader(&folder.path().join("jobs.db")).unwrap();
        let refused = reader.execute_batch("CREATE TABLE t (a)").unwrap_err();
        assert_eq!(error::map("get")(refused).kind(), "unavailable");
    }

    #[test]
    fn the_switch_to_wal_waits_for_those_who_use_the_file() {
        for lock in [
            "BEGIN; SELECT COUNT(*) FROM t",
            "BEGIN IMMEDIATE",
            "BEGIN EXCLUSIVE",
        ] {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("jobs.db");
            let other = Connection::open(&file).unwrap();
            other.execute_batch("CREATE TABLE t (a)").unwrap();
            other.execute_batch(lock).unwrap();
            let deadline = Instant::now() + Duration::from_secs(10);
            std::thread::scope(|scope| {
                let opening = scope.spawn(|| {
                    let _patience = busy::Patience::until(deadline);
                    open_writer(&file, "test", deadline).map(drop)
                });
                sleep(Duration::from_millis(100));
                assert!(!opening.is_finished(), "{lock}");
                other.execute_batch("ROLLBACK").unwrap();
                opening.join().unwrap().unwrap();
            });
        }
    }

    #[test]
    fn past_the_deadline_the_switch_to_wal_is_contention() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jobs.db");
        let other = Connection::open(&file).unwrap();
        other
            .execute_batch("CREATE TABLE t (a); BEGIN IMMEDIATE")
            .unwrap();
        let deadline = Instant::now() + Duration::from_millis(50);
        let refused = open_writer(&file, "test", deadline).unwrap_err();
        assert_eq!(refused.kind(), "contention");
    }
}
