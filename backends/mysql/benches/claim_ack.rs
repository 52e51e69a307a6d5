//! Claim and acknowledge, by the queue and by a hand-written loop of the same work, in turns.
//!
//! `MYSQL_URL=... MARIADB_URL=... cargo bench -p queue-table-mysql` prints jobs per second.

use std::error::Error;
use std::time::Instant;

use mysql::prelude::Queryable;
use mysql::{Conn, Opts, OptsBuilder, Value};
use queue_table_core::{
    Administration, BatchSize, ClaimRequest, Kind, NewJob, Payload, QueueBackend, QueueName, Table,
    WorkerId,
};
use queue_table_mysql::MysqlQueue;

type Done<T> = Result<T, Box<dyn Error + Send + Sync>>;

const ROUNDS: usize = 3;

fn main() -> Done<()> {
    for variable in ["MYSQL_URL", "MARIADB_URL"] {
        match std::env::var(variable) {
            Ok(url) => bench(variable, &url)?,
            Err(_) => println!("{variable} is not set: not run"),
        }
    }
    Ok(())
}

/// By hand and by the queue take turns, so that a slow minute of the machine hits both.
fn bench(variable: &str, url: &str) -> Done<()> {
    let opts = OptsBuilder::from_opts(Opts::from_url(url)?).prefer_socket(false);
    let opts: Opts = opts.into();
    let queue = MysqlQueue::builder_with(opts.clone())
        .table(Table::named("bench_job")?)
        .build()?;
    queue.migrate()?;
    let mut session = Conn::new(opts.clone())?;
    println!("{variable}: jobs/s, median of {ROUNDS}");
    println!("threads  batch    by hand      queue  ratio");
    for (threads, batch, jobs) in [
        (1, 1, 1_000),
        (4, 1, 2_000),
        (4, 10, 10_000),
        (4, 100, 30_000),
    ] {
        let (mut hand, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            fill(&queue, &mut session, jobs)?;
            hand.push(rate(threads, jobs, || by_hand(&opts, batch))?);
            fill(&queue, &mut session, jobs)?;
            ours.push(rate(threads, jobs, || by_queue(&queue, batch))?);
        }
        let (hand, ours) = (median(hand), median(ours));
        let ratio = ours / hand;
        println!("{threads:>7} {batch:>6} {hand:>10.0} {ours:>10.0} {ratio:>6.2}");
    }
    session.query_drop("DELETE FROM bench_job")?;
    Ok(())
}

fn fill(queue: &MysqlQueue, session: &mut Conn, jobs: usize) -> Done<()> {
    session.query_drop("DELETE FROM bench_job")?;
    let payload = Payload::of(&"x".repeat(198))?;
    let job = NewJob::new(&QueueName::new("mail")?, Kind::new("send")?, payload);
    for chunk in vec![job; jobs].chunks(10_000) {
        queue.enqueue(chunk)?;
    }
    session.query_drop("ANALYZE TABLE bench_job")?;
    Ok(())
}

fn rate(threads: usize, jobs: usize, drain: impl Fn() -> Done<usize> + Sync) -> Done<f64> {
    let started = Instant::now();
    let drained: Vec<Done<usize>> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(&drain)).collect();
        let joined = running.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined
            .map(|done| done.unwrap_or_else(|_| Err("a thread panicked".into())))
            .collect()
    });
    let taken = started.elapsed();
    let done = drained.into_iter().sum::<Done<usize>>()?;
    if done != jobs {
        return Err(format!("{done} of {jobs} jobs were done").into());
    }
    Ok(jobs as f64 / taken.as_secs_f64())
}

fn by_queue(queue: &MysqlQueue, batch: u32) -> Done<usize> {
    let request = ClaimRequest::new(QueueName::new("mail")?, WorkerId::unique("bench")?)
        .with_limit(BatchSize::new(batch)?);
    let mut done = 0;
    loop {
        let claims = queue.claim(&request)?;
        if claims.is_empty() {
            return Ok(done);
        }
        let receipts: Vec<_> = claims.into_iter().map(|claim| claim.receipt).collect();
        done += queue
            .ack(&receipts)?
            .into_iter()
            .filter(Result::is_ok)
            .count();
    }
}

/// The same protocol with nothing around it: one scan for the claim, the lock before the judgement.
fn by_hand(opts: &Opts, batch: u32) -> Done<usize> {
    let mut conn = Conn::new(opts.clone())?;
    let worker = WorkerId::unique("bench")?;
    let mut done = 0;
    loop {
        begin(&mut conn)?;
        let rows: Vec<(i64, i64, String, Vec<u8>)> = conn.exec(
            "SELECT job_id, attempts, kind, payload FROM bench_job FORCE INDEX (bench_job_ready) \
             WHERE state = 'ready' AND queue = ? AND run_at <= UTC_TIMESTAMP(6) \
             AND attempts < max_attempts ORDER BY priority DESC, run_at, job_id \
             LIMIT ? FOR UPDATE SKIP LOCKED",
            ("mail", batch),
        )?;
        if rows.is_empty() {
            conn.query_drop("ROLLBACK")?;
            return Ok(done);
        }
        let mut ids: Vec<i64> = rows.iter().map(|(id, ..)| *id).collect();
        let marks = vec!["?"; ids.len()].join(",");
        let update = format!(
            "UPDATE bench_job SET state = 'running', attempts = attempts + 1, worker_id = ?, \
             lease_until = UTC_TIMESTAMP(6) + INTERVAL 60 SECOND, claimed_at = UTC_TIMESTAMP(6) \
             WHERE job_id IN ({marks})"
        );
        conn.exec_drop(update, with(Some(worker.as_str()), &ids))?;
        conn.query_drop("COMMIT")?;

        ids.sort_unstable();
        begin(&mut conn)?;
        let lock = format!(
            "SELECT job_id FROM bench_job WHERE job_id IN ({marks}) ORDER BY job_id FOR UPDATE"
        );
        conn.exec_drop(lock, with(None, &ids))?;
        let update = format!(
            "UPDATE bench_job SET state = 'succeeded', worker_id = NULL, lease_until = NULL, \
             finished_at = UTC_TIMESTAMP(6) WHERE worker_id = ? AND state = 'running' \
             AND lease_until > UTC_TIMESTAMP(6) AND job_id IN ({marks})"
        );
        conn.exec_drop(update, with(Some(worker.as_str()), &ids))?;
        done += usize::try_from(conn.affected_rows())?;
        conn.query_drop("COMMIT")?;
    }
}

fn begin(conn: &mut Conn) -> Done<()> {
    conn.query_drop("SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION")?;
    Ok(())
}

fn with(first: Option<&str>, ids: &[i64]) -> Vec<Value> {
    let first = first.map(Value::from);
    first
        .into_iter()
        .chain(ids.iter().map(Value::from))
        .collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
