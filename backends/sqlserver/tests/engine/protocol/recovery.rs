//! Reap, purge, replay and cancel.

use std::sync::atomic::{AtomicU32, Ordering};

use queue_table_core::{
    Administration, BatchSize, Delay, Error, ErrorText, JobId, MaxAttempts, PurgeRequest,
    QueueBackend, ReapRequest, Rejected, RetryPolicy,
};

use super::{keys, moved, numbers, seen, statements};
use crate::fake::{Cell, Fake, Reply, Request};

#[test]
fn a_reap_records_what_it_moved_and_buries_what_has_no_attempt_left() {
    let fake = Fake::serve(|request| match request {
        Request::Statement("reap_select") => Reply::Rows(
            vec!["job_id", "queue", "attempts", "worker_id"],
            vec![vec![7.into(), "mail".into(), 3.into(), "w1".into()]],
        ),
        Request::Statement("reap") => moved(&[(7, "ready")]),
        Request::Statement("bury_select") => Reply::Rows(
            vec!["job_id", "queue", "attempts"],
            vec![vec![4.into(), "mail".into(), 20.into()]],
        ),
        Request::Statement("bury") => numbers("job_id", &[4]),
        _ => Reply::Done,
    });
    let request = ReapRequest::new(BatchSize::MAX, RetryPolicy::default());
    let reaped = fake.queue().reap(&request).unwrap();
    let brief: Vec<_> = reaped
        .iter()
        .map(|job| (job.job_id.get(), job.attempt, job.worker.is_some()))
        .collect();
    assert_eq!(brief, [(7, 3, true), (4, 20, false)]);
    let order = ["reap_select", "reap", "failure", "bury_select", "bury"];
    assert_eq!(statements(&fake), order);
}

#[test]
fn a_purge_halves_a_refused_batch_until_the_kept_row_stands_alone() {
    let found: Vec<_> = (1..=8)
        .map(|id| vec![Cell::from(id), (id * 10).into()])
        .collect();
    // Job 3 is referenced: of the batches that are tried, these hold it.
    let tries = AtomicU32::new(0);
    let fake = Fake::serve(move |request| match request {
        Request::Statement("purge_select") => {
            Reply::Rows(vec!["job_id", "finished_at"], found.clone())
        }
        Request::Statement("purge") => match tries.fetch_add(1, Ordering::SeqCst) {
            // 1-8, 1-4
            0 | 1 => Reply::Error(547, 16),
            // 1-2
            2 => numbers("job_id", &[1, 2]),
            // 3-4, 3
            3 | 4 => Reply::Error(547, 16),
            5 => numbers("job_id", &[4]),
            _ => numbers("job_id", &[5, 6, 7, 8]),
        },
        _ => Reply::Done,
    });
    let request = PurgeRequest {
        succeeded_after: Some(Delay::ZERO),
        dead_after: None,
        limit: BatchSize::new(8).unwrap(),
        cursor: None,
    };
    let purged = fake.queue().purge(&request).unwrap();
    assert_eq!((purged.deleted, purged.kept), (7, vec![JobId::new(3)]));
    assert_eq!(purged.cursor.unwrap().job_id, JobId::new(8));
    assert_eq!(fake.count(&Request::Commit), 3, "each its own");
}

#[test]
fn a_purge_is_the_one_that_a_deadlock_ends_and_the_next_use_is_not() {
    let fake = Fake::serve(|request| match request {
        Request::Statement("purge_select") => Reply::Rows(
            vec!["job_id", "finished_at"],
            vec![vec![1.into(), 10.into()]],
        ),
        Request::Statement("purge") => numbers("job_id", &[1]),
        _ => Reply::Done,
    });
    let request = PurgeRequest {
        succeeded_after: Some(Delay::ZERO),
        dead_after: None,
        limit: BatchSize::new(8).unwrap(),
        cursor: None,
    };
    fake.queue().purge(&request).unwrap();
    let asked = fake.asked();
    let begun = asked.iter().position(|request| *request == Request::Begin);
    let next = &asked[begun.unwrap() + 1..];
    let low = |request: &Request| matches!(request, Request::Batch(text) if text.contains("SET DEADLOCK_PRIORITY LOW"));
    assert!(low(&next[0]), "{next:?}");
    assert_eq!(next[1], Request::Statement("purge"));
    let session = queue_table_sqlserver::session_settings(std::time::Duration::from_secs(1));
    assert!(session.contains("SET DEADLOCK_PRIORITY NORMAL"));
}

/// Answers a replay of job 7, whose key names `holder` now.
fn replay(holder: i64, state: &'static str) -> Fake {
    Fake::serve(move |request| match request {
        Request::Statement("get") => Reply::Rows(vec!["queue"], vec![vec!["mail".into()]]),
        Request::Statement("dedup_of") => Reply::Rows(
            vec!["dedup_key", "scope"],
            vec![vec!["a".into(), "unfinished".into()]],
        ),
        Request::Statement("dedup_lock") => keys(&[("a", holder)]),
        Request::Statement("observe") => seen(&[(holder, state)]),
        Request::Statement("lock") => seen(&[(7, "dead")]),
        Request::Statement("replay") => numbers("max_attempts", &[5]),
        _ => Reply::Done,
    })
}

#[test]
fn a_replay_is_refused_while_its_key_names_another_unfinished_job_and_else_takes_it_back() {
    let extra = MaxAttempts::new(3).unwrap();
    let taken = replay(9, "ready").queue().replay(JobId::new(7), extra);
    let (job_id, holder) = (JobId::new(7), JobId::new(9));
    assert!(matches!(
        taken.unwrap_err(),
        Error::Rejected(Rejected::DedupKeyTaken { job_id: a, holder: b }) if (a, b) == (job_id, holder)
    ));
    let fake = replay(9, "succeeded");
    assert_eq!(fake.queue().replay(job_id, extra).unwrap(), 5);
    let order = [
        "get",
        "dedup_of",
        "dedup_take",
        "dedup_lock",
        "observe",
        "lock",
        "past_put",
        "dedup_put",
        "past_delete",
        "replay",
    ];
    assert_eq!(statements(&fake), order);
}

#[test]
fn a_job_that_is_not_dead_is_not_replayed_and_a_finished_one_not_cancelled() {
    let fake = Fake::serve(|request| match request {
        Request::Statement("get") => Reply::Rows(vec!["queue"], vec![vec!["mail".into()]]),
        Request::Statement("lock") => seen(&[(7, "succeeded")]),
        _ => Reply::Done,
    });
    let queue = fake.queue();
    let job = JobId::new(7);
    for refused in [
        queue.replay(job, MaxAttempts::default()).map(drop),
        queue.cancel(job, &ErrorText::new("enough")),
    ] {
        assert!(matches!(
            refused.unwrap_err(),
            Error::Rejected(Rejected::WrongState { .. })
        ));
    }
    assert_eq!(fake.count(&Request::Commit), 0);
}
