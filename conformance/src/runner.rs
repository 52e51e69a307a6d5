//! Runs scenarios, each on fresh tables of its own, under a watchdog.

use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::arena::Arena;
use crate::check::{Check, Failed};
use crate::fixture::{Fixture, Fresh, PortError, Profile, Setup, Unverified};
use crate::outcome::{Outcome, Record, Report};
use crate::scenario::{Scenario, Tier};
use crate::scenarios::registry;

/// A scenario that runs longer than this hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// The same for scenarios that are slow by nature.
const LIMIT_SLOW: Duration = Duration::from_secs(300);

/// Which scenarios to run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    tiers: Vec<Tier>,
    scenarios: Vec<String>,
    limit: Option<Duration>,
    threads: Option<usize>,
}

impl Filter {
    /// Every scenario.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Scenarios of this tier too, instead of every scenario.
    #[must_use]
    pub fn tier(mut self, tier: Tier) -> Self {
        self.tiers.push(tier);
        self
    }

    /// The scenario of this id too, instead of every scenario.
    #[must_use]
    pub fn scenario(mut self, id: &str) -> Self {
        self.scenarios.push(id.to_owned());
        self
    }

    /// The same scenarios, each given up after so long instead of after a minute (or five, when it
    /// is slow).
    #[must_use]
    pub fn at_most(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// The same scenarios, so many at once, whatever the environment says.
    #[must_use]
    pub fn at_once(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    fn takes<F: Fixture>(&self, scenario: &Scenario<F>) -> bool {
        (self.tiers.is_empty() && self.scenarios.is_empty())
            || self.tiers.contains(&scenario.tier)
            || self.scenarios.iter().any(|id| id == scenario.id)
    }
}

/// Runs the chosen scenarios of the suite, some at once, and reports on them in the registry's
/// order.
///
/// # Errors
/// [`PortError`] when the fixture declares something about a scenario that does not exist, or its
/// probe fails.
pub fn run<F: Fixture>(fixture: &Arc<F>, filter: &Filter) -> Result<Report, PortError> {
    let suite = Suite::of(Arc::clone(fixture))?;
    let chosen: Vec<_> = suite
        .scenarios
        .iter()
        .filter(|one| filter.takes(one))
        .collect();
    let (next, records) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        let at_once = filter.threads.unwrap_or_else(|| threads(&**fixture));
        for _ in 0..at_once.min(chosen.len()) {
            scope.spawn(|| {
                while let Some((at, scenario)) = take(&chosen, &next) {
                    let record = suite.run_one(scenario, filter.limit);
                    let mut records = records.lock().unwrap_or_else(PoisonError::into_inner);
                    records.push((at, record));
                }
            });
        }
    });
    let mut records = records.into_inner().unwrap_or_else(PoisonError::into_inner);
    records.sort_by_key(|(at, _)| *at);
    Ok(Report {
        profile: suite.profile,
        records: records.into_iter().map(|(_, record)| record).collect(),
    })
}

fn take<'a, T>(items: &[&'a T], next: &AtomicUsize) -> Option<(usize, &'a T)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    items.get(at).map(|item| (at, *item))
}

/// How many scenarios run at once: `QUEUE_TABLE_CONFORMANCE_THREADS`, or what the fixture bears.
pub(crate) fn threads<F: Fixture>(fixture: &F) -> usize {
    let asked = std::env::var("QUEUE_TABLE_CONFORMANCE_THREADS");
    let asked = asked.ok().and_then(|text| text.parse().ok());
    let asked = asked.filter(|&count| count > 0);
    asked.unwrap_or_else(|| fixture.at_once())
}

/// The registry's scenarios on one fixture, with what it declares about them.
pub(crate) struct Suite<F: Fixture> {
    fixture: Arc<F>,
    pub(crate) profile: Profile,
    unverified: Vec<Unverified>,
    pub(crate) scenarios: Vec<Scenario<F>>,
}

impl<F: Fixture> Suite<F> {
    pub(crate) fn of(fixture: Arc<F>) -> Result<Self, PortError> {
        let (profile, scenarios) = (fixture.profile(), registry::<F>());
        let unverified = fixture.unverified()?;
        let deviating = profile.deviations.iter().map(|one| &one.scenario);
        let declared = deviating.chain(unverified.iter().map(|one| &one.scenario));
        for id in declared {
            if scenarios.iter().all(|scenario| scenario.id != id) {
                return Err(PortError::new(format_args!(
                    "declares something about the scenario `{id}`, which does not exist"
                )));
            }
        }
        Ok(Self {
            fixture,
            profile,
            unverified,
            scenarios,
        })
    }

    pub(crate) fn fixture(&self) -> &F {
        &self.fixture
    }

    /// Tries one scenario, unless it is not for this backend or cannot be verified.
    pub(crate) fn run_one(&self, scenario: &Scenario<F>, limit: Option<Duration>) -> Record {
        let usual = if scenario.slow { LIMIT_SLOW } else { LIMIT };
        let limit = limit.unwrap_or(usual);
        let outcome = self
            .not_tried(scenario)
            .unwrap_or_else(|| self.judge(scenario, watched(&self.fixture, scenario, limit)));
        Record::of(scenario, &self.profile, outcome)
    }

    /// Why the scenario is not tried here; `None` when it is.
    pub(crate) fn not_tried(&self, scenario: &Scenario<F>) -> Option<Outcome> {
        let declared = self.profile.capabilities;
        if let Some(need) = scenario.needs.iter().find(|need| !need.met_by(declared)) {
            let reason = format!("for backends with {need}");
            return Some(Outcome::Unsupported { reason });
        }
        let found = self
            .unverified
            .iter()
            .find(|one| one.scenario == scenario.id);
        found.map(|one| Outcome::Unverified {
            reason: one.reason.clone(),
        })
    }

    fn judge(&self, scenario: &Scenario<F>, check: Check) -> Outcome {
        let deviations = &self.profile.deviations;
        let declared = deviations.iter().find(|one| one.scenario == scenario.id);
        match (check, declared) {
            (Ok(()), None) => Outcome::Pass,
            (Err(failed), None) => Outcome::Fail {
                text: failed.to_string(),
            },
            (Err(_), Some(deviation)) => Outcome::Deviates {
                reason: deviation.reason.clone(),
            },
            (Ok(()), Some(_)) => Outcome::Fail {
                text: "passes, but is declared to deviate: the deviation is no longer needed"
                    .to_owned(),
            },
        }
    }
}

/// Runs the scenario on a thread of its own. One that hangs keeps its thread until the process
/// ends.
fn watched<F: Fixture>(fixture: &Arc<F>, scenario: &Scenario<F>, limit: Duration) -> Check {
    let fixture = Arc::clone(fixture);
    let (run, setup) = (scenario.run, scenario.setup.clone());
    let (done, result) = channel();
    let thread = std::thread::Builder::new()
        .name(scenario.id.to_owned())
        .spawn(move || {
            // Nobody listens any more when the limit has passed.
            let _ = done.send(on_fresh_tables(&*fixture, &setup, run));
        })
        .map_err(|error| Failed::new(format_args!("no thread for the scenario: {error}")))?;
    match result.recv_timeout(limit) {
        Ok(check) => check,
        Err(RecvTimeoutError::Timeout) => Err(Failed::new(format_args!(
            "scenario `{}` hangs: still running after {limit:?}",
            scenario.id
        ))),
        Err(RecvTimeoutError::Disconnected) => Err(Failed::new(format_args!(
            "panicked: {}",
            thread
                .join()
                .map_or_else(panic_text, |()| "no answer".to_owned())
        ))),
    }
}

fn on_fresh_tables<F: Fixture>(
    fixture: &F,
    setup: &Setup,
    run: fn(&Arena<'_, F>) -> Check,
) -> Check {
    let Fresh { backend, probe } = fixture.fresh(setup)?;
    let (probe, capabilities) = (Arc::new(probe), fixture.profile().capabilities);
    let check = run(&Arena::new(&backend, &probe, capabilities)?);
    // The backend goes before the probe, which drops the tables.
    drop(backend);
    check
}

fn panic_text(payload: Box<dyn Any + Send>) -> String {
    let text = payload.downcast_ref::<String>().cloned();
    text.or_else(|| payload.downcast_ref::<&str>().map(|&text| text.to_owned()))
        .unwrap_or_else(|| "without a message".to_owned())
}
