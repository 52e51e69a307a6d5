//! The conformance suite of `queue-table`: prove that a backend keeps every rule of the contract.
//!
//! A porter writes a [`Fixture`] for the engine and one line,
//! `queue_table_conformance::main(from_env())`, in a test program without the standard harness.
//! Every scenario of the suite then runs on fresh tables of its own. The suite never asks which
//! engine it is talking to: what an engine cannot do, its fixture declares, and what it does wrong
//! is declared too, run all the same, and must fail.
//!
//! The suite is itself tested: [`Model`], a backend in memory, keeps every rule, and each of its
//! mutants breaks one as a real queue has broken it, and is caught.

mod arena;
mod check;
mod child;
mod fixture;
mod harness;
mod history;
mod model;
mod outcome;
mod proxy;
mod record;
mod report;
mod runner;
mod scenario;
mod scenarios;
mod seeded;
mod stored;

pub use arena::Arena;
pub use check::{Check, Failed};
pub use fixture::{
    Capabilities, Change, Deviation, Fixture, Fresh, Held, PortError, Probe, Profile, Row, Server,
    Setup, Unverified, Written,
};
pub use harness::{FromEnv, main};
pub use history::histories;
pub use model::{Fault, Model, ModelFixture, ModelProbe, ModelTx};
pub use outcome::{Outcome, Record, Report, Verdict};
pub use proxy::{Cut, Proxy};
pub use record::{EngineRecord, EngineRun, REPORT_DIR, Records, report_dir};
pub use report::Matrix;
pub use runner::{Filter, run};
pub use scenario::{Need, Rule, Scenario, Tier};
pub use scenarios::registry;
pub use seeded::{Broken, Seed, Seeded, SeededProbe, is_seeded, seeded};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
