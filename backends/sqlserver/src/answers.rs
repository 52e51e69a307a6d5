//! Batches of receipts, judged receipt by receipt.

use std::collections::HashMap;

use queue_table_core::{Fenced, JobId, LostClaim, Observed, Receipt};
use serde_json::{Value, json};

/// The answers to a batch of receipts, found in rounds that hold no job twice.
///
/// So a receipt that stands twice is judged by what its first standing left.
pub(crate) struct Answers<'a, T> {
    receipts: Vec<&'a Receipt>,
    answers: Vec<Option<Fenced<T>>>,
}

impl<'a, T> Answers<'a, T> {
    pub(crate) fn to(receipts: Vec<&'a Receipt>) -> Self {
        let answers = receipts.iter().map(|_| None).collect();
        Self { receipts, answers }
    }

    /// Positions in the batch, each round in the order of the job ids: the order in which rows are
    /// locked.
    pub(crate) fn rounds(&self) -> Vec<Vec<usize>> {
        let mut rounds: Vec<Vec<usize>> = Vec::new();
        let mut times: HashMap<JobId, usize> = HashMap::new();
        for (index, receipt) in self.receipts.iter().enumerate() {
            let time = times.entry(receipt.job_id()).or_default();
            if rounds.len() == *time {
                rounds.push(Vec::new());
            }
            rounds[*time].push(index);
            *time += 1;
        }
        for round in &mut rounds {
            round.sort_by_key(|&index| self.receipts[index].job_id());
        }
        rounds
    }

    pub(crate) fn ids(&self, round: &[usize]) -> Vec<JobId> {
        let receipts = round.iter().map(|&index| self.receipts[index]);
        receipts.map(Receipt::job_id).collect()
    }

    pub(crate) fn job_id(&self, index: usize) -> JobId {
        self.receipts[index].job_id()
    }

    pub(crate) fn json(&self, round: &[usize]) -> String {
        let receipts = round.iter().map(|&index| self.receipts[index]);
        Value::from_iter(receipts.map(receipt_json)).to_string()
    }

    pub(crate) fn settle(
        &mut self,
        round: &[usize],
        mut held: HashMap<JobId, T>,
        seen: &HashMap<JobId, Observed>,
    ) {
        for &index in round {
            let receipt = self.receipts[index];
            let job_id = receipt.job_id();
            let answer = held.remove(&job_id);
            self.answers[index] =
                Some(answer.ok_or_else(|| LostClaim::judge(receipt, seen.get(&job_id))));
        }
    }

    /// The answers where every row was waited for: each receipt has one.
    pub(crate) fn finish(self) -> Vec<Fenced<T>> {
        self.answers.into_iter().flatten().collect()
    }

    /// The answers; `None` for receipts whose rows somebody else has locked.
    pub(crate) fn of_the_free(self) -> Vec<Option<Fenced<T>>> {
        self.answers
    }
}

pub(crate) fn receipt_json(receipt: &Receipt) -> Value {
    let worker = receipt.worker().as_str();
    json!([receipt.job_id().get(), receipt.attempt(), worker])
}

#[cfg(test)]
mod tests {
    use queue_table_core::WorkerId;

    use super::*;

    #[test]
    fn a_receipt_that_stands_twice_is_judged_in_two_rounds_and_rows_are_locked_by_id() {
        let worker = WorkerId::new("w").unwrap();
        let receipt = |id| Receipt::new(JobId::new(id), 1, worker.clone());
        let given = [receipt(9), receipt(2), receipt(9), receipt(5)];
        let answers = Answers::<()>::to(given.iter().collect());
        assert_eq!(answers.rounds(), [vec![1, 3, 0], vec![2]]);
        let locked = answers.ids(&[1, 3, 0]);
        assert_eq!(locked, [2, 5, 9].map(JobId::new));
    }
}
