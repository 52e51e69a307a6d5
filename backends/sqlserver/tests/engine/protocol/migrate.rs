//! The migration, its lock and its ledger.

use queue_table_core::{Administration, Error, Migrated};

use super::numbers;
use crate::fake::{Fake, Reply, Request};

/// Answers `check` with a server of this version, and the ledger.
fn server(version: &'static str, tables: Option<i64>) -> Fake {
    Fake::serve(move |request| match request {
        Request::Statement("check") => Reply::Rows(
            vec!["subject", "value"],
            vec![
                vec!["version".into(), version.into()],
                vec!["compatibility_level".into(), "150".into()],
            ],
        ),
        Request::Statement("migrate_lock") => numbers("granted", &[0]),
        Request::Statement("exists") => numbers("found", &[i64::from(tables.is_some())]),
        Request::Statement("ledger") => numbers("version", &[tables.unwrap_or(0)]),
        _ => Reply::Done,
    })
}

#[test]
fn a_migration_runs_once_under_its_lock_and_refuses_what_it_does_not_know() {
    let batches = |fake: &Fake| {
        let asked = fake.asked();
        let batch = |request: &&Request| matches!(request, Request::Batch(text) if text.contains("CREATE TABLE"));
        asked.iter().filter(batch).count()
    };
    let fresh = server("17.0.1000.7", None);
    let migrated = fresh.queue().migrate().unwrap();
    assert_eq!(migrated, Migrated { from: None, to: 1 });
    assert_eq!(batches(&fresh), 1);

    let done = server("16.0.4000.1", Some(1));
    let migrated = done.queue().migrate().unwrap();
    assert_eq!(
        migrated,
        Migrated {
            from: Some(1),
            to: 1
        }
    );
    assert_eq!(batches(&done), 0);

    let newer = server("17.0.1000.7", Some(2)).queue().migrate();
    assert!(matches!(
        newer.unwrap_err(),
        Error::Schema { found: Some(2), .. }
    ));
    let old = server("14.0.1000.1", None).queue().migrate().unwrap_err();
    assert!(old.to_string().contains("2019"), "{old}");
}
