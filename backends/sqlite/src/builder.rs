//! How a queue is set up.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use queue_table_core::{Error, Invalid, Problem, Result, Table};

use crate::connection::check_version;
use crate::error::failed;
use crate::queue::SqliteQueue;

/// How long an operation waits for the file's writer, unless told otherwise.
pub const BUSY_DEADLINE_DEFAULT: Duration = Duration::from_secs(10);

/// Connections that read at the same time, unless told otherwise.
pub const READERS_DEFAULT: u32 = 4;

/// Sets up a [`SqliteQueue`].
///
/// ```
/// use std::time::Duration;
/// use queue_table_core::{ColumnType, Table};
/// use queue_table_sqlite::SqliteQueue;
///
/// # let folder = tempfile::tempdir()?;
/// # let file = folder.path().join("app.db");
/// let queue = SqliteQueue::builder(&file)
///     .table(Table::named("billing_job")?.with_column("order_id", ColumnType::Integer)?)
///     .busy_deadline(Duration::from_secs(2))
///     .build()?;
/// assert!(SqliteQueue::builder(":memory:").build().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct SqliteQueueBuilder {
    path: PathBuf,
    table: Table,
    busy_deadline: Duration,
    readers_max: u32,
}

impl SqliteQueueBuilder {
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            table: Table::default(),
            busy_deadline: BUSY_DEADLINE_DEFAULT,
            readers_max: READERS_DEFAULT,
        }
    }

    /// Uses these tables; `job` without business columns by default.
    #[must_use]
    pub fn table(self, table: Table) -> Self {
        Self { table, ..self }
    }

    /// Waits at most so long for the file's writer, and for a free reader; 10 seconds by default.
    #[must_use]
    pub fn busy_deadline(self, busy_deadline: Duration) -> Self {
        Self {
            busy_deadline,
            ..self
        }
    }

    /// Opens at most so many connections that read; 4 by default, at least 1.
    #[must_use]
    pub fn readers_max(self, readers_max: u32) -> Self {
        Self {
            readers_max,
            ..self
        }
    }

    /// Makes the queue. Opens nothing yet.
    ///
    /// # Errors
    /// [`Error::Rejected`] for a path that is no file (empty, `:memory:`, a URI), for 0 readers,
    /// and for a table in a schema, which SQLite does not have; [`Error::Unavailable`] when the
    /// file's folder is not there; [`Error::Unsupported`] when the SQLite library is too old.
    pub fn build(self) -> Result<SqliteQueue> {
        check_version(rusqlite::version_number())?;
        check_path(&self.path)?;
        if self.readers_max == 0 {
            let problem = Problem::OutOfRange {
                given: 0,
                min: 1,
                max: i64::from(u32::MAX),
            };
            return Err(Invalid::new("readers_max", problem).into());
        }
        if self.table.schema().is_some() {
            let problem = Problem::Other("is given, but SQLite has no schemas; leave it out");
            return Err(Invalid::new("schema", problem).into());
        }
        let file =
            canonical(&self.path).map_err(|error| Error::Unavailable(failed("open", error)))?;
        Ok(SqliteQueue::new(
            &file,
            self.table,
            self.busy_deadline,
            self.readers_max,
        ))
    }
}

/// Each connection to a database in memory has one of its own: a reader would never see what the
/// writer stored.
fn check_path(path: &Path) -> Result<(), Invalid> {
    let problem = match path.to_str() {
        Some("" | ":memory:") => {
            "is a database in memory, which every connection has one of its own of; give a file"
        }
        Some(text) if text.starts_with("file:") => "is a URI; give the path of a file",
        _ => return Ok(()),
    };
    Err(Invalid::new("path", Problem::Other(problem)))
}

/// One name for one file, whether it is there already or not: queues on the same file share its
/// writer.
fn canonical(path: &Path) -> io::Result<PathBuf> {
    let not_a_file = || io::Error::new(io::ErrorKind::InvalidInput, "the path names no file");
    if let Ok(file) = path.canonicalize() {
        return if file.is_dir() {
            Err(not_a_file())
        } else {
            Ok(file)
        };
    }
    let name = path.file_name().ok_or_else(not_a_file)?;
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    Ok(folder.canonicalize()?.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(path: impl AsRef<Path>) -> Error {
        SqliteQueueBuilder::new(path.as_ref()).build().unwrap_err()
    }

    #[test]
    fn a_database_in_memory_or_a_uri_is_refused() {
        for path in ["", ":memory:", "file::memory:?cache=shared", "file:jobs.db"] {
            assert_eq!(refused(path).kind(), "rejected", "{path}");
        }
        assert!(refused(":memory:").to_string().contains("give a file"));
    }

    #[test]
    fn no_reader_at_all_is_refused_and_the_limit_named() {
        let builder = SqliteQueueBuilder::new(Path::new("jobs.db")).readers_max(0);
        let refused = builder.build().unwrap_err();
        assert_eq!(refused.kind(), "rejected");
        let told = queue_table_core::ErrorText::of(&refused);
        assert!(told.as_str().contains("readers_max"), "{told}");
        assert!(told.as_str().contains("1"), "{told}");
    }

    #[test]
    fn a_table_in_a_schema_is_refused() {
        let table = Table::default().in_schema("app").unwrap();
        let builder = SqliteQueueBuilder::new(Path::new("jobs.db")).table(table);
        assert_eq!(builder.build().unwrap_err().kind(), "rejected");
    }

    #[test]
    fn a_folder_that_is_not_there_is_told_when_the_queue_is_built() {
        assert_eq!(refused("/no/such/folder/jobs.db").kind(), "unavailable");
        assert_eq!(refused("/").kind(), "unavailable");
    }

    #[test]
    fn every_way_to_name_a_file_gives_one_name() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("jobs.db");
        let winding = folder
            .path()
            .join("../")
            .join(folder.path().file_name().unwrap())
            .join("jobs.db");
        let before = canonical(&plain).unwrap();
        assert_eq!(canonical(&winding).unwrap(), before);
        std::fs::write(&plain, "").unwrap();
        assert_eq!(canonical(&plain).unwrap(), before);
        assert_eq!(canonical(&winding).unwrap(), before);
    }
}
