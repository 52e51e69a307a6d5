//! One of the two backends that a history runs on, and what it answers in words that do not depend
//! on ids and clocks.

use std::time::Duration;

use queue_table_core::{
    Administration, BatchSize, ClaimRequest, ClaimedJob, Delay, Disposition, EffectName, Enqueued,
    Error, ErrorText, Failure, JobId, Kind, LeaseLength, MaxAttempts, NewJob, Payload,
    PurgeRequest, QueueBackendExt, QueueName, ReapRequest, Receipt, RetryPolicy, Timestamp,
    TransactionalBackend, WorkerId,
};

use super::step::Step;
use crate::check::{Check, Failed};
use crate::fixture::{Probe, Row};

/// A backend with its tables, and the jobs and claims that the history has made on it.
pub(super) struct Side<'a, B, P> {
    backend: &'a B,
    probe: &'a P,
    jobs: Vec<JobId>,
    claims: Vec<Receipt>,
}

/// What came of a step.
pub(super) type Answer = Vec<String>;

impl<'a, B: Administration + TransactionalBackend, P: Probe<B>> Side<'a, B, P> {
    pub(super) fn of(backend: &'a B, probe: &'a P) -> Self {
        Self {
            backend,
            probe,
            jobs: Vec::new(),
            claims: Vec::new(),
        }
    }

    /// Takes one step. Refusals are answers; what cannot be asked for is answered with nothing.
    pub(super) fn take(&mut self, step: &Step) -> Check<Answer> {
        let (claim_of, job_of) = (
            |at: &u8| pick(&self.claims, *at),
            |at: &u8| pick(&self.jobs, *at),
        );
        match step {
            Step::Enqueue { .. } => self.enqueue(step),
            Step::Claim {
                queue,
                worker,
                limit,
            } => self.claim(*queue, *worker, *limit),
            Step::Renew { claim } => self.renew(claim_of(claim)),
            Step::Ack { claims } => self.ack(claims.iter().filter_map(claim_of).collect()),
            Step::Retry { claim, minutes } => self.fail(claim_of(claim), |receipt| {
                Ok(Failure::retry(
                    receipt,
                    delay(*minutes)?,
                    ErrorText::new("retry"),
                ))
            }),
            Step::Bury { claim } => self.fail(claim_of(claim), |receipt| {
                Ok(Failure::dead(receipt, ErrorText::new("bury")))
            }),
            Step::Release { claim, minutes } => self.fail(claim_of(claim), |receipt| {
                Ok(Failure::release(receipt, delay(*minutes)?))
            }),
            Step::AckIn { claim, commit } => self.ack_in(claim_of(claim), *commit),
            Step::Reap => self.reap(),
            Step::Replay { job, extra } => self.replay(job_of(job), *extra),
            Step::Cancel { job } => self.cancel(job_of(job)),
            Step::Purge { minutes } => self.purge(*minutes),
            Step::Pause { queue } => Ok(done(self.backend.pause(&queue_name(*queue)?))),
            Step::Resume { queue } => Ok(done(self.backend.resume(&queue_name(*queue)?))),
            Step::Wait { job, minutes } => self.wait(job_of(job), *minutes),
        }
    }

    fn enqueue(&mut self, step: &Step) -> Check<Answer> {
        let number = self.jobs.len();
        let new = new_job(step, number)?;
        let answer = match self.backend.enqueue_one(&new) {
            Ok(Enqueued::Inserted(id)) => {
                self.jobs.push(id);
                format!("inserted {number}")
            }
            Ok(Enqueued::Existing(id)) => format!("existing {}", self.number(id)),
            Err(error) => self.refusal(&error),
        };
        Ok(vec![answer])
    }

    fn claim(&mut self, queue: u8, worker: u8, limit: u8) -> Check<Answer> {
        let request = ClaimRequest::new(queue_name(queue)?, worker_id(worker)?)
            .with_limit(BatchSize::new(limit.into())?)
            .with_lease(lease(10)?);
        let claimed = self.backend.claim(&request)?;
        let now = self.probe.now()?;
        let receipts = claimed.iter().map(|job| job.receipt.clone());
        self.claims.extend(receipts);
        Ok(claimed.iter().map(|job| self.claimed(job, now)).collect())
    }

    fn claimed(&self, job: &ClaimedJob, now: Timestamp) -> String {
        let (number, attempt, worker) = (
            self.number(job.job_id()),
            job.attempt(),
            job.receipt.worker(),
        );
        let (until, error) = (minutes_from(now, job.lease_until), &job.last_error);
        let payload = String::from_utf8_lossy(job.payload.as_bytes());
        format!(
            "job {number}, attempt {attempt} by {worker} until {until}, payload {payload}, {error:?}"
        )
    }

    fn renew(&self, receipt: Option<Receipt>) -> Check<Answer> {
        let lease = lease(20)?;
        let answer = receipt.map(|receipt| self.answer(self.backend.renew_one(&receipt, lease)));
        Ok(answer.into_iter().collect())
    }

    fn ack(&self, receipts: Vec<Receipt>) -> Check<Answer> {
        let answers = self.backend.ack(&receipts)?.into_iter();
        Ok(answers
            .map(|answer| self.answer(answer.map_err(Error::from)))
            .collect())
    }

    fn fail(
        &self,
        receipt: Option<Receipt>,
        failure: impl FnOnce(Receipt) -> Check<Failure>,
    ) -> Check<Answer> {
        let Some(receipt) = receipt else {
            return Ok(Vec::new());
        };
        let answer = self.backend.fail_one(&failure(receipt)?);
        let now = self.probe.now()?;
        Ok(vec![self.answer(answer.map(|went| went_to(went, now)))])
    }

    fn ack_in(&self, receipt: Option<Receipt>, commit: bool) -> Check<Answer> {
        let Some(receipt) = receipt else {
            return Ok(Vec::new());
        };
        let name = EffectName::new("paid")?;
        let mut first = None;
        let ended = self.backend.transaction(|tx| {
            first = Some(self.backend.record_effect_in(tx, &receipt, &name)?);
            self.backend.ack_in(tx, &receipt)?;
            if commit {
                Ok(())
            } else {
                Err(Ended::RolledBack)
            }
        });
        let ended = match ended {
            Err(Ended::Refused(error)) => self.refusal(&error),
            ended => format!("{ended:?}"),
        };
        Ok(vec![format!("first {first:?}, {ended}")])
    }

    fn reap(&self) -> Check<Answer> {
        let policy = RetryPolicy::fixed(Duration::from_secs(5 * 60))?;
        let mut reaped = self
            .backend
            .reap(&ReapRequest::new(BatchSize::new(100)?, policy))?;
        let now = self.probe.now()?;
        reaped.sort_by_key(|one| one.job_id);
        let words = reaped.iter().map(|one| {
            let (number, attempt) = (self.number(one.job_id), one.attempt);
            let went = went_to(one.disposition, now);
            format!(
                "job {number}, attempt {attempt} by {:?}: {went}",
                one.worker
            )
        });
        Ok(words.collect())
    }

    fn replay(&self, job: Option<JobId>, extra: u8) -> Check<Answer> {
        let extra = MaxAttempts::new(extra.into())?;
        let answer = job.map(|job| self.answer(self.backend.replay(job, extra)));
        Ok(answer.into_iter().collect())
    }

    fn cancel(&self, job: Option<JobId>) -> Check<Answer> {
        let reason = ErrorText::new("cancelled");
        let answer = job.map(|job| self.answer(self.backend.cancel(job, &reason)));
        Ok(answer.into_iter().collect())
    }

    fn purge(&self, minutes: u8) -> Check<Answer> {
        let window = Some(delay(minutes)?);
        let purged = self.backend.purge(&PurgeRequest {
            succeeded_after: window,
            dead_after: window,
            limit: BatchSize::new(100)?,
            cursor: None,
        })?;
        Ok(vec![format!(
            "deleted {}, kept {:?}",
            purged.deleted, purged.kept
        )])
    }

    fn wait(&self, job: Option<JobId>, minutes: u8) -> Check<Answer> {
        if let Some(job) = job
            && self.probe.row(job)?.is_some()
        {
            self.probe.rewind(job, delay(minutes)?.get())?;
        }
        Ok(Vec::new())
    }

    fn answer<T: std::fmt::Debug>(&self, answer: Result<T, Error>) -> String {
        match answer {
            Ok(value) => format!("{value:?}"),
            Err(error) => self.refusal(&error),
        }
    }

    /// The refusal with jobs by number.
    fn refusal(&self, error: &Error) -> String {
        use queue_table_core::Rejected::{DedupKeyTaken, NoSuchJob, WrongState};
        match error {
            Error::LostClaim(lost) => format!("lost: {}", lost.reason()),
            Error::Rejected(NoSuchJob(job)) => format!("no job {}", self.number(*job)),
            Error::Rejected(WrongState { job_id, state, .. }) => {
                format!("job {} is {state}", self.number(*job_id))
            }
            Error::Rejected(DedupKeyTaken { job_id, holder }) => {
                format!(
                    "key of {} names {}",
                    self.number(*job_id),
                    self.number(*holder)
                )
            }
            other => format!("{}: {}", other.kind(), ErrorText::of(other)),
        }
    }

    fn number(&self, job: JobId) -> String {
        let at = self.jobs.iter().position(|one| *one == job);
        at.map_or_else(|| format!("unknown ({job})"), |at| at.to_string())
    }

    /// Every job's row, instants as minutes from the database's now.
    pub(super) fn rows(&self) -> Check<Vec<String>> {
        let now = self.probe.now()?;
        let row_of = |(number, job): (usize, &JobId)| {
            let row = self.probe.row(*job)?;
            let text = row.map_or_else(|| "no row".to_owned(), |row| words(&row, now));
            Ok(format!("job {number}: {text}"))
        };
        self.jobs.iter().enumerate().map(row_of).collect()
    }

    /// What else is stored: sister tables by size, each queue's counts, each job's failures.
    pub(super) fn tables(&self) -> Check<Vec<String>> {
        let mut found = Vec::new();
        for sister in ["dedup", "effect", "failure"] {
            found.push(format!("{} rows of {sister}", self.probe.count(sister)?));
        }
        for mut stats in self.backend.stats(None)? {
            stats.oldest_due = None;
            found.push(format!("{stats:?}"));
        }
        for (number, job) in self.jobs.iter().enumerate() {
            for failure in self.backend.failures(*job)? {
                let (attempt, worker) = (failure.attempt, failure.worker);
                let (cause, error) = (failure.cause, failure.error);
                found.push(format!(
                    "job {number}, attempt {attempt} by {worker}: {cause:?} {error:?}"
                ));
            }
        }
        Ok(found)
    }
}

/// How a transaction of a history ended when it did not commit.
#[derive(Debug)]
enum Ended {
    RolledBack,
    Refused(Error),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

fn pick<T: Clone>(items: &[T], at: u8) -> Option<T> {
    let at = usize::from(at).checked_rem(items.len())?;
    items.get(at).cloned()
}

fn done(answer: Result<(), Error>) -> Answer {
    vec![answer.map_or_else(
        |error| ErrorText::of(&error).to_string(),
        |()| "done".to_owned(),
    )]
}

fn new_job(step: &Step, number: usize) -> Check<NewJob> {
    let Step::Enqueue {
        queue,
        rank,
        due_in_minutes,
        max_attempts,
        dedup,
    } = step
    else {
        return Err(Failed::new(format_args!("{step:?} enqueues nothing")));
    };
    let payload = Payload::from_json(number.to_string())?;
    let place = i32::try_from(number).map_err(Failed::new)?;
    let job = NewJob::new(&queue_name(*queue)?, Kind::new("note")?, payload)
        .with_priority(i32::from(*rank) * 1_000 - place)
        .with_delay(delay(*due_in_minutes)?.get())?
        .with_max_attempts((*max_attempts).into())?;
    match dedup {
        Some((key, scope)) => Ok(job.with_dedup(&format!("key-{key}"), *scope)?),
        None => Ok(job),
    }
}

fn queue_name(number: u8) -> Check<QueueName> {
    Ok(QueueName::new(format!("queue-{number}"))?)
}

fn worker_id(number: u8) -> Check<WorkerId> {
    Ok(WorkerId::new(format!("worker-{number}"))?)
}

fn delay(minutes: u8) -> Check<Delay> {
    Ok(Delay::new(Duration::from_secs(60 * u64::from(minutes)))?)
}

fn lease(minutes: u64) -> Check<LeaseLength> {
    Ok(LeaseLength::new(Duration::from_secs(60 * minutes))?)
}

fn went_to(disposition: Disposition, now: Timestamp) -> String {
    match disposition {
        Disposition::Ready { run_at } => format!("ready {}", minutes_from(now, run_at)),
        Disposition::Dead => "dead".to_owned(),
    }
}

/// Whole minutes from now: a history lets minutes pass, and takes far less than half of one.
fn minutes_from(now: Timestamp, instant: Timestamp) -> String {
    let micros = instant.as_micros() - now.as_micros();
    let minute = 60_000_000;
    format!("{:+} min", (micros + minute / 2).div_euclid(minute))
}

fn words(row: &Row, now: Timestamp) -> String {
    let at = |instant: Option<Timestamp>| instant.map(|instant| minutes_from(now, instant));
    format!(
        "{}, attempts {} of {}, by {:?} until {:?}, due {}, enqueued {}, claimed {:?}, finished {:?}, {:?}",
        row.state,
        row.attempts,
        row.max_attempts,
        row.worker_id,
        at(row.lease_until),
        minutes_from(now, row.run_at),
        minutes_from(now, row.enqueued_at),
        at(row.claimed_at),
        at(row.finished_at),
        row.last_error,
    )
}
