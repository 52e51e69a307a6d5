//! A test program that tries every seeded fault on one engine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};

use super::{Seed, Seeded, is_seeded};
use crate::child::Role;
use crate::fixture::{Capabilities, Fixture, Setup};
use crate::harness::{FromEnv, absent};
use crate::runner::{Filter, run};
use crate::scenario::Scenario;
use crate::scenarios::registry;

/// What each mutant and each seeded fault fails, one a line.
const LISTED: &str = include_str!("../../mutants.txt");

/// Asks for what was measured, to be put into the list.
const WRITE: &str = "QUEUE_TABLE_WRITE_MUTANTS";

/// The faults that a model cannot have hang longer than that.
const LIMIT: Duration = Duration::from_secs(40);

/// Tries each fault on what only an engine can do: locks on rows, processes, a network, counters.
/// What the model can do too is tried there.
///
/// Each fault must fail the scenarios that the suite lists for it, as far as this engine supports
/// them. To be called as [`main`](crate::main) is, from a test program of its own.
#[must_use]
pub fn seeded<F: Fixture>(fixture: FromEnv<F>) -> ExitCode {
    if let Some(role) = Role::of_this_process() {
        return match fixture {
            FromEnv::Ready(fixture) => {
                // The address of the tables tells it which fault it has.
                let any = Seeded::with(&Arc::new(fixture), Seed::ALL[0]);
                role.play(FromEnv::Ready(any))
            }
            FromEnv::NotRun { engine, reason } => {
                role.play::<F>(FromEnv::NotRun { engine, reason })
            }
        };
    }
    // What a panic says is in its scenario's outcome.
    std::panic::set_hook(Box::new(|_| {}));
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(1));
    let fixture = match fixture {
        FromEnv::Ready(fixture) => Arc::new(fixture),
        FromEnv::NotRun { engine, reason } => {
            return libtest_mimic::run(&arguments, absent(&engine, &reason)).exit_code();
        }
    };
    let here: BTreeSet<_> = only_on_engines(fixture.profile().capabilities).collect();
    let here = Arc::new(here);
    let measured: Arc<Mutex<BTreeMap<String, BTreeSet<String>>>> = Arc::default();
    let trial = |&seed: &Seed| {
        let (fixture, here) = (Arc::clone(&fixture), Arc::clone(&here));
        let measured = Arc::clone(&measured);
        let is_tried = listed(seed).intersection(&here).next().is_some();
        let kind = if is_tried { "" } else { "not tried" };
        let trial = Trial::test(seed.to_string(), move || {
            if std::env::var_os(WRITE).is_none() {
                return fails_what_is_listed(&fixture, seed, &here);
            }
            let failed = failed_by(&fixture, seed, here.iter().copied())?;
            let mut measured = measured.lock().unwrap_or_else(PoisonError::into_inner);
            measured.insert(seed.to_string(), failed);
            Ok(())
        });
        trial.with_kind(kind)
    };
    let conclusion = libtest_mimic::run(&arguments, Seed::ALL.iter().map(trial).collect());
    let measured = measured.lock().unwrap_or_else(PoisonError::into_inner);
    match note(&measured) {
        Ok(()) => conclusion.exit_code(),
        Err(error) => {
            eprintln!("mutants.txt: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Seeded scenarios that an engine like this is tried on, and the model is not.
fn only_on_engines(declared: Capabilities) -> impl Iterator<Item = &'static str> {
    let scenarios = registry::<crate::ModelFixture>().into_iter();
    let is_met = |one: &Scenario<_>, by| one.needs.iter().all(|need| need.met_by(by));
    scenarios
        .filter(is_seeded)
        .filter(move |one| is_met(one, declared) && !is_met(one, Capabilities::default()))
        .map(|one| one.id)
}

/// The scenarios that the suite lists for a fault.
fn listed(seed: Seed) -> BTreeSet<&'static str> {
    let prefix = format!("{seed}: ");
    let line = LISTED.lines().find_map(|line| line.strip_prefix(&*prefix));
    let ids = line.unwrap_or_default().split(' ');
    ids.filter(|id| !id.is_empty() && !id.ends_with('?'))
        .collect()
}

fn fails_what_is_listed<F: Fixture>(
    fixture: &Arc<F>,
    seed: Seed,
    here: &BTreeSet<&'static str>,
) -> Result<(), Failed> {
    let listed = listed(seed);
    let expected: BTreeSet<_> = listed.intersection(here).copied().collect();
    let failed = failed_by(fixture, seed, expected.iter().copied())?;
    let missed: Vec<_> = expected
        .iter()
        .filter(|id| !failed.contains(**id))
        .collect();
    if missed.is_empty() {
        return Ok(());
    }
    Err(format!("{seed} no longer fails {missed:?}").into())
}

fn failed_by<F: Fixture>(
    fixture: &Arc<F>,
    seed: Seed,
    ids: impl Iterator<Item = &'static str>,
) -> Result<BTreeSet<String>, Failed> {
    let filter = ids.fold(None, |filter: Option<Filter>, id| {
        Some(filter.unwrap_or_else(Filter::all).scenario(id))
    });
    let Some(filter) = filter else {
        return Ok(BTreeSet::new());
    };
    let broken = Arc::new(Seeded::with(fixture, seed));
    // A fault that cannot be put in place would fail every scenario, and prove nothing.
    drop(broken.fresh(&Setup::default())?);
    let report = run(&broken, &filter.at_most(LIMIT))?;
    Ok(report.failed().into_iter().map(str::to_owned).collect())
}

/// Adds what was measured to the list.
fn note(measured: &BTreeMap<String, BTreeSet<String>>) -> std::io::Result<()> {
    if measured.is_empty() {
        return Ok(());
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("mutants.txt");
    let text = std::fs::read_to_string(&file)?;
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (seed, failed) in measured {
        let prefix = format!("{seed}:");
        let at = lines.iter().position(|line| line.starts_with(&prefix));
        let at = at.unwrap_or_else(|| {
            lines.push(prefix.clone());
            lines.len() - 1
        });
        let before: BTreeSet<_> = lines[at][prefix.len()..].split_whitespace().collect();
        let ids: BTreeSet<_> = before
            .into_iter()
            .map(str::to_owned)
            .chain(failed.clone())
            .collect();
        let ids: Vec<_> = ids.into_iter().collect();
        lines[at] = format!("{prefix} {}", ids.join(" "));
    }
    std::fs::write(file, lines.join("\n") + "\n")
}
