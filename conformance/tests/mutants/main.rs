//! Who tests the tests: each mutant of the model fails exactly the scenarios that `mutants.txt`
//! lists for it, and each scenario with a fault to catch is failed by at least one.
//!
//! `QUEUE_TABLE_WRITE_MUTANTS=1 cargo test -p queue-table-conformance --test mutants` writes the
//! list and `MUTANTS.md` anew.

mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use queue_table_conformance::{
    Fault, Filter, Fixture, ModelFixture, Scenario, Seed, Seeded, is_seeded, registry, report_dir,
    run,
};
use serde::Serialize;

use table::{Caught, FILE, LISTED, Table, list, parse, render};

/// No scenario needs as long on the model; a mutant may make one hang.
const LIMIT: Duration = Duration::from_secs(3);

/// Mutants tried at once: scenarios that take long mostly sleep.
const MUTANTS_AT_ONCE: usize = 12;

/// Scenarios of one mutant tried at once.
const SCENARIOS_AT_ONCE: usize = 8;

/// Scenarios tried at once on the model without fault.
const NOTING_AT_ONCE: usize = 24;

/// How often a mutant is tried before its line is written.
const ROUNDS: usize = 3;

/// How often a scenario is tried again that does not do what is listed.
const AGAIN: usize = 3;

/// The faults that each scenario comes by, all by name: it cannot be failed by any other.
type Met = BTreeMap<String, BTreeSet<String>>;

fn main() -> ExitCode {
    // Mutants panic by the dozen. What a panic says is in its scenario's outcome; a backtrace each
    // costs more than the scenarios.
    std::panic::set_hook(Box::new(|_| {}));
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(MUTANTS_AT_ONCE));
    if std::env::var_os("QUEUE_TABLE_WRITE_MUTANTS").is_some() {
        return write_table(&arguments);
    }
    let text = std::fs::read_to_string(LISTED).unwrap_or_default();
    let (listed, met) = (parse(&text), Arc::new(OnceLock::new()));
    let document = std::fs::read_to_string(FILE).unwrap_or_default();
    let as_generated = text == list(&listed) && document == render(&listed);
    let missed = uncaught(&listed);
    // The last first: what a wrong clock does takes longest.
    let trials = Fault::ALL.iter().rev().map(|&fault| {
        let (name, met) = (fault.to_string(), Arc::clone(&met));
        let listed = listed.get(&name).cloned().unwrap_or_default();
        Trial::test(name, move || {
            let ids = meeting(fault, met.get_or_init(remembered).as_ref()?);
            fails_as_listed(fault, &ids, &listed)
        })
    });
    let seeds = Seed::ALL.iter().map(|&seed| {
        let listed = listed.get(&seed.to_string()).cloned().unwrap_or_default();
        Trial::test(seed.to_string(), move || {
            seed_fails_as_listed(seed, &listed)
        })
    });
    let mut trials: Vec<_> = trials.chain(seeds).collect();
    trials.push(Trial::test("the_table_is_as_it_is_generated", move || {
        check(as_generated, || stale("another mutant or sentence"))
    }));
    trials.push(Trial::test(
        "every_scenario_is_failed_by_a_fault",
        move || {
            let mut missed = missed;
            missed.sort_unstable();
            check(missed.is_empty(), || {
                format!("failed by no fault: {missed:?}")
            })
        },
    ));
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn check(holds: bool, what: impl FnOnce() -> String) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(what().into()) }
}

/// What this program has found out before: under nextest each mutant is a process of its own.
fn remembered() -> Result<Met, String> {
    let built = std::env::current_exe()
        .and_then(|program| program.metadata()?.modified())
        .map_err(|error| error.to_string())?;
    let built = format!("{built:?}");
    let file = report_dir()
        .map_err(|error| error.to_string())?
        .join("met_by_scenario.json");
    let text = std::fs::read(&file).unwrap_or_default();
    if let Ok((of, met)) = serde_json::from_slice::<(String, Met)>(&text)
        && of == built
    {
        return Ok(met);
    }
    let met = met_by_scenario()?;
    remember(&file, &(built, &met)).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(met)
}

/// Through a file of this process and a rename: others of the same run may read it now.
fn remember(file: &Path, met: &impl Serialize) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let draft = folder.join(format!(".met.{}", std::process::id()));
    std::fs::write(&draft, serde_json::to_vec(met)?)?;
    std::fs::rename(draft, file)
}

/// Runs the quick scenarios on a model without fault, each alone, and notes which faults they come
/// by.
///
/// Slow ones are left out: each has a quick twin. What threads do differs from run to run, so they
/// are run twice.
fn met_by_scenario() -> Result<Met, String> {
    let scenarios = registry::<ModelFixture>().into_iter();
    let quick: Vec<_> = scenarios
        .filter(|one| !one.slow)
        .map(|one| one.id)
        .collect();
    let met = Mutex::new(Met::new());
    let (next, rounds) = (AtomicUsize::new(0), 2 * quick.len());
    let note = || -> Result<(), String> {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= rounds {
                return Ok(());
            }
            let (id, fixture) = (quick[at % quick.len()], Arc::new(ModelFixture::noting()));
            run(&fixture, &Filter::all().scenario(id)).map_err(|error| error.to_string())?;
            let mut met = met.lock().map_err(|error| error.to_string())?;
            let names = fixture.met().into_iter().map(|fault| fault.to_string());
            met.entry(id.to_owned()).or_default().extend(names);
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..NOTING_AT_ONCE).map(|_| scope.spawn(note)).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .into_iter()
            .try_for_each(|noted| noted.map_err(|_| "panicked")?)
    })?;
    met.into_inner().map_err(|error| error.to_string())
}

fn meeting(fault: Fault, met: &Met) -> Vec<&str> {
    let name = fault.to_string();
    let meeting = met.iter().filter(|(_, faults)| faults.contains(&name));
    meeting.map(|(id, _)| id.as_str()).collect()
}

fn fails_as_listed(fault: Fault, ids: &[&str], listed: &Caught) -> Result<(), Failed> {
    check(!listed.always.is_empty(), || uncaught_mutant(fault))?;
    let failed = failed_by(fault, ids)?;
    for id in listed.always.symmetric_difference(&failed) {
        let expected = listed.always.contains(id);
        if !listed.sometimes.contains(id) && !does_again(fault, id, expected)? {
            let does = if expected {
                "no longer fails"
            } else {
                "also fails"
            };
            return Err(stale(&format!("{fault} {does} {id}")).into());
        }
    }
    Ok(())
}

/// Whether the scenario does what is listed when it is tried again.
fn does_again(fault: Fault, id: &str, fails: bool) -> Result<bool, Failed> {
    for _ in 0..AGAIN {
        let failed = failed_by(fault, &[id])?;
        if failed.contains(id) == fails {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A seeded fault on the model, on what is the model's.
fn seed_fails_as_listed(seed: Seed, listed: &Caught) -> Result<(), Failed> {
    let ever = listed.always.union(&listed.sometimes);
    check(ever.count() > 0, || {
        format!("{seed} is caught by no scenario: {}", seed.sentence())
    })?;
    let failed = failed_by_seed(seed)?;
    let on_model = of_model();
    let expected = listed
        .always
        .iter()
        .filter(|id| on_model.contains(id.as_str()));
    for id in failed.symmetric_difference(&expected.cloned().collect()) {
        if !listed.sometimes.contains(id) {
            return Err(stale(&format!("{seed} and {id}")).into());
        }
    }
    Ok(())
}

/// Seeded scenarios that the model is tried on.
fn of_model() -> BTreeSet<&'static str> {
    let declared = ModelFixture::new().profile().capabilities;
    let is_met = |one: &Scenario<_>| one.needs.iter().all(|need| need.met_by(declared));
    let scenarios = registry::<ModelFixture>().into_iter();
    let seeded = scenarios.filter(is_seeded).filter(is_met);
    seeded.map(|one| one.id).collect()
}

fn failed_by_seed(seed: Seed) -> Result<BTreeSet<String>, Failed> {
    let fixture = Arc::new(ModelFixture::new());
    if !seed.is_of_backend() {
        return Ok(BTreeSet::new());
    }
    failed_on(&Arc::new(Seeded::with(&fixture, seed)), of_model())
}

fn uncaught_mutant(fault: Fault) -> String {
    format!("{fault} is caught by no scenario: {}", fault.sentence())
}

fn stale(why: &str) -> String {
    format!("mutants.txt or MUTANTS.md is stale ({why}); see its head for how to write it anew")
}

/// Which of these scenarios the mutant fails.
fn failed_by(fault: Fault, ids: &[&str]) -> Result<BTreeSet<String>, Failed> {
    if ids.is_empty() {
        return Ok(BTreeSet::new());
    }
    failed_on(&Arc::new(ModelFixture::with(fault)), ids.iter().copied())
}

fn failed_on<F: Fixture>(
    fixture: &Arc<F>,
    ids: impl IntoIterator<Item = impl AsRef<str>>,
) -> Result<BTreeSet<String>, Failed> {
    let filter = Filter::all().at_most(LIMIT).at_once(SCENARIOS_AT_ONCE);
    let filter = ids
        .into_iter()
        .fold(filter, |filter, id| filter.scenario(id.as_ref()));
    let report = run(fixture, &filter)?;
    Ok(report.failed().into_iter().map(str::to_owned).collect())
}

/// What the mutant fails in each of several rounds, and what in some of them, or some time before.
fn measure(fault: Fault, ids: &[&str], before: &Caught) -> Result<Caught, Failed> {
    let rounds = (0..ROUNDS).map(|_| failed_by(fault, ids));
    let rounds = rounds.collect::<Result<Vec<_>, _>>()?;
    let ever: BTreeSet<_> = rounds.iter().flatten().cloned().collect();
    let is_steady = |id: &String| {
        rounds.iter().all(|failed| failed.contains(id)) && !before.sometimes.contains(id)
    };
    let (always, sometimes) = ever.into_iter().partition(is_steady);
    Ok(Caught { always, sometimes })
}

/// Scenarios with a fault to catch that are in no list. Codec is core's own, and slow scenarios
/// have a quick twin.
fn uncaught(listed: &Table) -> Vec<&'static str> {
    let caught = listed.values().flat_map(|caught| &caught.always);
    let failed: BTreeSet<_> = caught.map(String::as_str).collect();
    let scenarios = registry::<ModelFixture>().into_iter();
    scenarios
        .filter(|one| (one.tier.is_protocol() || is_seeded(one)) && !one.slow)
        .map(|one| one.id)
        .filter(|id| !failed.contains(id))
        .collect()
}

fn write_table(arguments: &Arguments) -> ExitCode {
    let before = parse(&std::fs::read_to_string(LISTED).unwrap_or_default());
    let (measured, met) = (
        Arc::new(Mutex::new(before.clone())),
        Arc::new(OnceLock::new()),
    );
    let trials = Fault::ALL.iter().map(|&fault| {
        let before = before.get(&fault.to_string()).cloned().unwrap_or_default();
        let (measured, met) = (Arc::clone(&measured), Arc::clone(&met));
        Trial::test(fault.to_string(), move || {
            let ids = meeting(fault, met.get_or_init(remembered).as_ref()?);
            let caught = measure(fault, &ids, &before)?;
            let steady = !caught.always.is_empty();
            let mut measured = measured.lock().map_err(|_| "another trial panicked")?;
            measured.insert(fault.to_string(), caught);
            check(steady, || uncaught_mutant(fault))
        })
    });
    let seeds = Seed::ALL.iter().map(|&seed| {
        let measured = Arc::clone(&measured);
        Trial::test(seed.to_string(), move || {
            let failed = failed_by_seed(seed)?;
            let mut measured = measured.lock().map_err(|_| "another trial panicked")?;
            let caught = measured.entry(seed.to_string()).or_default();
            // What engines found stays.
            let on_model = of_model();
            caught.always.retain(|id| !on_model.contains(id.as_str()));
            caught.always.extend(failed);
            Ok(())
        })
    });
    let conclusion = libtest_mimic::run(arguments, trials.chain(seeds).collect());
    let written = measured.lock().map_err(|error| error.to_string());
    let written = written.and_then(|table| {
        std::fs::write(LISTED, list(&table))
            .and_then(|()| std::fs::write(FILE, render(&table)))
            .map_err(|error| error.to_string())
    });
    match written {
        Ok(()) => conclusion.exit_code(),
        Err(error) => {
            eprintln!("{FILE}: {error}");
            ExitCode::FAILURE
        }
    }
}
