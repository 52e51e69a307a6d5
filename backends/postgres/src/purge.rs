//! Deletes finished jobs, and keeps what the application's own constraints and triggers keep.

use diesel::connection::{AnsiTransactionManager, SimpleConnection, TransactionManager};
use diesel::data_types::PgTimestamp;
use diesel::pg::PgConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Timestamptz};
use queue_table_core::{Error, JobId, PurgeCursor, PurgeRequest, Purged, Rejected, Result};

use crate::admin::run;
use crate::decode::{instant, stored};
use crate::error::failed;
use crate::lifecycle::Protocol;
use crate::sql::Names;
use crate::statement::{Bind, Statement};

pub(crate) fn purge(
    tx: &mut PgConnection,
    protocol: &Protocol,
    request: &PurgeRequest,
) -> Result<Purged> {
    // A user's deferred constraint would refuse the whole batch at its commit.
    diesel::sql_query("SET CONSTRAINTS ALL IMMEDIATE")
        .execute(tx)
        .map_err(failed("purge"))?;
    let old = select_old(tx, protocol, request)?;
    let ids: Vec<_> = old.iter().map(|(id, _)| *id).collect();
    let mut kept = vec![];
    if !ids.is_empty() {
        delete(tx, protocol, &ids, &mut kept)?;
    }
    let deleted: Vec<_> = ids
        .iter()
        .copied()
        .filter(|id| !kept.contains(id))
        .collect();
    if !deleted.is_empty() {
        let texts = &protocol.texts;
        for text in [
            &texts.purge_dedup,
            &texts.past_forget,
            &texts.purge_effect,
            &texts.purge_failure,
        ] {
            run(tx, "purge", text, vec![Bind::BigInts(deleted.clone())])?;
        }
    }
    let is_full = u32::try_from(old.len()) == Ok(request.limit.get());
    let last = old.last().filter(|_| is_full);
    Ok(Purged {
        deleted: u32::try_from(deleted.len()).unwrap_or(u32::MAX),
        kept: kept.into_iter().map(JobId::new).collect(),
        cursor: last.map(|(id, finished_at)| PurgeCursor {
            finished_at: instant(*finished_at),
            job_id: JobId::new(*id),
        }),
    })
}

fn select_old(
    tx: &mut PgConnection,
    protocol: &Protocol,
    request: &PurgeRequest,
) -> Result<Vec<(i64, PgTimestamp)>> {
    let age = |after: Option<queue_table_core::Delay>| after.map(|after| after.as_micros());
    let (finished_at, job_id) = match request.cursor {
        Some(cursor) => (stored(cursor.finished_at), cursor.job_id.get()),
        // Minus infinity, as the server sends it.
        None => (PgTimestamp(i64::MIN), i64::MIN),
    };
    let binds = vec![
        Bind::BigIntOrNull(age(request.succeeded_after)),
        Bind::BigIntOrNull(age(request.dead_after)),
        Bind::Instant(finished_at),
        Bind::BigInt(job_id),
    ];
    let text = protocol.texts.purge_select.with_limit(request.limit.get());
    Statement::<(BigInt, Timestamptz)>::new(&text, binds)
        .load(tx)
        .map_err(failed("purge"))
}

/// Deletes jobs; where a user's constraint or trigger refuses some, halves the batch until it is
/// known which.
fn delete(
    tx: &mut PgConnection,
    protocol: &Protocol,
    ids: &[i64],
    kept: &mut Vec<i64>,
) -> Result<()> {
    let text = &protocol.texts.purge;
    let mut result = in_savepoint(tx, |tx| {
        run(tx, "purge", text, vec![Bind::BigInts(ids.to_vec())])
    });
    if let (Err(Error::Engine(_)), [id]) = (&result, ids) {
        result = in_savepoint(tx, |tx| delete_or_be_refused(tx, protocol, *id));
    }
    match (result, ids) {
        (Err(Error::Rejected(Rejected::Constraint { .. })), [id]) => {
            kept.push(*id);
            Ok(())
        }
        (Err(Error::Rejected(Rejected::Constraint { .. }) | Error::Engine(_)), [_, _, ..]) => {
            let (first, second) = ids.split_at(ids.len() / 2);
            delete(tx, protocol, first, kept)?;
            delete(tx, protocol, second, kept)
        }
        (result, _) => result,
    }
}

/// Deletes one job again, to tell a trigger's exception from an error of the server.
fn delete_or_be_refused(tx: &mut PgConnection, protocol: &Protocol, id: i64) -> Result<()> {
    let sql = include_str!("../sql/purge_refused.sql").replace("{job_id}", &id.to_string());
    let sql = Names::of(&protocol.table).put_into(&sql);
    tx.batch_execute(&sql).map_err(failed("purge"))
}

fn in_savepoint(
    tx: &mut PgConnection,
    work: impl FnOnce(&mut PgConnection) -> Result<()>,
) -> Result<()> {
    let savepoint = failed("purge");
    AnsiTransactionManager::begin_transaction(tx).map_err(&savepoint)?;
    let result = work(tx);
    match &result {
        Ok(()) => AnsiTransactionManager::commit_transaction(tx).map_err(savepoint)?,
        Err(Error::Rejected(Rejected::Constraint { .. }) | Error::Engine(_)) => {
            AnsiTransactionManager::rollback_transaction(tx).map_err(savepoint)?;
        }
        // The whole transaction is rolled back.
        Err(_) => {}
    }
    result
}
