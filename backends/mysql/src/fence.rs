//! The locked rows that receipts are judged by.

use std::collections::{HashMap, HashSet};

use mysql::prelude::Queryable;
use queue_table_core::{
    Fenced, JobId, LostClaim, Observed, Receipt, Rejected, Result, State, WorkerId,
};

use crate::decode::{Now, Reader};
use crate::error::failed;
use crate::json;
use crate::sql::Statements;

/// Which rows of a batch are acted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    /// Those that nobody else has locked.
    Free,
    /// All: locked ones are waited for.
    All,
}

/// Locked rows as they were read under their locks, and who holds them.
///
/// A statement that waited for a lock cannot judge a deadline, because UTC_TIMESTAMP is fixed when
/// a statement starts: the next one does. SYSDATE is not fixed, but it follows the session's zone,
/// and a server started with `--sysdate-is-now` would silently break the fence.
pub(crate) struct Bench {
    rows: Rows,
    jobs: HashMap<JobId, Job>,
}

pub(crate) struct Job {
    pub(crate) state: State,
    pub(crate) attempts: u32,
    pub(crate) max_attempts: u32,
    worker: Option<WorkerId>,
    /// Not known to be over.
    live: bool,
}

impl Job {
    fn is_claimed_by(&self, receipt: &Receipt) -> bool {
        self.state == State::Running
            && self.attempts == receipt.attempt()
            && self.worker.as_ref() == Some(receipt.worker())
    }
}

/// What an operation makes of a claim that holds: its answer, and the state it leaves when it gives
/// the claim up.
pub(crate) type Kept<T> = (T, Option<State>);

impl Bench {
    /// Locks jobs in the order of their ids, and reads them.
    pub(crate) fn lock<Q: Queryable>(
        session: &mut Q,
        sql: &Statements,
        operation: &'static str,
        rows: Rows,
        jobs: impl IntoIterator<Item = JobId>,
    ) -> Result<Self> {
        let text = match rows {
            Rows::Free => sql.lock_free(),
            Rows::All => sql.lock(),
        };
        // Read to its end: a deadlock comes in place of a row, where `exec_drop` would not hear it.
        let found: Vec<mysql::Row> = session
            .exec(text, (json::ids(jobs),))
            .map_err(failed(sql.engine, operation))?;
        let read = |row| {
            let mut row = Reader::new(row, sql, operation);
            let job_id = row.job_id()?;
            let job = Job {
                state: row.state()?,
                attempts: row.number("attempts")?,
                max_attempts: row.number("max_attempts")?,
                worker: row.worker()?,
                live: true,
            };
            Ok((job_id, job))
        };
        let jobs = found.into_iter().map(read).collect::<Result<_>>()?;
        Ok(Self { rows, jobs })
    }

    /// Looks which of the leases are over by now; `None` when no row is locked.
    pub(crate) fn look_at_leases<Q: Queryable>(
        &mut self,
        session: &mut Q,
        sql: &Statements,
        operation: &'static str,
    ) -> Result<Option<Now>> {
        if self.jobs.is_empty() {
            return Ok(None);
        }
        let found: Vec<mysql::Row> = session
            .exec(sql.judge(), (json::ids(self.jobs.keys().copied()),))
            .map_err(failed(sql.engine, operation))?;
        let mut clock = None;
        for row in found {
            let mut row = Reader::new(row, sql, operation);
            let (job_id, over): (_, bool) = (row.job_id()?, row.take("lease")?);
            clock = Some(Now::take(&mut row)?);
            if let Some(job) = self.jobs.get_mut(&job_id) {
                job.live = !over;
            }
        }
        Ok(clock)
    }

    /// Judges receipts as if one after the other: `keep` is called for each that holds. `None` for
    /// those whose rows somebody else has locked.
    pub(crate) fn judge<T>(
        &self,
        receipts: &[&Receipt],
        mut keep: impl FnMut(usize, &Job) -> Kept<T>,
    ) -> Vec<Option<Fenced<T>>> {
        let mut given_up = HashMap::new();
        let mut judge_one = |(at, receipt): (usize, &&Receipt)| {
            let lost = |seen: Option<&Observed>| Some(Err(LostClaim::judge(receipt, seen)));
            let job_id = receipt.job_id();
            let Some(job) = self.jobs.get(&job_id) else {
                return if self.rows == Rows::All {
                    lost(None)
                } else {
                    None
                };
            };
            let (state, worker) = match given_up.get(&job_id) {
                Some(state) => (*state, None),
                None if job.live && job.is_claimed_by(receipt) => {
                    let (answer, left) = keep(at, job);
                    given_up.extend(left.map(|state| (job_id, state)));
                    return Some(Ok(answer));
                }
                None => (job.state, job.worker.clone()),
            };
            let attempts = job.attempts;
            lost(Some(&Observed {
                state,
                attempts,
                worker,
            }))
        };
        receipts.iter().enumerate().map(&mut judge_one).collect()
    }

    /// The jobs that some receipt holds.
    pub(crate) fn held(&self, receipts: &[&Receipt]) -> HashSet<JobId> {
        let holds = |receipt: &&&Receipt| {
            let job = self.jobs.get(&receipt.job_id());
            job.is_some_and(|job| job.live && job.is_claimed_by(receipt))
        };
        let held = receipts.iter().filter(holds);
        held.map(|receipt| receipt.job_id()).collect()
    }
}

/// Locks one job and reads it, for operations that need no claim.
pub(crate) fn locked_job<Q: Queryable>(
    session: &mut Q,
    sql: &Statements,
    operation: &'static str,
    job: JobId,
) -> Result<Job> {
    let mut found = Bench::lock(session, sql, operation, Rows::All, [job])?;
    let found = found.jobs.remove(&job);
    Ok(found.ok_or(Rejected::NoSuchJob(job))?)
}
