//! What came of a scenario, and of a whole run.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::fixture::Profile;
use crate::scenario::{Rule, Scenario, Tier};

/// What came of one scenario on one engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "result")]
pub enum Outcome {
    /// The backend keeps it.
    Pass,
    /// It does not, or a declared deviation is no longer one.
    Fail {
        /// What was expected and what was seen.
        text: String,
    },
    /// Declared as failing, tried, and failed.
    Deviates {
        /// Why, as declared.
        reason: String,
    },
    /// For backends with another capability than this one declares.
    Unsupported {
        /// The capability.
        reason: String,
    },
    /// Not tried: this server does not honour what the scenario relies on.
    Unverified {
        /// What the fixture's probe found.
        reason: String,
    },
}

impl Outcome {
    /// The outcome's word in reports.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail { .. } => "fail",
            Self::Deviates { .. } => "deviates",
            Self::Unsupported { .. } => "unsupported",
            Self::Unverified { .. } => "unverified",
        }
    }
}

/// One scenario's outcome with all that a report says about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The scenario's id.
    pub scenario: String,
    /// Its sentence.
    pub sentence: String,
    /// Its tier.
    pub tier: Tier,
    /// The rules it proves.
    pub rules: Vec<Rule>,
    /// The engine.
    pub engine: String,
    /// The server's version.
    pub version: String,
    /// What came of it.
    pub outcome: Outcome,
}

impl Record {
    pub(crate) fn of<F: crate::Fixture>(
        scenario: &Scenario<F>,
        profile: &Profile,
        outcome: Outcome,
    ) -> Self {
        Self {
            scenario: scenario.id.to_owned(),
            sentence: scenario.sentence.to_owned(),
            tier: scenario.tier,
            rules: scenario.rules.to_vec(),
            engine: profile.engine.clone(),
            version: profile.version.clone(),
            outcome,
        }
    }
}

/// What a run says about a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Every scenario passed, or is for backends that declare another capability.
    Conformant,
    /// Some deviate as declared, or could not be verified on this server.
    Partial,
    /// Some failed.
    Nonconformant,
}

impl Verdict {
    /// The verdict of these outcomes.
    #[must_use]
    pub fn of<'a>(outcomes: impl IntoIterator<Item = &'a Outcome>) -> Self {
        let worst = outcomes.into_iter().map(|outcome| match outcome {
            Outcome::Pass | Outcome::Unsupported { .. } => Self::Conformant,
            Outcome::Deviates { .. } | Outcome::Unverified { .. } => Self::Partial,
            Outcome::Fail { .. } => Self::Nonconformant,
        });
        worst.max().unwrap_or(Self::Nonconformant)
    }

    /// The verdict's word in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Conformant => "conformant",
            Self::Partial => "partial",
            Self::Nonconformant => "nonconformant",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A whole run on one engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// What was tried.
    pub profile: Profile,
    /// One record per chosen scenario, in the registry's order.
    pub records: Vec<Record>,
}

impl Report {
    /// What the run says about the backend. A run of nothing proves nothing: nonconformant.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        Verdict::of(self.records.iter().map(|record| &record.outcome))
    }

    /// The ids of the failed scenarios.
    #[must_use]
    pub fn failed(&self) -> Vec<&str> {
        let failed = |record: &&Record| matches!(record.outcome, Outcome::Fail { .. });
        let records = self.records.iter().filter(failed);
        records.map(|record| record.scenario.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_outcome_decides_and_a_run_of_nothing_is_no_proof() {
        let reason = || "because".to_owned();
        let unsupported = Outcome::Unsupported { reason: reason() };
        let deviates = Outcome::Deviates { reason: reason() };
        let fail = Outcome::Fail { text: reason() };
        let of = |outcomes: &[Outcome]| Verdict::of(outcomes);
        assert_eq!(of(&[Outcome::Pass, unsupported]), Verdict::Conformant);
        assert_eq!(of(&[Outcome::Pass, deviates.clone()]), Verdict::Partial);
        assert_eq!(of(&[deviates, fail]), Verdict::Nonconformant);
        assert_eq!(of(&[]), Verdict::Nonconformant);
    }
}
