//! The scenarios, one module per tier.
//!
//! # How to write one
//!
//! A scenario is one plain function, at most 40 lines, named by what it proves, and one line in its
//! module's table. The compiler refuses a scenario that is in no table (`dead_code` is denied
//! here), so that none can be missed.
//!
//! ```text
//! pub(crate) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
//!     vec![scenario!(
//!         ack_by_another_worker_is_refused,
//!         "A receipt with another worker's name acks nothing",
//!         [C13, C15],
//!     )]
//! }
//!
//! fn ack_by_another_worker_is_refused<F: Fixture>(arena: &Arena<'_, F>) -> Check {
//!     let held = arena.enqueue_and_claim("worker-a")?;
//!     let forged = Receipt::new(held.job_id(), held.attempt(), WorkerId::new("worker-b")?);
//!     let before = arena.snapshot()?;
//!
//!     expect_lost(arena.backend.ack_one(&forged), LostReason::Superseded)?;
//!
//!     arena.expect_unchanged(&before)?;
//!     Ok(arena.backend.ack_one(&held.receipt)?)
//! }
//! ```
//!
//! Rules
//! - Arrange, one act, then checks on the answer *and* on the stored row, through `arena.probe`.
//! - `?` on a step that must succeed is a check; its line is in the failure. No panic, no `unwrap`,
//!   no early `Ok`.
//! - Never ask which engine it is. What not every engine can do is `.needs(Need::RowLocks(true))`
//!   in the table, with a twin for the other answer where there is one. Other tables: `.on(Setup {
//!   .. })`. Minutes: `.slow()`.
//! - Time passes by `arena.let_lease_expire`, `let_come_due` and `probe.rewind`. Sleep only where
//!   waiting for a lock is the point, and then for tenths of a second. Never test how fast
//!   something is, only that it does not wait.
//! - Threads: `std::thread::scope`, sessions of their own (`arena.session()`), and every thread's
//!   result is looked at.
//! - Inside `backend.transaction` use only `_in` calls and `probe.effect_in`, or reads: where there
//!   is one writer, a second write waits for the first.
//! - Say in the test what must *not* have changed: `snapshot` before, `expect_unchanged` after.
//! - A scenario must be failed by a mutant or a seeded fault (`MUTANTS.md`); add the fault to the
//!   model, or to `seeded`, if none does.

#![deny(dead_code)]

mod ageing;
mod chaos;
mod codec;
mod concurrency;
mod fence;
mod order;
mod plan;
mod schema;
mod steps;
mod storage;
mod time;
mod together;
mod transaction;
mod tx;
mod upgrade;
mod worker;

use crate::fixture::Fixture;
use crate::scenario::{Scenario, Tier};

/// Every scenario of the suite, in the order of reports.
#[must_use]
pub fn registry<F: Fixture>() -> Vec<Scenario<F>> {
    let of = |tier: Tier, scenarios: Vec<Scenario<F>>| {
        let with_tier = move |scenario| Scenario { tier, ..scenario };
        scenarios.into_iter().map(with_tier)
    };
    of(Tier::Codec, codec::scenarios())
        .chain(of(Tier::Schema, schema::scenarios()))
        .chain(of(Tier::Storage, storage::scenarios()))
        .chain(of(Tier::Transaction, transaction::scenarios()))
        .chain(of(Tier::Fence, fence::scenarios()))
        .chain(of(Tier::Order, order::scenarios()))
        .chain(of(Tier::Order, ageing::scenarios()))
        .chain(of(Tier::Concurrency, concurrency::scenarios()))
        .chain(of(Tier::Time, time::scenarios()))
        .chain(of(Tier::Worker, worker::scenarios()))
        .chain(of(Tier::Chaos, chaos::scenarios()))
        .chain(of(Tier::Upgrade, upgrade::scenarios()))
        .chain(of(Tier::Plan, plan::scenarios()))
        .collect()
}

/// What scenarios use; `use super::prelude::*`.
mod prelude {
    pub(super) use std::sync::Arc;
    pub(super) use std::time::Duration;

    pub(super) use queue_table_core::{
        Administration, LostReason, QueueBackend, QueueBackendExt, Receipt, Rejected, State,
        TransactionalBackend, WorkerId,
    };

    pub(super) use super::steps::{Span, ids, job_for, retry};
    pub(super) use crate::arena::{Arena, delay};
    pub(super) use crate::check::{
        Check, Failed, expect, expect_eq, expect_kind, expect_lost, expect_one, expect_rejected,
        expect_some, expect_that, expect_within,
    };
    pub(super) use crate::fixture::{Change, Fixture, Probe, Setup, Written};
    pub(super) use crate::scenario::{Scenario, scenario};
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::registry;
    use crate::model::ModelFixture;
    use crate::scenario::{Rule, Tier};

    #[test]
    fn scenario_ids_are_unique() {
        let mut seen = BTreeSet::new();
        for scenario in registry::<ModelFixture>() {
            assert!(seen.insert(scenario.id), "{} stands twice", scenario.id);
        }
    }

    #[test]
    fn every_rule_is_proved_by_a_scenario() {
        let proved = registry::<ModelFixture>()
            .into_iter()
            .flat_map(|scenario| scenario.rules)
            .copied()
            .collect::<BTreeSet<_>>();
        assert_eq!(proved, BTreeSet::from(Rule::ALL));
    }

    /// Failures of other queues that no engine is safe from, by their numbers in our list of
    /// reports.
    const UNIVERSAL: [u32; 36] = [
        5, 14, 15, 16, 17, 20, 21, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 35, 39, 42, 45, 46,
        47, 48, 50, 51, 52, 53, 55, 58, 63, 65, 66, 67, 68,
    ];

    /// The numbers after each `Report` or `Reports` in the sources of a folder.
    fn named_in(folder: &Path, named: &mut BTreeSet<u32>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                named_in(&path, named);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let text = text.replace("\n/// ", " ").replace("\n// ", " ");
            for after in text.split("eport").skip(1) {
                let words = after.split([' ', ',', '.', ':', ')', '\n']);
                let words = words.skip(1).filter(|word| !word.is_empty());
                let numbers = words.take_while(|word| {
                    *word == "and" || *word == "to" || word.parse::<u32>().is_ok()
                });
                named.extend(numbers.filter_map(|word| word.parse::<u32>().ok()));
            }
        }
    }

    #[test]
    fn every_universal_report_is_named_by_a_scenario() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/scenarios");
        let mut named = BTreeSet::new();
        named_in(&folder, &mut named);
        let missed: Vec<_> = UNIVERSAL
            .iter()
            .filter(|one| !named.contains(one))
            .collect();
        assert!(missed.is_empty(), "named by no scenario: {missed:?}");
    }

    #[test]
    fn every_tier_has_a_scenario() {
        let tiers = registry::<ModelFixture>()
            .into_iter()
            .map(|scenario| scenario.tier)
            .collect::<BTreeSet<_>>();
        assert_eq!(tiers, BTreeSet::from(Tier::ALL));
    }

    #[test]
    fn sentences_have_no_full_stop_and_begin_upper_case() {
        for scenario in registry::<ModelFixture>() {
            let sentence = scenario.sentence;
            assert!(!sentence.ends_with('.'), "{}: {sentence}", scenario.id);
            assert!(
                sentence.starts_with(char::is_uppercase),
                "{}: {sentence}",
                scenario.id
            );
        }
    }
}
