//! The engine to be ported to: an ordered map of texts with transactions, one writer at a time. It
//! knows nothing of jobs.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// The committed entries, and whether somebody writes.
#[derive(Debug, Default)]
pub(crate) struct Store {
    committed: Mutex<BTreeMap<String, String>>,
    writing: Mutex<bool>,
    written: Condvar,
}

/// A writing transaction. Dropping it rolls back.
#[derive(Debug)]
pub(crate) struct Txn<'s> {
    store: &'s Store,
    /// What it has written; `None` for a deleted entry.
    changes: BTreeMap<String, Option<String>>,
}

/// Reading, of what is committed or of what a transaction sees.
pub(crate) trait Read {
    fn get(&self, key: &str) -> Option<String>;

    /// The first entry whose key begins with `prefix` and is not before `from`.
    fn next(&self, prefix: &str, from: &str) -> Option<(String, String)>;

    /// Every entry whose key begins with `prefix`.
    fn scan(&self, prefix: &str) -> Vec<(String, String)> {
        let mut found: Vec<(String, String)> = Vec::new();
        let mut from = prefix.to_owned();
        while let Some(entry) = self.next(prefix, &from) {
            from = behind(&entry.0);
            found.push(entry);
        }
        found
    }
}

/// The smallest key behind this one.
pub(crate) fn behind(key: &str) -> String {
    format!("{key}\0")
}

impl Store {
    /// Waits for the one writer's place; `None` when the time is up.
    pub(crate) fn begin(&self, at_most: Duration) -> Option<Txn<'_>> {
        let writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .written
            .wait_timeout_while(writing, at_most, |writing| *writing);
        let (mut writing, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            return None;
        }
        *writing = true;
        Some(Txn {
            store: self,
            changes: BTreeMap::new(),
        })
    }

    /// The engine's clock, in microseconds since 1970.
    pub(crate) fn now_micros(&self) -> i64 {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        i64::try_from(since_1970.unwrap_or_default().as_micros()).unwrap_or(i64::MAX)
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.committed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Read for Store {
    fn get(&self, key: &str) -> Option<String> {
        self.entries().get(key).cloned()
    }

    fn next(&self, prefix: &str, from: &str) -> Option<(String, String)> {
        first(&self.entries(), prefix, Included(from))
            .map(|(key, value)| (key.clone(), value.clone()))
    }
}

impl Txn<'_> {
    pub(crate) fn now_micros(&self) -> i64 {
        self.store.now_micros()
    }

    pub(crate) fn put(&mut self, key: String, value: String) {
        self.changes.insert(key, Some(value));
    }

    pub(crate) fn delete(&mut self, key: &str) {
        self.changes.insert(key.to_owned(), None);
    }

    pub(crate) fn commit(mut self) {
        let mut entries = self.store.entries();
        for (key, value) in std::mem::take(&mut self.changes) {
            match value {
                Some(value) => entries.insert(key, value),
                None => entries.remove(&key),
            };
        }
    }
}

impl Read for Txn<'_> {
    fn get(&self, key: &str) -> Option<String> {
        match self.changes.get(key) {
            Some(changed) => changed.clone(),
            None => self.store.get(key),
        }
    }

    fn next(&self, prefix: &str, from: &str) -> Option<(String, String)> {
        let entries = self.store.entries();
        let mut from = Included(from.to_owned());
        loop {
            let bound = from.as_ref().map(String::as_str);
            let (stored, changed) = (
                first(&entries, prefix, bound),
                first(&self.changes, prefix, bound),
            );
            match (stored, changed) {
                (Some((key, value)), changed) if changed.is_none_or(|(other, _)| key < other) => {
                    return Some((key.clone(), value.clone()));
                }
                (_, Some((key, Some(value)))) => return Some((key.clone(), value.clone())),
                (_, Some((deleted, None))) => from = Excluded(deleted.clone()),
                (_, None) => return None,
            }
        }
    }
}

impl Drop for Txn<'_> {
    fn drop(&mut self) {
        *self
            .store
            .writing
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = false;
        self.store.written.notify_one();
    }
}

fn first<'m, V>(
    map: &'m BTreeMap<String, V>,
    prefix: &str,
    from: std::ops::Bound<&str>,
) -> Option<(&'m String, &'m V)> {
    let mut range = map.range::<str, _>((from, Unbounded));
    range.next().filter(|(key, _)| key.starts_with(prefix))
}
