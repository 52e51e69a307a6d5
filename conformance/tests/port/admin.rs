//! What operators ask for, on an open transaction or on what is committed.

use std::collections::BTreeMap;

use queue_table_core::{
    ErrorText, FailureCause, FailureRecord, JobId, JobRecord, ListRequest, MaxAttempts,
    PromoteRequest, PurgeCursor, PurgeRequest, Purged, QueueName, QueueStats, Rejected, Result,
    State, WorkerId,
};

use crate::job::{Job, behind_priority, decode, instant, ready_prefix, sortable};
use crate::lifecycle::{
    Holder, StoredFailure, check_version, dedup_key, load, name_holder, own_key,
};
use crate::store::{Read, Txn, behind};

pub(crate) fn replay(tx: &mut Txn<'_>, id: JobId, extra: MaxAttempts) -> Result<u32> {
    let mut job = existing(tx, id)?;
    if job.state != State::Dead {
        return Err(wrong_state(&job, "replay", "dead"));
    }
    take_key_back(tx, &job)?;
    job.release(tx.now_micros());
    job.max_attempts = job.attempts + extra.get();
    job.finished_at = None;
    job.last_error = None;
    job.store(tx);
    Ok(job.max_attempts)
}

/// Refuses when the job's key names another unfinished job; else the key names this one again.
fn take_key_back(tx: &mut Txn<'_>, job: &Job) -> Result<()> {
    let own = tx.get(&own_key(job.job_id));
    let Some((key, while_row_exists)) = own.and_then(|text| decode::<(String, bool)>(&text)) else {
        return Ok(());
    };
    let named = tx.get(&dedup_key(&job.queue, &key));
    let holder = named.and_then(|text| Some(decode::<Holder>(&text)?.job));
    if let Some(other) = holder.filter(|holder| *holder != job.job_id)
        && Job::load(tx, other).is_some_and(|other| !other.state.is_terminal())
    {
        return Err(Rejected::DedupKeyTaken {
            job_id: job.job_id,
            holder: other,
        }
        .into());
    }
    name_holder(tx, &job.queue, &key, job.job_id, while_row_exists);
    Ok(())
}

pub(crate) fn cancel(tx: &mut Txn<'_>, id: JobId, reason: &ErrorText) -> Result<()> {
    let mut job = existing(tx, id)?;
    if job.state.is_terminal() {
        return Err(wrong_state(&job, "cancel", "ready and running"));
    }
    job.finish(State::Dead, tx.now_micros());
    job.last_error = Some(reason.to_string());
    job.store(tx);
    Ok(())
}

pub(crate) fn promote(tx: &mut Txn<'_>, request: &PromoteRequest) -> Result<u32> {
    check_version(tx)?;
    let limit = request.limit.get() as usize;
    let mut old = waiting(tx, request, limit);
    old.sort_by_key(|job| (job.run_at, job.job_id));
    old.truncate(limit);
    for job in &mut old {
        job.priority = request.to;
        job.store(tx);
    }
    Ok(u32::try_from(old.len()).unwrap_or(u32::MAX))
}

/// The oldest jobs of each lower priority, at most so many of each. Walks the queue's index as a
/// claim does.
fn waiting(tx: &Txn<'_>, request: &PromoteRequest, limit: usize) -> Vec<Job> {
    let latest = tx.now_micros() - request.waited.as_micros();
    let prefix = ready_prefix(request.queue.as_str());
    let of_priority = |priority: i32| format!("{prefix}{}", sortable(-i64::from(priority)));
    let mut from = behind_priority(&prefix, &of_priority(request.to));
    let (mut found, mut of_this) = (Vec::<Job>::new(), 0);
    while let Some((key, id)) = tx.next(&prefix, &from)
        && let Some(job) = load(tx, &id)
    {
        let is_next = found
            .last()
            .is_some_and(|last| last.priority != job.priority);
        of_this = if is_next { 0 } else { of_this };
        if job.run_at > latest || of_this == limit {
            from = behind_priority(&prefix, &key);
            continue;
        }
        from = behind(&key);
        if !job.is_exhausted() {
            of_this += 1;
            found.push(job);
        }
    }
    found
}

pub(crate) fn purge(tx: &mut Txn<'_>, request: &PurgeRequest) -> Result<Purged> {
    check_version(tx)?;
    let now = tx.now_micros();
    let done = tx
        .scan("done/")
        .into_iter()
        .filter_map(|(_, id)| load(tx, &id));
    let old: Vec<_> = done
        .filter(|job| is_old(job, request, now) && request.cursor < Some(place(job)))
        .take(request.limit.get() as usize)
        .collect();
    let full = old.len() == request.limit.get() as usize;
    let mut purged = Purged {
        cursor: old.last().filter(|_| full).map(place),
        ..Purged::default()
    };
    for job in old {
        if tx.get(&format!("test/reference/{}", job.job_id)).is_some() {
            purged.kept.push(job.job_id);
        } else {
            delete_with_sisters(tx, &job);
            purged.deleted += 1;
        }
    }
    Ok(purged)
}

fn place(job: &Job) -> PurgeCursor {
    PurgeCursor {
        finished_at: instant(job.finished_at.unwrap_or(0)),
        job_id: job.job_id,
    }
}

fn is_old(job: &Job, request: &PurgeRequest, now: i64) -> bool {
    let window = match job.state {
        State::Succeeded => request.succeeded_after,
        _ => request.dead_after,
    };
    let age = now - job.finished_at.unwrap_or(now);
    window.is_some_and(|window| age >= window.as_micros())
}

fn delete_with_sisters(tx: &mut Txn<'_>, job: &Job) {
    let id = job.job_id;
    for table in ["effect", "failure"] {
        for (key, _) in tx.scan(&format!("{table}/{id}/")) {
            tx.delete(&key);
        }
    }
    for (key, holder) in tx.scan("dedup/") {
        if decode::<Holder>(&holder).is_some_and(|holder| holder.job == id) {
            tx.delete(&key);
        }
    }
    tx.delete(&own_key(id));
    job.delete(tx);
}

fn existing(tx: &Txn<'_>, id: JobId) -> Result<Job> {
    check_version(tx)?;
    Job::load(tx, id).ok_or_else(|| Rejected::NoSuchJob(id).into())
}

fn wrong_state(
    job: &Job,
    operation: &'static str,
    allowed: &'static str,
) -> queue_table_core::Error {
    Rejected::WrongState {
        job_id: job.job_id,
        state: job.state,
        operation,
        allowed,
    }
    .into()
}

fn jobs(db: &impl Read) -> impl Iterator<Item = Job> {
    let rows = db.scan("job/").into_iter();
    rows.filter_map(|(_, text)| decode(&text))
}

pub(crate) fn list(db: &impl Read, request: &ListRequest) -> Vec<JobRecord> {
    let asked = |job: &Job| {
        (request.queue.as_ref()).is_none_or(|queue| queue.as_str() == job.queue)
            && request.state.is_none_or(|state| state == job.state)
            && (request.kind.as_ref()).is_none_or(|kind| kind.as_str() == job.kind)
            && request.after < Some(job.job_id)
    };
    let asked = jobs(db).filter(asked).take(request.limit.get() as usize);
    asked.map(Job::record).collect()
}

pub(crate) fn failures(db: &impl Read, job: JobId) -> Vec<FailureRecord> {
    let prefix = format!("failure/{job}/");
    let record = |(key, text): (String, String)| {
        let stored: StoredFailure = decode(&text)?;
        let cause = if stored.reaped {
            FailureCause::Reaped
        } else {
            FailureCause::Failed
        };
        Some(FailureRecord {
            job_id: job,
            attempt: key[prefix.len()..].parse().ok()?,
            worker: WorkerId::stored(&stored.worker),
            at: instant(stored.at),
            cause,
            error: stored.error,
        })
    };
    db.scan(&prefix).into_iter().filter_map(record).collect()
}

pub(crate) fn stats(db: &impl Read, only: Option<&QueueName>, now: i64) -> Vec<QueueStats> {
    let mut stats = BTreeMap::new();
    for (key, _) in db.scan("paused/") {
        let queue = QueueName::stored(&key["paused/".len()..]);
        let mut empty = no_jobs(&queue);
        empty.paused = true;
        stats.insert(queue, empty);
    }
    for job in jobs(db) {
        let entry = stats.entry(QueueName::stored(&job.queue));
        count(entry.or_insert_with_key(no_jobs), &job, now);
    }
    stats.retain(|queue, _| only.is_none_or(|only| only == queue));
    stats.into_values().collect()
}

fn no_jobs(queue: &QueueName) -> QueueStats {
    QueueStats {
        queue: queue.clone(),
        due: 0,
        scheduled: 0,
        running: 0,
        overdue: 0,
        succeeded: 0,
        dead: 0,
        oldest_due: None,
        paused: false,
    }
}

fn count(stats: &mut QueueStats, job: &Job, now: i64) {
    match job.state {
        State::Ready if job.run_at <= now => {
            let waited = instant(now).since(instant(job.run_at));
            stats.due += 1;
            stats.oldest_due = stats.oldest_due.max(Some(waited));
        }
        State::Ready => stats.scheduled += 1,
        State::Running => {
            stats.running += 1;
            stats.overdue += u64::from(job.lease_until <= Some(now));
        }
        State::Succeeded => stats.succeeded += 1,
        State::Dead => stats.dead += 1,
    }
}
