//! The pool of connections that read.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use r2d2::{ManageConnection, Pool};
use rusqlite::Connection;
use scheduled_thread_pool::ScheduledThreadPool;

use crate::connection;

/// r2d2 starts three threads for each pool unless they share; opening a file needs no more than
/// one.
static THREADS: LazyLock<Arc<ScheduledThreadPool>> = LazyLock::new(|| {
    let threads = ScheduledThreadPool::builder().num_threads(1);
    Arc::new(
        threads
            .thread_name_pattern("queue-table-sqlite-pool")
            .build(),
    )
});

/// Opens connections for r2d2.
#[derive(Debug)]
pub(crate) struct Readers {
    file: PathBuf,
}

impl ManageConnection for Readers {
    type Connection = Connection;
    type Error = rusqlite::Error;

    fn connect(&self) -> rusqlite::Result<Connection> {
        connection::open_reader(&self.file)
    }

    /// A file in this process does not go away like a server does.
    fn is_valid(&self, _: &mut Connection) -> rusqlite::Result<()> {
        Ok(())
    }

    /// An open transaction would let the next reader see an old state for ever.
    fn has_broken(&self, connection: &mut Connection) -> bool {
        !connection.is_autocommit()
    }
}

/// A pool that opens nothing before the first read.
pub(crate) fn build(file: &Path, readers_max: u32, patience: Duration) -> Pool<Readers> {
    Pool::builder()
        .max_size(readers_max)
        .min_idle(Some(0))
        .test_on_check_out(false)
        .connection_timeout(patience)
        .thread_pool(Arc::clone(&THREADS))
        .build_unchecked(Readers {
            file: file.to_owned(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn building_a_pool_opens_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jobs.db");
        let pool = build(&file, 2, Duration::from_secs(10));
        assert_eq!(pool.state().connections, 0);
        assert!(!file.exists());
        assert!(pool.get().unwrap().is_autocommit());
    }

    #[test]
    fn a_reader_left_inside_a_transaction_is_thrown_away() {
        let folder = tempfile::tempdir().unwrap();
        let pool = build(&folder.path().join("jobs.db"), 1, Duration::from_secs(10));
        pool.get().unwrap().execute_batch("BEGIN").unwrap();
        assert!(pool.get().unwrap().is_autocommit());
    }
}
