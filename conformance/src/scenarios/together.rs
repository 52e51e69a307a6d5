//! Several sessions at once.

use std::sync::Barrier;

use crate::arena::Arena;
use crate::check::{Check, Failed};
use crate::fixture::Fixture;

/// Runs `work` on so many threads, which begin at the same moment, each with its number and a
/// session of its own, and returns what each found.
pub(super) fn at_once<F: Fixture, R: Send>(
    arena: &Arena<'_, F>,
    sessions: usize,
    work: impl Fn(usize, &F::Backend) -> Check<R> + Sync,
) -> Check<Vec<R>> {
    // Opened before any thread waits at the barrier: one that cannot be opened leaves nobody
    // waiting.
    let opened = (0..sessions).map(|_| arena.session());
    let opened = opened.collect::<Check<Vec<_>>>()?;
    let (work, start) = (&work, Barrier::new(sessions));
    let start = &start;
    std::thread::scope(|scope| {
        let run = |(number, session): (usize, F::Backend)| {
            scope.spawn(move || {
                start.wait();
                work(number, &session)
            })
        };
        let threads: Vec<_> = opened.into_iter().enumerate().map(run).collect();
        let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined
            .map(|result| result.map_err(|_| Failed::new("a session panicked"))?)
            .collect()
    })
}
