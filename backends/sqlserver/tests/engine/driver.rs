//! The driver's path against a scripted server: errors, lost connections, unknown outcomes. Not SQL
//! Server.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::fake::{Cell, Fake, Reply, Request};
use queue_table_core::{
    ClaimRequest, Error, JobId, Kind, LostReason, NewJob, Payload, QueueBackend, QueueName,
    Receipt, TransactionalBackend, WorkerId,
};
use queue_table_sqlserver::Connection;

fn queue() -> QueueName {
    QueueName::new("mail").unwrap()
}

fn worker() -> WorkerId {
    WorkerId::new("w1").unwrap()
}

fn job() -> NewJob {
    let payload = Payload::from_json("{}").unwrap();
    NewJob::new(&queue(), Kind::new("send").unwrap(), payload)
}

fn receipt() -> Receipt {
    Receipt::new(JobId::new(7), 2, worker())
}

fn number(name: &'static str, value: i64) -> Reply {
    Reply::Rows(vec![name], vec![vec![value.into()]])
}

/// The answer to `lock`: job 7.
fn locked(state: &str, attempts: i64, worker: Option<&str>) -> Reply {
    let worker = worker.map_or(Cell::NoText, Cell::from);
    let row = vec![7.into(), state.into(), attempts.into(), worker];
    Reply::Rows(vec!["job_id", "state", "attempts", "worker_id"], vec![row])
}

const CLAIMED: [&str; 14] = [
    "job_id",
    "queue",
    "kind",
    "payload",
    "payload_version",
    "priority",
    "run_at",
    "attempts",
    "max_attempts",
    "worker_id",
    "lease_until",
    "enqueued_at",
    "claimed_at",
    "last_error",
];

fn claimed(id: i64, run_at: i64) -> Vec<Cell> {
    vec![
        id.into(),
        "mail".into(),
        "send".into(),
        r#"{"to":"🍣"}"#.into(),
        1.into(),
        3.into(),
        run_at.into(),
        1.into(),
        20.into(),
        "w1".into(),
        60_000_000.into(),
        1.into(),
        2.into(),
        Cell::NoText,
    ]
}

/// Answers a claim: one priority, and two jobs out of order.
fn claim(request: &Request) -> Reply {
    match request {
        Request::Statement("claim_probe") => number("priority", 3),
        Request::Statement("claim") => {
            Reply::Rows(CLAIMED.to_vec(), vec![claimed(9, 500), claimed(8, 400)])
        }
        _ => Reply::Done,
    }
}

fn ask() -> ClaimRequest {
    ClaimRequest::new(queue(), worker()).with_limit(queue_table_core::BatchSize::MAX)
}

fn times(counter: &AtomicU32) -> u32 {
    counter.fetch_add(1, Ordering::SeqCst)
}

#[test]
fn a_claim_is_sorted_and_decoded_without_any_row_count() {
    let fake = Fake::serve(claim);
    let jobs = fake.queue().claim(&ask()).unwrap();
    let ids: Vec<_> = jobs.iter().map(|job| job.job_id().get()).collect();
    assert_eq!(ids, [8, 9]);
    assert_eq!(jobs[0].payload.as_str().unwrap(), r#"{"to":"🍣"}"#);
    assert_eq!(jobs[0].receipt, Receipt::new(JobId::new(8), 1, worker()));
    assert_eq!(jobs[0].lease_until.as_micros(), 60_000_000);
    let expected = [
        Request::Statement("claim_probe"),
        Request::Begin,
        Request::Statement("claim"),
        Request::Commit,
    ];
    assert_eq!(fake.asked(), expected);
}

#[test]
fn an_empty_poll_opens_no_transaction() {
    let fake = Fake::serve(|_| Reply::Done);
    assert!(fake.queue().claim(&ask()).unwrap().is_empty());
    assert_eq!(fake.asked(), [Request::Statement("claim_probe")]);
}

#[test]
fn a_wrong_password_is_no_reason_to_try_again_and_stays_out_of_the_message() {
    let fake = Fake::serve(|_| Reply::Error(18456, 14));
    let refused = fake.queue().claim(&ask()).unwrap_err();
    assert_eq!(refused.kind(), "engine");
    let told = queue_table_core::ErrorText::of(&refused);
    assert!(told.as_str().contains("18456"), "{told}");
    assert!(!format!("{told} {refused:?}").contains("secret"));
}

#[test]
fn a_database_that_cannot_be_opened_at_login_is_unavailable() {
    for number in [4060, 40613, 18401] {
        let fake = Fake::serve(move |_| Reply::Error(number, 14));
        let refused = Connection::open(&fake.options()).unwrap_err();
        assert_eq!(refused.kind(), "unavailable", "{number}");
    }
}

#[test]
fn a_deadlock_in_a_claim_is_run_again_as_a_whole() {
    let tries = AtomicU32::new(0);
    let fake = Fake::serve(move |request| match request {
        Request::Statement("claim") if times(&tries) == 0 => Reply::Error(1205, 13),
        _ => claim(request),
    });
    assert_eq!(fake.queue().claim(&ask()).unwrap().len(), 2);
    assert_eq!(fake.count(&Request::Begin), 2);
    assert_eq!(fake.count(&Request::Commit), 1);
    assert_eq!(fake.count(&Request::Login), 1, "the connection is good");
}

#[test]
fn a_lock_timeout_that_does_not_end_is_contention_after_a_bounded_number_of_tries() {
    let fake = Fake::serve(|request| match request {
        Request::Statement("claim") => Reply::Error(1222, 16),
        _ => claim(request),
    });
    let refused = fake.queue().claim(&ask()).unwrap_err();
    assert_eq!(refused.kind(), "contention");
    assert_eq!(fake.count(&Request::Begin), 5);
    assert_eq!(fake.count(&Request::Commit), 0);
}

#[test]
fn a_lost_answer_to_the_commit_of_an_enqueue_is_an_unknown_outcome_and_not_repeated() {
    let fake = Fake::serve(|request| match request {
        Request::Statement("enqueue") => number("job_id", 7),
        Request::Commit => Reply::Cut,
        _ => Reply::Done,
    });
    let queue = fake.queue();
    let unknown = queue.enqueue(&[job()]).unwrap_err();
    assert_eq!(unknown.kind(), "outcome_unknown");
    assert_eq!(fake.count(&Request::Statement("enqueue")), 1);
    assert_eq!(queue.open_connections(), 0, "a lost connection is not kept");
}

/// Serves an ack whose first COMMIT is not answered; `stored` tells whether it went through.
fn ack_with_a_lost_answer(stored: bool) -> Fake {
    let commits = AtomicU32::new(0);
    Fake::serve(move |request| match request {
        Request::Statement("lock") if stored => locked("succeeded", 2, None),
        Request::Statement("lock" | "lock_free") => locked("running", 2, Some("w1")),
        Request::Statement("ack") => number("job_id", 7),
        Request::Commit if times(&commits) == 0 => Reply::Cut,
        _ => Reply::Done,
    })
}

#[test]
fn an_ack_whose_lost_commit_went_through_is_found_out_by_its_row() {
    let fake = ack_with_a_lost_answer(true);
    assert_eq!(fake.queue().ack(&[receipt()]).unwrap(), [Ok(())]);
    assert_eq!(fake.count(&Request::Statement("ack")), 1, "not sent again");
    assert_eq!(fake.count(&Request::Login), 2);
}

#[test]
fn an_ack_whose_lost_commit_did_not_go_through_is_sent_again() {
    let fake = ack_with_a_lost_answer(false);
    assert_eq!(fake.queue().ack(&[receipt()]).unwrap(), [Ok(())]);
    assert_eq!(fake.count(&Request::Statement("ack")), 2);
}

#[test]
fn an_ack_that_cannot_be_decided_after_a_lost_commit_stays_unknown() {
    // A lock timeout is contention, a lost connection unavailable: alone, both change nothing.
    for timeout in [true, false] {
        let fake = Fake::serve(move |request| match request {
            Request::Statement("lock") => match timeout {
                true => Reply::Error(1222, 16),
                false => Reply::Cut,
            },
            Request::Statement("lock_free") => locked("running", 2, Some("w1")),
            Request::Statement("ack") => number("job_id", 7),
            Request::Commit => Reply::Cut,
            _ => Reply::Done,
        });
        let unknown = fake.queue().ack(&[receipt()]).unwrap_err();
        assert_eq!(unknown.kind(), "outcome_unknown", "{timeout}");
        assert_eq!(fake.count(&Request::Statement("ack")), 1);
    }
}

#[test]
fn an_ack_is_stored_only_when_each_of_its_attempts_has_succeeded() {
    let commits = AtomicU32::new(0);
    let rows = |first: &'static str| {
        let row = |id: i64, state: &'static str| {
            let worker = match state {
                "running" => "w1".into(),
                _ => Cell::NoText,
            };
            vec![id.into(), state.into(), 2.into(), worker]
        };
        let names = vec!["job_id", "state", "attempts", "worker_id"];
        Reply::Rows(names, vec![row(7, first), row(8, "running")])
    };
    let acks = AtomicU32::new(0);
    let fake = Fake::serve(move |request| match request {
        Request::Statement("lock") => rows("succeeded"),
        Request::Statement("lock_free") => rows("running"),
        Request::Statement("ack") => {
            let held: &[i64] = if times(&acks) == 0 { &[7, 8] } else { &[8] };
            let held = held.iter().map(|&id| vec![id.into()]).collect();
            Reply::Rows(vec!["job_id"], held)
        }
        Request::Commit if times(&commits) == 0 => Reply::Cut,
        _ => Reply::Done,
    });
    let receipts = [7, 8].map(|id| Receipt::new(JobId::new(id), 2, worker()));
    let answers = fake.queue().ack(&receipts).unwrap();
    assert_eq!(fake.count(&Request::Statement("ack")), 2, "sent again");
    assert!(answers[0].is_err(), "another ack had it: {answers:?}");
    assert_eq!(answers[1], Ok(()));
}

#[test]
fn a_claim_that_no_longer_holds_is_lost_with_its_reason() {
    for (state, attempts, worker, reason) in [
        ("running", 3, Some("w1"), LostReason::Superseded),
        ("running", 2, Some("w1"), LostReason::Expired),
        ("dead", 2, None, LostReason::Finished),
    ] {
        let fake = Fake::serve(move |request| match request {
            Request::Statement("lock_free") => locked(state, attempts, worker),
            _ => Reply::Done,
        });
        let answers = fake.queue().ack(&[receipt()]).unwrap();
        assert_eq!(answers[0].as_ref().unwrap_err().reason(), reason);
    }
    let fake = Fake::serve(|_| Reply::Done);
    let answers = fake.queue().ack(&[receipt()]).unwrap();
    assert_eq!(answers[0].as_ref().unwrap_err().reason(), LostReason::Gone);
}

#[test]
fn a_connection_cut_in_the_middle_of_rows_gives_no_job_and_is_not_kept() {
    let fake = Fake::serve(|request| match request {
        Request::Statement("claim") => Reply::CutAfter(CLAIMED.to_vec(), vec![claimed(8, 400)]),
        _ => claim(request),
    });
    let queue = fake.queue();
    let cut = queue.claim(&ask()).unwrap_err();
    assert_eq!(cut.kind(), "unavailable");
    assert_eq!(fake.count(&Request::Commit), 0);
    assert_eq!(queue.open_connections(), 0);
}

#[test]
fn a_command_timeout_is_unavailable_and_leaves_no_connection_in_the_pool() {
    let fake = Fake::serve(|request| match request {
        Request::Statement("claim") => Reply::Late(Duration::from_secs(20)),
        _ => claim(request),
    });
    let options = fake
        .options()
        .with_command_timeout(Duration::from_millis(300));
    let queue = fake.queue_with(options);
    let began = Instant::now();
    let late = queue.claim(&ask()).unwrap_err();
    assert_eq!(late.kind(), "unavailable");
    assert!(began.elapsed() < Duration::from_secs(10), "the drop waited");
    assert_eq!(queue.open_connections(), 0);
}

#[test]
fn a_server_that_accepts_and_says_nothing_is_unavailable_within_the_connect_timeout() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let url = format!("sqlserver://a:b@127.0.0.1:{port}/db?encrypt=danger_plaintext");
    let options = queue_table_sqlserver::ConnectOptions::parse(&url)
        .unwrap()
        .with_connect_timeout(Duration::from_millis(300));
    let began = Instant::now();
    assert_eq!(
        Connection::open(&options).unwrap_err().kind(),
        "unavailable"
    );
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn every_check_out_sets_the_session_again() {
    let fake = Fake::serve(|_| Reply::Done);
    let queue = fake.queue();
    for _ in 0..3 {
        queue.claim(&ask()).unwrap();
    }
    // Once when it was opened, and once for each time that it was taken from the pool.
    assert_eq!(fake.count(&Request::Session), 4);
    assert_eq!(fake.count(&Request::Login), 1);
}

#[test]
fn a_pooled_connection_that_died_is_replaced_before_it_is_used() {
    let sessions = AtomicU32::new(0);
    let fake = Fake::serve(move |request| match request {
        Request::Session if times(&sessions) == 2 => Reply::Cut,
        _ => claim(request),
    });
    let queue = fake.queue();
    for _ in 0..3 {
        assert_eq!(queue.claim(&ask()).unwrap().len(), 2);
    }
    assert!(fake.count(&Request::Login) >= 2);
}

#[test]
fn a_transaction_that_is_dropped_rolls_back() {
    let fake = Fake::serve(|_| Reply::Done);
    let mut connection = Connection::open(&fake.options()).unwrap();
    drop(connection.transaction().unwrap());
    assert_eq!(fake.asked(), [Request::Begin, Request::Rollback]);
    assert!(!connection.is_broken());
}

#[test]
fn after_an_error_a_transaction_takes_no_more_and_does_not_commit() {
    let fake = Fake::serve(|request| match request {
        Request::Statement("other") => Reply::Error(1205, 13),
        _ => Reply::Done,
    });
    let queue = fake.queue();
    let mut connection = Connection::open(&fake.options()).unwrap();
    let mut tx = connection.transaction().unwrap();
    let victim = tx.execute("UPDATE account SET paid = 1", &[]).unwrap_err();
    assert_eq!(victim.kind(), "contention");
    // Whoever ignores the error must not have these run on their own.
    assert_eq!(
        queue.enqueue_in(&mut tx, &[job()]).unwrap_err().kind(),
        "rejected"
    );
    assert_eq!(tx.commit().unwrap_err().kind(), "rejected");
    assert_eq!(fake.count(&Request::Statement("enqueue")), 0);
    assert_eq!(fake.count(&Request::Commit), 0);
    assert!(!connection.is_broken());
}

#[test]
fn a_lost_claim_leaves_the_callers_transaction_usable_and_uncommitted() {
    let fake = Fake::serve(|_| Reply::Done);
    let queue = fake.queue();
    let result: Result<(), Error> = queue.transaction(|tx| {
        tx.execute("INSERT INTO effect VALUES (1)", &[])?;
        queue.ack_in(tx, &receipt())
    });
    assert_eq!(result.unwrap_err().kind(), "lost_claim");
    assert_eq!(fake.count(&Request::Rollback), 1);
    assert_eq!(fake.count(&Request::Commit), 0);
}

#[test]
fn an_enqueue_in_a_callers_transaction_is_one_statement_and_rings_after_the_commit() {
    let fake = Fake::serve(|request| match request {
        Request::Statement("enqueue") => number("job_id", 7),
        _ => Reply::Done,
    });
    let backend = fake.queue();
    let mut waiter = queue_table_core::Waiter::new([queue()]);
    backend
        .transaction(|tx| {
            backend.enqueue_in(tx, &[job()])?;
            let woken = backend.wait(&mut waiter, Duration::ZERO)?;
            assert_eq!(woken, queue_table_core::Woken::TimedOut);
            Ok::<_, Error>(())
        })
        .unwrap();
    let woken = backend.wait(&mut waiter, Duration::ZERO).unwrap();
    assert_eq!(woken, queue_table_core::Woken::Rung);
    let expected = [
        Request::Begin,
        Request::Statement("enqueue"),
        Request::Commit,
    ];
    assert_eq!(fake.asked(), expected);
}

#[test]
fn missing_tables_are_a_matter_of_migrating() {
    let fake = Fake::serve(|request| match request {
        Request::Statement(_) => Reply::Error(208, 16),
        _ => Reply::Done,
    });
    let missing = fake.queue().enqueue(&[job()]).unwrap_err();
    assert!(matches!(missing, Error::Schema { found: None, .. }));
}

#[test]
fn a_claim_at_another_isolation_level_says_so() {
    let fake = Fake::serve(|request| match request {
        Request::Statement("claim_probe") => Reply::Error(650, 16),
        _ => Reply::Done,
    });
    let refused = fake.queue().claim(&ask()).unwrap_err();
    assert!(refused.to_string().contains("READ COMMITTED"), "{refused}");
    assert_eq!(refused.kind(), "unsupported");
}
