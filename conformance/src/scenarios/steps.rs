//! Steps and checks that several tiers share.

use queue_table_core::{
    ClaimedJob, ErrorText, Failure, JobId, Kind, NewJob, Payload, QueueName, Timestamp,
};

use super::prelude::*;

/// What a stored instant may differ from the one it stands for: an engine's clock may be read twice
/// in one operation, or be as coarse as this.
const TOLERANCE: Duration = Duration::from_millis(1);

/// The jobs' ids, in the order of the batch.
pub(super) fn ids(claimed: &[ClaimedJob]) -> Vec<JobId> {
    claimed.iter().map(ClaimedJob::job_id).collect()
}

/// A job of the kind `note` for another queue than the arena's.
pub(super) fn job_for(queue: &str) -> Check<NewJob> {
    let (queue, payload) = (QueueName::new(queue)?, Payload::from_json("{}")?);
    Ok(NewJob::new(&queue, Kind::new("note")?, payload))
}

/// Gives the claim up, to be tried again after so many seconds.
pub(super) fn retry(claimed: &ClaimedJob, seconds: u64, why: &str) -> Check<Failure> {
    let after = delay(Duration::from_secs(seconds))?;
    Ok(Failure::retry(
        claimed.receipt.clone(),
        after,
        ErrorText::new(why),
    ))
}

/// The database's clock before and after an act.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    from: Timestamp,
    to: Timestamp,
}

impl Span {
    /// Runs the act, and reads the database's clock before and after it.
    pub(super) fn of<F: Fixture, T>(
        arena: &Arena<'_, F>,
        act: impl FnOnce() -> Check<T>,
    ) -> Check<(T, Self)> {
        let from = arena.probe.now()?;
        let answer = act()?;
        let to = arena.probe.now()?;
        Ok((answer, Self { from, to }))
    }

    /// Fails unless the instant lies this far ahead of the act.
    #[track_caller]
    pub(super) fn expect(
        self,
        what: &str,
        instant: impl Into<Option<Timestamp>>,
        ahead: Duration,
    ) -> Check {
        let micros = |length: Duration| i64::try_from(length.as_micros()).unwrap_or(i64::MAX);
        let first = self.from.as_micros() + micros(ahead) - micros(TOLERANCE);
        let last = self.to.as_micros() + micros(ahead) + micros(TOLERANCE);
        let instant = expect_some(instant.into(), what)?;
        expect(
            (first..=last).contains(&instant.as_micros()),
            format_args!(
                "{what}: expected {ahead:?} after {} to {}, got {instant}",
                self.from, self.to
            ),
        )
    }
}
