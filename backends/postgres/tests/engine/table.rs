//! The table itself: its checks by name, rows that the crate has not written, other schemas.

use diesel::prelude::*;
use diesel::result::Error as DieselError;
use queue_table_core::{
    Administration, BatchSize, ColumnType, ColumnValue, Delay, Enqueued, LostReason, MaxAttempts,
    PurgeRequest, QueueBackend, QueueBackendExt, ReapRequest, RetryPolicy,
};
use queue_table_postgres::PostgresQueue;

use crate::support::{MINUTE, Tables, job, request, table, text};

#[test]
fn malformed_rows_are_refused_by_the_constraint_that_says_why() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    tables.enqueue(1);
    let running = "state = 'running', worker_id = 'w', lease_until = clock_timestamp()";
    for (change, wanted) in [
        ("state = 'done'", "job_state"),
        ("attempts = -1", "job_attempts"),
        ("max_attempts = 0", "job_attempts"),
        ("state = 'running', worker_id = 'w'", "job_claim_shape"),
        (
            "state = 'running', lease_until = clock_timestamp()",
            "job_claim_shape",
        ),
        (
            "worker_id = 'w', lease_until = clock_timestamp()",
            "job_claim_shape",
        ),
        ("state = 'dead'", "job_finish_shape"),
        ("finished_at = clock_timestamp()", "job_finish_shape"),
        (
            &format!("{running}, finished_at = clock_timestamp()"),
            "job_finish_shape",
        ),
    ] {
        let refused =
            diesel::sql_query(format!("UPDATE job SET {change}")).execute(&mut tables.raw());
        match refused {
            Err(DieselError::DatabaseError(_, told)) => {
                assert_eq!(told.constraint_name(), Some(wanted), "{change}");
            }
            other => panic!("{change}: {other:?}"),
        }
    }
    for payload in ["", "{", "{'a':1}", "nul"] {
        let sql = format!("UPDATE job SET payload = $${payload}$$");
        assert!(
            diesel::sql_query(sql).execute(&mut tables.raw()).is_err(),
            "{payload}"
        );
    }
}

#[test]
fn a_table_set_stands_beside_another_under_reserved_words() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let named = queue_table_core::Table::named("order")
        .and_then(|own| own.in_schema(&tables.schema))
        .and_then(|own| own.with_column("select", ColumnType::Text))
        .and_then(|own| own.with_column("place", ColumnType::Integer))
        .and_then(|own| own.with_column("customer", ColumnType::Uuid))
        .unwrap();
    let queue = PostgresQueue::builder(&tables.url)
        .table(named)
        .build()
        .unwrap();
    queue.migrate().unwrap();
    tables.run("ALTER TABLE \"order\" ADD COLUMN \"select\" TEXT, ADD COLUMN place INTEGER, ADD COLUMN customer UUID");
    let customer = uuid::Uuid::from_u128(7);
    let full = job()
        .with_column("select", "it's")
        .and_then(|job| job.with_column("place", 3))
        .and_then(|job| job.with_column("customer", customer))
        .unwrap();
    let wanted = [
        ColumnValue::from("it's"),
        ColumnValue::from(3),
        ColumnValue::from(customer),
    ];
    let none = vec![ColumnValue::Null; 3];
    queue.enqueue_one(&full).unwrap();
    queue.enqueue(&[job(), full]).unwrap();
    let claimed = queue.claim(&request(10, MINUTE)).unwrap();
    let columns: Vec<_> = claimed.iter().map(|job| job.columns.clone()).collect();
    assert_eq!(columns, [wanted.to_vec(), none, wanted.to_vec()]);
    assert!(tables.claim(10, MINUTE).is_empty());
    let read = queue.get(claimed[0].job_id()).unwrap().unwrap();
    assert_eq!(read.columns, wanted);
}

#[test]
fn names_and_payloads_come_back_exactly() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let names = [
        "mail",
        "Mail",
        "mäil",
        "mail\u{200b}",
        "🍣",
        "🍺",
        "ß",
        "ss",
        "ﬁ",
        "fi",
    ];
    for name in names {
        let queue = queue_table_core::QueueName::new(name).unwrap();
        let payload = queue_table_core::Payload::from_json(format!(
            " {{\"b\":\"{name}\", \"a\":1e2,\"a\":9007199254740993}} "
        ))
        .unwrap();
        let job = queue_table_core::NewJob::new(
            &queue,
            queue_table_core::Kind::new(name).unwrap(),
            payload,
        );
        tables.queue.enqueue(&[job.clone(), job]).unwrap();
    }
    for name in names {
        let mut request = request(10, MINUTE);
        request.queue = queue_table_core::QueueName::new(name).unwrap();
        let claimed = tables.queue.claim(&request).unwrap();
        assert_eq!(claimed.len(), 2, "{name}");
        assert_eq!(claimed[0].kind.as_str(), name);
        let wanted = format!(" {{\"b\":\"{name}\", \"a\":1e2,\"a\":9007199254740993}} ");
        assert_eq!(claimed[0].payload.as_bytes(), wanted.as_bytes());
    }
}

#[test]
fn a_row_with_a_version_beyond_the_crates_spoils_no_batch() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let jobs = tables.enqueue(3);
    tables.run(&format!(
        "UPDATE job SET payload_version = 100000 WHERE job_id = {}",
        jobs[1]
    ));
    let claimed = tables.claim(3, MINUTE);
    assert_eq!(claimed.len(), 3);
    assert_eq!(claimed[1].payload_version, u16::MAX);
}

#[test]
fn an_audit_trigger_changes_no_result() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    tables.run(
        "CREATE TABLE audit (at TIMESTAMPTZ);
         CREATE FUNCTION note() RETURNS TRIGGER LANGUAGE plpgsql AS
           $$ BEGIN INSERT INTO audit SELECT now() FROM generate_series(1, 2); RETURN NULL; END $$;
         CREATE TRIGGER noted AFTER INSERT OR UPDATE OR DELETE ON job FOR EACH ROW EXECUTE FUNCTION note();
         ALTER FUNCTION note() SET search_path FROM CURRENT",
    );
    tables.enqueue(3);
    let claimed = tables.claim(3, MINUTE);
    let receipts: Vec<_> = claimed.into_iter().map(|job| job.receipt).collect();
    assert!(
        tables
            .queue
            .ack(&receipts)
            .unwrap()
            .iter()
            .all(Result::is_ok)
    );
    let purge = PurgeRequest {
        succeeded_after: Some(Delay::ZERO),
        dead_after: None,
        limit: BatchSize::new(10).unwrap(),
        cursor: None,
    };
    assert_eq!(tables.queue.purge(&purge).unwrap().deleted, 3);
    assert_eq!(tables.number("SELECT count(*) FROM audit"), 24);
}

#[test]
fn attempts_lowered_by_hand_keep_no_job_running() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let receipt = tables.claimed(MINUTE);
    let failure = queue_table_core::Failure::retry(
        receipt,
        Delay::ZERO,
        queue_table_core::ErrorText::new("no"),
    );
    tables.queue.fail_one(&failure).unwrap();
    tables.run("UPDATE job SET attempts = 0");
    let again = tables.claim(1, MINUTE).remove(0).receipt;
    let failure = queue_table_core::Failure::retry(
        again,
        Delay::ZERO,
        queue_table_core::ErrorText::new("no"),
    );
    tables.queue.fail_one(&failure).unwrap();
    tables.run("UPDATE job SET attempts = 0");
    tables.claim(1, MINUTE);
    tables.run("UPDATE job SET lease_until = clock_timestamp()");
    let reap = ReapRequest::new(BatchSize::MAX, RetryPolicy::default());
    assert_eq!(tables.queue.reap(&reap).unwrap().len(), 1);
}

#[test]
fn ids_are_given_in_the_order_of_the_batch_whatever_the_keys() {
    use queue_table_core::DedupScope::{WhileRowExists, WhileUnfinished};

    let Some(tables) = Tables::fresh() else {
        return;
    };
    let keyed = |key: &str| job().with_dedup(key, WhileUnfinished).unwrap();
    let held = tables.queue.enqueue_one(&keyed("held")).unwrap().job_id();
    let row = job().with_dedup("row", WhileRowExists).unwrap();
    let row = tables.queue.enqueue_one(&row).unwrap().job_id();
    for receipt in tables.claim(10, MINUTE).into_iter().map(|job| job.receipt) {
        if receipt.job_id() == row {
            tables.queue.ack_one(&receipt).unwrap();
        }
    }
    let batch = [
        keyed("z"),
        job(),
        keyed("held"),
        keyed("a"),
        keyed("z"),
        keyed("row"),
        job(),
    ];
    let answers = tables.queue.enqueue(&batch).unwrap();
    let new: Vec<_> = answers.iter().map(|answer| answer.is_new()).collect();
    assert_eq!(new, [true, true, false, true, false, false, true]);
    assert_eq!(answers[2], Enqueued::Existing(held));
    assert_eq!(answers[4], Enqueued::Existing(answers[0].job_id()));
    assert_eq!(answers[5], Enqueued::Existing(row));
    for (key, at) in [("z", 0), ("a", 3)] {
        let sql = format!("SELECT job_id FROM job_dedup WHERE dedup_key = '{key}'");
        assert_eq!(tables.number(&sql), answers[at].job_id().get());
    }
}

#[test]
fn a_key_that_was_taken_over_comes_back_with_a_replay_only_when_it_is_free() {
    use queue_table_core::{DedupScope::WhileUnfinished, Error, ErrorText, Rejected};

    let Some(tables) = Tables::fresh() else {
        return;
    };
    let keyed = || job().with_dedup("k", WhileUnfinished).unwrap();
    let extra = MaxAttempts::new(1).unwrap();
    let first = tables.queue.enqueue_one(&keyed()).unwrap().job_id();
    tables.queue.cancel(first, &ErrorText::new("stop")).unwrap();
    let second = tables.queue.enqueue_one(&keyed()).unwrap().job_id();
    let refused = tables.queue.replay(first, extra);
    assert!(
        matches!(refused, Err(Error::Rejected(Rejected::DedupKeyTaken { holder, .. })) if holder == second),
        "{refused:?}"
    );
    tables
        .queue
        .cancel(second, &ErrorText::new("stop"))
        .unwrap();
    tables.queue.replay(first, extra).unwrap();
    assert_eq!(
        tables.queue.enqueue_one(&keyed()).unwrap(),
        Enqueued::Existing(first)
    );
    let refused = tables.queue.replay(second, extra);
    assert!(
        matches!(refused, Err(Error::Rejected(Rejected::DedupKeyTaken { holder, .. })) if holder == first)
    );
    tables.queue.cancel(first, &ErrorText::new("stop")).unwrap();
    tables.queue.replay(second, extra).unwrap();
    assert_eq!(
        tables.queue.enqueue_one(&keyed()).unwrap(),
        Enqueued::Existing(second)
    );
}

#[test]
fn purge_keeps_what_a_trigger_refuses_to_delete_and_reports_a_trigger_that_is_broken() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let jobs = tables.enqueue(9);
    let claimed = tables.claim(9, MINUTE).into_iter();
    let receipts: Vec<_> = claimed.map(|job| job.receipt).collect();
    tables.queue.ack(&receipts).unwrap();
    tables.run(&format!(
        "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS
           $$ BEGIN RAISE EXCEPTION 'still needed'; END $$;
         CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS
           $$ BEGIN PERFORM 1 / 0; RETURN OLD; END $$;
         CREATE TRIGGER keep BEFORE DELETE ON job
           FOR EACH ROW WHEN (OLD.job_id IN ({}, {})) EXECUTE FUNCTION keep()",
        jobs[2], jobs[7]
    ));
    let purge = PurgeRequest {
        succeeded_after: Some(Delay::ZERO),
        dead_after: Some(Delay::ZERO),
        limit: BatchSize::new(20).unwrap(),
        cursor: None,
    };
    let purged = tables.queue.purge(&purge).unwrap();
    assert_eq!((purged.deleted, purged.kept), (7, vec![jobs[2], jobs[7]]));
    assert_eq!(tables.number("SELECT count(*) FROM job"), 2);

    tables.run(
        "DROP TRIGGER keep ON job;
         CREATE TRIGGER broken BEFORE DELETE ON job FOR EACH ROW EXECUTE FUNCTION broken()",
    );
    let failed = tables.queue.purge(&purge).unwrap_err();
    assert_eq!(failed.kind(), "engine");
    assert!(format!("{:?}", std::error::Error::source(&failed)).contains("division by zero"));
    assert_eq!(tables.number("SELECT count(*) FROM job"), 2);
}

#[test]
fn purge_keeps_what_a_deferred_constraint_keeps_and_deletes_the_rest() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let jobs = tables.enqueue(20);
    let receipts: Vec<_> = tables
        .claim(20, MINUTE)
        .into_iter()
        .map(|job| job.receipt)
        .collect();
    assert!(
        tables
            .queue
            .ack(&receipts)
            .unwrap()
            .iter()
            .all(Result::is_ok)
    );
    tables.run(&format!(
        "CREATE TABLE child (job_id BIGINT REFERENCES job DEFERRABLE INITIALLY DEFERRED);
         INSERT INTO child VALUES ({}), ({})",
        jobs[3], jobs[17]
    ));
    let purge = PurgeRequest {
        succeeded_after: Some(Delay::ZERO),
        dead_after: Some(Delay::ZERO),
        limit: BatchSize::new(20).unwrap(),
        cursor: None,
    };
    let purged = tables.queue.purge(&purge).unwrap();
    assert_eq!((purged.deleted, purged.kept), (18, vec![jobs[3], jobs[17]]));
    assert!(purged.cursor.is_some());
    let gone = tables
        .queue
        .ack(&receipts[..1])
        .unwrap()
        .remove(0)
        .unwrap_err();
    assert_eq!(gone.reason(), LostReason::Gone);
    assert_eq!(table(&tables.schema).name(), "job");
    assert_eq!(text(&mut tables.raw(), "SELECT count(*) FROM job"), "2");
}
