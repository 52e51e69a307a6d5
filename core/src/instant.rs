//! Instants of the database's clock.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// An instant read from the database, in UTC, to the microsecond.
///
/// No operation takes one: callers give durations, and the database adds them to its own clock.
///
/// ```
/// use queue_table_core::Timestamp;
///
/// assert_eq!(Timestamp::from_micros(1_500_000).to_string(), "1970-01-01T00:00:01.5Z");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Timestamp {
    micros: i64,
}

impl Timestamp {
    /// The instant so many microseconds after 1970-01-01 00:00 UTC. For backends.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self { micros }
    }

    /// Microseconds since 1970-01-01 00:00 UTC.
    #[must_use]
    pub const fn as_micros(self) -> i64 {
        self.micros
    }

    /// The time from `earlier` to this instant; zero when it lies behind.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(
            u64::try_from(self.micros.saturating_sub(earlier.micros)).unwrap_or(0),
        )
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let instant = OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.micros) * 1_000);
        match instant
            .ok()
            .and_then(|instant| instant.format(&Rfc3339).ok())
        {
            Some(text) => f.write_str(&text),
            None => write!(f, "{} us after 1970-01-01T00:00:00Z", self.micros),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_zero_when_the_other_instant_is_later() {
        let (early, late) = (Timestamp::from_micros(1), Timestamp::from_micros(5));
        assert_eq!(late.since(early), Duration::from_micros(4));
        assert_eq!(early.since(late), Duration::ZERO);
    }

    #[test]
    fn instants_print_in_utc_and_never_fail() {
        assert_eq!(
            Timestamp::from_micros(1_796_126_400_000_001).to_string(),
            "2026-12-01T12:00:00.000001Z"
        );
        assert!(
            Timestamp::from_micros(i64::MAX)
                .to_string()
                .ends_with("after 1970-01-01T00:00:00Z")
        );
    }
}
