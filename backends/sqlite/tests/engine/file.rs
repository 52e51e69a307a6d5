//! The file itself: gone, replaced, not a database; and which result each gives.

use std::fs;

use queue_table_core::{Administration, QueueBackend};
use queue_table_sqlite::SqliteQueue;

use crate::{enqueue, fresh, job};

#[test]
fn a_file_that_is_no_database_is_an_engine_error_on_every_route() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.db");
    fs::write(
        &file,
        "not a database, whatever its name says. ".repeat(100),
    )
    .unwrap();
    let queue = SqliteQueue::open(&file).unwrap();
    for error in [queue.migrate().unwrap_err(), queue.stats(None).unwrap_err()] {
        assert_eq!(error.kind(), "engine");
        let text = queue_table_core::ErrorText::of(&error);
        assert!(text.as_str().contains("file is not a database"), "{text}");
    }
}

#[test]
fn a_folder_that_went_away_is_unavailable_and_a_new_one_works() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("data");
    fs::create_dir(&inner).unwrap();
    let queue = SqliteQueue::open(inner.join("jobs.db")).unwrap();
    fs::remove_dir(&inner).unwrap();
    assert_eq!(queue.migrate().unwrap_err().kind(), "unavailable");
    fs::create_dir(&inner).unwrap();
    queue.migrate().unwrap();
    enqueue(&queue, 1);
}

#[test]
fn a_missing_business_column_is_an_engine_error_that_names_it() {
    let (_queue, probe) = fresh();
    let table = queue_table_core::Table::default();
    let table = table
        .with_column("order_id", queue_table_core::ColumnType::Integer)
        .unwrap();
    let queue = SqliteQueue::builder(probe.file())
        .table(table)
        .build()
        .unwrap();
    let error = queue.enqueue(&[job()]).unwrap_err();
    assert_eq!(error.kind(), "engine");
    assert!(
        queue_table_core::ErrorText::of(&error)
            .as_str()
            .contains("order_id")
    );
    let found = queue.check().unwrap();
    assert!(found.iter().any(|finding| finding.subject == "order_id"));
}
