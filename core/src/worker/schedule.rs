//! Schedules: a cron expression in a time zone, and the job of each tick.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use croner::Cron;
use croner::parser::CronParser;
use jiff::tz::TimeZone;
use jiff::{Timestamp as Instant, Zoned};

use crate::instant::Timestamp;
use crate::invalid::{Invalid, Problem};
use crate::job::{DedupScope, NewJob};
use crate::name::{DEDUP_KEY_BYTES_MAX, EffectName};

use super::retention::Windows;

/// Most ticks made up in one go.
const TICKS_MAX: usize = 1_000;

type MakeJob = dyn Fn(Timestamp) -> Result<NewJob, Invalid> + Send + Sync;

/// A job to be enqueued at each tick of a cron expression.
///
/// The expression has five fields (minute, hour, day, month, weekday), or six with seconds first. A
/// tick that the clock jumps over in spring happens right after the jump; an hour that happens
/// twice in autumn has its ticks once when the expression names the hour.
///
/// ```
/// use queue_table_core::worker::{CatchUp, Periodic};
/// use queue_table_core::{Kind, NewJob, Payload, QueueName};
///
/// let reports = QueueName::new("reports")?;
/// let job = NewJob::new(&reports, Kind::new("nightly")?, Payload::from_json("{}")?);
/// let nightly = Periodic::new("nightly", "0 3 * * *", "Europe/Zurich", job)?
///     .catch_up(CatchUp::Latest { within: std::time::Duration::from_secs(6 * 3_600) });
/// # let _ = nightly;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Periodic {
    name: String,
    cron: Cron,
    zone: TimeZone,
    pub(super) catch_up: CatchUp,
    make: Box<MakeJob>,
}

/// What becomes of ticks that passed while no worker with the schedule was running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CatchUp {
    /// Nothing: the next tick is the next one. While a worker runs but cannot reach the database,
    /// the ticks that pile up become one, the latest.
    #[default]
    Skip,
    /// The latest of them is made up, when it is not older than this.
    Latest {
        /// How far to look back.
        within: Duration,
    },
    /// All of them are made up that are not older than this; at most 1,000 at a time.
    All {
        /// How far to look back.
        within: Duration,
    },
}

impl CatchUp {
    /// How far to look back.
    pub(super) fn within(self) -> Duration {
        match self {
            Self::Skip => Duration::ZERO,
            Self::Latest { within } | Self::All { within } => within,
        }
    }
}

/// What is wrong with a schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The name is no valid name: 1 to 128 bytes, without control characters and blanks at the
    /// ends.
    #[error("schedule name: {0}")]
    Name(#[source] Invalid),
    /// The cron expression cannot be read, or names no time at all.
    #[error("cron expression `{expression}`: {reason}")]
    Cron {
        /// The expression.
        expression: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no such time zone.
    #[error("time zone `{0}` is not known")]
    TimeZone(String),
}

impl Periodic {
    /// The same job at each tick. A dedup key of its own is replaced by the tick's.
    ///
    /// # Errors
    /// [`ScheduleError`] naming the name, expression or time zone that is wrong.
    pub fn new(
        name: &str,
        cron: &str,
        time_zone: &str,
        job: NewJob,
    ) -> Result<Self, ScheduleError> {
        Self::with(name, cron, time_zone, move |_| Ok(job.clone()))
    }

    /// A job made for each tick from the tick's instant.
    ///
    /// # Errors
    /// As for [`Periodic::new`].
    pub fn with(
        name: &str,
        cron: &str,
        time_zone: &str,
        make: impl Fn(Timestamp) -> Result<NewJob, Invalid> + Send + Sync + 'static,
    ) -> Result<Self, ScheduleError> {
        // Effect names have the limits wanted here: with the instant, the key fits a dedup key.
        EffectName::new(name).map_err(ScheduleError::Name)?;
        let zone =
            TimeZone::get(time_zone).map_err(|_| ScheduleError::TimeZone(time_zone.to_owned()))?;
        let wrong = |error: croner::errors::CronError| ScheduleError::Cron {
            expression: cron.to_owned(),
            reason: error.to_string(),
        };
        let schedule = Self {
            name: name.to_owned(),
            cron: CronParser::new().parse(cron).map_err(wrong)?,
            zone,
            catch_up: CatchUp::default(),
            make: Box::new(make),
        };
        let now = Instant::now().to_zoned(schedule.zone.clone());
        schedule
            .cron
            .find_next_occurrence(&now, false)
            .map_err(wrong)?;
        Ok(schedule)
    }

    /// Sets what becomes of ticks that passed while no worker was running; nothing by default.
    #[must_use]
    pub fn catch_up(self, catch_up: CatchUp) -> Self {
        Self { catch_up, ..self }
    }

    fn zoned(&self, instant: Instant) -> Zoned {
        instant.to_zoned(self.zone.clone())
    }

    /// The next tick after an instant; `None` when the expression names no later time.
    pub(super) fn next(&self, after: Instant) -> Option<Instant> {
        let next = self.cron.find_next_occurrence(&self.zoned(after), false);
        next.ok().map(|tick| tick.timestamp())
    }

    /// The ticks after `after` and up to `now` that are to be enqueued.
    pub(super) fn due(&self, after: Instant, now: Instant) -> Vec<Instant> {
        if let CatchUp::All { .. } = self.catch_up {
            let ticks = std::iter::successors(self.next(after), |tick| self.next(*tick));
            return ticks
                .take_while(|tick| *tick <= now)
                .take(TICKS_MAX)
                .collect();
        }
        let latest = self.cron.find_previous_occurrence(&self.zoned(now), true);
        let latest = latest.ok().map(|tick| tick.timestamp());
        latest.filter(|tick| *tick > after).into_iter().collect()
    }

    /// The job of one tick, under the tick's key.
    pub(super) fn job(&self, tick: Instant) -> Result<NewJob, Invalid> {
        let tick = Timestamp::from_micros(tick.as_microsecond());
        let key = format!("{}@{tick}", self.name);
        debug_assert!(key.len() <= DEDUP_KEY_BYTES_MAX);
        (self.make)(tick)?.with_dedup(&key, DedupScope::WhileRowExists)
    }
}

impl fmt::Debug for Periodic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Periodic")
            .field("name", &self.name)
            .field("cron", &self.cron.as_str())
            .field("zone", &self.zone.iana_name())
            .field("catch_up", &self.catch_up)
            .finish_non_exhaustive()
    }
}

/// Refuses schedules that would enqueue a tick never or twice.
///
/// # Errors
/// [`Invalid`] for two schedules of one name, and for a catch-up that looks back further than
/// finished jobs are kept:
/// the tick's job, and its key with it, might be gone.
pub(super) fn check(schedules: &[Periodic], keep: Windows) -> Result<(), Invalid> {
    let mut names = BTreeSet::new();
    let kept = keep.succeeded.into_iter().chain(keep.dead).min();
    for schedule in schedules {
        if !names.insert(&schedule.name) {
            let rule = "was given twice under one name; each needs a name of its own";
            return Err(Invalid::new("schedule", Problem::Other(rule)));
        }
        if kept.is_some_and(|kept| kept.get() <= schedule.catch_up.within()) {
            let rule = "looks back as far as finished jobs are kept, or further; keep them longer";
            return Err(Invalid::new("schedule catch-up", Problem::Other(rule)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Payload, QueueName};

    fn job() -> NewJob {
        NewJob::new(
            &QueueName::new("reports").unwrap(),
            Kind::new("nightly").unwrap(),
            Payload::from_json("{}").unwrap(),
        )
    }

    fn nightly(cron: &str) -> Periodic {
        Periodic::new("nightly", cron, "Europe/Zurich", job()).unwrap()
    }

    fn at(text: &str) -> Instant {
        text.parse().unwrap()
    }

    fn due(schedule: &Periodic, after: &str, now: &str) -> Vec<String> {
        let ticks = schedule.due(at(after), at(now));
        ticks.iter().map(Instant::to_string).collect()
    }

    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn ticks_are_in_the_time_zone_of_the_schedule() {
        let schedule = nightly("0 3 * * *");
        let due = due(&schedule, "2026-01-10T00:00:00Z", "2026-01-10T12:00:00Z");
        assert_eq!(due, ["2026-01-10T02:00:00Z"]);
    }

    #[test]
    fn a_tick_is_due_at_its_instant_and_only_once() {
        let schedule = nightly("0 3 * * *");
        let tick = "2026-01-10T02:00:00Z";
        assert_eq!(
            due(
                &schedule,
                "2026-01-10T01:00:00Z",
                "2026-01-10T01:59:59.999Z"
            ),
            [""; 0]
        );
        assert_eq!(due(&schedule, "2026-01-10T01:00:00Z", tick), [tick]);
        assert_eq!(due(&schedule, tick, "2026-01-10T05:00:00Z"), [""; 0]);
    }

    #[test]
    fn of_several_missed_ticks_the_policy_decides_how_many_are_made() {
        let (after, now) = ("2026-01-01T12:00:00Z", "2026-01-04T12:00:00Z");
        let latest = ["2026-01-04T02:00:00Z"];
        assert_eq!(due(&nightly("0 3 * * *"), after, now), latest);
        let one = nightly("0 3 * * *").catch_up(CatchUp::Latest { within: 7 * DAY });
        assert_eq!(due(&one, after, now), latest);
        let all = nightly("0 3 * * *").catch_up(CatchUp::All { within: 7 * DAY });
        let days = [
            "2026-01-02T02:00:00Z",
            "2026-01-03T02:00:00Z",
            "2026-01-04T02:00:00Z",
        ];
        assert_eq!(due(&all, after, now), days);
    }

    #[test]
    fn the_hour_that_spring_skips_has_its_tick_after_the_jump() {
        let all = nightly("30 2 * * *").catch_up(CatchUp::All { within: DAY });
        let due = due(&all, "2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z");
        assert_eq!(due, ["2026-03-29T01:00:00Z"]);
    }

    #[test]
    fn the_hour_that_autumn_repeats_has_its_tick_once() {
        let all = nightly("30 2 * * *").catch_up(CatchUp::All { within: DAY });
        let due = due(&all, "2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z");
        assert_eq!(due.len(), 1, "{due:?}");
    }

    #[test]
    fn the_key_names_schedule_and_tick() {
        let job = nightly("0 3 * * *")
            .job(at("2026-01-10T02:00:00Z"))
            .unwrap();
        let dedup = job.dedup().unwrap();
        assert_eq!(dedup.key.as_str(), "nightly@2026-01-10T02:00:00Z");
        assert_eq!(dedup.scope, DedupScope::WhileRowExists);
    }

    #[test]
    fn a_bad_schedule_is_refused_by_what_is_wrong() {
        let new = |name: &str, cron: &str, zone: &str| Periodic::new(name, cron, zone, job());
        let cron = |cron: &str| new("n", cron, "UTC").unwrap_err().to_string();
        assert!(cron("61 * * * *").starts_with("cron expression `61 * * * *`: "));
        assert!(cron("0 0 30 2 *").starts_with("cron expression `0 0 30 2 *`: "));
        let zone = new("n", "* * * * *", "Mars/Base").unwrap_err();
        assert_eq!(zone, ScheduleError::TimeZone("Mars/Base".to_owned()));
        assert!(matches!(
            new("", "* * * * *", "UTC"),
            Err(ScheduleError::Name(_))
        ));
    }
}
