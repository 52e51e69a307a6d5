//! Servers, tables of a test's own, and raw sessions.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, Opts, OptsBuilder};
use queue_table_core::{
    Administration, BatchSize, ClaimRequest, ClaimedJob, JobId, Kind, LeaseLength, NewJob, Payload,
    QueueBackend, QueueBackendExt, QueueName, Table, WorkerId,
};
use queue_table_mysql::{Builder, MysqlQueue};

/// A server to test on.
pub(crate) struct Server {
    pub(crate) engine: &'static str,
    opts: Opts,
}

/// Runs a test on every server there is. One that is missing is told, and an error where it is
/// required.
pub(crate) fn on_each(test: impl Fn(&Server)) {
    for (engine, variable) in [("mysql", "MYSQL_URL"), ("mariadb", "MARIADB_URL")] {
        let Ok(url) = std::env::var(variable) else {
            assert!(
                !is_required(engine),
                "{engine} is required, and {variable} is not set"
            );
            println!("{engine}: not run, {variable} is not set");
            continue;
        };
        let opts = OptsBuilder::from_opts(Opts::from_url(&url).unwrap()).prefer_socket(false);
        println!("{engine}:");
        test(&Server {
            engine,
            opts: opts.into(),
        });
    }
}

/// Whether a test that cannot run on this engine must fail.
pub(crate) fn is_required(engine: &str) -> bool {
    let required = std::env::var("QUEUE_TABLE_REQUIRE").unwrap_or_default();
    required.split(',').any(|name| name.trim() == engine)
}

impl Server {
    /// A session outside the queue.
    pub(crate) fn session(&self) -> Conn {
        Conn::new(self.opts.clone()).unwrap()
    }

    pub(crate) fn opts(&self) -> OptsBuilder {
        OptsBuilder::from_opts(self.opts.clone())
    }

    /// Migrated tables of the test's own.
    pub(crate) fn tables(&self) -> Tables<'_> {
        let tables = self.names();
        tables.queue().migrate().unwrap();
        tables
    }

    /// Names for tables of the test's own.
    pub(crate) fn names(&self) -> Tables<'_> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "t{}_{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        Tables { server: self, name }
    }

    pub(crate) fn is_mysql(&self) -> bool {
        self.engine == "mysql"
    }
}

/// A set of tables, dropped with it.
pub(crate) struct Tables<'s> {
    pub(crate) server: &'s Server,
    pub(crate) name: String,
}

impl Tables<'_> {
    pub(crate) fn table(&self) -> Table {
        Table::named(&self.name).unwrap()
    }

    pub(crate) fn builder(&self) -> Builder {
        MysqlQueue::builder_with(self.server.opts.clone()).table(self.table())
    }

    pub(crate) fn queue(&self) -> MysqlQueue {
        self.builder().build().unwrap()
    }

    /// A statement of the crate as it runs, from its own file.
    pub(crate) fn statement(&self, file: &str) -> String {
        let collation = if self.server.is_mysql() {
            "utf8mb4_0900_bin"
        } else {
            "utf8mb4_nopad_bin"
        };
        file.replace("{job}", &self.name)
            .replace("{job_queue}", &format!("{}_queue", self.name))
            .replace("{name}", &self.name)
            .replace("{collation}", collation)
            .replace("{columns}", "")
    }

    /// One number by raw SQL; `{job}` is the job table.
    pub(crate) fn number(&self, query: &str) -> i64 {
        let query = query.replace("{job}", &self.name);
        self.server.session().query_first(query).unwrap().unwrap()
    }

    /// Raw SQL; `{job}` is the job table.
    pub(crate) fn run(&self, statement: &str) {
        let statement = statement.replace("{job}", &self.name);
        self.server.session().query_drop(statement).unwrap();
    }
}

impl Drop for Tables<'_> {
    fn drop(&mut self) {
        let mut session = self.server.session();
        for suffix in [
            "_child", "_dedup", "_effect", "_queue", "_failure", "_schema", "",
        ] {
            let name = &self.name;
            session
                .query_drop(format!("DROP TABLE IF EXISTS `{name}{suffix}`"))
                .unwrap();
        }
    }
}

pub(crate) fn mail() -> QueueName {
    QueueName::new("mail").unwrap()
}

pub(crate) fn job() -> NewJob {
    job_with("{\"a\":1}")
}

pub(crate) fn job_with(payload: &str) -> NewJob {
    let payload = Payload::from_json(payload).unwrap();
    NewJob::new(&mail(), Kind::new("send").unwrap(), payload)
}

pub(crate) fn request(limit: u32) -> ClaimRequest {
    ClaimRequest::new(mail(), WorkerId::new("w1").unwrap())
        .with_limit(BatchSize::new(limit).unwrap())
}

pub(crate) fn lease(length: Duration) -> LeaseLength {
    LeaseLength::new(length).unwrap()
}

/// Enqueues jobs and claims one of them for so long.
pub(crate) fn claimed(queue: &MysqlQueue, length: Duration) -> ClaimedJob {
    queue.enqueue_one(&job()).unwrap();
    let request = request(1).with_lease(lease(length));
    queue.claim(&request).unwrap().pop().unwrap()
}

pub(crate) fn ids(jobs: &[ClaimedJob]) -> Vec<JobId> {
    jobs.iter().map(ClaimedJob::job_id).collect()
}
