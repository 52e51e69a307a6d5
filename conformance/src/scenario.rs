//! A scenario is data and one plain function.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::arena::Arena;
use crate::check::Check;
use crate::fixture::{Capabilities, Fixture, Setup};

/// One rule of the contract, `C1` to `C28`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "CONTRACT.md of queue-table-core has the text of each")]
#[rustfmt::skip]
pub enum Rule {
    C1, C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12, C13, C14,
    C15, C16, C17, C18, C19, C20, C21, C22, C23, C24, C25, C26, C27, C28,
}

impl Rule {
    /// Every rule.
    #[rustfmt::skip]
    pub const ALL: [Self; 28] = [
        Self::C1, Self::C2, Self::C3, Self::C4, Self::C5, Self::C6, Self::C7, Self::C8, Self::C9,
        Self::C10, Self::C11, Self::C12, Self::C13, Self::C14, Self::C15, Self::C16, Self::C17, Self::C18,
        Self::C19, Self::C20, Self::C21, Self::C22, Self::C23, Self::C24, Self::C25, Self::C26, Self::C27,
        Self::C28,
    ];
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What a scenario is about. The protocol tiers go from schema to worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// Values go in and come out unchanged.
    Codec,
    /// The tables: migration, checks, names.
    Schema,
    /// Each operation stores what the contract's table says.
    Storage,
    /// Operations inside the caller's transaction.
    Transaction,
    /// A receipt whose claim no longer holds changes nothing.
    Fence,
    /// What is claimed, and in which order.
    Order,
    /// Several sessions at once.
    Concurrency,
    /// Clocks and deadlines.
    Time,
    /// Core's worker on this backend.
    Worker,
    /// Crashed holders, killed processes, cut connections.
    Chaos,
    /// Several versions of tables and payloads.
    Upgrade,
    /// Cost that must not grow.
    Plan,
}

impl Tier {
    /// Every tier, in the order of reports.
    pub const ALL: [Self; 12] = [
        Self::Codec,
        Self::Schema,
        Self::Storage,
        Self::Transaction,
        Self::Fence,
        Self::Order,
        Self::Concurrency,
        Self::Time,
        Self::Worker,
        Self::Chaos,
        Self::Upgrade,
        Self::Plan,
    ];

    /// The tier's word in names and reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Codec => "codec",
            Self::Schema => "schema",
            Self::Storage => "storage",
            Self::Transaction => "transaction",
            Self::Fence => "fence",
            Self::Order => "order",
            Self::Concurrency => "concurrency",
            Self::Time => "time",
            Self::Worker => "worker",
            Self::Chaos => "chaos",
            Self::Upgrade => "upgrade",
            Self::Plan => "plan",
        }
    }

    /// Whether each of its scenarios must be failed by at least one mutant of the model.
    #[must_use]
    pub const fn is_protocol(self) -> bool {
        !matches!(self, Self::Codec | Self::Chaos | Self::Upgrade | Self::Plan)
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A declared capability, and the value of it that a scenario is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// [`Capabilities::row_locks`] is so.
    RowLocks(bool),
    /// [`Capabilities::processes`] is so.
    Processes(bool),
    /// [`Capabilities::network`] is so.
    Network(bool),
    /// [`Capabilities::counters`] is so.
    Counters(bool),
}

impl Need {
    /// Whether a backend that declares this is one the scenario is for.
    #[must_use]
    pub const fn met_by(self, declared: Capabilities) -> bool {
        match self {
            Self::RowLocks(value) => declared.row_locks == value,
            Self::Processes(value) => declared.processes == value,
            Self::Network(value) => declared.network == value,
            Self::Counters(value) => declared.counters == value,
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RowLocks(value) => write!(f, "row_locks = {value}"),
            Self::Processes(value) => write!(f, "processes = {value}"),
            Self::Network(value) => write!(f, "network = {value}"),
            Self::Counters(value) => write!(f, "counters = {value}"),
        }
    }
}

/// One thing that a backend must keep, and the function that tries it.
pub struct Scenario<F: Fixture> {
    /// The function's name: unique in the suite, and the scenario's name in every report.
    pub id: &'static str,
    /// The same as a sentence.
    pub sentence: &'static str,
    /// The rules it proves.
    pub rules: &'static [Rule],
    /// What it is about.
    pub tier: Tier,
    /// Which backends it is for; all when empty.
    pub needs: Vec<Need>,
    /// Whether it may take minutes.
    pub slow: bool,
    /// The tables it wants.
    pub setup: Setup,
    /// Tries it on fresh tables.
    pub run: fn(&Arena<'_, F>) -> Check,
}

impl<F: Fixture> Scenario<F> {
    /// A scenario for every backend, on migrated tables. `scenario!` is the comfortable way.
    #[must_use]
    pub fn new(
        id: &'static str,
        sentence: &'static str,
        rules: &'static [Rule],
        run: fn(&Arena<'_, F>) -> Check,
    ) -> Self {
        Self {
            id,
            sentence,
            rules,
            tier: Tier::Codec,
            needs: Vec::new(),
            slow: false,
            setup: Setup::default(),
            run,
        }
    }

    /// The same scenario only for backends that declare this.
    #[must_use]
    pub fn needs(mut self, need: Need) -> Self {
        self.needs.push(need);
        self
    }

    /// The same scenario with minutes instead of one minute to run.
    #[must_use]
    pub fn slow(self) -> Self {
        Self { slow: true, ..self }
    }

    /// The same scenario on tables made so.
    #[must_use]
    pub fn on(self, setup: Setup) -> Self {
        Self { setup, ..self }
    }

    /// Tier and id: the name for test runners and filters.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}::{}", self.tier, self.id)
    }
}

impl<F: Fixture> fmt::Debug for Scenario<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scenario")
            .field("id", &self.id)
            .field("tier", &self.tier)
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}

/// One line of a tier's table: the function, its sentence, and the rules it proves.
macro_rules! scenario {
    ($run:ident, $sentence:literal, [$($rule:ident),+ $(,)?] $(,)?) => {
        $crate::scenario::Scenario::new(
            stringify!($run),
            $sentence,
            &[$($crate::scenario::Rule::$rule),+],
            $run,
        )
    };
}

pub(crate) use scenario;
