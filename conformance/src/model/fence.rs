//! What only the holder of a claim may do.

use queue_table_core::{
    Disposition, EffectName, FailAction, Failure, FailureCause, FailureRecord, Fenced, LeaseLength,
    LostClaim, Observed, Receipt, State, Timestamp, WorkerId,
};

use super::claim::is_exhausted;
use super::fault::Fault;
use super::open::{Open, after, finish};
use crate::fixture::Row;

impl Open<'_> {
    pub(super) fn renew(&mut self, receipt: &Receipt, lease: LeaseLength) -> Fenced<()> {
        let row = self.held(receipt, Fault::RenewRevives)?;
        let adds = self.has(Fault::RenewAddsToDeadline);
        let now = self.base(self.now());
        let from = row.lease_until.filter(|_| adds).unwrap_or(now);
        let until = after(from, lease.as_micros());
        self.tables
            .change(receipt.job_id(), |row| row.lease_until = Some(until));
        Ok(())
    }

    pub(super) fn ack(&mut self, receipt: &Receipt) -> Fenced<()> {
        let has_error = self.held(receipt, Fault::FenceByJob)?.last_error.is_some();
        let now = self.now();
        let keeps_error = has_error && self.has(Fault::AckKeepsError);
        self.tables.change(receipt.job_id(), |row| {
            finish(row, State::Succeeded, now);
            if !keeps_error {
                row.last_error = None;
            }
        });
        Ok(())
    }

    pub(super) fn fail(&mut self, failure: &Failure) -> Fenced<Disposition> {
        let receipt = &failure.receipt;
        let released = matches!(failure.action, FailAction::Release { .. });
        let unfenced = if released {
            Fault::ReleaseUnfenced
        } else {
            Fault::FenceByJob
        };
        let row = self.held(receipt, unfenced)?;
        let now = self.now();
        let disposition = self.disposition(row, failure.action, now);
        let error = failure.error.as_ref().map(|text| text.as_str().to_owned());
        let grows = released && !self.has(Fault::ReleaseSpendsBudget);
        let shrinks = released && self.has(Fault::ReleaseCountsDown);
        self.tables.change(receipt.job_id(), |row| {
            put_down(row, disposition, now);
            row.max_attempts += u32::from(grows && !shrinks);
            row.attempts -= u32::from(shrinks);
            if !released || error.is_some() {
                row.last_error.clone_from(&error);
            }
        });
        if !released || self.has(Fault::ReleaseRecordsFailure) {
            self.record_failure(receipt, FailureCause::Failed, error);
        }
        Ok(disposition)
    }

    /// Where a job goes that is given up.
    fn disposition(&self, row: &Row, action: FailAction, now: Timestamp) -> Disposition {
        let spent = is_exhausted(row) && !self.has(Fault::RetryForEver);
        let delay = match action {
            FailAction::Retry { .. } if spent => return Disposition::Dead,
            FailAction::Dead if self.has(Fault::DeadIsRetried) => Default::default(),
            FailAction::Dead => return Disposition::Dead,
            FailAction::Retry { .. } if self.has(Fault::RetryAtOnce) => Default::default(),
            FailAction::Retry { after } | FailAction::Release { after } => after,
        };
        Disposition::Ready {
            run_at: after(self.base(now), delay.as_micros()),
        }
    }

    pub(super) fn record_effect(&mut self, receipt: &Receipt, name: &EffectName) -> Fenced<bool> {
        self.held(receipt, Fault::EffectUnfenced)?;
        let attempt = if self.has(Fault::EffectPerAttempt) {
            receipt.attempt()
        } else {
            0
        };
        let effect = (receipt.job_id(), name.as_str().to_owned(), attempt);
        Ok(self.tables.effects.insert(effect))
    }

    pub(super) fn record_failure(
        &mut self,
        receipt: &Receipt,
        cause: FailureCause,
        error: Option<String>,
    ) {
        if self.has(Fault::FailureNotRecorded) {
            return;
        }
        if self.has(Fault::FailureOfLastOnly) {
            let job = receipt.job_id();
            self.tables.failures.retain(|(of, _), _| *of != job);
        }
        let record = FailureRecord {
            job_id: receipt.job_id(),
            attempt: receipt.attempt(),
            worker: receipt.worker().clone(),
            at: self.now(),
            cause,
            error,
        };
        let key = (receipt.job_id(), receipt.attempt());
        self.tables.failures.insert(key, record);
    }

    /// The row, when the receipt's claim holds it now. `unfenced` is the fault of not asking.
    fn held(&self, receipt: &Receipt, unfenced: Fault) -> Fenced<&Row> {
        let row = self.tables.jobs.get(&receipt.job_id()).map(|row| &**row);
        if let Some(row) = row
            && (self.holds(row, receipt) || self.is_let_through(row, receipt, unfenced))
        {
            return Ok(row);
        }
        let observed = row.map(|row| Observed {
            state: if self.has(Fault::LostReasonNotTold) {
                State::Ready
            } else {
                row.state
            },
            attempts: if self.has(Fault::LostReasonNotTold) {
                receipt.attempt()
            } else {
                row.attempts
            },
            worker: row.worker_id.as_deref().map(WorkerId::stored),
        });
        Err(LostClaim::judge(receipt, observed.as_ref()))
    }

    fn holds(&self, row: &Row, receipt: &Receipt) -> bool {
        let now = self.before.as_ref().map_or(self.now(), |before| before.now);
        row.state == State::Running
            && row.attempts == receipt.attempt()
            && is_worker(row, receipt)
            && row.lease_until.is_some_and(|until| until > now)
    }

    /// What a faulty fence lets through besides.
    fn is_let_through(&self, row: &Row, receipt: &Receipt, unfenced: Fault) -> bool {
        let running = row.state == State::Running;
        let (attempt, worker) = (row.attempts == receipt.attempt(), is_worker(row, receipt));
        let ahead = row.lease_until.is_some_and(|until| until > self.now());
        let cancelled = row.state == State::Dead && row.last_error.is_some();
        let not_stored = row.attempts + 1 == receipt.attempt();
        let revived = unfenced == Fault::RenewRevives;
        self.has(Fault::FenceByJob)
            || running && self.has(Fault::FenceByState)
            || running && worker && ahead && self.has(Fault::FenceIgnoresAttempt)
            || running && attempt && ahead && self.has(Fault::FenceIgnoresWorker)
            || running && attempt && worker && self.has(Fault::FenceIgnoresDeadline)
            || running && worker && ahead && not_stored && self.has(Fault::ClaimKeepsAttempt)
            || cancelled && attempt && self.has(Fault::CancelKeepsTheClaim)
            || (!revived || running && attempt && worker) && self.has(unfenced)
    }
}

fn is_worker(row: &Row, receipt: &Receipt) -> bool {
    row.worker_id.as_deref() == Some(receipt.worker().as_str())
}

/// Takes the claim off a row and moves it to where it goes.
pub(super) fn put_down(row: &mut Row, disposition: Disposition, now: Timestamp) {
    match disposition {
        Disposition::Dead => finish(row, State::Dead, now),
        Disposition::Ready { run_at } => {
            row.state = State::Ready;
            row.run_at = run_at;
            row.worker_id = None;
            row.lease_until = None;
            row.finished_at = None;
        }
    }
}
