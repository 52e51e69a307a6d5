//! Durations and sizes with limits: leases, delays, batches, attempt budgets.

use std::time::Duration;

use crate::invalid::{Invalid, Problem};

/// Shortest lease. Below it, a round trip to the database takes a good part of the lease.
pub const LEASE_MIN: Duration = Duration::from_millis(100);

/// Longest lease: 30 days. A crashed worker's jobs wait for the lease to end; long work renews a
/// short one instead.
pub const LEASE_MAX: Duration = Duration::from_secs(30 * 86_400);

/// Longest delay, retry delay and retention window: 36,500 days, within every engine's range of
/// dates.
pub const DELAY_MAX: Duration = Duration::from_secs(36_500 * 86_400);

/// Most jobs or receipts in one claim, renew, ack, fail, reap, promote or purge.
///
/// A batch's last job must start before its lease ends, and SQL Server turns row locks into a table
/// lock at 5,000.
pub const BATCH_MAX: u32 = 1_000;

/// Most jobs in one enqueue.
pub const ENQUEUE_MAX: usize = 10_000;

/// Largest attempt budget of a new job.
pub const MAX_ATTEMPTS_MAX: u32 = 1_000_000;

/// Budget of a job that asks for none.
pub const MAX_ATTEMPTS_DEFAULT: u32 = 20;

fn check_duration(
    what: &'static str,
    given: Duration,
    min: Duration,
    max: Duration,
) -> Result<Duration, Invalid> {
    if given < min || given > max {
        return Err(Invalid::new(
            what,
            Problem::DurationOutOfRange { given, min, max },
        ));
    }
    Ok(given)
}

fn check_range(what: &'static str, given: u32, max: u32) -> Result<u32, Invalid> {
    if given == 0 || given > max {
        let problem = Problem::OutOfRange {
            given: i64::from(given),
            min: 1,
            max: i64::from(max),
        };
        return Err(Invalid::new(what, problem));
    }
    Ok(given)
}

/// Whole microseconds, rounded up: a delay never ends early.
fn micros_up(duration: Duration) -> i64 {
    let micros = duration.as_nanos().div_ceil(1_000);
    i64::try_from(micros).unwrap_or(i64::MAX)
}

/// How long a claim holds without renewal: 100 ms to 30 days.
///
/// ```
/// use std::time::Duration;
/// use queue_table_core::LeaseLength;
///
/// assert_eq!(LeaseLength::new(Duration::from_secs(60))?.as_micros(), 60_000_000);
/// assert!(LeaseLength::new(Duration::ZERO).is_err());
/// # Ok::<(), queue_table_core::Invalid>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseLength(Duration);

impl LeaseLength {
    /// Checks the length.
    ///
    /// # Errors
    /// [`Invalid`] when it is shorter than [`LEASE_MIN`] or longer than [`LEASE_MAX`].
    pub fn new(length: Duration) -> Result<Self, Invalid> {
        check_duration("lease", length, LEASE_MIN, LEASE_MAX).map(Self)
    }

    /// The length.
    #[must_use]
    pub fn get(self) -> Duration {
        self.0
    }

    /// The length in whole microseconds.
    #[must_use]
    pub fn as_micros(self) -> i64 {
        micros_up(self.0)
    }
}

/// One minute.
impl Default for LeaseLength {
    fn default() -> Self {
        Self(Duration::from_secs(60))
    }
}

/// How long until something is due: zero to 36,500 days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Delay(Duration);

impl Delay {
    /// Due at once.
    pub const ZERO: Self = Self(Duration::ZERO);

    /// Checks the delay.
    ///
    /// # Errors
    /// [`Invalid`] when it is longer than [`DELAY_MAX`].
    pub fn new(delay: Duration) -> Result<Self, Invalid> {
        check_duration("delay", delay, Duration::ZERO, DELAY_MAX).map(Self)
    }

    /// The delay.
    #[must_use]
    pub fn get(self) -> Duration {
        self.0
    }

    /// The delay in whole microseconds, rounded up so that it never ends early.
    #[must_use]
    pub fn as_micros(self) -> i64 {
        micros_up(self.0)
    }
}

/// How many jobs one call may touch: 1 to 1,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchSize(u32);

impl BatchSize {
    /// One job.
    pub const ONE: Self = Self(1);

    /// The largest batch, [`BATCH_MAX`].
    pub const MAX: Self = Self(BATCH_MAX);

    /// Checks the size.
    ///
    /// # Errors
    /// [`Invalid`] when it is 0 or more than [`BATCH_MAX`].
    pub fn new(size: u32) -> Result<Self, Invalid> {
        check_range("batch size", size, BATCH_MAX).map(Self)
    }

    /// The size.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0
    }
}

/// How many claims a job may spend before it is dead: 1 to 1,000,000, 20 by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MaxAttempts(u32);

impl MaxAttempts {
    /// Checks the budget.
    ///
    /// # Errors
    /// [`Invalid`] when it is 0 or more than [`MAX_ATTEMPTS_MAX`].
    pub fn new(attempts: u32) -> Result<Self, Invalid> {
        check_range("max attempts", attempts, MAX_ATTEMPTS_MAX).map(Self)
    }

    /// The budget.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0
    }
}

impl Default for MaxAttempts {
    fn default() -> Self {
        Self(MAX_ATTEMPTS_DEFAULT)
    }
}

/// Refuses a batch of more than `max` items, before any SQL. For backends.
///
/// # Errors
/// [`Invalid`] naming `what` and the limit.
pub fn check_count(what: &'static str, given: usize, max: usize) -> Result<(), Invalid> {
    if given > max {
        return Err(Invalid::new(what, Problem::TooMany { given, max }));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_of_zero_or_beyond_its_limits_is_rejected() {
        for length in [
            Duration::ZERO,
            LEASE_MIN - Duration::from_nanos(1),
            LEASE_MAX + Duration::from_nanos(1),
        ] {
            let refused = LeaseLength::new(length).unwrap_err();
            let (min, max) = (LEASE_MIN, LEASE_MAX);
            assert_eq!(
                refused.problem(),
                &Problem::DurationOutOfRange {
                    given: length,
                    min,
                    max
                }
            );
        }
        assert!(LeaseLength::new(Duration::MAX).is_err());
        assert!(LeaseLength::new(LEASE_MIN).is_ok() && LeaseLength::new(LEASE_MAX).is_ok());
    }

    #[test]
    fn delay_beyond_36500_days_is_rejected() {
        assert!(Delay::new(DELAY_MAX).is_ok());
        assert!(Delay::new(DELAY_MAX + Duration::from_nanos(1)).is_err());
        assert!(
            Delay::new(Duration::MAX)
                .unwrap_err()
                .to_string()
                .contains("is allowed")
        );
    }

    #[test]
    fn durations_round_up_to_whole_microseconds() {
        assert_eq!(Delay::new(Duration::from_nanos(1)).unwrap().as_micros(), 1);
        assert_eq!(
            Delay::new(Duration::from_nanos(1_000)).unwrap().as_micros(),
            1
        );
        assert_eq!(
            Delay::new(DELAY_MAX).unwrap().as_micros(),
            3_153_600_000_000_000
        );
    }

    #[test]
    fn batch_of_0_or_1001_is_rejected() {
        assert_eq!(
            BatchSize::new(0).unwrap_err().to_string(),
            "batch size is 0; 1 to 1000 is allowed"
        );
        assert!(BatchSize::new(1_000).is_ok());
        assert!(BatchSize::new(1_001).is_err());
    }

    #[test]
    fn max_attempts_of_0_is_rejected() {
        assert_eq!(
            MaxAttempts::new(0).unwrap_err().to_string(),
            "max attempts is 0; 1 to 1000000 is allowed"
        );
        assert!(MaxAttempts::new(1_000_000).is_ok() && MaxAttempts::new(1_000_001).is_err());
    }

    #[test]
    fn a_batch_of_more_receipts_than_allowed_is_rejected() {
        assert!(check_count("receipts", 1_000, 1_000).is_ok());
        assert_eq!(
            check_count("receipts", 1_001, 1_000)
                .unwrap_err()
                .to_string(),
            "receipts has 1001 items; at most 1000 are allowed"
        );
    }
}
