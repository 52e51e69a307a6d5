//! Payloads of earlier versions, brought up to the one the handler reads.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeInclusive;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::invalid::{Invalid, Problem};
use crate::job::{ClaimedJob, Job};
use crate::payload::{PayloadError, StoredPayload};

type Step = dyn Fn(&StoredPayload) -> Result<StoredPayload, PayloadError> + Send + Sync;

/// The steps from older versions of a payload to `J`'s, one version at a time.
///
/// A handler with upcasters claims every version it has a way from. The stored payload stays as it
/// is.
///
/// ```
/// use queue_table_core::{Job, worker::Upcasters};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct GreetV1 { name: String }
///
/// #[derive(Serialize, Deserialize)]
/// struct Greet { first: String, last: String }
///
/// impl Job for Greet {
///     const KIND: &'static str = "greet";
///     const VERSION: u16 = 2;
/// }
///
/// let upcasters = Upcasters::<Greet>::new()
///     .step(1, |old: GreetV1| Greet { first: old.name, last: String::new() });
/// # let _ = upcasters;
/// ```
pub struct Upcasters<J> {
    steps: BTreeMap<u16, Box<Step>>,
    job: PhantomData<fn() -> J>,
}

impl<J: Job> Upcasters<J> {
    /// No step: only `J`'s own version is read.
    #[must_use]
    pub fn new() -> Self {
        Self {
            steps: BTreeMap::new(),
            job: PhantomData,
        }
    }

    /// Brings a payload of `version` to `version + 1`.
    #[must_use]
    pub fn step<Old, New>(
        mut self,
        version: u16,
        upcast: impl Fn(Old) -> New + Send + Sync + 'static,
    ) -> Self
    where
        Old: DeserializeOwned,
        New: Serialize,
    {
        let step = move |old: &StoredPayload| {
            let new = serde_json::to_vec(&upcast(old.decode()?)).map_err(PayloadError::upcast)?;
            Ok(StoredPayload::new(new))
        };
        self.steps.insert(version, Box::new(step));
        self
    }

    /// The versions that there is a way from.
    ///
    /// # Errors
    /// [`Invalid`] when a version between two others has no step, or a step leads beyond `J`'s
    /// version.
    pub(super) fn versions(&self) -> Result<RangeInclusive<u16>, Invalid> {
        let Some(&oldest) = self.steps.keys().next() else {
            return Ok(J::VERSION..=J::VERSION);
        };
        if oldest <= J::VERSION && self.steps.keys().copied().eq(oldest..J::VERSION) {
            return Ok(oldest..=J::VERSION);
        }
        let rule = "do not lead from the oldest version to the job's one by one; each version in between needs a step";
        Err(Invalid::new("upcasters", Problem::Other(rule)))
    }

    /// The job's payload as a `J`.
    pub(super) fn decode(&self, job: &ClaimedJob) -> Result<J, PayloadError> {
        let mut payload = None;
        for (_, step) in self.steps.range(job.payload_version..J::VERSION) {
            payload = Some(step(payload.as_ref().unwrap_or(&job.payload))?);
        }
        payload.as_ref().unwrap_or(&job.payload).decode()
    }
}

impl<J: Job> Default for Upcasters<J> {
    fn default() -> Self {
        Self::new()
    }
}

impl<J> fmt::Debug for Upcasters<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upcasters")
            .field("from", &self.steps.keys())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::super::held::tests::claimed;
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct V1(u32);

    #[derive(Serialize, Deserialize)]
    struct V2 {
        cents: u32,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Price {
        cents: u32,
        currency: String,
    }

    impl Job for Price {
        const KIND: &'static str = "price";
        const VERSION: u16 = 3;
    }

    fn all() -> Upcasters<Price> {
        Upcasters::new()
            .step(1, |V1(euros)| V2 { cents: euros * 100 })
            .step(2, |V2 { cents }| Price {
                cents,
                currency: "EUR".to_owned(),
            })
    }

    fn decode(version: u16, payload: &str) -> Result<Price, PayloadError> {
        let mut job = claimed(1, 1);
        job.payload_version = version;
        job.payload = StoredPayload::new(payload);
        all().decode(&job)
    }

    #[test]
    fn each_version_takes_the_steps_it_needs() {
        let price = |cents, currency: &str| Price {
            cents,
            currency: currency.to_owned(),
        };
        assert_eq!(decode(1, "4").unwrap(), price(400, "EUR"));
        assert_eq!(decode(2, r#"{"cents":5}"#).unwrap(), price(5, "EUR"));
        let own = r#"{"cents":6,"currency":"CHF"}"#;
        assert_eq!(decode(3, own).unwrap(), price(6, "CHF"));
    }

    #[test]
    fn a_payload_of_another_shape_than_its_version_cannot_be_decoded() {
        assert!(decode(1, r#"{"cents":5}"#).is_err());
        assert!(decode(3, "4").is_err());
    }

    #[test]
    fn versions_reach_from_the_oldest_step_to_the_jobs_own() {
        assert_eq!(all().versions().unwrap(), 1..=3);
        assert_eq!(Upcasters::<Price>::new().versions().unwrap(), 3..=3);
    }

    #[test]
    fn a_gap_or_a_step_beyond_the_jobs_version_is_refused() {
        let gap = Upcasters::<Price>::new().step(1, |V1(euros)| V2 { cents: euros });
        assert!(gap.versions().is_err());
        let beyond = all().step(3, |price: Price| price);
        assert!(beyond.versions().is_err());
        let short = Upcasters::<Price>::new().step(4, |price: Price| price);
        assert!(short.versions().is_err());
    }
}
