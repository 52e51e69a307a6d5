//! Renewal in transactions of its own: a row that somebody keeps locked holds up no other claim's.

use std::collections::HashSet;
use std::sync::Mutex;

use diesel::connection::SimpleConnection;
use queue_table_core::{Fenced, LeaseLength, Receipt, Result};

use crate::error::failed;
use crate::lifecycle::{self, Protocol};
use crate::pool::{Connection, Pool};
use crate::transact::{again, kept};

/// How long a renewal waits for locked rows before the free ones are renewed again.
const WAIT_LIMIT: &str = "SET LOCAL lock_timeout = '2s'";

/// Renews on the connection in `slot`: first the claims whose rows are free, then, waiting for
/// locks, the rest. Contention tells that a row stayed locked; the free ones are renewed then.
pub(crate) fn renew(
    slot: &Mutex<Option<Connection>>,
    pool: &Pool,
    protocol: &Protocol,
    receipts: &[Receipt],
    lease: LeaseLength,
) -> Result<Vec<Fenced<()>>> {
    let mut seen = HashSet::new();
    // Of receipts for one job, the first is renewed here and the others meet what it did.
    let (once, rest): (Vec<usize>, Vec<usize>) =
        (0..receipts.len()).partition(|place| seen.insert(receipts[*place].job_id()));
    let chosen = |places: &[usize]| -> Vec<&Receipt> {
        places.iter().map(|place| &receipts[*place]).collect()
    };
    let singles = chosen(&once);
    again(|| {
        let renewed = kept(slot, pool, "renew", |tx| {
            lifecycle::renew_free(tx, protocol, &singles, lease)
        })?;
        let missed = once.iter().copied();
        let missed = missed.filter(|place| !renewed.contains_key(&receipts[*place].job_id()));
        let mut waiting: Vec<usize> = missed.chain(rest.iter().copied()).collect();
        waiting.sort_unstable();
        let mut answers: Vec<_> = receipts.iter().map(|_| Ok(())).collect();
        if waiting.is_empty() {
            return Ok(answers);
        }
        let waited = chosen(&waiting);
        let judged = kept(slot, pool, "renew", |tx| {
            tx.batch_execute(WAIT_LIMIT).map_err(failed("renew"))?;
            lifecycle::renew(tx, protocol, &waited, lease)
        })?;
        for (place, answer) in waiting.into_iter().zip(judged) {
            answers[place] = answer;
        }
        Ok(answers)
    })
}
