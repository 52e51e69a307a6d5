//! The binary log, replayed into a second database, ends with identical rows. Report 71.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use mysql::prelude::Queryable;
use mysql::{Conn, Opts, OptsBuilder, Row, Value};
use queue_table_core::{
    Administration, BatchSize, DedupScope, Delay, EffectName, ErrorText, Failure, LeaseLength,
    MaxAttempts, PurgeRequest, QueueBackend, QueueBackendExt, ReapRequest, RetryPolicy,
    TransactionalBackend,
};
use queue_table_mysql::MysqlQueue;

use crate::support::{Server, is_required, job, mail, on_each, request};

#[test]
fn a_replayed_binary_log_ends_with_identical_rows() {
    on_each(|server| {
        let Some(replayer) = Replayer::of(server) else {
            return;
        };
        for format in ["ROW", "MIXED"] {
            let from = replayer.databases(server, format);
            let start = replayer.position(server);
            live_through_everything(&from.queue(server));
            replayer.replay(&from, &start);
            from.expect_identical(server);
        }
    });
}

/// One of each: jobs in every state, every sister table with rows, and rows deleted.
fn live_through_everything(queue: &MysqlQueue) {
    queue.migrate().unwrap();
    let keyed = |key: &str| {
        job()
            .with_dedup(key, DedupScope::WhileUnfinished)
            .unwrap()
            .with_max_attempts(2)
            .unwrap()
    };
    queue.enqueue(&vec![job(); 8]).unwrap();
    let replayed = queue.enqueue_one(&keyed("a")).unwrap().job_id();
    queue.enqueue(&[keyed("a"), keyed("b"), job()]).unwrap();
    let claimed = queue.claim(&request(12)).unwrap();
    assert_eq!(claimed.len(), 11);
    let receipts: Vec<_> = claimed.iter().map(|job| job.receipt.clone()).collect();
    queue.renew(&receipts, LeaseLength::default()).unwrap();
    let name = EffectName::new("sent").unwrap();
    let first = |tx: &mut mysql::Transaction<'_>| queue.record_effect_in(tx, &receipts[9], &name);
    assert!(queue.transaction(first).unwrap());
    assert_eq!(queue.ack(&receipts[..3]).unwrap(), [const { Ok(()) }; 3]);
    let (after, why) = (Delay::ZERO, || ErrorText::new("it broke"));
    let failures = [
        Failure::retry(receipts[3].clone(), after, why()),
        Failure::dead(receipts[4].clone(), why()),
        Failure::release(receipts[5].clone(), after),
        Failure::dead(receipts[8].clone(), why()),
    ];
    assert!(queue.fail(&failures).unwrap().iter().all(Result::is_ok));
    assert_eq!(receipts[8].job_id(), replayed);
    queue
        .replay(replayed, MaxAttempts::new(3).unwrap())
        .unwrap();
    queue.cancel(receipts[6].job_id(), &why()).unwrap();
    let short = LeaseLength::new(std::time::Duration::from_millis(100)).unwrap();
    queue.renew_one(&receipts[7], short).unwrap();
    std::thread::sleep(short.get());
    let policy = RetryPolicy::default();
    let reaped = queue.reap(&ReapRequest::new(BatchSize::MAX, policy));
    assert_eq!(reaped.unwrap().len(), 1);
    queue.pause(&mail()).unwrap();
    let purge = PurgeRequest {
        succeeded_after: Some(Delay::ZERO),
        dead_after: None,
        limit: BatchSize::new(2).unwrap(),
        cursor: None,
    };
    assert_eq!(queue.purge(&purge).unwrap().deleted, 2);
}

/// The server's own programs, which read its log and run what is in it.
struct Replayer {
    reader: PathBuf,
    client: PathBuf,
    arguments: Vec<String>,
    password: String,
    engine: &'static str,
}

impl Replayer {
    /// `None`, with a word, where the log is not written or the programs are not there; an error
    /// where the engine is required.
    fn of(server: &Server) -> Option<Self> {
        let (folder, reader, client) = match server.is_mysql() {
            true => ("MYSQL_PROGRAMS", "mysqlbinlog", "mysql"),
            false => ("MARIADB_PROGRAMS", "mariadb-binlog", "mariadb"),
        };
        let writes: Option<i64> = server.session().query_first("SELECT @@log_bin").unwrap();
        let programs = std::env::var_os(folder).map(PathBuf::from);
        let there = programs.filter(|folder| folder.join(reader).exists());
        let missing = match (&there, writes) {
            (_, Some(0) | None) => format!("{}: log_bin is off", server.engine),
            (None, _) => format!("{folder} is not a folder with {reader}"),
            (Some(_), _) => String::new(),
        };
        let Some(folder) = there.filter(|_| missing.is_empty()) else {
            // A container's programs are not on this machine.
            let elsewhere = std::env::var("ENGINES_VIA").is_ok_and(|via| via == "docker");
            let may_be_missing = elsewhere || !is_required(server.engine);
            assert!(may_be_missing, "{missing}, and it is required");
            println!("the replay of the binary log was not run: {missing}");
            return None;
        };
        let opts = Opts::from(server.opts());
        let mut arguments = vec![
            "--no-defaults".to_owned(),
            "--protocol=tcp".to_owned(),
            format!("--host={}", opts.get_ip_or_hostname()),
            format!("--port={}", opts.get_tcp_port()),
            format!("--user={}", opts.get_user().unwrap_or_default()),
        ];
        if !server.is_mysql() {
            arguments.push("--disable-ssl-verify-server-cert".to_owned());
        }
        Some(Self {
            reader: folder.join(reader),
            client: folder.join(client),
            arguments,
            password: opts.get_pass().unwrap_or_default().to_owned(),
            engine: server.engine,
        })
    }

    fn databases(&self, server: &Server, format: &'static str) -> Databases {
        let name = |which| format!("replay_{which}_{}_{format}", std::process::id()).to_lowercase();
        let databases = Databases {
            from: name("from"),
            to: name("to"),
            format,
            session: server.session(),
        };
        for name in [&databases.from, &databases.to] {
            let create = format!("CREATE DATABASE {name} CHARACTER SET utf8mb4");
            server.session().query_drop(create).unwrap();
        }
        databases
    }

    /// The log's file, and the place in it.
    fn position(&self, server: &Server) -> (String, u64) {
        let status = match server.is_mysql() {
            true => "SHOW BINARY LOG STATUS",
            false => "SHOW MASTER STATUS",
        };
        let row: Row = server.session().query_first(status).unwrap().unwrap();
        (row.get(0).unwrap(), row.get(1).unwrap())
    }

    fn replay(&self, databases: &Databases, (file, start): &(String, u64)) {
        let mut read = Command::new(&self.reader);
        read.args(&self.arguments).env("MYSQL_PWD", &self.password);
        read.args(["--read-from-remote-server", "--to-last-log"]);
        read.arg(format!("--start-position={start}"));
        read.arg(format!("--rewrite-db={}->{}", databases.from, databases.to));
        // MySQL's program looks at the name after it has rewritten it, MariaDB's before.
        if self.engine == "mysql" {
            read.arg("--skip-gtids");
            read.arg(format!("--database={}", databases.to));
        } else {
            read.arg(format!("--database={}", databases.from));
        }
        let log = read.arg(file).output().unwrap();
        let said = String::from_utf8_lossy(&log.stderr);
        assert!(log.status.success(), "{}: {said}", self.engine);

        let mut run = Command::new(&self.client);
        run.args(&self.arguments).env("MYSQL_PWD", &self.password);
        run.arg("--binary-mode");
        run.stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut run = run.spawn().unwrap();
        run.stdin.take().unwrap().write_all(&log.stdout).unwrap();
        let done = run.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{}: {said}", self.engine);
    }
}

/// Two databases, dropped with it.
struct Databases {
    from: String,
    to: String,
    format: &'static str,
    session: Conn,
}

impl Databases {
    fn queue(&self, server: &Server) -> MysqlQueue {
        let format = format!("SET SESSION binlog_format = '{}'", self.format);
        let opts: OptsBuilder = server.opts().db_name(Some(&self.from)).init(vec![format]);
        MysqlQueue::builder_with(opts).build().unwrap()
    }

    fn expect_identical(&self, server: &Server) {
        let tables = [
            "job",
            "job_dedup",
            "job_effect",
            "job_failure",
            "job_queue",
            "job_schema",
        ];
        for table in tables {
            let [rows, replayed] =
                [&self.from, &self.to].map(|database| read(server, database, table));
            assert!(!rows.is_empty(), "{table} has no rows to compare");
            assert_eq!(replayed, rows, "{} {} {table}", server.engine, self.format);
        }
    }
}

impl Drop for Databases {
    fn drop(&mut self) {
        for name in [&self.from, &self.to] {
            let dropped = self
                .session
                .query_drop(format!("DROP DATABASE IF EXISTS {name}"));
            dropped.unwrap();
        }
    }
}

/// Every column of every row, invisible ones too.
fn read(server: &Server, database: &str, table: &str) -> Vec<Vec<Value>> {
    let mut session = server.session();
    let columns: Option<String> = session
        .exec_first(
            "SELECT GROUP_CONCAT(column_name ORDER BY ordinal_position SEPARATOR ', ') \
             FROM information_schema.columns WHERE table_schema = ? AND table_name = ?",
            (database, table),
        )
        .unwrap()
        .flatten();
    let columns = columns.unwrap_or_else(|| panic!("{database} has no table {table}"));
    let rows: Vec<Row> = session
        .query(format!(
            "SELECT {columns} FROM {database}.{table} ORDER BY 1, 2"
        ))
        .unwrap();
    rows.into_iter().map(Row::unwrap).collect()
}
