//! The claims that this worker holds, from the claim to the database's last word on it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::id::JobId;
use crate::job::ClaimedJob;
use crate::receipt::{LostReason, Receipt};

use super::lock;

/// One claim of this worker.
///
/// The local deadline is the monotonic instant *before* the claim or its last renewal was sent,
/// plus the lease: it lies before the database's own deadline. It warns early and stops a start;
/// only the database decides that a claim is lost.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) job: ClaimedJob,
    /// A job that is not started by then is given back: somebody else may be free.
    pub(super) start_by: Instant,
    /// When the claim's answer had come.
    pub(super) arrived: Instant,
    deadline: Mutex<Instant>,
    lost: OnceLock<LostReason>,
    warned: AtomicBool,
}

impl Held {
    /// A claim that was sent at `sent` and whose answer has just come.
    pub(super) fn new(job: ClaimedJob, sent: Instant, lease: Duration) -> Self {
        let deadline = after(sent, lease);
        Self {
            job,
            start_by: deadline,
            arrived: Instant::now(),
            deadline: Mutex::new(deadline),
            lost: OnceLock::new(),
            warned: AtomicBool::new(false),
        }
    }

    pub(super) fn receipt(&self) -> &Receipt {
        &self.job.receipt
    }

    pub(super) fn deadline(&self) -> Instant {
        *lock(&self.deadline)
    }

    /// The renewal sent at `sent` was granted.
    pub(super) fn renewed(&self, sent: Instant, lease: Duration) {
        let mut deadline = lock(&self.deadline);
        *deadline = after(sent, lease).max(*deadline);
        self.warned.store(false, Ordering::Relaxed);
    }

    /// The database said that the claim no longer holds.
    pub(super) fn lose(&self, reason: LostReason) {
        self.lost.get_or_init(|| reason);
    }

    pub(super) fn lost(&self) -> Option<LostReason> {
        self.lost.get().copied()
    }

    /// Whether nothing speaks against the claim: neither the database nor the local deadline.
    pub(super) fn is_current(&self, now: Instant) -> bool {
        self.lost.get().is_none() && now < self.deadline()
    }

    /// Whether the handler may still be started.
    pub(super) fn may_start(&self, now: Instant) -> bool {
        self.is_current(now) && now < self.start_by
    }

    /// Whether the local deadline has passed and nobody was told yet; true once per lapse.
    pub(super) fn lapse_is_news(&self, now: Instant) -> bool {
        now >= self.deadline() && !self.warned.swap(true, Ordering::Relaxed)
    }
}

/// A lease may be 30 days and the clock near its end: then the deadline is now, and the claim is
/// not started.
fn after(sent: Instant, lease: Duration) -> Instant {
    sent.checked_add(lease).unwrap_or(sent)
}

/// Every claim of the worker that the database has not closed, in job order.
#[derive(Debug, Default)]
pub(super) struct Live {
    claims: Mutex<BTreeMap<(JobId, u32), Arc<Held>>>,
}

impl Live {
    pub(super) fn insert(&self, held: Arc<Held>) {
        lock(&self.claims).insert(key(&held), held);
    }

    /// Whether it was there.
    pub(super) fn remove(&self, held: &Held) -> bool {
        lock(&self.claims).remove(&key(held)).is_some()
    }

    pub(super) fn holds(&self, held: &Held) -> bool {
        lock(&self.claims).contains_key(&key(held))
    }

    pub(super) fn len(&self) -> usize {
        lock(&self.claims).len()
    }

    pub(super) fn all(&self) -> Vec<Arc<Held>> {
        lock(&self.claims).values().cloned().collect()
    }
}

fn key(held: &Held) -> (JobId, u32) {
    (held.job.job_id(), held.job.attempt())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{Kind, QueueName, StoredPayload, Timestamp, WorkerId};

    /// A claimed job that no database knows.
    pub(in crate::worker) fn claimed(id: i64, attempt: u32) -> ClaimedJob {
        let now = Timestamp::from_micros(0);
        ClaimedJob {
            receipt: Receipt::new(JobId::new(id), attempt, WorkerId::new("w").unwrap()),
            queue: QueueName::new("mail").unwrap(),
            kind: Kind::new("mail.send").unwrap(),
            payload: StoredPayload::new("{}"),
            payload_version: 1,
            priority: 0,
            run_at: now,
            max_attempts: 3,
            enqueued_at: now,
            claimed_at: now,
            lease_until: now,
            last_error: None,
            columns: Vec::new(),
        }
    }

    pub(in crate::worker) fn held(id: i64, lease: Duration) -> Arc<Held> {
        Arc::new(Held::new(claimed(id, 1), Instant::now(), lease))
    }

    #[test]
    fn the_local_deadline_counts_from_before_the_claim_was_sent() {
        let sent = Instant::now();
        let held = Held::new(claimed(1, 1), sent, Duration::from_secs(1));
        assert_eq!(held.deadline(), sent + Duration::from_secs(1));
        assert!(held.may_start(sent));
        assert!(!held.may_start(sent + Duration::from_secs(1)));
    }

    #[test]
    fn a_renewal_keeps_a_claim_current_but_not_startable() {
        let sent = Instant::now();
        let second = Duration::from_secs(1);
        let held = Held::new(claimed(1, 1), sent, second);
        held.renewed(sent + second / 2, second);
        let later = sent + second + Duration::from_millis(100);
        assert!(held.is_current(later));
        assert!(!held.may_start(later));
    }

    #[test]
    fn a_renewal_answered_out_of_order_never_shortens_the_lease() {
        let sent = Instant::now();
        let second = Duration::from_secs(1);
        let held = Held::new(claimed(1, 1), sent + second, second);
        held.renewed(sent, second);
        assert_eq!(held.deadline(), sent + 2 * second);
    }

    #[test]
    fn a_lost_claim_stays_lost_for_its_first_reason() {
        let held = held(1, Duration::from_secs(60));
        held.lose(LostReason::Expired);
        held.lose(LostReason::Finished);
        assert_eq!(held.lost(), Some(LostReason::Expired));
        assert!(!held.is_current(Instant::now()));
    }

    #[test]
    fn a_lapse_is_news_once_until_the_claim_was_renewed() {
        let second = Duration::from_secs(1);
        let sent = Instant::now();
        let held = Held::new(claimed(1, 1), sent, second);
        let late = sent + 2 * second;
        assert!(!held.lapse_is_news(sent));
        assert!(held.lapse_is_news(late) && !held.lapse_is_news(late));
        held.renewed(late, second);
        assert!(held.lapse_is_news(late + second));
    }
}
