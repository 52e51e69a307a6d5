//! Dedup keys: who has one, and what of it is locked when.

use std::sync::atomic::{AtomicU32, Ordering};

use queue_table_core::{Enqueued, JobId, QueueBackend};

use super::{job, keys, numbers, seen, statements};
use crate::fake::{Fake, Reply, Request};

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
