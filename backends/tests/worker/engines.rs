//! One queue on each engine, on tables of the test's own.

use std::sync::Arc;

use queue_table::{Administration, Table, TransactionalBackend};

/// What a test does on one engine; the first argument names it.
pub(crate) trait OnEngine: Copy + Send + Sync {
    /// Runs on fresh tables behind a pool of so many connections. `beside` is another queue on the
    /// same tables, with connections of its own.
    fn run<Q>(self, engine: &'static str, queue: &Arc<Q>, beside: &Q)
    where
        Q: Administration + TransactionalBackend + 'static;

    /// Most pooled connections.
    fn pool(self) -> u32;

    /// By which address to go to the server at this one.
    fn route(self, _engine: &'static str, address: String) -> String {
        address
    }
}

/// Runs the test on all engines at once, each on a thread of its own. One without a server is
/// reported as not run, and fails when `QUEUE_TABLE_REQUIRE` names it.
pub(crate) fn on_every_engine(test: impl OnEngine) {
    std::thread::scope(|scope| {
        let engines: [(&str, fn(_)); 4] = [
            ("sqlite", sqlite),
            ("postgres", postgres),
            ("mysql", mysql),
            ("mariadb", mariadb),
        ];
        let threads = engines.map(|(name, run)| {
            let thread = std::thread::Builder::new().name(name.to_owned());
            (name, thread.spawn_scoped(scope, move || run(test)).unwrap())
        });
        let failed = threads.map(|(name, thread)| thread.join().is_err().then_some(name));
        let failed: Vec<_> = failed.into_iter().flatten().collect();
        assert!(failed.is_empty(), "failed on {failed:?}");
    });
}

/// Says that an engine was not run; fails when it is required.
fn not_run(engine: &str, reason: &str) {
    let required = std::env::var("QUEUE_TABLE_REQUIRE").unwrap_or_default();
    assert!(
        required.split(',').all(|name| name.trim() != engine),
        "{engine} is in QUEUE_TABLE_REQUIRE, but cannot be run: {reason}"
    );
    println!("{engine}: not run: {reason}");
}

/// The address of the server, or `None` when the engine is not run.
#[cfg(any(feature = "postgres", feature = "mysql"))]
fn address(engine: &str, variable: &str) -> Option<String> {
    let address = std::env::var(variable).ok();
    if address.is_none() {
        not_run(engine, &format!("{variable} is not set"));
    }
    address
}

/// Tables that no other test and no other run of this one has.
#[cfg(any(feature = "postgres", feature = "mysql"))]
fn table() -> Table {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let number = now.subsec_nanos() ^ std::process::id().rotate_left(16);
    Table::named(&format!("worker_{number:08x}")).unwrap()
}

/// The statements that take the tables away again.
#[cfg(any(feature = "postgres", feature = "mysql"))]
fn drops(table: &Table) -> Vec<String> {
    let sisters = [
        "dedup",
        "dedup_past",
        "effect",
        "failure",
        "queue",
        "schema",
    ];
    let names = sisters.iter().map(|sister| table.sister(sister));
    let names = names.chain([table.name().to_owned()]);
    names
        .map(|name| format!("DROP TABLE IF EXISTS {name}"))
        .collect()
}

fn run_on<Q>(test: impl OnEngine, engine: &'static str, open: impl Fn() -> Q)
where
    Q: Administration + TransactionalBackend + 'static,
{
    let queue = open();
    queue.migrate().unwrap();
    test.run(engine, &Arc::new(queue), &open());
}

#[cfg(feature = "sqlite")]
fn sqlite(test: impl OnEngine) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.db");
    run_on(test, "sqlite", || {
        let builder = queue_table::sqlite::SqliteQueue::builder(&file);
        builder.readers_max(test.pool()).build().unwrap()
    });
}

#[cfg(feature = "postgres")]
fn postgres(test: impl OnEngine) {
    use queue_table::postgres::diesel::connection::SimpleConnection;
    use queue_table::postgres::{PostgresQueue, diesel::PgConnection};

    let Some(url) = address("postgres", "POSTGRES_URL") else {
        return;
    };
    let table = table();
    let route = test.route("postgres", url.clone());
    let open = || {
        let builder = PostgresQueue::builder(&route).table(table.clone());
        builder.pool_size(test.pool()).build().unwrap()
    };
    run_on(test, "postgres", open);
    let take_away = |tx: &mut PgConnection| -> Result<(), Box<dyn std::error::Error>> {
        Ok(tx.batch_execute(&drops(&table).join(";"))?)
    };
    let queue = PostgresQueue::connect(&url).unwrap();
    queue.transaction(take_away).unwrap();
}

#[cfg(feature = "mysql")]
fn mysql(test: impl OnEngine) {
    of_the_mysql_family(test, "mysql", "MYSQL_URL");
}

#[cfg(feature = "mysql")]
fn mariadb(test: impl OnEngine) {
    of_the_mysql_family(test, "mariadb", "MARIADB_URL");
}

#[cfg(feature = "mysql")]
fn of_the_mysql_family(test: impl OnEngine, engine: &'static str, variable: &str) {
    use queue_table::mysql::MysqlQueue;
    use queue_table::mysql::mysql::{Conn, Opts, prelude::Queryable};

    let Some(url) = address(engine, variable) else {
        return;
    };
    let table = table();
    let route = test.route(engine, url.clone());
    run_on(test, engine, || {
        let builder = MysqlQueue::builder(&route).unwrap().table(table.clone());
        builder.pool_size(test.pool()).build().unwrap()
    });
    let mut connection = Conn::new(Opts::from_url(&url).unwrap()).unwrap();
    for statement in drops(&table) {
        connection.query_drop(statement).unwrap();
    }
}

macro_rules! without {
    ($feature:literal, $($engine:ident),*) => {$(
        #[cfg(not(feature = $feature))]
        fn $engine(_: impl OnEngine) {
            not_run(stringify!($engine), concat!("this build has no feature `", $feature, "`"));
        }
    )*};
}

without!("sqlite", sqlite);
without!("postgres", postgres);
without!("mysql", mysql, mariadb);
