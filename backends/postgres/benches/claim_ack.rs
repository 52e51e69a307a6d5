//! Claim and ack through the crate, against a loop written by hand of the same statements on the
//! same server.
//!
//! `POSTGRES_URL=.. cargo bench -p queue-table-postgres --bench claim_ack [-- ROUNDS]`
//!
//! The hand-written loop sends each statement by itself, prepared, in autocommit: the least that a
//! correct claim and a fenced ack can cost. Both drain the same number of jobs, in turn, and the
//! table is vacuumed before each.

use std::marker::PhantomData;
use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection;
use diesel::data_types::PgTimestamp;
use diesel::pg::{Pg, PgConnection};
use diesel::prelude::*;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::sql_types::{Array, BigInt, Binary, Integer, Nullable, Text, Timestamptz};
use queue_table_core::{
    Administration, BatchSize, ClaimRequest, Kind, NewJob, Payload, QueueBackend, QueueName, Table,
    WorkerId,
};
use queue_table_postgres::PostgresQueue;

type Failed = Box<dyn std::error::Error>;

/// Jobs drained in one measurement, by batch size: about a second each.
const RUNS: [(u32, u32); 3] = [(1, 2_000), (10, 10_000), (100, 20_000)];

const WORKER: &str = "bench";

fn main() -> Result<(), Failed> {
    // `cargo test --benches` runs this too, without a server.
    let Ok(url) = std::env::var("POSTGRES_URL") else {
        println!("claim_ack: not run: POSTGRES_URL is not set");
        return Ok(());
    };
    let rounds = std::env::args().find_map(|argument| argument.parse().ok());
    let schema = format!("bench_{:08x}", std::process::id());
    let table = Table::default().in_schema(&schema)?;
    let queue = PostgresQueue::builder(&url).table(table).build()?;
    queue.migrate()?;
    let mut raw = PgConnection::establish(&url)?;
    let measured = measure(&queue, &mut raw, &schema, rounds.unwrap_or(5));
    raw.batch_execute(&format!("DROP SCHEMA {schema} CASCADE"))?;
    measured
}

fn measure(
    queue: &PostgresQueue,
    raw: &mut PgConnection,
    schema: &str,
    rounds: usize,
) -> Result<(), Failed> {
    println!("batch  crate jobs/s  by hand jobs/s  ratio (median of {rounds} rounds)");
    for (batch, jobs) in RUNS {
        let (mut ours, mut by_hand, mut ratios) = (vec![], vec![], vec![]);
        for _ in 0..rounds {
            fill(queue, raw, schema, jobs)?;
            let crate_rate = rate(jobs, drain(queue, batch)?);
            fill(queue, raw, schema, jobs)?;
            let hand_rate = rate(jobs, drain_by_hand(raw, schema, batch)?);
            ours.push(crate_rate);
            by_hand.push(hand_rate);
            ratios.push(crate_rate / hand_rate);
        }
        println!(
            "{batch:>5}  {:>12.0}  {:>14.0}  {:>5.2}",
            median(&mut ours),
            median(&mut by_hand),
            median(&mut ratios)
        );
    }
    Ok(())
}

fn rate(jobs: u32, took: Duration) -> f64 {
    f64::from(jobs) / took.as_secs_f64()
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn fill(
    queue: &PostgresQueue,
    raw: &mut PgConnection,
    schema: &str,
    jobs: u32,
) -> Result<(), Failed> {
    raw.batch_execute(&format!("TRUNCATE {schema}.job"))?;
    let payload = format!("{{\"text\":\"{}\"}}", "x".repeat(188));
    let job = NewJob::new(
        &QueueName::new("mail")?,
        Kind::new("bench")?,
        Payload::from_json(payload)?,
    );
    for _ in 0..jobs / 1_000 {
        queue.enqueue(&vec![job.clone(); 1_000])?;
    }
    raw.batch_execute(&format!("VACUUM (ANALYZE) {schema}.job"))?;
    Ok(())
}

fn drain(queue: &PostgresQueue, batch: u32) -> Result<Duration, Failed> {
    let request = ClaimRequest::new(QueueName::new("mail")?, WorkerId::new(WORKER)?)
        .with_limit(BatchSize::new(batch)?);
    let began = Instant::now();
    loop {
        let claimed = queue.claim(&request)?;
        if claimed.is_empty() {
            return Ok(began.elapsed());
        }
        let receipts: Vec<_> = claimed.into_iter().map(|job| job.receipt).collect();
        let acked = queue.ack(&receipts)?;
        if acked.iter().any(Result::is_err) {
            return Err("a claim was lost".into());
        }
    }
}

fn drain_by_hand(raw: &mut PgConnection, schema: &str, batch: u32) -> Result<Duration, Failed> {
    let is_stepping: i32 = diesel::select(diesel::dsl::sql::<Integer>(
        "current_setting('server_version_num')::INTEGER",
    ))
    .get_result(raw)?;
    let claim = match is_stepping < 180_000 {
        true => include_str!("../sql/claim_stepping.sql"),
        false => include_str!("../sql/claim.sql"),
    };
    let claim = Prepared::new(claim, schema, batch);
    let (ack, ack_one) = (
        include_str!("../sql/ack.sql"),
        include_str!("../sql/ack_one.sql"),
    );
    let ack = Prepared::new(if batch == 1 { ack_one } else { ack }, schema, batch);
    let began = Instant::now();
    loop {
        let claimed: Vec<ClaimedRow> = claim
            .with(vec![
                Value::Text(WORKER),
                Value::BigInt(60_000_000),
                Value::Text("mail"),
                Value::NoTexts,
                Value::NoIntegers,
                Value::NoIntegers,
            ])
            .load(raw)?;
        if claimed.is_empty() {
            return Ok(began.elapsed());
        }
        let values = match batch {
            1 => vec![
                Value::BigInt(claimed[0].0),
                Value::Integer(claimed[0].1),
                Value::Text(WORKER),
            ],
            _ => vec![
                Value::BigInts(claimed.iter().map(|row| row.0).collect()),
                Value::Integers(claimed.iter().map(|row| row.1).collect()),
                Value::Texts(vec![WORKER; claimed.len()]),
            ],
        };
        let acked: Vec<i64> = ack.with(values).retyped().load(raw)?;
        if acked.len() != claimed.len() {
            return Err("a claim was lost".into());
        }
    }
}

#[rustfmt::skip]
type ClaimedShape = (
    BigInt, Integer, Text, Text, Text, Binary, Integer, Integer, Timestamptz, Integer, Timestamptz, Timestamptz,
    Timestamptz, Nullable<Text>, Array<Nullable<Text>>,
);

#[rustfmt::skip]
type ClaimedRow = (
    i64, i32, String, String, String, Vec<u8>, i32, i32, PgTimestamp, i32, PgTimestamp, PgTimestamp, PgTimestamp,
    Option<String>, Vec<Option<String>>,
);

/// A statement's text between its parameters, each with the place of the parameter that follows.
struct Prepared(Vec<(String, Option<usize>)>);

enum Value {
    Text(&'static str),
    BigInt(i64),
    Integer(i32),
    NoTexts,
    NoIntegers,
    BigInts(Vec<i64>),
    Integers(Vec<i32>),
    Texts(Vec<&'static str>),
}

struct Bound<'a, Shape>(&'a Prepared, Vec<Value>, PhantomData<Shape>);

impl Prepared {
    fn new(sql: &str, schema: &str, limit: u32) -> Self {
        let sql: String = sql
            .lines()
            .filter(|line| !line.starts_with("--"))
            .flat_map(|line| [line, "\n"])
            .collect();
        let sql = sql
            .replace("{job}", &format!("{schema}.job"))
            .replace("{job_queue}", &format!("{schema}.job_queue"))
            .replace("{column_texts}", "ARRAY[]::TEXT[]")
            .replace("{limit}", &limit.to_string());
        let mut parts = sql.split('$');
        let mut pieces = vec![(parts.next().unwrap_or_default().to_owned(), None)];
        for part in parts {
            let (digit, rest) = part.split_at(1);
            if let Some(last) = pieces.last_mut() {
                last.1 = digit
                    .parse()
                    .ok()
                    .and_then(|place: usize| place.checked_sub(1));
            }
            pieces.push((rest.to_owned(), None));
        }
        Self(pieces)
    }

    fn with(&self, values: Vec<Value>) -> Bound<'_, ClaimedShape> {
        Bound(self, values, PhantomData)
    }
}

impl<'a> Bound<'a, ClaimedShape> {
    fn retyped(self) -> Bound<'a, BigInt> {
        Bound(self.0, self.1, PhantomData)
    }
}

impl<Shape> QueryFragment<Pg> for Bound<'_, Shape> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        for (sql, place) in &self.0.0 {
            out.push_sql(sql);
            match place.and_then(|place| self.1.get(place)) {
                None => {}
                Some(Value::Text(value)) => out.push_bind_param::<Text, _>(value)?,
                Some(Value::BigInt(value)) => out.push_bind_param::<BigInt, _>(value)?,
                Some(Value::Integer(value)) => out.push_bind_param::<Integer, _>(value)?,
                Some(Value::NoTexts) => {
                    out.push_bind_param::<Nullable<Array<Text>>, _>(&None::<Vec<String>>)?;
                }
                Some(Value::NoIntegers) => {
                    out.push_bind_param::<Nullable<Array<Integer>>, _>(&None::<Vec<i32>>)?;
                }
                Some(Value::BigInts(values)) => out.push_bind_param::<Array<BigInt>, _>(values)?,
                Some(Value::Integers(values)) => {
                    out.push_bind_param::<Array<Integer>, _>(values)?
                }
                Some(Value::Texts(values)) => out.push_bind_param::<Array<Text>, _>(values)?,
            }
        }
        Ok(())
    }
}

impl<Shape> QueryId for Bound<'_, Shape> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<Shape> Query for Bound<'_, Shape> {
    type SqlType = Shape;
}

impl<Shape> RunQueryDsl<PgConnection> for Bound<'_, Shape> {}
