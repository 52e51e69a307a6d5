//! A job's life on a transaction that somebody opened: claim, and what only the holder of a claim
//! may do.
//!
//! Binds, runs, decodes. Both the trait methods and the `_in` methods end here.

use std::collections::HashMap;

use mysql::prelude::Queryable;
use queue_table_core::{
    Accepts, ClaimRequest, ClaimedJob, Disposition, EffectName, FailAction, Failure, FailureCause,
    Fenced, JobId, Kind, LeaseLength, LostClaim, Observed, QueueName, Receipt, Rejected, Result,
    State, StoredPayload, WorkerId,
};
use serde_json::json;

use crate::decode::{Now, Reader};
use crate::error::failed;
use crate::json;
use crate::pool::run_all;
use crate::sql::Statements;

/// Above every priority.
const TOP: i64 = i32::MAX as i64 + 1;

/// Refuses a session without an open transaction, where locks would end with their statement.
///
/// The driver's type says that a transaction was begun; a deadlock or DDL since may have ended it,
/// and what followed would be committed statement by statement. Neither server has a cheap question
/// for it that works on both, but a savepoint set outside a transaction is gone at once.
pub(crate) fn check_in_transaction<Q: Queryable>(
    session: &mut Q,
    engine: &'static str,
    operation: &'static str,
) -> Result<()> {
    let guarded = run_all(
        session,
        "SAVEPOINT queue_table_guard; RELEASE SAVEPOINT queue_table_guard",
    );
    match guarded {
        Err(mysql::Error::MySqlError(error)) if error.code == 1305 => {
            Err(Rejected::NotInTransaction { engine, operation }.into())
        }
        other => other.map_err(failed(engine, operation)),
    }
}

/// The highest priority with a due job, below `below` where given. Reads only: an idle worker's
/// poll ends here.
pub(crate) fn due_priority<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    queue: &QueueName,
    below: Option<i32>,
) -> Result<Option<i32>> {
    const OPERATION: &str = "claim";
    let mut below = below.map_or(TOP, i64::from);
    loop {
        let params = (queue.as_str(), below, queue.as_str());
        let step: Option<(i32, bool)> = session
            .exec_first(sql.claim_step(), params)
            .map_err(failed(sql.engine, OPERATION))?;
        match step {
            Some((priority, false)) => below = i64::from(priority),
            Some((priority, true)) => return Ok(Some(priority)),
            None => return Ok(None),
        }
    }
}

/// Claims from the priority `first` downwards, which `due_priority` has found.
///
/// It goes from priority to priority because the index ends where the due jobs of one priority end:
/// a scan over all priorities reads every future job of a higher one first (100,000 of them made a
/// claim 20 times as slow).
pub(crate) fn claim<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    request: &ClaimRequest,
    first: i32,
) -> Result<Vec<ClaimedJob>> {
    let accepts = request.accepts.as_ref().map(accepted);
    let limit = request.limit.get() as usize;
    let mut found = Vec::new();
    let mut priority = Some(first);
    while let Some(from) = priority {
        let wanted = limit - found.len();
        found.extend(select_due(
            session,
            sql,
            request,
            from,
            accepts.as_deref(),
            wanted,
        )?);
        if found.len() >= limit {
            break;
        }
        priority = due_priority(session, sql, &request.queue, Some(from))?;
    }
    let Some(now) = found.last().map(|(_, now)| now.clone()) else {
        return Ok(Vec::new());
    };
    let lease = request.lease.as_micros();
    let ids = json::ids(found.iter().map(|(job, _)| job.job_id()));
    let params = (ids, request.worker.as_str(), &now.value, lease, &now.value);
    session
        .exec_drop(sql.claim(), params)
        .map_err(failed(sql.engine, "claim"))?;
    let stored = |(job, _): (ClaimedJob, Now)| ClaimedJob {
        claimed_at: now.timestamp,
        lease_until: now.plus(lease),
        ..job
    };
    Ok(found.into_iter().map(stored).collect())
}

fn accepted(accepts: &Accepts) -> String {
    let kinds: Vec<_> = accepts
        .iter()
        .map(|(kind, versions)| json!([kind.as_str(), versions.start(), versions.end()]))
        .collect();
    serde_json::Value::from(kinds).to_string()
}

fn select_due<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    request: &ClaimRequest,
    priority: i32,
    accepts: Option<&str>,
    wanted: usize,
) -> Result<Vec<(ClaimedJob, Now)>> {
    let (queue, limit) = (request.queue.as_str(), wanted as u64);
    let rows: mysql::Result<Vec<mysql::Row>> = match accepts {
        Some(kinds) => session.exec(
            sql.claim_select_accepting(),
            (queue, priority, kinds, limit),
        ),
        None => session.exec(sql.claim_select(), (queue, priority, limit)),
    };
    let rows = rows.map_err(failed(sql.engine, "claim"))?;
    rows.into_iter()
        .map(|row| claimed_job(Reader::new(row, sql, "claim"), sql, request))
        .collect()
}

fn claimed_job(
    mut row: Reader,
    sql: &Statements,
    request: &ClaimRequest,
) -> Result<(ClaimedJob, Now)> {
    let job_id = row.job_id()?;
    let attempt = row.number("attempts")?.saturating_add(1);
    let kind = Kind::stored(&row.text("kind")?);
    let payload = StoredPayload::new(row.take::<Vec<u8>>("payload")?);
    let payload_version = row.take("payload_version")?;
    let priority = row.take("priority")?;
    let run_at = row.instant("run_at")?;
    let max_attempts = row.number("max_attempts")?;
    let enqueued_at = row.instant("enqueued_at")?;
    let last_error = row.optional_text("last_error")?;
    let now = Now::take(&mut row)?;
    let job = ClaimedJob {
        receipt: Receipt::new(job_id, attempt, request.worker.clone()),
        queue: request.queue.clone(),
        kind,
        payload,
        payload_version,
        priority,
        run_at,
        max_attempts,
        enqueued_at,
        claimed_at: now.timestamp,
        lease_until: now.timestamp,
        last_error,
        columns: row.columns(&sql.table)?,
    };
    Ok((job, now))
}

/// Moves the deadlines of the claims that hold.
pub(crate) fn renew<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    receipts: &[Receipt],
    lease: LeaseLength,
) -> Result<Vec<Fenced<()>>> {
    let Some(mut bench) = Bench::lock(session, sql, "renew", ids_of(receipts))? else {
        return Ok(all_gone(receipts));
    };
    let mut held = Vec::new();
    let answers = bench.judge(receipts, |at, _| held.push(receipts[at].job_id()));
    if !held.is_empty() {
        let params = (json::ids(held), &bench.now.value, lease.as_micros());
        session
            .exec_drop(sql.renew(), params)
            .map_err(failed(sql.engine, "renew"))?;
    }
    Ok(answers)
}

/// Finishes the jobs whose claims hold.
pub(crate) fn ack<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    receipts: &[Receipt],
) -> Result<Vec<Fenced<()>>> {
    let Some(mut bench) = Bench::lock(session, sql, "ack", ids_of(receipts))? else {
        return Ok(all_gone(receipts));
    };
    let mut held = Vec::new();
    let answers = bench.judge(receipts, |at, job| {
        job.give_up(State::Succeeded);
        held.push(receipts[at].job_id());
    });
    if !held.is_empty() {
        session
            .exec_drop(sql.ack(), (json::ids(held), &bench.now.value))
            .map_err(failed(sql.engine, "ack"))?;
    }
    Ok(answers)
}

/// Gives up the jobs whose claims hold, and records the failures.
pub(crate) fn fail<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    failures: &[Failure],
) -> Result<Vec<Fenced<Disposition>>> {
    let receipts: Vec<Receipt> = failures
        .iter()
        .map(|failure| failure.receipt.clone())
        .collect();
    let Some(mut bench) = Bench::lock(session, sql, "fail", ids_of(&receipts))? else {
        return Ok(all_gone(&receipts));
    };
    let now = bench.now.clone();
    let (mut changes, mut records) = (Vec::new(), Vec::new());
    let answers = bench.judge(&receipts, |at, job| {
        let Failure {
            receipt,
            action,
            error,
        } = &failures[at];
        let error = error.as_ref().map(|text| text.as_str());
        let (id, attempt) = (receipt.job_id().get(), receipt.attempt());
        let (delay, more) = match *action {
            FailAction::Retry { after } if attempt < job.max_attempts => (Some(after), 0),
            FailAction::Retry { .. } | FailAction::Dead => (None, 0),
            FailAction::Release { after } => (Some(after), 1),
        };
        let delay = delay.map(|delay| delay.as_micros());
        let state = if delay.is_some() {
            State::Ready
        } else {
            State::Dead
        };
        let replaces = i32::from(more == 0 || error.is_some());
        changes.push(json!([
            id,
            state.as_str(),
            delay.unwrap_or(0),
            more,
            replaces,
            error
        ]));
        if more == 0 {
            records.push(json!([id, attempt, receipt.worker().as_str(), error]));
        }
        job.give_up(state);
        delay.map_or(Disposition::Dead, |delay| Disposition::Ready {
            run_at: now.plus(delay),
        })
    });
    if !changes.is_empty() {
        let changes = json::rows(sql, "fail", &changes)?;
        session
            .exec_drop(sql.fail(), (changes, &now.value, &now.value))
            .map_err(failed(sql.engine, "fail"))?;
    }
    record_failures(session, sql, "fail", &now, FailureCause::Failed, &records)?;
    Ok(answers)
}

/// Stores failed attempts, each as `[job id, attempt, worker, error]`.
pub(crate) fn record_failures<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    operation: &'static str,
    now: &Now,
    cause: FailureCause,
    records: &[serde_json::Value],
) -> Result<()> {
    if records.is_empty() {
        return Ok(());
    }
    let records = json::rows(sql, operation, records)?;
    session
        .exec_drop(sql.failure(), (&now.value, cause.as_str(), records))
        .map_err(failed(sql.engine, operation))
}

/// Records an effect if the claim holds; `false` when it was recorded before.
pub(crate) fn record_effect<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    receipt: &Receipt,
    name: &EffectName,
) -> Result<bool> {
    const OPERATION: &str = "record_effect";
    let receipts = std::slice::from_ref(receipt);
    let answers = match Bench::lock(session, sql, OPERATION, ids_of(receipts))? {
        Some(mut bench) => bench.judge(receipts, |_, _| ()),
        None => all_gone(receipts),
    };
    for answer in answers {
        answer?;
    }
    // Two records of one effect queue for the job's row, so a duplicate is always one that is
    // already there.
    match session.exec_drop(sql.effect(), (receipt.job_id().get(), name.as_str())) {
        Ok(()) => Ok(true),
        Err(mysql::Error::MySqlError(error)) if error.code == 1062 => Ok(false),
        Err(error) => Err(failed(sql.engine, OPERATION)(error)),
    }
}

/// The locked rows that receipts are judged by, and the clock as it was read after the last lock
/// was had.
///
/// Lock and judgement are two statements because UTC_TIMESTAMP is fixed when a statement starts.
/// SYSDATE is not, and one guarded UPDATE with it would spare two round trips, which gained nothing
/// measurable on loopback, where the two commits of a job dominate; but it follows the session's
/// zone, and a server started with `--sysdate-is-now` would silently break the fence.
struct Bench {
    now: Now,
    jobs: HashMap<JobId, Job>,
}

pub(crate) struct Job {
    pub(crate) state: State,
    pub(crate) attempts: u32,
    max_attempts: u32,
    worker: Option<WorkerId>,
    /// The deadline lies ahead.
    live: bool,
}

impl Job {
    fn is_held_by(&self, receipt: &Receipt) -> bool {
        self.state == State::Running
            && self.live
            && self.attempts == receipt.attempt()
            && self.worker.as_ref() == Some(receipt.worker())
    }

    /// What the row will be, for the receipts that follow in the batch.
    fn give_up(&mut self, state: State) {
        self.state = state;
        self.worker = None;
    }
}

impl Bench {
    /// Locks jobs in id order, waiting for each, then reads them; `None` when there is none of
    /// them.
    fn lock<Q: Queryable>(
        session: &mut Q,
        sql: &Statements,
        operation: &'static str,
        jobs: impl IntoIterator<Item = JobId>,
    ) -> Result<Option<Self>> {
        let ids = json::ids(jobs);
        // Read to its end: a deadlock comes in place of a row, where `exec_drop` would not hear it.
        let _locked: Vec<i64> = session
            .exec(sql.lock(), (&ids,))
            .map_err(failed(sql.engine, operation))?;
        let rows: Vec<mysql::Row> = session
            .exec(sql.judge(), (ids,))
            .map_err(failed(sql.engine, operation))?;
        let mut jobs = HashMap::with_capacity(rows.len());
        let mut clock = None;
        for row in rows {
            let mut row = Reader::new(row, sql, operation);
            let job_id = row.job_id()?;
            let job = Job {
                state: row.state()?,
                attempts: row.number("attempts")?,
                max_attempts: row.number("max_attempts")?,
                worker: row.worker()?,
                live: row.take("lease")?,
            };
            clock = Some(Now::take(&mut row)?);
            jobs.insert(job_id, job);
        }
        Ok(clock.map(|now| Self { now, jobs }))
    }

    /// Judges receipts as if one after the other: `keep` is called for each that holds, and changes
    /// the job.
    fn judge<T>(
        &mut self,
        receipts: &[Receipt],
        mut keep: impl FnMut(usize, &mut Job) -> T,
    ) -> Vec<Fenced<T>> {
        let mut judge_one =
            |(at, receipt): (usize, &Receipt)| match self.jobs.get_mut(&receipt.job_id()) {
                Some(job) if job.is_held_by(receipt) => Ok(keep(at, job)),
                Some(job) => {
                    let seen = Observed {
                        state: job.state,
                        attempts: job.attempts,
                        worker: job.worker.clone(),
                    };
                    Err(LostClaim::judge(receipt, Some(&seen)))
                }
                None => Err(LostClaim::judge(receipt, None)),
            };
        receipts.iter().enumerate().map(&mut judge_one).collect()
    }
}

/// Locks one job and reads it, for operations that need no claim.
pub(crate) fn locked_job<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    operation: &'static str,
    job: JobId,
) -> Result<Job> {
    let found = Bench::lock(session, sql, operation, [job])?;
    let found = found.and_then(|mut bench| bench.jobs.remove(&job));
    Ok(found.ok_or(Rejected::NoSuchJob(job))?)
}

fn ids_of(receipts: &[Receipt]) -> impl Iterator<Item = JobId> {
    receipts.iter().map(Receipt::job_id)
}

fn all_gone<T>(receipts: &[Receipt]) -> Vec<Fenced<T>> {
    receipts
        .iter()
        .map(|receipt| Err(LostClaim::judge(receipt, None)))
        .collect()
}
