//! Dedup keys: taken and locked before the jobs that want them are stored.

use std::collections::HashMap;

use queue_table_core::{DedupScope, Error, JobId, Result, State};
use serde_json::{Value, json};

use crate::connection::{Client, insert, rows};
use crate::decode::{self, Cells};
use crate::error::failed;
use crate::lifecycle::ids_json;
use crate::sql::Statements;

/// How often keys are taken again that a purge deleted between being found and being locked.
const TAKES_MAX: usize = 5;

/// Most keys in one statement: below the 5,000 locks at which a table lock is taken.
const KEYS_MAX: usize = 1_000;

/// A queue and a dedup key.
pub(crate) type Key<'a> = (&'a str, &'a str);

/// A key and the scope it is wanted with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Naming<'a> {
    pub(crate) key: Key<'a>,
    pub(crate) scope: &'static str,
}

/// Whom a locked key names.
#[derive(Debug)]
pub(crate) struct Held {
    /// `None` for a key that was just taken.
    pub(crate) holder: Option<JobId>,
    scope: String,
    /// `None` when the holder's row is gone.
    pub(crate) state: Option<State>,
}

impl Held {
    /// What a key is after it was given to a job that was just stored.
    pub(crate) fn by_a_new_job(id: JobId, scope: &str) -> Self {
        Self {
            holder: Some(id),
            scope: scope.to_owned(),
            state: Some(State::Ready),
        }
    }

    /// The job that the key names, unless the key is free.
    pub(crate) fn names(&self) -> Option<JobId> {
        let finished = self.state?.is_terminal();
        if finished && self.scope == DedupScope::WhileUnfinished.as_str() {
            return None;
        }
        self.holder
    }
}

/// Locks the keys, from low to high, until the transaction ends, and tells whom each names. Those
/// that nobody held are now this transaction's.
pub(crate) async fn hold(
    client: &mut Client,
    sql: &Statements,
    operation: &'static str,
    mut namings: Vec<Naming<'_>>,
) -> Result<HashMap<(String, String), Held>> {
    namings.sort_unstable_by_key(|naming| naming.key);
    let mut held = HashMap::new();
    for some in namings.chunks(KEYS_MAX) {
        held.extend(hold_some(client, sql, operation, some).await?);
    }
    Ok(held)
}

/// Locks the keys of one statement, which are sorted.
async fn hold_some(
    client: &mut Client,
    sql: &Statements,
    operation: &'static str,
    namings: &[Naming<'_>],
) -> Result<HashMap<(String, String), Held>> {
    let wanted = namings
        .iter()
        .map(|Naming { key, scope }| json!([key.0, key.1, scope]));
    let wanted = Value::from_iter(wanted).to_string();
    for _ in 0..TAKES_MAX {
        insert(client, operation, &sql.dedup_take, &wanted).await?;
        let locked = rows(client, operation, &sql.dedup_lock, &[&wanted]).await?;
        if locked.len() == namings.len() {
            return with_states(client, sql, operation, &locked).await;
        }
    }
    let text = "dedup keys were deleted again and again while they were being taken";
    Err(Error::Contention(failed(operation, text)))
}

/// The holders' states are read by a statement of its own: it sees what was committed before the
/// locks were had.
async fn with_states(
    client: &mut Client,
    sql: &Statements,
    operation: &'static str,
    locked: &[tiberius::Row],
) -> Result<HashMap<(String, String), Held>> {
    let mut held = HashMap::new();
    for row in locked {
        let row = Cells::of(row, operation);
        let job_id = row.job_id()?;
        let key = (
            row.string("queue")?.to_owned(),
            row.string("dedup_key")?.to_owned(),
        );
        let scope = row.string("scope")?.to_owned();
        let holder = (job_id.get() != 0).then_some(job_id);
        held.insert(
            key,
            Held {
                holder,
                scope,
                state: None,
            },
        );
    }
    let holders: Vec<_> = held.values().filter_map(|held| held.holder).collect();
    if holders.is_empty() {
        return Ok(held);
    }
    let found = rows(client, operation, &sql.observe, &[&ids_json(holders)]).await?;
    let seen = found
        .iter()
        .map(|row| decode::observed(&Cells::of(row, operation)));
    let seen = seen.collect::<Result<HashMap<_, _>>>()?;
    for held in held.values_mut() {
        let observed = held.holder.and_then(|holder| seen.get(&holder));
        held.state = observed.map(|observed| observed.state);
    }
    Ok(held)
}

/// Gives locked keys to jobs, and remembers whom they named before.
pub(crate) async fn put(
    client: &mut Client,
    sql: &Statements,
    operation: &'static str,
    held: &HashMap<(String, String), Held>,
    named: Vec<(Naming<'_>, JobId)>,
) -> Result<()> {
    if named.is_empty() {
        return Ok(());
    }
    let past: Vec<_> = named
        .iter()
        .filter_map(|(naming, id)| past(held, naming, *id))
        .collect();
    if !past.is_empty() {
        let past = Value::Array(past).to_string();
        insert(client, operation, &sql.past_put, &past).await?;
    }
    let named = named
        .iter()
        .map(|(Naming { key, scope }, id)| json!([key.0, key.1, scope, id.get()]));
    let named = Value::from_iter(named).to_string();
    rows(client, operation, &sql.dedup_put, &[&named]).await?;
    Ok(())
}

fn past(held: &HashMap<(String, String), Held>, naming: &Naming<'_>, id: JobId) -> Option<Value> {
    let (queue, key) = naming.key;
    let before = held.get(&(queue.to_owned(), key.to_owned()))?;
    let holder = before.holder.filter(|holder| *holder != id)?;
    // A job whose row is gone is never replayed.
    before.state?;
    Some(json!([holder.get(), key, before.scope]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(holder: Option<i64>, scope: DedupScope, state: Option<State>) -> Option<i64> {
        let held = Held {
            holder: holder.map(JobId::new),
            scope: scope.as_str().to_owned(),
            state,
        };
        held.names().map(JobId::get)
    }

    #[test]
    fn the_holders_scope_decides_how_long_a_key_names_it() {
        let (short, long) = (DedupScope::WhileUnfinished, DedupScope::WhileRowExists);
        for scope in [short, long] {
            for state in [State::Ready, State::Running] {
                assert_eq!(names(Some(7), scope, Some(state)), Some(7));
            }
            assert_eq!(names(Some(7), scope, None), None, "its row is gone");
            assert_eq!(names(None, scope, None), None, "just taken");
        }
        for state in [State::Succeeded, State::Dead] {
            assert_eq!(names(Some(7), short, Some(state)), None);
            assert_eq!(names(Some(7), long, Some(state)), Some(7));
        }
    }
}
