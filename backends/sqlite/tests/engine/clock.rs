//! Instants: one integer type, SQLite's own clock, nothing early.

use std::time::{Duration, Instant};

use queue_table_conformance::Probe;
use queue_table_core::{
    Administration, BatchSize, Delay, Disposition, ErrorText, FailAction, Failure, PurgeRequest,
    QueueBackend, QueueBackendExt, ReapRequest, RetryPolicy, Timestamp,
};

use crate::{claim_one, enqueue, fresh, job, lease, raw, request};

const INSTANTS: [(&str, &str); 8] = [
    ("job", "run_at"),
    ("job", "lease_until"),
    ("job", "enqueued_at"),
    ("job", "claimed_at"),
    ("job", "finished_at"),
    ("job_failure", "at"),
    ("job_queue", "paused_at"),
    ("job_schema", "applied_at"),
];

fn failure(queue: &impl QueueBackend, claimed: queue_table_core::ClaimedJob, action: FailAction) {
    let error = Some(ErrorText::new("no"));
    let failure = Failure {
        receipt: claimed.receipt,
        action,
        error,
    };
    queue.fail_one(&failure).unwrap();
}

#[test]
fn every_instant_is_stored_as_an_integer_by_every_operation() {
    let (queue, probe) = fresh();
    let jobs = enqueue(&queue, 7);
    let after = Delay::new(Duration::from_secs(3_600)).unwrap();
    queue.ack_one(&claim_one(&queue, "w").receipt).unwrap();
    failure(&queue, claim_one(&queue, "w"), FailAction::Retry { after });
    failure(&queue, claim_one(&queue, "w"), FailAction::Dead);
    failure(
        &queue,
        claim_one(&queue, "w"),
        FailAction::Release { after },
    );
    let reaped = claim_one(&queue, "w");
    probe
        .rewind(reaped.job_id(), Duration::from_secs(3_600))
        .unwrap();
    let policy = RetryPolicy::default();
    queue
        .reap(&ReapRequest::new(BatchSize::MAX, policy))
        .unwrap();
    queue.cancel(jobs[5], &ErrorText::new("stop")).unwrap();
    queue.replay(jobs[5], Default::default()).unwrap();
    let held = claim_one(&queue, "w");
    queue
        .renew_one(&held.receipt, lease(Duration::from_secs(5)))
        .unwrap();
    queue
        .pause(&queue_table_core::QueueName::new("sms").unwrap())
        .unwrap();

    let raw = raw(&probe);
    for (table, column) in INSTANTS {
        let sql = format!(
            "SELECT GROUP_CONCAT(DISTINCT typeof({column})) FROM {table} WHERE {column} IS NOT NULL"
        );
        let types: Option<String> = raw.query_row(&sql, [], |row| row.get(0)).unwrap();
        assert_eq!(types.as_deref(), Some("integer"), "{table}.{column}");
    }
}

#[test]
fn an_instant_as_text_or_as_a_fraction_is_refused_by_the_table() {
    let (queue, probe) = fresh();
    enqueue(&queue, 1);
    for value in ["'2026-12-01 12:00:00'", "'2026-12-01T12:00:00Z'", "0.5"] {
        for column in ["run_at", "enqueued_at", "claimed_at"] {
            let sql = format!("UPDATE job SET {column} = {value}");
            let refused = raw(&probe).execute(&sql, []).unwrap_err();
            assert!(
                refused.to_string().contains("cannot store"),
                "{sql}: {refused}"
            );
        }
    }
}

#[test]
fn a_lease_holds_to_its_end_and_is_reaped_after_it() {
    let (queue, probe) = fresh();
    enqueue(&queue, 1);
    let request = request("w", 1).with_lease(lease(Duration::from_secs(2)));
    let claimed = queue.claim(&request).unwrap().remove(0);
    let reap = ReapRequest::new(BatchSize::MAX, RetryPolicy::default());

    probe
        .rewind(claimed.job_id(), Duration::from_secs(1))
        .unwrap();
    assert_eq!(queue.reap(&reap).unwrap(), []);
    queue
        .renew_one(&claimed.receipt, lease(Duration::from_secs(2)))
        .unwrap();

    probe
        .rewind(claimed.job_id(), Duration::from_secs(2))
        .unwrap();
    let now = probe.now().unwrap();
    let reaped = queue.reap(&reap).unwrap();
    assert_eq!(reaped.len(), 1);
    assert!(matches!(reaped[0].disposition, Disposition::Ready { run_at } if run_at > now));
}

#[test]
fn retention_keeps_what_finished_ten_seconds_ago() {
    let (queue, probe) = fresh();
    let jobs = enqueue(&queue, 2);
    for job in &jobs {
        queue.ack_one(&claim_one(&queue, "w").receipt).unwrap();
        probe.rewind(*job, Duration::from_secs(10)).unwrap();
    }
    probe.rewind(jobs[1], Duration::from_secs(300)).unwrap();
    let window = Delay::new(Duration::from_secs(300)).unwrap();
    let request = PurgeRequest {
        succeeded_after: Some(window),
        dead_after: None,
        limit: BatchSize::MAX,
        cursor: None,
    };
    assert_eq!(queue.purge(&request).unwrap().deleted, 1);
    assert_eq!(probe.ids().unwrap(), [jobs[0]]);
}

#[test]
fn a_delayed_job_is_never_claimed_before_its_time_by_the_databases_clock() {
    let (queue, probe) = fresh();
    for micros in [1, 999, 1_000, 1_001, 15_500, 30_000] {
        let delayed = job().with_delay(Duration::from_micros(micros)).unwrap();
        let job_id = queue.enqueue_one(&delayed).unwrap().job_id();
        let run_at = probe.row(job_id).unwrap().unwrap().run_at;
        let patience = Instant::now() + Duration::from_secs(10);
        let claimed = loop {
            if let Some(claimed) = queue.claim(&request("w", 1)).unwrap().pop() {
                break claimed;
            }
            assert!(Instant::now() < patience, "never claimable");
        };
        assert!(
            claimed.claimed_at >= run_at,
            "{micros} us: {} < {run_at}",
            claimed.claimed_at
        );
        assert!(claimed.run_at.since(claimed.enqueued_at) == Duration::from_micros(micros));
    }
}

#[test]
fn a_job_without_delay_is_claimable_at_once_on_another_connection() {
    let (queue, probe) = fresh();
    let other = probe.session().unwrap();
    for _ in 0..300 {
        let job = enqueue(&queue, 1)[0];
        assert_eq!(claim_one(&other, "w").job_id(), job);
    }
}

#[test]
fn the_clock_never_loses_a_millisecond_to_floating_point() {
    let (_, probe) = fresh();
    let raw = raw(&probe);
    let now = include_str!("../../sql/now.sql");
    for millis in (1_796_126_400_000_i64..).step_by(77_777).take(1_000) {
        let at = format!(
            "'{}.{:03}', 'unixepoch', 'subsec'",
            millis / 1_000,
            millis % 1_000
        );
        let sql = now.replace("'subsec'", &at);
        let micros: i64 = raw.query_row(&sql, [], |row| row.get(0)).unwrap();
        assert_eq!(
            Timestamp::from_micros(micros),
            Timestamp::from_micros(millis * 1_000),
            "{sql}"
        );
    }
}

#[test]
fn the_clock_is_the_hosts() {
    let (_, probe) = fresh();
    let unix = || {
        std::time::SystemTime::UNIX_EPOCH
            .elapsed()
            .unwrap()
            .as_micros() as i64
    };
    let before = unix();
    let now = probe.now().unwrap().as_micros();
    assert!(now >= before - 1_000 && now <= unix(), "{before} {now}");
}
