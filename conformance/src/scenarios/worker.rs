//! Core's worker on this backend.

use queue_table_core::{Waiter, Woken};

use super::prelude::*;

pub(crate) fn scenarios<F: Fixture>() -> Vec<Scenario<F>> {
    vec![scenario!(
        a_waiting_worker_is_woken_by_an_enqueue,
        "An enqueue wakes a worker of the same backend that waits for its queue",
        [C11],
    )]
}

fn a_waiting_worker_is_woken_by_an_enqueue<F: Fixture>(arena: &Arena<'_, F>) -> Check {
    let mut waiter = Waiter::new([arena.queue.clone()]);
    expect_eq(arena.claim("worker-a", 1)?, [])?;

    let woken = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| arena.backend.wait(&mut waiter, Duration::from_secs(30)));
        arena.enqueue_one()?;
        waiting
            .join()
            .map_err(|_| Failed::new("the waiter panicked"))
    })?;

    expect_eq(woken?, Woken::Rung)?;
    arena.claim_one("worker-a").map(|_| ())
}
