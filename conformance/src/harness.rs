//! `main` for a porter's `tests/conformance.rs`: the suite under `cargo test`, nextest and their
//! filters.

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};

use crate::child::Role;
use crate::fixture::Fixture;
use crate::history::{cases, histories};
use crate::outcome::Outcome;
use crate::record::{Histories, Records};
use crate::runner::{Suite, threads};

/// Engines that must be there, by name and separated by commas: elsewhere an engine without a
/// server is not run.
const REQUIRE: &str = "QUEUE_TABLE_REQUIRE";

/// A fixture as the environment allows it.
#[derive(Debug)]
pub enum FromEnv<F> {
    /// The engine is there.
    Ready(F),
    /// It is not, and cannot be tried.
    NotRun {
        /// The engine's name in reports.
        engine: String,
        /// Why, such as `POSTGRES_DATABASE_URL is not set`.
        reason: String,
    },
}

/// Runs the suite as a test program: one test per scenario, named `tier::scenario`.
///
/// Writes one record per scenario (see [`Records`]). An engine that is not there prints one line
/// and succeeds, unless `QUEUE_TABLE_REQUIRE` names it.
///
/// Scenarios that need a second process start this program again: call it first in `main`, and
/// print nothing.
#[must_use]
pub fn main<F: Fixture>(fixture: FromEnv<F>) -> ExitCode {
    if let Some(role) = Role::of_this_process() {
        return role.play(fixture);
    }
    let mut arguments = Arguments::from_args();
    let trials = match fixture {
        FromEnv::Ready(fixture) => {
            arguments.test_threads = arguments.test_threads.or_else(|| Some(threads(&fixture)));
            scenarios(fixture)
        }
        FromEnv::NotRun { engine, reason } => not_run(&engine, &reason),
    };
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn scenarios<F: Fixture>(fixture: F) -> Vec<Trial> {
    let suite = match Suite::of(Arc::new(fixture)) {
        Ok(suite) => Arc::new(suite),
        Err(error) => return vec![failing(error.to_string())],
    };
    let records = match Records::of(&suite.profile) {
        Ok(records) => Arc::new(records),
        Err(error) => return vec![failing(error.to_string())],
    };
    let trial = |at: usize| {
        let scenario = &suite.scenarios[at];
        let kind = suite.not_tried(scenario).map_or("", |why| why.as_str());
        let (name, suite, records) = (scenario.name(), Arc::clone(&suite), Arc::clone(&records));
        Trial::test(name, move || try_one(&suite, &records, at)).with_kind(kind)
    };
    let mut trials: Vec<_> = (0..suite.scenarios.len()).map(trial).collect();
    let (random, noted) = (Arc::clone(&suite), Arc::clone(&records));
    trials.push(Trial::test(
        "history::random_histories_go_as_on_the_model",
        move || try_histories(&random, &noted),
    ));
    trials
}

fn try_histories<F: Fixture>(suite: &Suite<F>, records: &Records) -> Result<(), Failed> {
    let tried = histories(suite.fixture());
    records.write_histories(&Histories {
        version: suite.profile.version.clone(),
        cases: cases().map_err(|failed| failed.to_string())?,
        passed: tried.is_ok(),
    })?;
    tried.map_err(|failed| failed.to_string().into())
}

fn try_one<F: Fixture>(suite: &Suite<F>, records: &Records, at: usize) -> Result<(), Failed> {
    let scenario = &suite.scenarios[at];
    let record = suite.run_one(scenario, None);
    records.write(&record)?;
    match record.outcome {
        Outcome::Fail { text } => Err(format!("{}\n  {text}", scenario.sentence).into()),
        _ => Ok(()),
    }
}

fn not_run(engine: &str, reason: &str) -> Vec<Trial> {
    let trials = absent(engine, reason);
    if !trials.is_empty() {
        return trials;
    }
    match Records::not_run(engine, reason) {
        Ok(()) => trials,
        Err(error) => vec![failing(error.to_string())],
    }
}

/// Says that an engine is not there: a failure where it is required.
pub(crate) fn absent(engine: &str, reason: &str) -> Vec<Trial> {
    let required = std::env::var(REQUIRE).unwrap_or_default();
    if required.split(',').any(|name| name.trim() == engine) {
        let text = format!("{engine} is in {REQUIRE}, but cannot be run: {reason}");
        return vec![failing(text)];
    }
    eprintln!("conformance: {engine}: not run: {reason}");
    Vec::new()
}

/// Stands for the suite when it cannot start: a program without tests would look like success.
fn failing(text: String) -> Trial {
    Trial::test("suite::starts", move || Err(text.into()))
}
