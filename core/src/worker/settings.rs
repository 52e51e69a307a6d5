//! What a worker is set to, with the limits of each value.

use std::time::Duration;

use crate::invalid::{Invalid, Problem};
use crate::lease::{BatchSize, LeaseLength};

use super::promoter::Ageing;
use super::queues::Queues;
use super::retention::Windows;
#[cfg(feature = "periodic")]
use super::schedule::Periodic;

/// Most handler slots of a worker: each is a thread.
pub const SLOTS_MAX: usize = 1_000;

/// Shortest interval of anything a worker does at intervals.
const INTERVAL_MIN: Duration = Duration::from_millis(1);

/// Longest interval: a day.
pub(super) const INTERVAL_MAX: Duration = Duration::from_secs(86_400);

/// What a worker is set to.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) name: String,
    pub(super) queues: Queues,
    pub(super) slots: usize,
    pub(super) prefetch: usize,
    pub(super) lease: LeaseLength,
    pub(super) poll_interval: Duration,
    pub(super) ack_batch: BatchSize,
    pub(super) ack_linger: Duration,
    /// `None` for a part of the lease.
    pub(super) reap_every: Option<Duration>,
    /// `None` for never.
    pub(super) ageing: Option<Ageing>,
    pub(super) keep: Windows,
    pub(super) purge_every: Duration,
    /// `None` for never.
    pub(super) sample_every: Option<Duration>,
    pub(super) grace: Duration,
    #[cfg(feature = "periodic")]
    pub(super) schedules: Vec<Periodic>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: "worker".to_owned(),
            queues: Queues::default(),
            slots: 4,
            prefetch: 0,
            lease: LeaseLength::default(),
            poll_interval: Duration::from_secs(2),
            ack_batch: BatchSize::MAX,
            ack_linger: Duration::from_millis(2),
            reap_every: None,
            ageing: None,
            keep: Windows::default(),
            purge_every: Duration::from_secs(60),
            sample_every: None,
            grace: Duration::from_secs(5),
            #[cfg(feature = "periodic")]
            schedules: Vec::new(),
        }
    }
}

impl Settings {
    /// How often to reap: seldom enough for an idle worker, often enough for the lease.
    pub(super) fn reap_every(&self) -> Duration {
        let by_lease = self.lease.get() / 3;
        self.reap_every
            .unwrap_or_else(|| by_lease.clamp(Duration::from_secs(2), Duration::from_secs(10)))
    }
}

/// Checks how often something is done.
///
/// # Errors
/// [`Invalid`] when it is shorter than a millisecond or longer than a day.
pub(super) fn interval(what: &'static str, given: Duration) -> Result<Duration, Invalid> {
    in_duration(what, given, INTERVAL_MIN, INTERVAL_MAX)
}

/// Checks a duration.
///
/// # Errors
/// [`Invalid`] naming the limits when it is outside them.
pub(super) fn in_duration(
    what: &'static str,
    given: Duration,
    min: Duration,
    max: Duration,
) -> Result<Duration, Invalid> {
    if given < min || given > max {
        let problem = Problem::DurationOutOfRange { given, min, max };
        return Err(Invalid::new(what, problem));
    }
    Ok(given)
}

/// Checks a number.
///
/// # Errors
/// [`Invalid`] naming the limits when it is outside them.
pub(super) fn in_range(
    what: &'static str,
    given: usize,
    min: usize,
    max: usize,
) -> Result<usize, Invalid> {
    if given < min || given > max {
        let as_i64 = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let problem = Problem::OutOfRange {
            given: as_i64(given),
            min: as_i64(min),
            max: as_i64(max),
        };
        return Err(Invalid::new(what, problem));
    }
    Ok(given)
}
