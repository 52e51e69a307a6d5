//! A worker killed at every moment of a claim's life, and at random ones: nothing is lost, and
//! nothing is repeated but what it held.

use std::collections::BTreeSet;

use super::process::{start, take_back};
use crate::child::{Child, EFFECTS, Moment, Role};
use crate::scenario::Need;
use crate::scenarios::prelude::*;

/// How often a worker is killed at a random moment.
const ROUNDS: u32 = 12;

/// Jobs added for each kill.
const JOBS: usize = 10;

pub(super) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    let all = vec![
        scenario!(
            a_worker_killed_at_any_moment_of_a_claim_loses_nothing,
            "Workers killed before, in and after each step of a claim lose no job, repeat only what they held, and leave each effect once",
            [C1, C8, C17, C18, C19],
        ),
        scenario!(
            workers_killed_again_and_again_lose_nothing,
            "A dozen workers killed at random moments lose no job, repeat only what they held, and leave each effect once",
            [C1, C8, C17, C18, C19],
        ),
    ];
    let with_processes = |scenario: Scenario<F>| scenario.needs(Need::Processes(true));
    all.into_iter().map(with_processes).collect()
}

/// What the workers of a scenario have done until they were killed.
#[derive(Debug, Default)]
struct Ledger {
    /// Job and attempt of each run.
    begun: Vec<[i64; 2]>,
    /// Claims held when a worker was killed.
    held: usize,
}

impl Ledger {
    /// Hears the child until it says the word; fails when it ends without it.
    fn hear_until(&mut self, child: &Child, word: &str) -> Check {
        loop {
            let line = child.hear_next()?;
            let (said, numbers) = expect_some(line, "a word from the child")?;
            if said == "began" {
                self.begun.push(numbers);
            }
            if said == word {
                return Ok(());
            }
        }
    }

    /// Kills the child, hears what it had said, and brings back what it held.
    fn kill<F: Fixture>(&mut self, arena: &Arena<'_, F>, mut child: Child) -> Check {
        child.kill()?;
        self.begun.extend(child.hear_all("began")?);
        self.held += take_back(arena)?.len();
        Ok(())
    }

    /// A last worker does all that is left, and stops.
    fn finish<F: Fixture>(mut self, arena: &Arena<'_, F>) -> Check {
        let mut last = start(arena, Role::Effects(None))?;
        let began = std::time::Instant::now();
        while jobs(arena)?.iter().any(|row| !row.state.is_terminal()) {
            expect_within(began, Duration::from_secs(30), "draining the queue")?;
            std::thread::sleep(Duration::from_millis(10));
        }
        last.tell_to_stop();
        self.begun.extend(last.hear_all("began")?);
        self.check(arena)
    }

    fn check<F: Fixture>(self, arena: &Arena<'_, F>) -> Check {
        let jobs = jobs(arena)?;
        for row in &jobs {
            expect_that(row.job_id, row.state, State::Succeeded)?;
        }
        let runs: BTreeSet<_> = self.begun.iter().collect();
        expect_that("runs of one attempt", runs.len(), self.begun.len())?;
        let run: BTreeSet<_> = self.begun.iter().map(|[job, _]| *job).collect();
        let ids: BTreeSet<_> = jobs.iter().map(|row| row.job_id.get()).collect();
        expect_that("jobs that were run", &run, &ids)?;
        let repeated = self.begun.len() - run.len();
        expect(
            repeated <= self.held,
            format_args!(
                "{repeated} runs were repeated, for {} claims held",
                self.held
            ),
        )?;
        let mut effects = effects(arena)?;
        effects.sort_unstable();
        let even: Vec<_> = ids.into_iter().filter(|id| id % 2 == 0).collect();
        expect_that("jobs that left an effect", effects, even)
    }
}

/// The rows of the queue that is worked on.
fn jobs<F: Fixture>(arena: &Arena<'_, F>) -> Check<Vec<crate::Row>> {
    let mut rows = arena.rows()?;
    rows.retain(|row| row.queue != EFFECTS);
    Ok(rows)
}

/// Which jobs have left an effect.
fn effects<F: Fixture>(arena: &Arena<'_, F>) -> Check<Vec<i64>> {
    let rows = arena.rows()?.into_iter();
    let effects = rows.filter(|row| row.queue == EFFECTS);
    let of = |row: crate::Row| String::from_utf8_lossy(&row.payload).trim().parse();
    effects.map(|row| of(row).map_err(Failed::new)).collect()
}

/// Stores jobs of a few milliseconds each, with a budget that no kill spends.
fn enqueue<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let job = arena.job_with("8")?.with_max_attempts(1_000)?;
    arena.backend.enqueue(&vec![job; JOBS]).map(drop)?;
    Ok(())
}

fn a_worker_killed_at_any_moment_of_a_claim_loses_nothing<F: Fixture>(
    arena: &Arena<'_, F>,
) -> Check {
    let mut ledger = Ledger::default();
    for moment in Moment::ALL {
        enqueue(arena)?;
        let mut child = start(arena, Role::Effects(Some(moment)))?;
        if moment.is_in_a_stop() {
            // Jobs wait for a handler once the first ones have been timed.
            for _ in 0..3 {
                ledger.hear_until(&child, "began")?;
            }
            child.tell_to_stop();
        }
        ledger
            .hear_until(&child, "reached")
            .map_err(|failed| Failed::new(format_args!("{}: {failed}", moment.as_str())))?;
        ledger.kill(arena, child)?;
    }
    ledger.finish(arena)
}

fn workers_killed_again_and_again_lose_nothing<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let mut ledger = Ledger::default();
    for _ in 0..ROUNDS {
        enqueue(arena)?;
        let child = start(arena, Role::Effects(None))?;
        ledger.hear_until(&child, "began")?;
        std::thread::sleep(Duration::from_micros(fastrand::u64(..40_000)));
        ledger.kill(arena, child)?;
    }
    ledger.finish(arena)
}
