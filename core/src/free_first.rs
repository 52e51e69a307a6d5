//! How a backend with row locks goes through a batch of receipts: the free rows first.

use std::collections::HashSet;
use std::fmt;

use crate::error::{Error, Failed, Result};
use crate::id::JobId;
use crate::receipt::Fenced;

/// Answers a batch so that a row which somebody keeps locked holds up no other.
///
/// `free` acts, in a transaction of its own, on the items whose rows it can lock without waiting,
/// and leaves the others `None`. It is given one item of each job at most. `rest` then waits for
/// the rows of what is left, in a second transaction. Most batches need no second one.
///
/// Should the rest fail when something was stored before, the outcome is told as
/// [`Error::OutcomeUnknown`]: the other errors promise that nothing was changed.
///
/// # Errors
/// Those of `free` and `rest`.
pub fn free_first<I: Copy, T>(
    engine: &'static str,
    operation: &'static str,
    items: &[I],
    job_of: impl Fn(I) -> JobId,
    free: impl FnOnce(&[I]) -> Result<Vec<Option<Fenced<T>>>>,
    rest: impl FnOnce(&[I]) -> Result<Vec<Fenced<T>>>,
) -> Result<Vec<Fenced<T>>> {
    let mut seen = HashSet::with_capacity(items.len());
    // Of items of one job, the first is tried and the others meet what it did.
    let (firsts, repeated): (Vec<usize>, Vec<usize>) =
        (0..items.len()).partition(|place| seen.insert(job_of(items[*place])));
    let chosen =
        |places: &[usize]| -> Vec<I> { places.iter().map(|place| items[*place]).collect() };

    let mut answers: Vec<Option<Fenced<T>>> = items.iter().map(|_| None).collect();
    for (place, answer) in firsts.iter().zip(free(&chosen(&firsts))?) {
        answers[*place] = answer;
    }
    let locked = firsts.into_iter().filter(|place| answers[*place].is_none());
    let mut waiting: Vec<usize> = locked.chain(repeated).collect();
    waiting.sort_unstable();
    if !waiting.is_empty() {
        let stored = answers.iter().flatten().filter(|answer| answer.is_ok());
        let (stored, of) = (stored.count(), items.len());
        let waited = rest(&chosen(&waiting)).map_err(|error| match error {
            Error::OutcomeUnknown(_) => error,
            _ if stored == 0 => error,
            source => {
                let partly = Partly { stored, of, source };
                Error::OutcomeUnknown(Failed::new(engine, operation, partly))
            }
        })?;
        for (place, answer) in waiting.into_iter().zip(waited) {
            answers[place] = Some(answer);
        }
    }
    let missing = || Error::Engine(Failed::new(engine, operation, "a receipt has no answer"));
    answers
        .into_iter()
        .map(|answer| answer.ok_or_else(missing))
        .collect()
}

/// Why the outcome of a batch is unknown though no connection was lost.
#[derive(Debug)]
struct Partly {
    stored: usize,
    of: usize,
    source: Error,
}

impl fmt::Display for Partly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stored, of, .. } = self;
        write!(f, "{stored} of {of} are stored, and the rest failed")
    }
}

impl std::error::Error for Partly {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorText;
    use crate::{LostClaim, Receipt, WorkerId};

    /// Jobs below ten are free.
    fn answer(
        jobs: &[i64],
        rest: impl FnOnce(&[i64]) -> Result<Vec<Fenced<i64>>>,
    ) -> Result<Vec<Fenced<i64>>> {
        let free = |jobs: &[i64]| {
            Ok(jobs
                .iter()
                .map(|job| (*job < 10).then_some(Ok(*job)))
                .collect())
        };
        free_first("toy", "ack", jobs, JobId::new, free, rest)
    }

    fn busy() -> Error {
        Error::Contention(Failed::new("toy", "ack", "locked"))
    }

    #[test]
    fn a_batch_of_free_rows_waits_for_nothing() {
        let answers = answer(&[3, 1], |_| panic!("nothing is left")).unwrap();
        assert_eq!(answers, [Ok(3), Ok(1)]);
    }

    #[test]
    fn what_is_locked_or_stands_twice_comes_after_in_the_order_given() {
        let answers = answer(&[3, 20, 3, 10], |left| {
            assert_eq!(left, [20, 3, 10]);
            Ok(left.iter().map(|job| Ok(job + 100)).collect())
        });
        assert_eq!(answers.unwrap(), [Ok(3), Ok(120), Ok(103), Ok(110)]);
    }

    #[test]
    fn contention_with_nothing_stored_stays_contention() {
        assert_eq!(
            answer(&[20, 30], |_| Err(busy())).unwrap_err().kind(),
            "contention"
        );
        let receipt = Receipt::new(JobId::new(1), 1, WorkerId::new("w").unwrap());
        let lost = LostClaim::judge(&receipt, None);
        let refused = |_: &[i64]| Ok(vec![Some(Err(lost)), None]);
        let jobs = [1, 20];
        let answers = free_first("toy", "ack", &jobs, JobId::new, refused, |_| {
            Err::<Vec<Fenced<()>>, _>(busy())
        });
        assert_eq!(answers.unwrap_err().kind(), "contention");
    }

    #[test]
    fn a_rest_that_fails_after_something_was_stored_leaves_the_outcome_unknown() {
        let unknown = answer(&[1, 20, 2], |_| Err(busy())).unwrap_err();
        assert_eq!(unknown.kind(), "outcome_unknown");
        let text = ErrorText::of(&unknown);
        assert!(text.as_str().contains("2 of 3 are stored"), "{text}");
        assert!(text.as_str().ends_with("locked"), "{text}");
    }

    #[test]
    fn an_answer_that_is_missing_is_a_fault_of_the_backend() {
        let wrong = answer(&[20, 30], |_| Ok(vec![Ok(20)])).unwrap_err();
        assert_eq!(wrong.kind(), "engine");
    }
}
