//! Several queues in one worker: whose turn it is, and how many jobs it may claim.

use crate::invalid::{Invalid, Problem};
use crate::name::QueueName;

/// The queues of a worker with their weights, and what each is owed.
#[derive(Debug, Clone, Default)]
pub(super) struct Queues {
    queues: Vec<Queue>,
    weights: f64,
}

#[derive(Debug, Clone)]
struct Queue {
    name: QueueName,
    weight: f64,
    /// Jobs it should have had by its weight, minus those it has had.
    owed: f64,
}

impl Queues {
    /// Adds a queue.
    ///
    /// # Errors
    /// [`Invalid`] when it is there already.
    pub(super) fn add(&mut self, name: QueueName, weight: u32) -> Result<(), Invalid> {
        if self.names().any(|other| *other == name) {
            let rule = "was given twice; each queue has one weight";
            return Err(Invalid::new("queue", Problem::Other(rule)));
        }
        let weight = f64::from(weight);
        self.weights += weight;
        self.queues.push(Queue {
            name,
            weight,
            owed: 0.0,
        });
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &QueueName> {
        self.queues.iter().map(|queue| &queue.name)
    }

    pub(super) fn len(&self) -> usize {
        self.queues.len()
    }

    /// Claims up to `room` jobs with `claim(queue, at most)`, which says how many it got.
    ///
    /// The queue that is owed most comes first; each may take its share of what is left, and what
    /// it leaves goes to the next. Full queues get jobs in the ratio of their weights; an empty one
    /// saves nothing up.
    ///
    /// # Errors
    /// The first of `claim`; later queues are not asked.
    pub(super) fn round<E>(
        &mut self,
        room: usize,
        mut claim: impl FnMut(&QueueName, usize) -> Result<usize, E>,
    ) -> Result<usize, E> {
        // A stable sort: the order of configuration breaks ties.
        let mut order: Vec<usize> = (0..self.queues.len()).collect();
        order.sort_by(|&a, &b| self.queues[b].owed.total_cmp(&self.queues[a].owed));
        let (mut left, mut weights, mut total) = (room, self.weights, 0);
        for index in order {
            let queue = &mut self.queues[index];
            let share = (left as f64 * queue.weight / weights).ceil() as usize;
            weights -= queue.weight;
            if share == 0 {
                continue;
            }
            let asked = share.min(left);
            let got = claim(&queue.name, asked)?;
            left = left.saturating_sub(got);
            total += got;
            queue.owed -= got as f64;
            if got < asked {
                queue.owed = queue.owed.min(0.0);
            }
        }
        self.owe(total as f64);
        Ok(total)
    }

    /// Spreads `jobs` over the queues by weight, and keeps debts within one round's reach.
    fn owe(&mut self, jobs: f64) {
        for queue in &mut self.queues {
            let bound = self.weights.max(jobs);
            queue.owed = (queue.owed + jobs * queue.weight / self.weights).clamp(-bound, bound);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::convert::Infallible;

    use super::*;

    fn queues(weights: &[(&str, u32)]) -> Queues {
        let mut queues = Queues::default();
        for (name, weight) in weights {
            queues.add(QueueName::new(name).unwrap(), *weight).unwrap();
        }
        queues
    }

    /// Jobs claimed per queue in so many rounds, when each queue has so many left.
    fn drain(
        queues: &mut Queues,
        rounds: usize,
        room: usize,
        left: &mut BTreeMap<&str, usize>,
    ) -> BTreeMap<String, usize> {
        let mut had = BTreeMap::new();
        for _ in 0..rounds {
            queues
                .round(room, |queue, asked| {
                    let left = left.get_mut(queue.as_str()).unwrap();
                    let got = asked.min(*left);
                    *left -= got;
                    *had.entry(queue.to_string()).or_default() += got;
                    Ok::<_, Infallible>(got)
                })
                .unwrap();
        }
        had
    }

    #[test]
    fn full_queues_get_jobs_in_the_ratio_of_their_weights() {
        for room in [1, 2, 3, 8, 100] {
            let mut queues = queues(&[("slow", 1), ("fast", 3)]);
            let mut left = BTreeMap::from([("slow", 100_000), ("fast", 100_000)]);
            let had = drain(&mut queues, 400, room, &mut left);
            let (slow, fast) = (had["slow"] as f64, had["fast"] as f64);
            assert_eq!((slow + fast) as usize, 400 * room, "no room is left unused");
            assert!(
                (2.9..3.1).contains(&(fast / slow)),
                "room {room}: {slow} to {fast}"
            );
        }
    }

    #[test]
    fn what_an_empty_queue_leaves_goes_to_the_others() {
        let mut queues = queues(&[("empty", 9), ("full", 1)]);
        let mut left = BTreeMap::from([("empty", 0), ("full", 1_000)]);
        assert_eq!(drain(&mut queues, 10, 7, &mut left)["full"], 70);
    }

    #[test]
    fn an_empty_queue_saves_nothing_up() {
        let mut queues = queues(&[("a", 1), ("b", 1)]);
        let mut left = BTreeMap::from([("a", 0), ("b", 10_000)]);
        drain(&mut queues, 1_000, 1, &mut left);
        left.insert("a", 10_000);
        let had = drain(&mut queues, 100, 1, &mut left);
        assert!(had["b"] >= 45, "{had:?}");
    }

    #[test]
    fn a_failed_claim_ends_the_round() {
        let mut queues = queues(&[("a", 1), ("b", 1)]);
        let mut asked = 0;
        let failed = queues.round(4, |_, _| {
            asked += 1;
            Err("down")
        });
        assert_eq!((failed, asked), (Err("down"), 1));
    }
}
