//! Behind PgBouncer, which swaps sessions between transactions. Runs where the program is installed
//! (Debian: `pgbouncer`); where the engine is required, so is the program.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use diesel::pg::PgConnection;
use diesel::prelude::*;
use queue_table_core::{
    Administration, BatchSize, DedupScope, Delay, ErrorText, Failure, LeaseLength, MaxAttempts,
    PurgeRequest, QueueBackend, QueueBackendExt, ReapRequest, RetryPolicy, TransactionalBackend,
};
use queue_table_postgres::PostgresQueue;

use crate::support::{
    MINUTE, Tables, expect_no_advisory_lock, is_required, job, mail, request, table, text,
};

/// A PgBouncer before the server, in a folder of its own. Killed when dropped.
struct Pooler {
    child: Child,
    folder: PathBuf,
    url: String,
}

impl Drop for Pooler {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}

fn program() -> Option<&'static Path> {
    let places = [
        "/usr/sbin/pgbouncer",
        "/usr/bin/pgbouncer",
        "/usr/local/bin/pgbouncer",
    ];
    let found = places
        .into_iter()
        .map(Path::new)
        .find(|place| place.exists());
    if found.is_none() {
        assert!(
            !is_required(),
            "postgres is in QUEUE_TABLE_REQUIRE, but the program pgbouncer is not installed"
        );
        println!("pooler: not run: the program pgbouncer is not installed");
    }
    found
}

impl Pooler {
    fn before(url: &str) -> Option<Self> {
        let program = program()?;
        let (_, rest) = url.split_once("://").unwrap();
        let (user, place) = rest.rsplit_once('@').unwrap();
        let (name, password) = user.split_once(':').unwrap();
        let (place, database) = place.split_once('/').unwrap();
        let (host, port) = place.split_once(':').unwrap_or((place, "5432"));
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let own = free.local_addr().unwrap().port();
        drop(free);
        let folder = std::env::temp_dir().join(format!("pooler-{own}"));
        std::fs::create_dir(&folder).unwrap();
        let config = folder.join("pgbouncer.ini");
        let settings = format!(
            "[databases]\n{database} = host={host} port={port} dbname={database} user={name} password={password}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {own}\nunix_socket_dir =\nauth_type = any\n\
             pool_mode = transaction\ndefault_pool_size = 3\nserver_round_robin = 1\n"
        );
        std::fs::write(&config, settings).unwrap();
        let child = Command::new(program)
            // It refuses to run as root.
            .args(["-q", "-u", "nobody"])
            .arg(&config)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let url = format!("postgres://{name}:{password}@127.0.0.1:{own}/{database}");
        let pooler = Self { child, folder, url };
        let until = Instant::now() + Duration::from_secs(10);
        while PgConnection::establish(&pooler.url).is_err() {
            assert!(Instant::now() < until, "the pooler does not start");
            thread::sleep(Duration::from_millis(50));
        }
        Some(pooler)
    }
}

/// Every operation, several times, so that each statement meets sessions that have not seen it
/// before.
fn use_all(queue: &PostgresQueue) {
    let lease = LeaseLength::new(MINUTE).unwrap();
    for round in 0..10 {
        let keyed = job()
            .with_dedup(&round.to_string(), DedupScope::WhileUnfinished)
            .unwrap();
        queue.enqueue(&[job(), job(), keyed.clone()]).unwrap();
        queue
            .transaction(|tx| queue.enqueue_in(tx, &[job(), keyed]))
            .unwrap();
        let claimed = queue.claim(&request(4, MINUTE)).unwrap();
        assert_eq!(claimed.len(), 4);
        let receipts: Vec<_> = claimed.into_iter().map(|job| job.receipt).collect();
        assert!(
            queue
                .renew(&receipts, lease)
                .unwrap()
                .iter()
                .all(Result::is_ok)
        );
        queue.ack_one(&receipts[0]).unwrap();
        assert!(
            queue
                .ack(&receipts[1..3])
                .unwrap()
                .iter()
                .all(Result::is_ok)
        );
        queue
            .fail_one(&Failure::dead(receipts[3].clone(), ErrorText::new("no")))
            .unwrap();
        queue
            .replay(receipts[3].job_id(), MaxAttempts::new(1).unwrap())
            .unwrap();
        queue
            .cancel(receipts[3].job_id(), &ErrorText::new("stop"))
            .unwrap();
        queue
            .reap(&ReapRequest::new(BatchSize::MAX, RetryPolicy::default()))
            .unwrap();
        assert!(queue.get(receipts[0].job_id()).unwrap().is_some());
        queue.pause(&mail()).unwrap();
        queue.resume(&mail()).unwrap();
    }
    // Looks, without a transaction.
    for _ in 0..20 {
        assert!(queue.claim(&request(4, MINUTE)).unwrap().is_empty());
    }
    let purge = PurgeRequest {
        succeeded_after: Some(Delay::ZERO),
        dead_after: Some(Delay::ZERO),
        limit: BatchSize::MAX,
        cursor: None,
    };
    assert_eq!(queue.purge(&purge).unwrap().deleted, 40);
    assert!(queue.check().is_ok());
}

#[test]
fn everything_works_behind_a_transaction_pooler_and_leaves_its_sessions_as_they_were() {
    let Some(tables) = Tables::fresh() else {
        return;
    };
    let Some(pooler) = Pooler::before(&tables.url) else {
        return;
    };
    let own = table(&format!("{}_pooled", tables.schema));
    let queue = PostgresQueue::builder(&pooler.url)
        .table(own)
        .prepared_statements(false)
        .build()
        .unwrap();
    queue.migrate().unwrap();
    thread::scope(|scope| {
        // Others keep sessions busy, so that this queue's transactions move between them.
        let other = tables.queue_at(&pooler.url);
        let busy = scope.spawn(move || {
            for _ in 0..20 {
                let held: Result<(), queue_table_core::Error> = other.transaction(|tx| {
                    diesel::sql_query("SELECT pg_sleep(0.01)")
                        .execute(tx)
                        .unwrap();
                    Ok(())
                });
                held.unwrap();
            }
        });
        use_all(&queue);
        busy.join().unwrap();
    });
    let mut marker = PgConnection::establish(&pooler.url).unwrap();
    for _ in 0..6 {
        // diesel itself sets these two on every connection.
        let changed = "SELECT COALESCE(string_agg(name, ' '), '') FROM pg_settings WHERE source = 'session' \
                       AND name NOT IN ('TimeZone', 'client_encoding', 'application_name')";
        assert_eq!(text(&mut marker, changed), "");
    }
    expect_no_advisory_lock(&mut tables.raw());
    tables.run(&format!("DROP SCHEMA {}_pooled CASCADE", tables.schema));
}
