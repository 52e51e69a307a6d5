//! How long to pause between empty polls and after errors.

use std::time::Duration;

/// Exponential back-off with jitter: from `first`, doubling to `most`.
#[derive(Debug)]
pub(super) struct Backoff {
    first: Duration,
    most: Duration,
    next: Duration,
}

impl Backoff {
    pub(super) fn new(first: Duration, most: Duration) -> Self {
        let first = first.min(most);
        Self {
            first,
            most,
            next: first,
        }
    }

    /// The next pause, about twice the one before.
    pub(super) fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = self.next.saturating_mul(2).min(self.most);
        jittered(pause)
    }

    /// Starts over, after something went well.
    pub(super) fn reset(&mut self) {
        self.next = self.first;
    }
}

/// The duration, give or take a quarter: workers that started together drift apart, and the average
/// stays.
pub(super) fn jittered(duration: Duration) -> Duration {
    duration.mul_f64(0.75 + 0.5 * fastrand::f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_to_the_most_and_start_over_after_a_reset() {
        let second = Duration::from_secs(1);
        let mut backoff = Backoff::new(Duration::from_millis(10), second);
        let pauses: Vec<Duration> = (0..12).map(|_| backoff.pause()).collect();
        assert!(pauses[0] <= Duration::from_micros(12_500), "{pauses:?}");
        assert!(pauses[11] >= second.mul_f64(0.75) && pauses[11] <= second.mul_f64(1.25));
        backoff.reset();
        assert!(backoff.pause() <= Duration::from_micros(12_500));
    }

    #[test]
    fn jitter_keeps_the_average() {
        let total: Duration = (0..2_000).map(|_| jittered(Duration::from_secs(1))).sum();
        let average = total.as_secs_f64() / 2_000.0;
        assert!((0.97..1.03).contains(&average), "{average}");
    }

    #[test]
    fn twenty_pauses_after_errors_take_longer_than_a_second() {
        // A worker that cannot reach the database tries fewer than 20 times a second.
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));
        let four: Duration = (0..5).map(|_| backoff.pause()).sum();
        assert!(four > Duration::from_secs(1), "{four:?}");
    }
}
