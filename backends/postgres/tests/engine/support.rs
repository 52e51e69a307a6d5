//! Tables of a test's own in a schema of its own, and short ways to the operations.

use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection;
use diesel::pg::PgConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};
use queue_table_core::{
    Administration, BatchSize, ClaimRequest, ClaimedJob, Enqueued, JobId, Kind, LeaseLength,
    NewJob, Payload, QueueBackend, QueueName, Receipt, Table, WorkerId,
};
use queue_table_postgres::{Builder, PostgresQueue};

/// The server's URL; `None` where the engine is not run, which fails when it is required.
pub(crate) fn url() -> Option<String> {
    let url = std::env::var("POSTGRES_URL").ok();
    if url.is_none() {
        let required = std::env::var("QUEUE_TABLE_REQUIRE").unwrap_or_default();
        assert!(
            !required.split(',').any(|name| name.trim() == "postgres"),
            "postgres is in QUEUE_TABLE_REQUIRE, but POSTGRES_URL is not set"
        );
        println!("postgres: not run: POSTGRES_URL is not set");
    }
    url
}

/// One table set in a schema that is dropped at the end.
pub(crate) struct Tables {
    pub(crate) url: String,
    pub(crate) schema: String,
    pub(crate) queue: PostgresQueue,
}

impl Tables {
    pub(crate) fn fresh() -> Option<Self> {
        Self::with(|builder| builder)
    }

    /// Tables whose queue is built with other settings.
    pub(crate) fn with(settings: impl FnOnce(Builder) -> Builder) -> Option<Self> {
        let url = url()?;
        let schema = format!("engine_{:016x}", fastrand::Rng::new().u64(..));
        let builder = PostgresQueue::builder(&url).table(table(&schema));
        let queue = settings(builder).build().unwrap();
        queue.migrate().unwrap();
        Some(Self { url, schema, queue })
    }

    /// Another queue on the same tables, connected by another URL.
    pub(crate) fn queue_at(&self, url: &str) -> PostgresQueue {
        let builder = PostgresQueue::builder(url).table(table(&self.schema));
        builder.build().unwrap()
    }

    /// A connection whose search path begins with the schema, so that raw SQL may say `job`.
    pub(crate) fn raw(&self) -> PgConnection {
        let mut raw = PgConnection::establish(&self.url).unwrap();
        raw.batch_execute(&format!("SET search_path = {}, public", self.schema))
            .unwrap();
        raw
    }

    pub(crate) fn run(&self, sql: &str) {
        self.raw().batch_execute(sql).unwrap();
    }

    pub(crate) fn number(&self, sql: &str) -> i64 {
        number(&mut self.raw(), sql)
    }

    pub(crate) fn enqueue(&self, count: usize) -> Vec<JobId> {
        let jobs = vec![job(); count];
        let enqueued = self.queue.enqueue(&jobs).unwrap();
        enqueued.into_iter().map(Enqueued::job_id).collect()
    }

    pub(crate) fn claim(&self, limit: u32, lease: Duration) -> Vec<ClaimedJob> {
        self.queue.claim(&request(limit, lease)).unwrap()
    }

    /// One job under a claim.
    pub(crate) fn claimed(&self, lease: Duration) -> Receipt {
        self.enqueue(1);
        self.claim(1, lease).remove(0).receipt
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        let dropped = PgConnection::establish(&self.url)
            .map(|mut raw| raw.batch_execute(&format!("DROP SCHEMA {} CASCADE", self.schema)));
        assert!(std::thread::panicking() || matches!(dropped, Ok(Ok(()))));
    }
}

pub(crate) fn table(schema: &str) -> Table {
    Table::default().in_schema(schema).unwrap()
}

pub(crate) fn mail() -> QueueName {
    QueueName::new("mail").unwrap()
}

pub(crate) fn job() -> NewJob {
    let payload = Payload::from_json(r#"{"customer":7}"#).unwrap();
    NewJob::new(&mail(), Kind::new("welcome").unwrap(), payload)
}

pub(crate) fn request(limit: u32, lease: Duration) -> ClaimRequest {
    ClaimRequest::new(mail(), WorkerId::new("w1").unwrap())
        .with_limit(BatchSize::new(limit).unwrap())
        .with_lease(LeaseLength::new(lease).unwrap())
}

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

#[derive(QueryableByName)]
struct Number {
    #[diesel(sql_type = BigInt)]
    number: i64,
}

/// The one number that a query returns.
pub(crate) fn number(raw: &mut PgConnection, sql: &str) -> i64 {
    let sql = format!("SELECT ({sql})::BIGINT AS number");
    let row: Number = diesel::sql_query(sql).get_result(raw).unwrap();
    row.number
}

/// Waits until the server holds no advisory lock. Others that migrate hold theirs for a moment; one
/// that a session keeps stays.
pub(crate) fn expect_no_advisory_lock(raw: &mut PgConnection) {
    let held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";
    let until = Instant::now() + Duration::from_secs(10);
    while number(raw, held) > 0 {
        assert!(Instant::now() < until, "an advisory lock is left");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The one text that a query returns.
pub(crate) fn text(raw: &mut PgConnection, sql: &str) -> String {
    diesel::select(diesel::dsl::sql::<Text>(&format!("({sql})::TEXT")))
        .get_result(raw)
        .unwrap()
}

/// The URL with settings for each session of it, such as `("lock_timeout", "1s")`.
pub(crate) fn with_settings(url: &str, settings: &[(&str, &str)]) -> String {
    let options: Vec<_> = settings
        .iter()
        .map(|(name, value)| format!("-c%20{name}%3D{}", value.replace(' ', "%5C%20")))
        .collect();
    format!("{url}?options={}", options.join("%20"))
}

/// The URL with another user and password.
pub(crate) fn with_user(url: &str, user: &str, password: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap();
    let (_, place) = rest.rsplit_once('@').unwrap();
    format!("{scheme}://{user}:{password}@{place}")
}

/// A login role that is dropped at the end, with everything that was granted to it.
pub(crate) struct Role {
    url: String,
    pub(crate) name: String,
}

impl Role {
    pub(crate) fn fresh(url: &str, settings: &str) -> Self {
        let name = format!("role_{:016x}", fastrand::Rng::new().u64(..));
        let mut raw = PgConnection::establish(url).unwrap();
        raw.batch_execute(&format!(
            "CREATE ROLE {name} LOGIN PASSWORD 'pw'; {}",
            settings.replace("{role}", &name)
        ))
        .unwrap();
        Self {
            url: url.to_owned(),
            name,
        }
    }

    pub(crate) fn url(&self) -> String {
        with_user(&self.url, &self.name, "pw")
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        let name = &self.name;
        let sql = format!("DROP OWNED BY {name}; DROP ROLE {name}");
        let dropped = PgConnection::establish(&self.url).map(|mut raw| raw.batch_execute(&sql));
        assert!(
            std::thread::panicking() || matches!(dropped, Ok(Ok(()))),
            "{dropped:?}",
            dropped = dropped.map(|done| done.err()).ok()
        );
    }
}
