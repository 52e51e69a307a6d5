//! The operations of several statements: which statements, in which order, with which answer.

use std::sync::atomic::{AtomicU32, Ordering};

use queue_table_core::{
    Administration, BatchSize, DedupScope, Delay, Disposition, Enqueued, Error, Failure, JobId,
    Kind, LeaseLength, MaxAttempts, Migrated, NewJob, Payload, PurgeRequest, QueueBackend,
    QueueName, ReapRequest, Receipt, Rejected, RetryPolicy, WorkerId,
};

use crate::fake::{Cell, Fake, Reply, Request};

fn job(key: Option<&str>) -> NewJob {
    let queue = QueueName::new("mail").unwrap();
    let payload = Payload::from_json("{}").unwrap();
    let job = NewJob::new(&queue, Kind::new("send").unwrap(), payload);
    match key {
        Some(key) => job.with_dedup(key, DedupScope::WhileUnfinished).unwrap(),
        None => job,
    }
}

fn receipt(id: i64) -> Receipt {
    Receipt::new(JobId::new(id), 2, WorkerId::new("w1").unwrap())
}

fn numbers(name: &'static str, values: &[i64]) -> Reply {
    let row = |value: &i64| vec![Cell::from(*value)];
    Reply::Rows(vec![name], values.iter().map(row).collect())
}

/// The answer to `lock` and `observe`: jobs that nobody holds, or that w1 holds.
fn seen(jobs: &[(i64, &str)]) -> Reply {
    let row = |(id, state): &(i64, &str)| {
        let worker = match *state {
            "running" => Cell::from("w1"),
            _ => Cell::NoText,
        };
        vec![(*id).into(), (*state).into(), 2.into(), worker]
    };
    Reply::Rows(
        vec!["job_id", "state", "attempts", "worker_id"],
        jobs.iter().map(row).collect(),
    )
}

/// The answer to `dedup_lock`.
fn keys(held: &[(&str, i64)]) -> Reply {
    let row = |(key, id): &(&str, i64)| {
        vec![
            "mail".into(),
            (*key).into(),
            (*id).into(),
            "unfinished".into(),
        ]
    };
    Reply::Rows(
        vec!["queue", "dedup_key", "job_id", "scope"],
        held.iter().map(row).collect(),
    )
}

fn statements(fake: &Fake) -> Vec<&'static str> {
    let asked = fake.asked();
    let names = asked.into_iter().filter_map(|request| match request {
        Request::Statement(name) => Some(name),
        _ => None,
    });
    names.collect()
}

#[test]
fn a_key_of_an_unfinished_job_stores_nothing_and_answers_that_job() {
    let fake = Fake::serve(|request| match request {
        Request::Statement("dedup_lock") => keys(&[("a", 5)]),
        Request::Statement("observe") => seen(&[(5, "running")]),
        _ => Reply::Done,
    });
    let answers = fake.queue().enqueue(&[job(Some("a")), job(Some("a"))]);
    let existing = Enqueued::Existing(JobId::new(5));
    assert_eq!(answers.unwrap(), [existing, existing]);
    assert_eq!(statements(&fake), ["dedup_take", "dedup_lock", "observe"]);
}

#[test]
fn a_key_of_a_finished_job_goes_to_the_new_one_and_is_remembered_for_the_old_one() {
    let fake = Fake::serve(|request| match request {
        Request::Statement("dedup_lock") => keys(&[("a", 5)]),
        Request::Statement("observe") => seen(&[(5, "dead")]),
        Request::Statement("enqueue") => numbers("job_id", &[8, 9]),
        _ => Reply::Done,
    });
    let given = [job(None), job(Some("a")), job(Some("a"))];
    let answers = fake.queue().enqueue(&given).unwrap();
    let expected = [
        Enqueued::Inserted(JobId::new(8)),
        Enqueued::Inserted(JobId::new(9)),
        // The same key a second time within the batch.
        Enqueued::Existing(JobId::new(9)),
    ];
    assert_eq!(answers, expected);
    let order = [
        "dedup_take",
        "dedup_lock",
        "observe",
        "enqueue",
        "past_put",
        "dedup_put",
    ];
    assert_eq!(statements(&fake), order);
}

#[test]
fn a_key_whose_jobs_row_is_gone_is_free() {
    let fake = Fake::serve(|request| match request {
        Request::Statement("dedup_lock") => keys(&[("a", 5)]),
        Request::Statement("enqueue") => numbers("job_id", &[9]),
        _ => Reply::Done,
    });
    let answers = fake.queue().enqueue(&[job(Some("a"))]).unwrap();
    assert_eq!(answers, [Enqueued::Inserted(JobId::new(9))]);
    assert!(
        !statements(&fake).contains(&"past_put"),
        "nobody will replay it"
    );
}

#[test]
fn a_key_that_a_purge_deletes_between_two_statements_is_taken_again() {
    let locks = AtomicU32::new(0);
    let fake = Fake::serve(move |request| match request {
        Request::Statement("dedup_lock") if locks.fetch_add(1, Ordering::SeqCst) == 0 => {
            Reply::Done
        }
        Request::Statement("dedup_lock") => keys(&[("a", 0)]),
        Request::Statement("enqueue") => numbers("job_id", &[9]),
        _ => Reply::Done,
    });
    fake.queue().enqueue(&[job(Some("a"))]).unwrap();
    assert_eq!(fake.count(&Request::Statement("dedup_take")), 2);
    assert_eq!(fake.count(&Request::Begin), 1, "in the same transaction");
}

#[test]
fn a_duplicate_key_that_was_ignored_is_no_error_whatever_its_severity() {
    let fake = Fake::serve(|request| match request {
        Request::Statement("dedup_take") => Reply::Warning(3604, 16),
        Request::Statement("dedup_lock") => keys(&[("a", 5)]),
        Request::Statement("observe") => seen(&[(5, "ready")]),
        _ => Reply::Done,
    });
    let answers = fake.queue().enqueue(&[job(Some("a"))]).unwrap();
    assert_eq!(answers, [Enqueued::Existing(JobId::new(5))]);
}

#[test]
fn every_key_of_a_batch_is_held_before_its_first_job_is_stored() {
    let names: Vec<_> = (0..1_001).map(|n| format!("k{n:04}")).collect();
    // The last job is in the second statement, and its key is that of the first job.
    let mut given: Vec<_> = names.iter().map(|name| job(Some(name))).collect();
    given.push(job(Some("k0000")));
    let (locks, stores) = (AtomicU32::new(0), AtomicU32::new(0));
    let fake = Fake::serve(move |request| match request {
        Request::Statement("dedup_lock") => {
            let (first, second) = names.split_at(1_000);
            let some = match locks.fetch_add(1, Ordering::SeqCst) {
                0 => first,
                _ => second,
            };
            let taken: Vec<_> = some.iter().map(|name| (name.as_str(), 0)).collect();
            keys(&taken)
        }
        Request::Statement("enqueue") => match stores.fetch_add(1, Ordering::SeqCst) {
            0 => numbers("job_id", &(1..=1_000).collect::<Vec<_>>()),
            _ => numbers("job_id", &[1_001]),
        },
        _ => Reply::Done,
    });
    let answers = fake.queue().enqueue(&given).unwrap();
    assert_eq!(answers[1_000], Enqueued::Inserted(JobId::new(1_001)));
    assert_eq!(answers[1_001], Enqueued::Existing(JobId::new(1)));
    let order = [
        "dedup_take",
        "dedup_lock",
        "dedup_take",
        "dedup_lock",
        "enqueue",
        "dedup_put",
        "enqueue",
        "dedup_put",
    ];
    assert_eq!(statements(&fake), order);
}

fn moved(jobs: &[(i64, &str)]) -> Reply {
    let row = |(id, state): &(i64, &str)| vec![(*id).into(), (*state).into(), 900.into()];
    Reply::Rows(
        vec!["job_id", "state", "run_at"],
        jobs.iter().map(row).collect(),
    )
}

#[test]
fn failed_attempts_are_recorded_and_released_ones_are_not() {
    let fake = Fake::serve(|request| match request {
        Request::Statement("lock_free") => seen(&[(6, "running"), (7, "running")]),
        Request::Statement("fail") => moved(&[(6, "ready"), (7, "dead")]),
        _ => Reply::Done,
    });
    let queue = fake.queue();
    let after = Delay::ZERO;
    let both = [
        Failure::dead(receipt(7), "broken".into_text()),
        Failure::release(receipt(6), after),
    ];
    let answers = queue.fail(&both).unwrap();
    let ready = Disposition::Ready {
        run_at: queue_table_core::Timestamp::from_micros(900),
    };
    assert_eq!(answers, [Ok(Disposition::Dead), Ok(ready)]);
    queue.fail(&[Failure::release(receipt(6), after)]).unwrap();
    assert_eq!(
        statements(&fake),
        ["lock_free", "fail", "failure", "lock_free", "fail"]
    );
}

trait IntoText {
    fn into_text(self) -> queue_table_core::ErrorText;
}

impl IntoText for &str {
    fn into_text(self) -> queue_table_core::ErrorText {
        queue_table_core::ErrorText::new(self)
    }
}

#[test]
fn a_receipt_that_stands_twice_is_acknowledged_once() {
    let acks = AtomicU32::new(0);
    let fake = Fake::serve(move |request| match request {
        Request::Statement("lock_free") => seen(&[(7, "running")]),
        Request::Statement("lock") => seen(&[(7, "succeeded")]),
        Request::Statement("ack") if acks.fetch_add(1, Ordering::SeqCst) == 0 => {
            numbers("job_id", &[7])
        }
        _ => Reply::Done,
    });
    let answers = fake.queue().ack(&[receipt(7), receipt(7)]).unwrap();
    assert_eq!(answers[0], Ok(()));
    let lost = answers[1].as_ref().unwrap_err();
    assert_eq!(lost.reason(), queue_table_core::LostReason::Finished);
}

#[test]
fn free_rows_are_acknowledged_and_committed_before_a_locked_one_is_waited_for() {
    let acks = AtomicU32::new(0);
    let fake = Fake::serve(move |request| match request {
        Request::Statement("lock_free") => seen(&[(7, "running")]),
        Request::Statement("lock") => seen(&[(6, "running")]),
        Request::Statement("ack") => match acks.fetch_add(1, Ordering::SeqCst) {
            0 => numbers("job_id", &[7]),
            _ => numbers("job_id", &[6]),
        },
        _ => Reply::Done,
    });
    let answers = fake.queue().ack(&[receipt(6), receipt(7)]).unwrap();
    assert_eq!(answers, [Ok(()), Ok(())]);
    let (ack, wait) = (
        Request::Statement("ack"),
        "SET LOCK_TIMEOUT 2000".to_owned(),
    );
    let order = [
        Request::Begin,
        Request::Statement("lock_free"),
        ack.clone(),
        Request::Commit,
        Request::Begin,
        Request::Batch(wait),
        Request::Statement("lock"),
        ack,
        Request::Commit,
    ];
    assert_eq!(fake.asked(), order);
}

#[test]
fn a_row_that_stays_locked_leaves_the_outcome_unknown_only_where_others_were_stored() {
    for (free, kind) in [(7, "outcome_unknown"), (99, "contention")] {
        let fake = Fake::serve(move |request| match request {
            Request::Statement("lock_free") => seen(&[(free, "running")]),
            Request::Statement("lock") => Reply::Error(1222, 16),
            Request::Statement("renew") => numbers("job_id", &[7]),
            _ => Reply::Done,
        });
        let lease = LeaseLength::default();
        let error = fake
            .queue()
            .renew(&[receipt(6), receipt(7)], lease)
            .unwrap_err();
        assert_eq!(error.kind(), kind);
        // A 32nd of the default lease.
        let waits = Request::Batch("SET LOCK_TIMEOUT 1875".to_owned());
        assert_eq!(fake.count(&waits), 5, "once for each try");
    }
}

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
        queue.cancel(job, &"enough".into_text()),
    ] {
        assert!(matches!(
            refused.unwrap_err(),
            Error::Rejected(Rejected::WrongState { .. })
        ));
    }
    assert_eq!(fake.count(&Request::Commit), 0);
}

/// Answers `check` with a server of this version, and the ledger.
fn server(version: &'static str, tables: Option<i64>) -> Fake {
    Fake::serve(move |request| match request {
        Request::Statement("check") => Reply::Rows(
            vec!["subject", "value"],
            vec![
                vec!["version".into(), version.into()],
                vec!["compatibility_level".into(), "150".into()],
            ],
        ),
        Request::Statement("migrate_lock") => numbers("granted", &[0]),
        Request::Statement("exists") => numbers("found", &[i64::from(tables.is_some())]),
        Request::Statement("ledger") => numbers("version", &[tables.unwrap_or(0)]),
        _ => Reply::Done,
    })
}

#[test]
fn a_migration_runs_once_under_its_lock_and_refuses_what_it_does_not_know() {
    let batches = |fake: &Fake| {
        let asked = fake.asked();
        let batch = |request: &&Request| matches!(request, Request::Batch(text) if text.contains("CREATE TABLE"));
        asked.iter().filter(batch).count()
    };
    let fresh = server("17.0.1000.7", None);
    let migrated = fresh.queue().migrate().unwrap();
    assert_eq!(migrated, Migrated { from: None, to: 1 });
    assert_eq!(batches(&fresh), 1);

    let done = server("16.0.4000.1", Some(1));
    let migrated = done.queue().migrate().unwrap();
    assert_eq!(
        migrated,
        Migrated {
            from: Some(1),
            to: 1
        }
    );
    assert_eq!(batches(&done), 0);

    let newer = server("17.0.1000.7", Some(2)).queue().migrate();
    assert!(matches!(
        newer.unwrap_err(),
        Error::Schema { found: Some(2), .. }
    ));
    let old = server("14.0.1000.1", None).queue().migrate().unwrap_err();
    assert!(old.to_string().contains("2019"), "{old}");
}
