//! A look before the transaction: an idle worker's poll is one statement that reads, and not
//! `BEGIN`, a claim and `COMMIT`.
//!
//! A look says only that there is nothing. Whatever else it meets, an error too, is left to the
//! claim or the reap itself, which tells it as if there had been no look.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use diesel::pg::PgConnection;
use diesel::prelude::*;
use diesel::sql_types::{Bool, Nullable};
use queue_table_core::{Accepts, ClaimRequest, QueueName, Result};

use crate::lifecycle::{Protocol, kind_binds};
use crate::pool::Pool;
use crate::sql::SqlText;
use crate::statement::{Bind, Statement};

/// Most polls that are remembered as empty: a process may ask for any number of queues, each once.
const REMEMBERED_MAX: usize = 1_000;

/// A queue, and the kinds that were asked for.
type Poll = (QueueName, Option<Accepts>);

/// The polls whose last claim found nothing. The others do not look: a busy queue would pay a round
/// trip for each.
#[derive(Debug, Default)]
pub(crate) struct EmptyPolls(Mutex<HashSet<Poll>>);

impl EmptyPolls {
    /// Whether the last claim like this one found nothing.
    pub(crate) fn contain(&self, request: &ClaimRequest) -> bool {
        let polls = self.lock();
        !polls.is_empty() && polls.contains(&poll(request))
    }

    /// Remembers what a claim has found.
    pub(crate) fn note(&self, request: &ClaimRequest, is_empty: bool) {
        let mut polls = self.lock();
        if is_empty {
            if polls.len() >= REMEMBERED_MAX {
                polls.clear();
            }
            polls.insert(poll(request));
        } else if !polls.is_empty() {
            polls.remove(&poll(request));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<Poll>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn poll(request: &ClaimRequest) -> Poll {
    (request.queue.clone(), request.accepts.clone())
}

/// Whether a claim would find nothing for sure.
///
/// # Errors
/// When there is no connection to look by.
pub(crate) fn shows_no_job(
    pool: &Pool,
    protocol: &Protocol,
    request: &ClaimRequest,
) -> Result<bool> {
    shows_nothing(pool, "claim", |connection| {
        let text = if protocol.is_stepping(connection)? {
            &protocol.texts.claim_probe_stepping
        } else {
            &protocol.texts.claim_probe
        };
        let mut binds = vec![Bind::Text(request.queue.as_str())];
        binds.extend(kind_binds(request));
        Ok(look(connection, text, binds))
    })
}

/// Whether a reap would find nothing for sure.
///
/// # Errors
/// When there is no connection to look by.
pub(crate) fn shows_nothing_overdue(pool: &Pool, protocol: &Protocol) -> Result<bool> {
    shows_nothing(pool, "reap", |connection| {
        Ok(look(connection, &protocol.texts.reap_probe, vec![]))
    })
}

fn look(
    connection: &mut PgConnection,
    text: &SqlText,
    binds: Vec<Bind<'_>>,
) -> QueryResult<Option<bool>> {
    Statement::<Nullable<Bool>>::new(text, binds).get_result(connection)
}

/// A connection that turns out to be dead goes, and the pool drops it.
fn shows_nothing(
    pool: &Pool,
    operation: &'static str,
    look: impl FnOnce(&mut PgConnection) -> Result<QueryResult<Option<bool>>>,
) -> Result<bool> {
    let mut connection = pool.get(operation)?;
    match look(&mut connection)? {
        Ok(found) => Ok(found == Some(false)),
        Err(error) => {
            tracing::debug!(operation, %error, "the look failed, and the operation itself is tried");
            Ok(false)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use queue_table_core::{Kind, WorkerId};

    use super::*;

    fn request(queue: &str) -> ClaimRequest {
        ClaimRequest::new(QueueName::new(queue).unwrap(), WorkerId::new("w").unwrap())
    }

    #[test]
    fn a_poll_is_empty_until_a_claim_like_it_finds_something() {
        let polls = EmptyPolls::default();
        let mail = request("mail");
        let kinds = BTreeMap::from([(Kind::new("send").unwrap(), 1..=2)]);
        let sending = request("mail").accepting(kinds);
        assert!(!polls.contain(&mail));
        polls.note(&mail, true);
        assert!(polls.contain(&mail) && !polls.contain(&sending));
        polls.note(&sending, true);
        polls.note(&mail, false);
        assert!(!polls.contain(&mail) && polls.contain(&sending));
    }

    #[test]
    fn only_so_many_polls_are_remembered() {
        let polls = EmptyPolls::default();
        for number in 0..REMEMBERED_MAX + 10 {
            polls.note(&request(&format!("q{number}")), true);
        }
        assert_eq!(polls.lock().len(), 10);
    }
}
