//! The database's clock, which no worker's clock agrees with.

use std::time::{Duration, Instant, SystemTime};

use queue_table_core::Timestamp;

/// How far the model's clock is ahead of this machine's: whoever mixes the two is noticed.
const AHEAD: Duration = Duration::from_secs(5 * 3_600 + 17 * 60);

/// Wall-clock time that never goes back.
#[derive(Debug)]
pub(super) struct Clock {
    start_micros: i64,
    start: Instant,
}

impl Clock {
    pub(super) fn start() -> Self {
        Self {
            start_micros: micros(since_1970() + AHEAD),
            start: Instant::now(),
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.start_micros + micros(self.start.elapsed()))
    }

    /// What this machine's own clock says.
    pub(super) fn workers_now(&self) -> Timestamp {
        Timestamp::from_micros(micros(since_1970()))
    }
}

fn since_1970() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}

pub(super) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
