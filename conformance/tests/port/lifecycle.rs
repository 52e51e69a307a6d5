//! The lifecycle on an open transaction. Each function looks at everything before it writes
//! anything.

use queue_table_core::{
    ClaimRequest, ClaimedJob, Dedup, DedupScope, Disposition, ENQUEUE_MAX, EffectName, Enqueued,
    Error, FailAction, Failure, Fenced, JobId, LeaseLength, LostClaim, NewJob, Observed,
    ReapRequest, Reaped, Receipt, Result, State, Table, check_count,
};
use serde::{Deserialize, Serialize};

use crate::job::{Job, behind_priority, decode, encode, instant, ready_prefix};
use crate::store::{Read, Txn, behind};

pub(crate) const ENGINE: &str = "toy";
pub(crate) const VERSION: u32 = 1;

/// Whom a dedup key names.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Holder {
    pub(crate) job: JobId,
    pub(crate) while_row_exists: bool,
}

/// A failed attempt, as stored.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StoredFailure {
    pub(crate) worker: String,
    pub(crate) at: i64,
    pub(crate) reaped: bool,
    pub(crate) error: Option<String>,
}

pub(crate) fn check_version(db: &impl Read) -> Result<()> {
    let found = db.get("version").and_then(|text| text.parse().ok());
    if found == Some(VERSION) {
        return Ok(());
    }
    Err(Error::Schema {
        engine: ENGINE,
        found,
        needed: VERSION,
    })
}

pub(crate) fn dedup_key(queue: &str, key: &str) -> String {
    format!("dedup/{}:{queue}/{key}", queue.len())
}

pub(crate) fn own_key(job: JobId) -> String {
    format!("own_key/{job}")
}

pub(crate) fn paused_key(queue: &str) -> String {
    format!("paused/{queue}")
}

pub(crate) fn enqueue(tx: &mut Txn<'_>, table: &Table, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
    check_count("jobs", jobs.len(), ENQUEUE_MAX)?;
    let mut rows = Vec::with_capacity(jobs.len());
    for job in jobs {
        rows.push((job, table.arrange(job.columns())?));
    }
    check_version(tx)?;
    let store = |(job, columns): (&NewJob, _)| match holder(tx, job) {
        Some(existing) => Enqueued::Existing(existing),
        None => Enqueued::Inserted(insert(tx, job, columns)),
    };
    Ok(rows.into_iter().map(store).collect())
}

/// The job that the key names, when it still does.
fn holder(tx: &Txn<'_>, job: &NewJob) -> Option<JobId> {
    let key = dedup_key(job.queue().as_str(), job.dedup()?.key.as_str());
    let holder: Holder = decode(&tx.get(&key)?)?;
    let row = Job::load(tx, holder.job)?;
    (holder.while_row_exists || !row.state.is_terminal()).then_some(holder.job)
}

pub(crate) fn name_holder(
    tx: &mut Txn<'_>,
    queue: &str,
    key: &str,
    job: JobId,
    while_row_exists: bool,
) {
    let holder = Holder {
        job,
        while_row_exists,
    };
    tx.put(dedup_key(queue, key), encode(&holder));
}

fn insert(tx: &mut Txn<'_>, new: &NewJob, columns: Vec<queue_table_core::ColumnValue>) -> JobId {
    let last = tx.get("last_id").and_then(|text| text.parse().ok());
    let (job_id, now) = (JobId::new(last.unwrap_or(0) + 1), tx.now_micros());
    tx.put("last_id".to_owned(), job_id.to_string());
    let queue = new.queue().as_str();
    if let Some(Dedup { key, scope }) = new.dedup() {
        let while_row_exists = *scope == DedupScope::WhileRowExists;
        name_holder(tx, queue, key.as_str(), job_id, while_row_exists);
        tx.put(own_key(job_id), encode(&(key.as_str(), while_row_exists)));
    }
    let job = Job {
        job_id,
        queue: queue.to_owned(),
        kind: new.kind().to_string(),
        payload: new.payload().as_str().as_bytes().to_vec(),
        payload_version: new.payload_version(),
        state: State::Ready,
        priority: new.priority(),
        run_at: now + new.delay().as_micros(),
        attempts: 0,
        max_attempts: new.max_attempts().get(),
        worker_id: None,
        lease_until: None,
        enqueued_at: now,
        claimed_at: None,
        finished_at: None,
        last_error: None,
        columns,
    };
    job.store(tx);
    job_id
}

/// Walks the queue's index in claim order, and steps over the rest of a priority at its first job
/// that is not due.
pub(crate) fn claim(tx: &mut Txn<'_>, request: &ClaimRequest) -> Result<Vec<ClaimedJob>> {
    check_version(tx)?;
    let (queue, now) = (request.queue.as_str(), tx.now_micros());
    let (prefix, limit) = (ready_prefix(queue), request.limit.get() as usize);
    let (mut from, mut claimed) = (prefix.clone(), Vec::new());
    while claimed.len() < limit && tx.get(&paused_key(queue)).is_none() {
        let Some((key, id)) = tx.next(&prefix, &from) else {
            break;
        };
        let Some(mut job) = load(tx, &id) else { break };
        if job.run_at > now {
            from = behind_priority(&prefix, &key);
            continue;
        }
        from = behind(&key);
        if job.is_exhausted() || !is_accepted(&job, request) {
            continue;
        }
        job.state = State::Running;
        job.attempts += 1;
        job.worker_id = Some(request.worker.to_string());
        job.lease_until = Some(now + request.lease.as_micros());
        job.claimed_at = Some(now);
        job.store(tx);
        claimed.push(job.claimed(&request.worker));
    }
    Ok(claimed)
}

pub(crate) fn load(db: &impl Read, id: &str) -> Option<Job> {
    Job::load(db, JobId::new(id.parse().ok()?))
}

fn is_accepted(job: &Job, request: &ClaimRequest) -> bool {
    request.accepts.as_ref().is_none_or(|accepts| {
        let mut kinds = accepts.iter();
        kinds.any(|(kind, versions)| {
            kind.as_str() == job.kind && versions.contains(&job.payload_version)
        })
    })
}

/// The row, when the receipt's claim holds it now. The transaction has the only writer's place:
/// nobody moves the row.
fn held(tx: &Txn<'_>, receipt: &Receipt) -> Fenced<Job> {
    let job = Job::load(tx, receipt.job_id());
    let observed = job.as_ref().map(|job| Observed {
        state: job.state,
        attempts: job.attempts,
        worker: job.worker(),
    });
    let holds = |job: &Job| {
        job.state == State::Running
            && job.attempts == receipt.attempt()
            && job.worker_id.as_deref() == Some(receipt.worker().as_str())
            && job.lease_until > Some(tx.now_micros())
    };
    job.filter(holds)
        .ok_or_else(|| LostClaim::judge(receipt, observed.as_ref()))
}

pub(crate) fn renew(tx: &mut Txn<'_>, receipt: &Receipt, lease: LeaseLength) -> Fenced<()> {
    let mut job = held(tx, receipt)?;
    job.lease_until = Some(tx.now_micros() + lease.as_micros());
    job.store(tx);
    Ok(())
}

pub(crate) fn ack(tx: &mut Txn<'_>, receipt: &Receipt) -> Fenced<()> {
    let mut job = held(tx, receipt)?;
    job.finish(State::Succeeded, tx.now_micros());
    job.last_error = None;
    job.store(tx);
    Ok(())
}

pub(crate) fn fail(tx: &mut Txn<'_>, failure: &Failure) -> Fenced<Disposition> {
    let (mut job, now) = (held(tx, &failure.receipt)?, tx.now_micros());
    let error = failure.error.as_ref().map(|text| text.as_str().to_owned());
    let run_at = match failure.action {
        FailAction::Dead => None,
        FailAction::Retry { .. } if job.is_exhausted() => None,
        FailAction::Retry { after } | FailAction::Release { after } => {
            Some(now + after.as_micros())
        }
    };
    if let FailAction::Release { .. } = failure.action {
        job.max_attempts += 1;
        job.last_error = error.or(job.last_error);
    } else {
        job.last_error.clone_from(&error);
        record_failure(tx, &job, false, error);
    }
    Ok(put_down(tx, job, run_at))
}

pub(crate) fn record_effect(
    tx: &mut Txn<'_>,
    receipt: &Receipt,
    name: &EffectName,
) -> Fenced<bool> {
    held(tx, receipt)?;
    let key = format!("effect/{}/{name}", receipt.job_id());
    let first = tx.get(&key).is_none();
    tx.put(key, String::new());
    Ok(first)
}

/// Takes the claim off: ready at `run_at`, or dead.
fn put_down(tx: &mut Txn<'_>, mut job: Job, run_at: Option<i64>) -> Disposition {
    let now = tx.now_micros();
    let disposition = match run_at {
        Some(run_at) => {
            job.release(run_at);
            Disposition::Ready {
                run_at: instant(run_at),
            }
        }
        None => {
            job.finish(State::Dead, now);
            Disposition::Dead
        }
    };
    job.store(tx);
    disposition
}

fn record_failure(tx: &mut Txn<'_>, job: &Job, reaped: bool, error: Option<String>) {
    let failure = StoredFailure {
        worker: job.worker_id.clone().unwrap_or_default(),
        at: tx.now_micros(),
        reaped,
        error,
    };
    let key = format!("failure/{}/{:010}", job.job_id, job.attempts);
    tx.put(key, encode(&failure));
}

pub(crate) fn reap(tx: &mut Txn<'_>, request: &ReapRequest) -> Result<Vec<Reaped>> {
    check_version(tx)?;
    let (limit, now) = (request.limit.get() as usize, tx.now_micros());
    let rows = |tx: &Txn<'_>, prefix| {
        tx.scan(prefix)
            .into_iter()
            .filter_map(|(_, id)| load(tx, &id))
            .collect()
    };
    let overdue: Vec<Job> = rows(tx, "lease/");
    let overdue = overdue
        .into_iter()
        .filter(|job| job.lease_until <= Some(now));
    let mut reaped: Vec<_> = overdue
        .take(limit)
        .map(|job| reap_overdue(tx, job, request))
        .collect();
    let ready: Vec<Job> = rows(tx, "ready/");
    let exhausted = ready.into_iter().filter(Job::is_exhausted);
    let left = limit - reaped.len();
    reaped.extend(exhausted.take(left).map(|job| bury(tx, job)));
    Ok(reaped)
}

fn reap_overdue(tx: &mut Txn<'_>, mut job: Job, request: &ReapRequest) -> Reaped {
    let error = || Some("lease expired".to_owned());
    let delay_micros = request.policy.delay(job.attempts).as_micros();
    let run_at = (!job.is_exhausted()).then(|| tx.now_micros() + delay_micros);
    record_failure(tx, &job, true, error());
    job.last_error = error();
    reaped(tx, job, run_at)
}

fn bury(tx: &mut Txn<'_>, mut job: Job) -> Reaped {
    job.last_error
        .get_or_insert_with(|| "no attempts left".to_owned());
    reaped(tx, job, None)
}

fn reaped(tx: &mut Txn<'_>, job: Job, run_at: Option<i64>) -> Reaped {
    Reaped {
        job_id: job.job_id,
        queue: queue_table_core::QueueName::stored(&job.queue),
        attempt: job.attempts,
        worker: job.worker(),
        disposition: put_down(tx, job, run_at),
    }
}
