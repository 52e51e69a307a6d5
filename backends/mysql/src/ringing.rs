//! Which queues a running `transaction` has enqueued to, so that their bell is rung after its
//! commit.
//!
//! The driver's transaction type has no room for it, and `work` runs on one thread; so it is kept
//! by thread.

use std::cell::RefCell;
use std::collections::BTreeSet;

use queue_table_core::QueueName;

thread_local! {
    static RUNNING: RefCell<Vec<Noted>> = const { RefCell::new(Vec::new()) };
}

struct Noted {
    backend: u64,
    queues: BTreeSet<QueueName>,
}

/// One running transaction of one backend; its end is when this is dropped, also by a panic.
pub(crate) struct Ringing {
    backend: u64,
}

impl Ringing {
    pub(crate) fn begin(backend: u64) -> Self {
        RUNNING.with_borrow_mut(|running| {
            running.push(Noted {
                backend,
                queues: BTreeSet::new(),
            });
        });
        Self { backend }
    }

    /// The queues noted since.
    pub(crate) fn queues(&self) -> BTreeSet<QueueName> {
        RUNNING.with_borrow_mut(|running| {
            let own = running
                .iter_mut()
                .rev()
                .find(|noted| noted.backend == self.backend);
            own.map(|noted| std::mem::take(&mut noted.queues))
                .unwrap_or_default()
        })
    }
}

impl Drop for Ringing {
    fn drop(&mut self) {
        RUNNING.with_borrow_mut(|running| {
            if let Some(at) = running
                .iter()
                .rposition(|noted| noted.backend == self.backend)
            {
                running.remove(at);
            }
        });
    }
}

/// Notes queues for the innermost running transaction of this backend, if there is one.
pub(crate) fn note<'q>(backend: u64, queues: impl Iterator<Item = &'q QueueName>) {
    RUNNING.with_borrow_mut(|running| {
        if let Some(noted) = running
            .iter_mut()
            .rev()
            .find(|noted| noted.backend == backend)
        {
            noted.queues.extend(queues.cloned());
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_noted_for_the_own_backend_and_while_it_runs() {
        let mail = QueueName::new("mail").unwrap();
        note(1, [&mail].into_iter());
        let outer = Ringing::begin(1);
        {
            let other = Ringing::begin(2);
            note(1, [&mail].into_iter());
            assert!(other.queues().is_empty());
        }
        assert_eq!(outer.queues().into_iter().collect::<Vec<_>>(), [mail]);
        drop(outer);
        assert!(Ringing::begin(1).queues().is_empty());
    }
}
