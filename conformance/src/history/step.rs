//! The steps of a history.

use proptest::prelude::{Just, Strategy, any, prop_oneof};
use queue_table_core::DedupScope;

/// One step. Jobs and claims are named by number, counted round when there are fewer.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// Stores a job; its priority is `rank` first, then the order of enqueueing, so that no two are
    /// alike.
    Enqueue {
        queue: u8,
        rank: i8,
        due_in_minutes: u8,
        max_attempts: u8,
        dedup: Option<(u8, DedupScope)>,
    },
    /// Claims for ten minutes.
    Claim { queue: u8, worker: u8, limit: u8 },
    /// Renews for twenty minutes.
    Renew { claim: u8 },
    /// Acks a batch of two.
    Ack { claims: [u8; 2] },
    /// Fails, to be tried again.
    Retry { claim: u8, minutes: u8 },
    /// Fails for good.
    Bury { claim: u8 },
    /// Gives back.
    Release { claim: u8, minutes: u8 },
    /// Acks and records an effect in one transaction, and commits or rolls back.
    AckIn { claim: u8, commit: bool },
    /// Reaps everything.
    Reap,
    /// Replays a job.
    Replay { job: u8, extra: u8 },
    /// Cancels a job.
    Cancel { job: u8 },
    /// Deletes jobs finished at least so long ago.
    Purge { minutes: u8 },
    /// Stops a queue.
    Pause { queue: u8 },
    /// Lets it go on.
    Resume { queue: u8 },
    /// Lets time pass for one job.
    Wait { job: u8, minutes: u8 },
}

/// Any step, the usual ones more often.
pub(super) fn steps() -> impl Strategy<Value = Step> {
    let claim = || 0..12_u8;
    let job = || 0..10_u8;
    let minutes = || prop_oneof![Just(0_u8), Just(5), Just(30)];
    prop_oneof![
        6 => enqueue(),
        6 => (0..2_u8, 0..2_u8, 1..4_u8)
            .prop_map(|(queue, worker, limit)| Step::Claim { queue, worker, limit }),
        2 => claim().prop_map(|claim| Step::Renew { claim }),
        3 => [claim(), claim()].prop_map(|claims| Step::Ack { claims }),
        3 => (claim(), minutes()).prop_map(|(claim, minutes)| Step::Retry { claim, minutes }),
        1 => claim().prop_map(|claim| Step::Bury { claim }),
        2 => (claim(), minutes()).prop_map(|(claim, minutes)| Step::Release { claim, minutes }),
        2 => (claim(), any::<bool>()).prop_map(|(claim, commit)| Step::AckIn { claim, commit }),
        2 => Just(Step::Reap),
        2 => (job(), 1..3_u8).prop_map(|(job, extra)| Step::Replay { job, extra }),
        1 => job().prop_map(|job| Step::Cancel { job }),
        1 => minutes().prop_map(|minutes| Step::Purge { minutes }),
        1 => (0..2_u8).prop_map(|queue| Step::Pause { queue }),
        1 => (0..2_u8).prop_map(|queue| Step::Resume { queue }),
        4 => (job(), minutes()).prop_map(|(job, minutes)| Step::Wait { job, minutes }),
    ]
}

fn enqueue() -> impl Strategy<Value = Step> {
    let scope = prop_oneof![
        Just(DedupScope::WhileUnfinished),
        Just(DedupScope::WhileRowExists)
    ];
    let dedup = proptest::option::of((0..2_u8, scope));
    let due_in_minutes = prop_oneof![3 => Just(0_u8), 1 => Just(30)];
    (0..2_u8, -2..3_i8, due_in_minutes, 1..4_u8, dedup).prop_map(
        |(queue, rank, due_in_minutes, max_attempts, dedup)| Step::Enqueue {
            queue,
            rank,
            due_in_minutes,
            max_attempts,
            dedup,
        },
    )
}
