//! Random histories: the same operations on the model and on the backend under test, with the same
//! answers and the same rows after each step.

mod side;
mod step;

use proptest::collection::vec;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use crate::check::{Check, Failed, expect_that};
use crate::fixture::{Fixture, Setup};
use crate::model::ModelFixture;

use side::Side;
use step::{Step, steps};

/// How many histories to try, instead of 16.
const CASES: &str = "QUEUE_TABLE_HISTORY_CASES";

/// Which histories to try: 16 hexadecimal digits, as a failure prints them.
const SEED: &str = "QUEUE_TABLE_HISTORY_SEED";

const CASES_DEFAULT: u32 = 16;

/// Longest history: enough for a job's whole life among others, short enough to read when it fails.
const STEPS_MAX: usize = 40;

/// Runs random histories on the model and on fresh tables of the fixture, and compares answers and
/// rows.
///
/// A failure is shrunk to a short history and tells how to repeat it.
///
/// # Errors
/// [`Failed`] with the shortest history found, the first difference, and the seed.
pub fn histories<F: Fixture>(fixture: &F) -> Check {
    try_random(fixture, cases()?, seed()?)
}

fn try_random<F: Fixture>(fixture: &F, cases: u32, seed: u64) -> Check {
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 400,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &spread(seed));
    let mut runner = TestRunner::new_with_rng(config, rng);
    let tried = runner.run(&vec(steps(), 1..=STEPS_MAX), |history| {
        one(fixture, &history).map_err(|failed| TestCaseError::fail(failed.text().to_owned()))
    });
    match tried {
        Ok(()) => Ok(()),
        Err(TestError::Abort(reason)) => Err(Failed::new(reason)),
        Err(TestError::Fail(reason, history)) => Err(Failed::new(format_args!(
            "{reason}\nhistory: {history:#?}\nto repeat: {SEED}={seed:016x}"
        ))),
    }
}

/// Runs one history on both sides.
fn one<F: Fixture>(fixture: &F, history: &[Step]) -> Check {
    let model = ModelFixture::new().fresh(&Setup::default())?;
    let tried = fixture.fresh(&Setup::default())?;
    let mut expected = Side::of(&model.backend, &model.probe);
    let mut actual = Side::of(&tried.backend, &tried.probe);
    for (at, step) in history.iter().enumerate() {
        let what = |what: &str| format!("{what} after step {} ({step:?})", at + 1);
        let (told, answer) = (expected.take(step)?, actual.take(step)?);
        expect_that(what("answer"), answer, told)?;
        let (wanted, rows) = (expected.rows()?, actual.rows()?);
        for (row, wanted) in rows.iter().zip(&wanted) {
            expect_that(what("row"), row, wanted)?;
        }
        expect_that(what("tables"), actual.tables()?, expected.tables()?)?;
    }
    Ok(())
}

/// How many histories are tried.
pub(crate) fn cases() -> Check<u32> {
    let Ok(text) = std::env::var(CASES) else {
        return Ok(CASES_DEFAULT);
    };
    text.parse()
        .map_err(|_| Failed::new(format_args!("{CASES} is no number: `{text}`")))
}

fn seed() -> Check<u64> {
    let Ok(text) = std::env::var(SEED) else {
        return Ok(fastrand::u64(..));
    };
    u64::from_str_radix(&text, 16)
        .map_err(|_| Failed::new(format_args!("{SEED} is no hexadecimal number: `{text}`")))
}

/// The seed as the 32 bytes that the generator wants.
fn spread(seed: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Fault;

    #[test]
    fn the_model_answers_as_itself() {
        try_random(&ModelFixture::new(), 50, 1).unwrap();
    }

    #[test]
    fn a_mutants_history_is_shrunk_and_says_how_to_repeat_it() {
        let failed = try_random(&ModelFixture::with(Fault::ReleaseCountsDown), 100, 2).unwrap_err();
        let text = failed.text();
        assert!(
            text.contains("to repeat: QUEUE_TABLE_HISTORY_SEED="),
            "{text}"
        );
        assert!(text.matches("Enqueue").count() <= 2, "{text}");
    }
}
