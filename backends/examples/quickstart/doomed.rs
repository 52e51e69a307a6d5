//! The worker that dies: a process of its own that claims a job, writes half an invoice, and is
//! gone.

use std::process::{Command, Stdio};

use queue_table::sqlite::SqliteQueue;
use queue_table::{
    Administration, ClaimRequest, Error, FailureCause, JobId, LeaseLength, QueueBackend,
    QueueBackendExt, QueueName, Receipt, WorkerId,
};

use crate::arguments::{Arguments, DOOMED};
use crate::invoices::WriteInvoice;
use crate::shop::{self, Failure};

/// What is left of the dead worker: the proof of its claim.
pub(crate) struct Doomed {
    receipt: Receipt,
}

/// The child process: claims, writes half, tells its receipt, and dies without a word to the
/// database.
pub(crate) fn be(arguments: &Arguments) -> Result<(), Failure> {
    let queue = shop::open(&arguments.database)?;
    let request = ClaimRequest::new(QueueName::new("invoices")?, WorkerId::unique("doomed")?)
        .with_lease(LeaseLength::new(crate::LEASE)?);
    if let Some(job) = queue.claim(&request)?.first() {
        let invoice: WriteInvoice = job.payload.decode()?;
        invoice.write_half(&arguments.invoices, job.job_id(), job.attempt())?;
        println!("{}", serde_json::to_string(&job.receipt)?);
        std::process::abort();
    }
    Ok(())
}

impl Doomed {
    /// Lets a worker process die; `None` when there was no job for it to claim.
    pub(crate) fn start(
        arguments: &Arguments,
        queue: &SqliteQueue,
        invoices: &QueueName,
    ) -> Result<Option<Self>, Failure> {
        if queue
            .stats(Some(invoices))?
            .first()
            .is_none_or(|stats| stats.due == 0)
        {
            println!("no job is due, so no worker has to die");
            return Ok(None);
        }
        let child = Command::new(std::env::current_exe()?)
            .arg(DOOMED)
            .arg("--database")
            .arg(&arguments.database)
            .arg("--invoices")
            .arg(&arguments.invoices)
            .stderr(Stdio::inherit())
            .output()?;
        if child.status.success() {
            return Ok(None);
        }
        let receipt: Receipt = serde_json::from_slice(&child.stdout)
            .map_err(|_| format!("the worker that was to die only failed: {}", child.status))?;
        println!(
            "a worker process claimed job {}, wrote half an invoice, and died ({}); \
             its lease runs for {} more seconds",
            receipt.job_id(),
            child.status,
            crate::LEASE.as_secs(),
        );
        Ok(Some(Self { receipt }))
    }

    /// The dead worker's acknowledgement arrives after all, as a delayed packet would. It must be
    /// refused.
    pub(crate) fn acknowledge_late(&self, queue: &SqliteQueue) -> Result<String, Failure> {
        match queue.ack_one(&self.receipt) {
            Err(Error::LostClaim(lost)) => {
                println!("the dead worker's acknowledgement arrives late, and is refused: {lost}");
                Ok(lost.to_string())
            }
            Err(error) => Err(error.into()),
            Ok(()) => Err("a stale acknowledgement was accepted: this must never happen".into()),
        }
    }

    /// Tells what becomes of its job, each thing once.
    pub(crate) fn story(&self) -> Story {
        Story {
            job: self.receipt.job_id(),
            reaped: false,
        }
    }
}

/// How far the dead worker's job has come.
pub(crate) struct Story {
    job: JobId,
    reaped: bool,
}

impl Story {
    pub(crate) fn tell(&mut self, queue: &SqliteQueue) -> Result<(), Failure> {
        if self.reaped {
            return Ok(());
        }
        let failures = queue.failures(self.job)?;
        if let Some(reaped) = failures
            .iter()
            .find(|failure| failure.cause == FailureCause::Reaped)
        {
            self.reaped = true;
            println!(
                "job {}: the lease lapsed, and the reaper brought it back; attempt {} is recorded as lost",
                self.job, reaped.attempt
            );
        }
        Ok(())
    }
}
