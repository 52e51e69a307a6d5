//! What a running handler can ask about its claim, and do under it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::backend::{Administration, TransactionalBackend};
use crate::error::{Error, Failed};
use crate::id::{JobId, State};
use crate::job::ClaimedJob;
use crate::name::EffectName;

use super::held::Held;
use super::signal::{Phase, Signal};

/// The claim under which a handler runs.
///
/// The heartbeat renews the lease for as long as the handler runs. Where renewals fail,
/// [`Context::is_current`] turns false at the latest when the lease can have run out, without a
/// word from the database: long work looks at it between steps and stops. What the handler then
/// returns is refused by the database and reported.
pub struct Context<'a, B: ?Sized> {
    backend: &'a B,
    held: &'a Arc<Held>,
    signal: &'a Arc<Signal>,
    acked: bool,
}

impl<'a, B: ?Sized> Context<'a, B> {
    pub(super) fn new(backend: &'a B, held: &'a Arc<Held>, signal: &'a Arc<Signal>) -> Self {
        Self {
            backend,
            held,
            signal,
            acked: false,
        }
    }

    /// The claimed job, with its receipt, attempt and stored payload.
    #[must_use]
    pub fn job(&self) -> &'a ClaimedJob {
        &self.held.job
    }

    /// The key for effects outside the database: the job's id. It stays the same over all attempts,
    /// so that an effect keyed by it happens once.
    #[must_use]
    pub fn effect_key(&self) -> JobId {
        self.held.job.job_id()
    }

    /// The queue, for enqueueing more.
    #[must_use]
    pub fn backend(&self) -> &'a B {
        self.backend
    }

    /// Whether the claim still holds, as far as is known here: the database has not refused it, and
    /// the lease cannot have run out yet. Reads no database.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.held.is_current(Instant::now())
    }

    /// How long the claim holds at least, if it is not renewed again. Zero when it no longer holds.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        if self.held.lost().is_some() {
            return Duration::ZERO;
        }
        self.held
            .deadline()
            .saturating_duration_since(Instant::now())
    }

    /// Whether the worker is stopping. There is still time to finish, or to return
    /// [`Outcome::Release`].
    ///
    /// [`Outcome::Release`]: super::Outcome::Release
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.signal.phase() >= Phase::Draining
    }

    /// Whether to give up now: the claim no longer holds, or the worker's time to drain is over.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancellation().is_cancelled()
    }

    /// The same flag to be handed on, to another thread or into a callback.
    #[must_use]
    pub fn cancellation(&self) -> Cancellation {
        Cancellation {
            held: Arc::clone(self.held),
            signal: Arc::clone(self.signal),
        }
    }

    /// Whether this handler has acknowledged its claim itself.
    pub(super) fn is_acked(&self) -> bool {
        self.acked
    }
}

impl<B: Administration + TransactionalBackend> Context<'_, B> {
    /// Runs `work` and acknowledges the claim in one commit: the effect is stored exactly when the
    /// job is succeeded.
    ///
    /// A claim that no longer holds rolls the effect back. `work` is run once; after
    /// [`Error::Contention`] call this again, or return the error and let the retry policy do so.
    /// When the connection is lost while committing, the job's row is read, and tells whether the
    /// commit went through.
    ///
    /// # Errors
    /// Those of `work`, and as for [`TransactionalBackend::transaction`] and
    /// [`TransactionalBackend::ack_in`].
    pub fn transaction<R, E, F>(&mut self, work: F) -> Result<R, E>
    where
        E: From<Error>,
        F: for<'t> FnOnce(&mut B::Tx<'t>) -> Result<R, E>,
    {
        let (backend, receipt) = (self.backend, self.held.receipt());
        let mut made = None;
        let ended = backend.transaction(|tx| {
            let value = work(tx).map_err(Step::Work)?;
            backend.ack_in(tx, receipt)?;
            made = Some(value);
            Ok::<(), Step<E>>(())
        });
        match (ended, made) {
            (Ok(()), Some(value)) => {
                self.acked = true;
                Ok(value)
            }
            (Err(Step::Queue(Error::OutcomeUnknown(_))), Some(value)) if self.is_stored() => {
                self.acked = true;
                Ok(value)
            }
            (Err(Step::Work(error)), _) => Err(error),
            (Err(Step::Queue(error)), _) => {
                if let Error::LostClaim(lost) = &error {
                    self.held.lose(lost.reason());
                }
                Err(error.into())
            }
            (Ok(()), None) => Err(Error::Engine(unrun(backend.engine())).into()),
        }
    }

    /// Runs `work` in one commit with the record that this job has had the effect `name`; `None`
    /// when an earlier attempt has committed it, and then runs nothing.
    ///
    /// For jobs of several steps: a replacement skips the steps that are done. The claim stays
    /// held. When the outcome of the commit is unknown, return the error: the next attempt finds
    /// out.
    ///
    /// # Errors
    /// Those of `work`; [`Error::LostClaim`] when the claim no longer holds; [`Error::Rejected`]
    /// when `name` is no valid effect name; and as for [`TransactionalBackend::transaction`].
    pub fn once<R, E, F>(&mut self, name: &str, work: F) -> Result<Option<R>, E>
    where
        E: From<Error>,
        F: for<'t> FnOnce(&mut B::Tx<'t>) -> Result<R, E>,
    {
        let (backend, receipt) = (self.backend, self.held.receipt());
        let name = EffectName::new(name).map_err(Error::from)?;
        backend.transaction(|tx| {
            if backend.record_effect_in(tx, receipt, &name)? {
                work(tx).map(Some)
            } else {
                Ok(None)
            }
        })
    }

    /// Whether the row says that this very claim was acknowledged. An unreadable row says nothing.
    fn is_stored(&self) -> bool {
        let receipt = self.held.receipt();
        match self.backend.get(receipt.job_id()) {
            Ok(Some(row)) => row.state == State::Succeeded && row.attempts == receipt.attempt(),
            Ok(None) => false,
            Err(error) => {
                tracing::warn!(job_id = %receipt.job_id(), %error, "cannot read the row of an unknown outcome");
                false
            }
        }
    }
}

/// Where a transaction of the handler's failed.
enum Step<E> {
    Work(E),
    Queue(Error),
}

impl<E> From<Error> for Step<E> {
    fn from(error: Error) -> Self {
        Self::Queue(error)
    }
}

fn unrun(engine: &'static str) -> Failed {
    Failed::new(
        engine,
        "transaction",
        "the backend committed without running the work",
    )
}

impl<B: ?Sized> fmt::Debug for Context<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("receipt", self.held.receipt())
            .field("acked", &self.acked)
            .finish_non_exhaustive()
    }
}

/// Tells whether a handler should give up. Cheap to clone; outlives the handler.
#[derive(Debug, Clone)]
pub struct Cancellation {
    held: Arc<Held>,
    signal: Arc<Signal>,
}

impl Cancellation {
    /// Whether the claim no longer holds, or the worker's time to drain is over. Reads no database.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        !self.held.is_current(Instant::now()) || self.signal.phase() >= Phase::Cancelling
    }
}
