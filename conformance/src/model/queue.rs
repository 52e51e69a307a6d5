//! The two traits of whole operations: one transaction around each call.

use std::collections::BTreeMap;
use std::time::Duration;

use queue_table_core::{
    Administration, BATCH_MAX, ClaimRequest, ClaimedJob, Disposition, Enqueued, Error, ErrorText,
    Failed, Failure, FailureRecord, Fenced, Finding, JobId, JobRecord, LeaseLength, ListRequest,
    MaxAttempts, Migrated, NewJob, PromoteRequest, PurgeRequest, Purged, QueueBackend, QueueName,
    QueueStats, ReapRequest, Reaped, Receipt, Result, Severity, Waiter, Woken, check_count,
};

use super::fault::Fault;
use super::open::Open;
use super::state::{Tables, VERSION};
use super::{ENGINE, Model, decode};

impl QueueBackend for Model {
    fn engine(&self) -> &'static str {
        ENGINE
    }

    fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        let stored = self.write("enqueue", |open| open.enqueue(jobs))?;
        new_jobs(jobs, &stored).for_each(|job| self.ring(job.queue()));
        Ok(stored)
    }

    fn claim(&self, request: &ClaimRequest) -> Result<Vec<ClaimedJob>> {
        match self.write("claim", |open| open.claim(request)) {
            Err(_) if self.has(Fault::ClaimSwallowsErrors) => Ok(Vec::new()),
            claimed => claimed,
        }
    }

    fn renew(&self, receipts: &[Receipt], lease: LeaseLength) -> Result<Vec<Fenced<()>>> {
        let renew = |open: &mut Open<'_>, receipt: &Receipt| open.renew(receipt, lease);
        self.each("renew", receipts, |receipt| receipt, renew, ())
    }

    fn ack(&self, receipts: &[Receipt]) -> Result<Vec<Fenced<()>>> {
        let ack = |open: &mut Open<'_>, receipt: &Receipt| open.ack(receipt);
        self.each("ack", receipts, |receipt| receipt, ack, ())
    }

    fn fail(&self, failures: &[Failure]) -> Result<Vec<Fenced<Disposition>>> {
        let fail = |open: &mut Open<'_>, failure: &Failure| open.fail(failure);
        let swallowed = swallowed_disposition();
        self.each(
            "fail",
            failures,
            |failure| &failure.receipt,
            fail,
            swallowed,
        )
    }

    fn reap(&self, request: &ReapRequest) -> Result<Vec<Reaped>> {
        self.write("reap", |open| open.reap(request))
    }

    fn wait(&self, waiter: &mut Waiter, at_most: Duration) -> Result<Woken> {
        if self.has(Fault::NoWakeUp) {
            std::thread::sleep(at_most);
            return Ok(Woken::TimedOut);
        }
        Ok(self.bell.wait(waiter, at_most))
    }

    fn ring(&self, queue: &QueueName) {
        self.bell.ring(queue);
    }
}

impl Model {
    /// Judges a batch one by one, in the order given, in one transaction.
    fn each<I, T: Clone>(
        &self,
        operation: &'static str,
        items: &[I],
        receipt_of: impl Fn(&I) -> &Receipt,
        judge: impl Fn(&mut Open<'_>, &I) -> Fenced<T>,
        swallowed: T,
    ) -> Result<Vec<Fenced<T>>> {
        check_count("receipts", items.len(), BATCH_MAX as usize)?;
        self.write(operation, |open| {
            open.tables.check_version()?;
            let untouched = (items.len() > 1).then(|| open.tables.clone());
            let answers = items.iter().map(|item| judge(open, item)).collect();
            let receipts: Vec<_> = items.iter().map(receipt_of).collect();
            spoil(open, untouched, answers, &receipts, swallowed)
        })
    }
}

/// What mutants make of a batch's answers.
fn spoil<T: Clone>(
    open: &mut Open<'_>,
    untouched: Option<Tables>,
    mut answers: Vec<Fenced<T>>,
    receipts: &[&Receipt],
    swallowed: T,
) -> Result<Vec<Fenced<T>>> {
    let lost = answers.iter().any(Result::is_err);
    if let Some(untouched) = untouched
        && lost
        && open.has(Fault::BatchSpoiled)
    {
        *open.tables = untouched;
        answers.iter().cloned().collect::<Fenced<Vec<T>>>()?;
    }
    if lost && open.has(Fault::LostClaimSwallowed) {
        let swallow = |answer: &mut Fenced<T>| *answer = Ok(swallowed.clone());
        answers
            .iter_mut()
            .filter(|one| one.is_err())
            .for_each(swallow);
    }
    if !receipts.is_sorted_by_key(|receipt| receipt.job_id()) && open.has(Fault::BatchAnswersById) {
        let mut by_id: Vec<_> = receipts.iter().zip(answers).collect();
        by_id.sort_by_key(|(receipt, _)| receipt.job_id());
        answers = by_id.into_iter().map(|(_, answer)| answer).collect();
    }
    let mut first = BTreeMap::new();
    for (at, receipt) in receipts.iter().enumerate() {
        let first = *first.entry(receipt).or_insert(at);
        if first < at && open.has(Fault::BatchJudgedOnce) {
            answers[at] = answers[first].clone();
        }
    }
    Ok(answers)
}

/// What a mutant answers for a failure that it did not store.
pub(super) fn swallowed_disposition() -> Disposition {
    Disposition::Dead
}

/// The jobs that were stored, without those that a key already named.
pub(super) fn new_jobs<'a>(
    jobs: &'a [NewJob],
    stored: &'a [Enqueued],
) -> impl Iterator<Item = &'a NewJob> {
    let both = jobs.iter().zip(stored);
    both.filter(|(_, stored)| stored.is_new())
        .map(|(job, _)| job)
}

impl Administration for Model {
    fn migrate(&self) -> Result<Migrated> {
        self.write("migrate", |open| {
            let from = open.tables.version;
            if from.is_some_and(|found| found > VERSION) {
                open.tables.check_version()?;
            }
            if from.is_some() && open.has(Fault::MigrateTwiceFails) {
                let exists = Failed::new(ENGINE, "migrate", "table exists");
                return Err(Error::Engine(exists));
            }
            if open.has(Fault::MigrateAgainEmpties) {
                open.tables.jobs.clear();
            }
            open.tables.version = Some(VERSION);
            Ok(Migrated { from, to: VERSION })
        })
    }

    fn check(&self) -> Result<Vec<Finding>> {
        if self.has(Fault::CheckFindsNothing) {
            return Ok(Vec::new());
        }
        let wolf = || Error::Engine(Failed::new(ENGINE, "check", "wolf"));
        let cries = self.has(Fault::CheckCriesWolf).then(wolf);
        let found = cries.or(self.shared.stored().check_version().err());
        let finding = found.map(|error| Finding {
            severity: Severity::Fatal,
            subject: "job_schema".to_owned(),
            text: error.to_string(),
        });
        Ok(finding.into_iter().collect())
    }

    fn get(&self, job: JobId) -> Result<Option<JobRecord>> {
        self.read(|tables| tables.jobs.get(&job).map(|row| decode::record(row)))
    }

    fn list(&self, request: &ListRequest) -> Result<Vec<JobRecord>> {
        self.read(|tables| tables.list(request, &self.shared.faults))
    }

    fn failures(&self, job: JobId) -> Result<Vec<FailureRecord>> {
        self.read(|tables| tables.failures_of(job))
    }

    fn stats(&self, queue: Option<&QueueName>) -> Result<Vec<QueueStats>> {
        let now = self.shared.clock.now();
        self.read(|tables| tables.stats(queue, now, &self.shared.faults))
    }

    fn replay(&self, job: JobId, extra: MaxAttempts) -> Result<u32> {
        self.write("replay", |open| open.replay(job, extra))
    }

    fn cancel(&self, job: JobId, reason: &ErrorText) -> Result<()> {
        self.write("cancel", |open| open.cancel(job, reason))
    }

    fn promote(&self, request: &PromoteRequest) -> Result<u32> {
        self.write("promote", |open| open.promote(request))
    }

    fn purge(&self, request: &PurgeRequest) -> Result<Purged> {
        self.write("purge", |open| open.purge(request))
    }

    fn pause(&self, queue: &QueueName) -> Result<()> {
        self.write("pause", |open| open.pause(queue))
    }

    fn resume(&self, queue: &QueueName) -> Result<()> {
        self.write("resume", |open| open.resume(queue))
    }
}
