//! Faults seeded into a whole backend, whichever it is: the suite's own tests of the tiers that a
//! model cannot be wrong in.
//!
//! [`Seeded`] wraps a fixture: its backend answers as [`Broken`] makes it, its tables are fresh
//! ones of the fixture, without an index where that is the fault. In a second process the address
//! of the tables carries the fault along.

mod broken;
mod drained;
mod probe;
mod tried;

use std::fmt;
use std::sync::Arc;

use crate::fixture::{Fixture, Fresh, PortError, Probe, Profile, Setup};
use crate::scenario::{Need, Scenario, Tier};

pub use broken::Broken;
pub use probe::SeededProbe;
pub use tried::seeded;

macro_rules! seeds {
    ($($name:ident: $sentence:literal,)*) => {
        /// One deliberate fault of a whole backend.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Seed {
            $(#[doc = $sentence] $name,)*
        }

        impl Seed {
            /// Every one.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// What the backend does wrong.
            #[must_use]
            pub const fn sentence(self) -> &'static str {
                match self {
                    $(Self::$name => $sentence,)*
                }
            }

            /// The fault of this name.
            #[must_use]
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|seed| seed.to_string() == name)
            }
        }
    };
}

seeds! {
    ReadyIndexDropped: "the index in claim order is dropped",
    LooksAtFew: "claim, reap, promote and purge look at the first 100 rows of the table and no further",
    ClaimWaits: "a claim waits for rows that another transaction has locked",
    ClaimsUpwards: "a claim hands out only ids above all that were handed out before",
    EnqueueWaits: "an enqueue waits for ready rows that another transaction has locked",
    AckWaits: "an ack waits for other running rows that another transaction has locked",
    BatchWaits: "a renewal, an ack or a failure stores nothing of its batch while one of its rows is locked",
    ReapWaits: "a reap waits for rows that another transaction has locked",
    PromoteWaits: "a promotion waits for rows that another transaction has locked",
    RenewWaits: "a renewal waits for every transaction of its own process",
    VictimIsSilent: "a deadlock's victim is told that all went well",
    PanicsCommit: "a transaction whose work panics is committed",
    ClaimsEndWithTheSession: "a session that ends gives its claims back",
    AcksAreCollected: "an ack is sent with the next one, and lost when the session ends before",
    EffectsAreForgotten: "each record of an effect is said to be the first",
    AcksAtClaim: "a job is finished when it is claimed, before its handler runs",
    LostIsFinished: "an ack of a lost claim is said to have finished the job",
    BuriedIsReplayed: "a job that the reaper buries is replayed",
    RepeatsTheClaim: "an empty claim hands out the jobs of the claim before again",
    EnqueuesApart: "enqueue in the caller's transaction uses a connection of its own",
    SwallowsErrors: "an error of the database is answered as if nothing was there",
    NeverReconnects: "a session that has lost a connection never works again",
    RepeatsTheUnknown: "an operation whose outcome is unknown is tried again without a look",
    UnknownIsUnavailable: "an unknown outcome is told as unavailable, as if nothing was changed",
    MissingIsEmpty: "missing tables are answered as empty ones",
    MigratesNewer: "tables of a newer build are taken for migrated",
    ChecksNothing: "check looks at nothing",
    AcceptsAnything: "a worker is given payload versions that it does not understand",
    ReceiptsStayAtHome: "a receipt is taken only from the session that made the claim",
    NeverDies: "a job that is dead for want of attempts is given another",
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl Seed {
    /// Whether the fault is in the backend, and not in its tables.
    #[must_use]
    pub const fn is_of_backend(self) -> bool {
        self.drops().is_none()
    }

    /// The index that this fault drops.
    const fn drops(self) -> Option<&'static str> {
        match self {
            Self::ReadyIndexDropped => Some("ready"),
            _ => None,
        }
    }
}

/// Whether a seeded fault must be there to fail the scenario: no mutant of the model does, or those
/// of its kind are not the model's.
#[must_use]
pub fn is_seeded<F: Fixture>(scenario: &Scenario<F>) -> bool {
    let tier = matches!(scenario.tier, Tier::Chaos | Tier::Upgrade | Tier::Plan);
    tier || scenario.needs.contains(&Need::RowLocks(true))
}

/// A fixture whose backends have one fault.
#[derive(Debug)]
pub struct Seeded<F> {
    fixture: Arc<F>,
    seed: Seed,
}

impl<F: Fixture> Seeded<F> {
    /// The fixture's backends with this fault.
    #[must_use]
    pub fn with(fixture: &Arc<F>, seed: Seed) -> Self {
        let fixture = Arc::clone(fixture);
        Self { fixture, seed }
    }
}

impl<F: Fixture> Fixture for Seeded<F> {
    type Backend = Broken<F::Backend>;
    type Probe = SeededProbe<F::Probe>;

    fn profile(&self) -> Profile {
        self.fixture.profile()
    }

    fn fresh(&self, setup: &Setup) -> Result<Fresh<Self>, PortError> {
        let Fresh { backend, probe } = self.fixture.fresh(setup)?;
        if let Some(index) = self.seed.drops()
            && setup.migrated
        {
            probe.drop_index(index)?;
        }
        Ok(Fresh {
            backend: Broken::with(backend, self.seed),
            probe: SeededProbe::with(probe, self.seed),
        })
    }

    fn reopen(&self, address: &str) -> Result<Self::Backend, PortError> {
        let (seed, address) = address.split_once(' ').unwrap_or_default();
        let seed = Seed::named(seed).ok_or_else(|| PortError::new("no such fault"))?;
        Ok(Broken::with(self.fixture.reopen(address)?, seed))
    }
}
