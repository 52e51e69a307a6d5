//! How long a job waits before its next attempt.

use std::time::Duration;

use crate::invalid::{Invalid, Problem};
use crate::lease::{DELAY_MAX, Delay};

/// Shortest base and cap of a retry policy: a delay of zero would burn all attempts within one
/// poll.
pub const RETRY_DELAY_MIN: Duration = Duration::from_millis(1);

/// Bounded exponential retry delay with jitter: `base * factor^(attempt - 1)`, at most `cap`.
///
/// Jitter only shortens: the delay lies between `(1 - jitter)` times the full delay and the full
/// delay, and never below 1 ms. It never overflows, whatever the attempt.
///
/// ```
/// use std::time::Duration;
/// use queue_table_core::RetryPolicy;
///
/// let second = Duration::from_secs(1);
/// let policy = RetryPolicy::new(second, 2.0, 60 * second)?.with_jitter(0.0)?;
/// assert_eq!(policy.delay(1).get(), second);
/// assert_eq!(policy.delay(4).get(), 8 * second);
/// assert_eq!(policy.delay(u32::MAX).get(), 60 * second);
/// # Ok::<(), queue_table_core::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct RetryPolicy {
    base: Duration,
    factor: f64,
    cap: Duration,
    jitter: f64,
}

/// 5 seconds, doubling to at most an hour, with a quarter of jitter.
impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            base: Duration::from_secs(5),
            factor: 2.0,
            cap: Duration::from_secs(3_600),
            jitter: 0.25,
        }
    }
}

impl RetryPolicy {
    /// A policy with a quarter of jitter.
    ///
    /// # Errors
    /// [`Invalid`] when `base` is below 1 ms, `cap` is below `base` or above 36,500 days, or
    /// `factor` is not between 1 and 1,000.
    pub fn new(base: Duration, factor: f64, cap: Duration) -> Result<Self, Invalid> {
        check("retry delay", base, RETRY_DELAY_MIN)?;
        check("retry delay cap", cap, base)?;
        if !(1.0..=1_000.0).contains(&factor) {
            return Err(Invalid::new(
                "retry factor",
                Problem::Other("is not allowed; 1 to 1000 is"),
            ));
        }
        Ok(Self {
            base,
            factor,
            cap,
            jitter: Self::default().jitter,
        })
    }

    /// The same delay after every attempt, without jitter.
    ///
    /// # Errors
    /// [`Invalid`] when `delay` is below 1 ms or above 36,500 days.
    pub fn fixed(delay: Duration) -> Result<Self, Invalid> {
        Self::new(delay, 1.0, delay)?.with_jitter(0.0)
    }

    /// The same policy with another share of jitter: 0 for none, 1 for anything from 1 ms to the
    /// full delay.
    ///
    /// # Errors
    /// [`Invalid`] when `jitter` is not between 0 and 1.
    pub fn with_jitter(self, jitter: f64) -> Result<Self, Invalid> {
        if !(0.0..=1.0).contains(&jitter) {
            return Err(Invalid::new(
                "retry jitter",
                Problem::Other("is not allowed; 0 to 1 is"),
            ));
        }
        Ok(Self { jitter, ..self })
    }

    /// The delay after a failed `attempt` (the first is 1), with fresh jitter.
    #[must_use]
    pub fn delay(&self, attempt: u32) -> Delay {
        let full = self.full_delay(attempt);
        let kept = 1.0 - self.jitter * fastrand::f64();
        let seconds = (full.as_secs_f64() * kept).max(RETRY_DELAY_MIN.as_secs_f64());
        // `full` is within the limits, and `kept` shortens it.
        Duration::try_from_secs_f64(seconds)
            .ok()
            .and_then(|delay| Delay::new(delay.min(full)).ok())
            .unwrap_or_default()
    }

    /// The delay after a failed `attempt` before jitter.
    #[must_use]
    pub fn full_delay(&self, attempt: u32) -> Duration {
        let exponent = f64::from(attempt.max(1) - 1);
        let seconds = self.base.as_secs_f64() * self.factor.powf(exponent);
        // The comparison comes before the conversion, and is false for infinity.
        if seconds < self.cap.as_secs_f64() {
            Duration::from_secs_f64(seconds).max(self.base)
        } else {
            self.cap
        }
    }
}

fn check(what: &'static str, given: Duration, min: Duration) -> Result<(), Invalid> {
    if given < min || given > DELAY_MAX {
        return Err(Invalid::new(
            what,
            Problem::DurationOutOfRange {
                given,
                min,
                max: DELAY_MAX,
            },
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ATTEMPTS: [u32; 5] = [200, 1_000, 65_536, i32::MAX as u32, u32::MAX];

    #[test]
    fn delays_never_fall_never_pass_the_cap_and_never_overflow() {
        for base in [
            RETRY_DELAY_MIN,
            Duration::from_secs(5),
            Duration::from_secs(3_600),
        ] {
            for factor in [1.0, 1.5, 2.0, 100.0] {
                let cap = Duration::from_secs(86_400);
                let policy = RetryPolicy::new(base, factor, cap)
                    .unwrap()
                    .with_jitter(0.0)
                    .unwrap();
                let mut before = Duration::ZERO;
                for attempt in (1..=200).chain(ATTEMPTS) {
                    let delay = policy.delay(attempt).get();
                    assert!(
                        delay >= before && delay >= base && delay <= cap,
                        "{attempt}: {delay:?}"
                    );
                    before = delay;
                }
            }
        }
    }

    #[test]
    fn jitter_stays_within_its_documented_range() {
        let policy = RetryPolicy::default();
        for attempt in (1..=64).chain(ATTEMPTS) {
            let full = policy.full_delay(attempt);
            for _ in 0..50 {
                let delay = policy.delay(attempt).get();
                assert!(
                    delay <= full && delay.as_secs_f64() >= full.as_secs_f64() * 0.749,
                    "{attempt}: {delay:?}"
                );
            }
        }
    }

    #[test]
    fn full_jitter_never_gives_a_delay_of_zero() {
        let policy = RetryPolicy::new(RETRY_DELAY_MIN, 1.0, RETRY_DELAY_MIN)
            .unwrap()
            .with_jitter(1.0)
            .unwrap();
        assert!((0..200).all(|_| policy.delay(1).get() >= RETRY_DELAY_MIN));
    }

    #[test]
    fn a_base_of_zero_is_rejected() {
        let refused = RetryPolicy::new(Duration::ZERO, 2.0, Duration::from_secs(1)).unwrap_err();
        assert_eq!(refused.what(), "retry delay");
        assert!(RetryPolicy::fixed(Duration::ZERO).is_err());
    }

    #[test]
    fn a_cap_below_the_base_or_beyond_the_limit_is_rejected() {
        let second = Duration::from_secs(1);
        assert!(RetryPolicy::new(second, 2.0, Duration::from_millis(999)).is_err());
        assert!(RetryPolicy::new(second, 2.0, Duration::MAX).is_err());
    }

    #[test]
    fn factor_and_jitter_outside_their_ranges_are_rejected() {
        let second = Duration::from_secs(1);
        for factor in [0.0, 0.99, 1_001.0, f64::NAN, f64::INFINITY, -1.0] {
            assert!(
                RetryPolicy::new(second, factor, second).is_err(),
                "{factor}"
            );
        }
        for jitter in [-0.1, 1.1, f64::NAN] {
            assert!(
                RetryPolicy::default().with_jitter(jitter).is_err(),
                "{jitter}"
            );
        }
    }
}
