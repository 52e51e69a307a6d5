//! Retention: deletes old finished jobs and what belongs to them, and leaves those that the user's
//! own rows keep.

use queue_table_core::{Delay, Error, JobId, PurgeCursor, PurgeRequest, Purged, Rejected, Result};
use rusqlite::{Connection, named_params};

use crate::decode;
use crate::error::{is_kept, map};
use crate::lifecycle::now;
use crate::queue::{SqliteQueue, Tables};

/// Deletes one batch in one commit; when the user's constraints speak up only at the commit, row by
/// row.
pub(crate) fn purge(queue: &SqliteQueue, request: &PurgeRequest) -> Result<Purged> {
    let tables = queue.tables();
    let batch = |tx: &Connection| {
        let found = find(tx, tables, request)?;
        let mut purged = Purged::default();
        for row in &found {
            count(&mut purged, row.job_id, delete_or_keep(tx, tables, row)?);
        }
        purged.cursor = cursor(request, &found);
        Ok(purged)
    };
    match queue.write("purge", batch) {
        Err(Error::Rejected(Rejected::Constraint { .. })) => row_by_row(queue, request),
        other => other,
    }
}

/// A commit of its own for each row: a deferred foreign key is checked there.
fn row_by_row(queue: &SqliteQueue, request: &PurgeRequest) -> Result<Purged> {
    let tables = queue.tables();
    let found = queue.write("purge", |tx| find(tx, tables, request))?;
    let mut purged = Purged::default();
    for row in &found {
        let deleted = match queue.write("purge", |tx| delete_or_keep(tx, tables, row)) {
            Err(Error::Rejected(Rejected::Constraint { .. })) => Deleted::Kept,
            other => other?,
        };
        count(&mut purged, row.job_id, deleted);
    }
    purged.cursor = cursor(request, &found);
    Ok(purged)
}

/// What became of one row.
enum Deleted {
    Yes,
    /// A constraint keeps it.
    Kept,
    /// It was replayed or deleted since it was found.
    Changed,
}

fn count(purged: &mut Purged, job_id: JobId, deleted: Deleted) {
    match deleted {
        Deleted::Yes => purged.deleted += 1,
        Deleted::Kept => purged.kept.push(job_id),
        Deleted::Changed => {}
    }
}

fn find(tx: &Connection, tables: &Tables, request: &PurgeRequest) -> Result<Vec<PurgeCursor>> {
    let now = now(tx, tables, "purge")?;
    let until = |window: Option<Delay>| window.map(|window| now - window.as_micros());
    let read = || -> rusqlite::Result<Vec<PurgeCursor>> {
        let mut select = tx.prepare_cached(&tables.sql.purge_select)?;
        let cursor = request.cursor;
        let rows = select.query_map(
            named_params! {
                ":succeeded_until": until(request.succeeded_after),
                ":dead_until": until(request.dead_after),
                ":finished_at": cursor.map_or(i64::MIN, |cursor| cursor.finished_at.as_micros()),
                ":job_id": cursor.map_or(i64::MIN, |cursor| cursor.job_id.get()),
                ":limit": request.limit.get(),
            },
            |row| {
                Ok(PurgeCursor {
                    job_id: decode::job_id(row, 0)?,
                    finished_at: decode::instant(row, 1)?,
                })
            },
        )?;
        rows.collect()
    };
    read().map_err(map("purge"))
}

fn cursor(request: &PurgeRequest, found: &[PurgeCursor]) -> Option<PurgeCursor> {
    let full = found.len() == request.limit.get() as usize;
    found.last().copied().filter(|_| full)
}

/// Deletes one row and what belongs to it, in a savepoint: a refusal half-way leaves nothing
/// behind.
fn delete_or_keep(tx: &Connection, tables: &Tables, row: &PurgeCursor) -> Result<Deleted> {
    let fault = map("purge");
    tx.prepare_cached("SAVEPOINT purge_row")
        .and_then(|mut begin| begin.execute([]))
        .map_err(fault)?;
    let result = delete(tx, tables, row);
    let end = match &result {
        // A trigger may have rolled the whole transaction back; then there is no savepoint any
        // more.
        Err(_) if tx.is_autocommit() => "",
        Err(_) => "ROLLBACK TO purge_row; RELEASE purge_row",
        Ok(_) => "RELEASE purge_row",
    };
    tx.execute_batch(end).map_err(fault)?;
    match result {
        Ok(0) => Ok(Deleted::Changed),
        Ok(_) => Ok(Deleted::Yes),
        Err(refused) if is_kept(&refused) && !tx.is_autocommit() => Ok(Deleted::Kept),
        Err(other) => Err(fault(other)),
    }
}

fn delete(tx: &Connection, tables: &Tables, row: &PurgeCursor) -> rusqlite::Result<usize> {
    let deleted = tx
        .prepare_cached(&tables.sql.purge)?
        .execute(named_params! {
            ":job_id": row.job_id.get(), ":finished_at": row.finished_at.as_micros(),
        })?;
    if deleted == 1 {
        let sql = &tables.sql;
        for sister in [
            &sql.purge_dedup,
            &sql.past_delete,
            &sql.purge_effect,
            &sql.purge_failure,
        ] {
            let params = named_params! { ":job_id": row.job_id.get() };
            tx.prepare_cached(sister)?.execute(params)?;
        }
    }
    Ok(deleted)
}
