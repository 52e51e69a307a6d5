//! Text: compared exactly, stored whole, whatever the session and the database are set to.

use mysql::TxOpts;
use mysql::prelude::Queryable;
use queue_table_core::{
    Administration, Delay, ErrorText, Failure, Kind, NewJob, PAYLOAD_BYTES_MAX, PAYLOAD_DEPTH_MAX,
    Payload, QueueBackend, QueueBackendExt, QueueName, TransactionalBackend,
};
use queue_table_mysql::MysqlQueue;

use crate::support::{Server, job_with, on_each, request};

const NAMES: [&str; 12] = [
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
    "é",
    "e\u{301}",
];

#[test]
fn names_that_a_lax_collation_takes_for_equal_are_different_queues() {
    on_each(|server| {
        let tables = server.tables();
        claims_only_its_own(&tables.queue());
    });
}

/// The database's default is the servers' old one: latin1, blind to case and accents.
#[test]
fn a_database_with_another_character_set_makes_no_difference() {
    on_each(|server| {
        let name = format!("queue_latin_{}", std::process::id());
        let mut session = server.session();
        session
            .query_drop(format!(
                "CREATE DATABASE {name} CHARACTER SET latin1 COLLATE latin1_swedish_ci"
            ))
            .unwrap();
        let opts = server.opts().db_name(Some(name.clone()));
        let queue = MysqlQueue::builder_with(opts).build().unwrap();
        queue.migrate().unwrap();
        claims_only_its_own(&queue);
        let payloads = ["\"🍺 é\"", "{\"k\\u00e9y\": \"\\ud83c\\udf7a\\n\\\"\"}"];
        let jobs: Vec<_> = payloads.iter().map(|text| job_with(text)).collect();
        for (enqueued, payload) in queue.enqueue(&jobs).unwrap().iter().zip(payloads) {
            let row = queue.get(enqueued.job_id()).unwrap().unwrap();
            assert_eq!(row.payload.as_str().unwrap(), payload);
        }
        session.query_drop(format!("DROP DATABASE {name}")).unwrap();
    });
}

fn claims_only_its_own(queue: &MysqlQueue) {
    let jobs: Vec<_> = NAMES
        .iter()
        .map(|name| {
            let payload = Payload::of(name).unwrap();
            let job = NewJob::new(
                &QueueName::new(name).unwrap(),
                Kind::new(name).unwrap(),
                payload,
            );
            job.with_dedup("key", queue_table_core::DedupScope::WhileUnfinished)
                .unwrap()
        })
        .collect();
    assert!(
        queue
            .enqueue(&jobs)
            .unwrap()
            .iter()
            .all(|enqueued| enqueued.is_new())
    );
    for name in NAMES {
        let mut request = request(100);
        request.queue = QueueName::new(name).unwrap();
        // A kind that only a lax comparison would take.
        let versions = 0..=u16::MAX;
        for other in NAMES.iter().filter(|other| **other != name) {
            let accepts = [(Kind::new(other).unwrap(), versions.clone())].into();
            assert!(
                queue
                    .claim(&request.clone().accepting(accepts))
                    .unwrap()
                    .is_empty()
            );
        }
        let accepts = [(Kind::new(name).unwrap(), versions)].into();
        let claims = queue.claim(&request.accepting(accepts)).unwrap();
        assert_eq!(claims.len(), 1, "{name}");
        assert_eq!(claims[0].payload.decode::<String>().unwrap(), name);
        assert_eq!(claims[0].kind.as_str(), name);
    }
}

fn sizes_come_back_whole(server: &Server, batch: bool) {
    let tables = server.tables();
    let queue = tables.queue();
    let mut session = server.session();
    session.query_drop("SET SESSION sql_mode = ''").unwrap();
    let sizes = [65_534, 65_535, 65_536, 70_000, PAYLOAD_BYTES_MAX];
    // Quotes, because they are twice as long in the JSON that a batch travels as.
    let texts = sizes.map(|size| format!("[{}1]", "\"\",".repeat((size - 3) / 3)));
    let jobs: Vec<_> = texts.iter().map(|text| job_with(text)).collect();
    let mut tx = session.start_transaction(TxOpts::default()).unwrap();
    let mut ids = Vec::new();
    if batch {
        ids.extend(queue.enqueue_in(&mut tx, &jobs).unwrap());
    } else {
        for job in &jobs {
            ids.extend(
                queue
                    .enqueue_in(&mut tx, std::slice::from_ref(job))
                    .unwrap(),
            );
        }
    }
    tx.commit().unwrap();
    for (enqueued, text) in ids.iter().zip(&texts) {
        let row = queue.get(enqueued.job_id()).unwrap().unwrap();
        assert!(
            row.payload.as_bytes() == text.as_bytes(),
            "{} bytes",
            text.len()
        );
    }
    assert_eq!(queue.claim(&request(100)).unwrap().len(), texts.len());
}

#[test]
fn payloads_are_not_cut_by_a_session_that_is_not_strict() {
    on_each(|server| {
        sizes_come_back_whole(server, false);
        sizes_come_back_whole(server, true);
    });
}

#[test]
fn names_of_the_longest_kind_fit_every_column_of_a_session_that_is_not_strict() {
    on_each(|server| {
        let tables = server.tables();
        let queue = tables.queue();
        let long = "🍣".repeat(32);
        let name = QueueName::new(&long).unwrap();
        let job = NewJob::new(
            &name,
            Kind::new(&long).unwrap(),
            Payload::from_json("1").unwrap(),
        )
        .with_dedup(
            &"🍣".repeat(64),
            queue_table_core::DedupScope::WhileRowExists,
        )
        .unwrap();
        let mut session = server.session();
        session.query_drop("SET SESSION sql_mode = ''").unwrap();
        let mut tx = session.start_transaction(TxOpts::default()).unwrap();
        let id = queue
            .enqueue_in(&mut tx, &[job.clone(), job.clone()])
            .unwrap()[0]
            .job_id();
        let mut request = request(1);
        request.queue = name;
        request.worker = queue_table_core::WorkerId::new("w".repeat(128)).unwrap();
        let claim = queue.claim_in(&mut tx, &request).unwrap().pop().unwrap();
        let error = ErrorText::new("🍺".repeat(2_000));
        let failure = Failure::retry(claim.receipt, Delay::ZERO, error.clone());
        queue.fail_in(&mut tx, &failure).unwrap();
        tx.commit().unwrap();
        let row = queue.get(id).unwrap().unwrap();
        assert_eq!(
            (row.queue.as_str(), row.kind.as_str()),
            (long.as_str(), long.as_str())
        );
        assert_eq!(row.last_error.as_deref(), Some(error.as_str()));
        assert_eq!(
            queue.failures(id).unwrap()[0].worker.as_str(),
            "w".repeat(128)
        );
        assert!(!queue.enqueue_one(&job).unwrap().is_new());
    });
}

#[test]
fn errors_with_every_kind_of_text_are_stored() {
    on_each(|server| {
        let tables = server.tables();
        let queue = tables.queue();
        for text in [
            "a\0b",
            "🍺",
            &"x".repeat(3_000_000),
            &"🍺".repeat(750_000),
            "'; DROP TABLE job; --",
            "\\",
        ] {
            queue.enqueue_one(&job_with("1")).unwrap();
            let claim = queue.claim(&request(1)).unwrap().pop().unwrap();
            let error = ErrorText::new(text);
            let failure = Failure::retry(
                claim.receipt.clone(),
                Delay::new(std::time::Duration::from_secs(99)).unwrap(),
                error.clone(),
            );
            queue.fail_one(&failure).unwrap();
            let row = queue.get(claim.job_id()).unwrap().unwrap();
            assert_eq!(row.last_error.as_deref(), Some(error.as_str()));
        }
    });
}

/// MariaDB's JSON_VALID ends at 31 levels, MySQL's at 100: core's limit fits both.
#[test]
fn the_deepest_payload_that_core_takes_is_stored() {
    on_each(|server| {
        let tables = server.tables();
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let inner = if open == "[" { "" } else { "1" };
            let text = format!(
                "{}{inner}{}",
                open.repeat(PAYLOAD_DEPTH_MAX),
                close.repeat(PAYLOAD_DEPTH_MAX)
            );
            let job = job_with(&text);
            let enqueued = tables.queue().enqueue(&[job.clone(), job]).unwrap();
            let row = tables.queue().get(enqueued[1].job_id()).unwrap().unwrap();
            assert_eq!(row.payload.as_str().unwrap(), text);
        }
    });
}
