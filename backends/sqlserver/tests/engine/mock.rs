//! The same driver against Microsoft's own mock of the protocol, `mssql-mock-tds`: a second reading
//! of TDS beside the scripted server of this crate. It knows no SQL either, and is not SQL Server.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use mssql_mock_tds::{
    ColumnDefinition, ColumnValue, MockTdsServer, QueryResponse, Row, SqlDataType, TerminalError,
};
use queue_table_core::{
    Administration, Error, JobId, JobRecord, Kind, NewJob, Payload, QueueBackend, QueueName,
    Rejected, State,
};
use queue_table_sqlserver::{ConnectOptions, Connection, SqlServerQueue};

/// Upper-case parts of one statement each: the mock looks for those. It answers `SELECT 1` by
/// itself, which a claim has.
const GET: &str = "DATEDIFF_BIG(MICROSECOND";
const ENQUEUE: &str = "INSERT INTO";

/// Starts a mock with these answers, on a thread that lives as long as the test.
fn mock(answers: Vec<(&'static str, QueryResponse)>) -> SocketAddr {
    serve(move || async move { (MockTdsServer::new("127.0.0.1:0").await.unwrap(), answers) })
}

fn serve<F, W>(make: F) -> SocketAddr
where
    F: FnOnce() -> W + Send + 'static,
    W: Future<Output = (MockTdsServer, Vec<(&'static str, QueryResponse)>)>,
{
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let (server, answers) = make().await;
            let registry = server.query_registry();
            for (part, answer) in answers {
                registry.lock().await.register(part, answer);
            }
            send.send(server.local_addr()).unwrap();
            server.run().await.unwrap();
        });
    });
    receive.recv().unwrap()
}

fn options(address: SocketAddr) -> ConnectOptions {
    let url = format!("sqlserver://app:secret@{address}/shop?encrypt=danger_plaintext");
    ConnectOptions::parse(&url).unwrap()
}

fn queue(options: ConnectOptions) -> SqlServerQueue {
    let builder = SqlServerQueue::builder_with(options).pool_wait(Duration::from_secs(5));
    builder.build().unwrap()
}

fn get(address: SocketAddr) -> queue_table_core::Result<Option<JobRecord>> {
    queue(options(address)).get(JobId::new(7))
}

fn integers(name: &str, values: &[i64]) -> QueryResponse {
    let column = ColumnDefinition::new(name, SqlDataType::BigInt);
    let row = |value: &i64| Row::new(vec![ColumnValue::BigInt(*value)]);
    QueryResponse::new(vec![column], values.iter().map(row).collect())
}

fn error(number: u32) -> QueryResponse {
    QueryResponse::error_only(TerminalError::new(number, 16, "said by the mock"))
}

/// One running job, in the types that SQL Server has for its columns.
fn running() -> QueryResponse {
    let text = |value: &str| {
        (
            SqlDataType::NVarChar,
            ColumnValue::NVarChar(value.to_owned()),
        )
    };
    let int = |value| (SqlDataType::Int, ColumnValue::Int(value));
    let instant = |value| (SqlDataType::BigInt, ColumnValue::BigInt(value));
    let payload: Vec<u16> = r#"{"to":"🍣"}"#.encode_utf16().collect();
    let cells = [
        ("job_id", instant(9_007_199_254_740_993)),
        ("queue", text("mail")),
        ("kind", text("send")),
        (
            "payload",
            (
                SqlDataType::NVarCharMax,
                ColumnValue::NVarCharMax(vec![payload]),
            ),
        ),
        ("payload_version", int(65_535)),
        ("state", text("running")),
        ("priority", int(-3)),
        ("run_at", instant(1_796_126_400_000_001)),
        ("attempts", int(4)),
        ("max_attempts", int(20)),
        ("worker_id", text("w1")),
        ("lease_until", instant(1_796_126_460_000_002)),
        ("enqueued_at", instant(1_796_126_300_000_000)),
        ("claimed_at", instant(1_796_126_400_000_002)),
        ("finished_at", (SqlDataType::BigInt, ColumnValue::Null)),
        (
            "last_error",
            (SqlDataType::NVarCharMax, ColumnValue::NVarCharMaxNull),
        ),
    ];
    let column = |(name, (kind, _)): &(&str, (SqlDataType, ColumnValue))| {
        ColumnDefinition::new(*name, *kind)
    };
    let columns = cells.iter().map(column).collect();
    let values = cells.into_iter().map(|(_, (_, value))| value).collect();
    QueryResponse::new(columns, vec![Row::new(values)])
}

#[test]
fn a_job_is_read_to_the_last_bit() {
    let job = get(mock(vec![(GET, running())])).unwrap().unwrap();
    assert_eq!(job.job_id, JobId::new(9_007_199_254_740_993));
    assert_eq!(
        (job.attempts, job.priority, job.payload_version),
        (4, -3, 65_535)
    );
    assert_eq!(job.payload.as_str().unwrap(), r#"{"to":"🍣"}"#);
    assert_eq!(job.state, State::Running);
    assert_eq!(job.run_at.to_string(), "2026-12-01T12:00:00.000001Z");
    let lease = job.lease_until.unwrap().since(job.claimed_at.unwrap());
    assert_eq!(lease, Duration::from_secs(60));
    assert_eq!((job.finished_at, job.last_error), (None, None));
}

#[test]
fn error_numbers_come_through_the_driver_as_the_callers_next_step() {
    for (number, kind) in [
        (1205, "contention"),
        (1222, "contention"),
        (547, "rejected"),
        (2601, "rejected"),
        (40501, "unavailable"),
        (208, "schema"),
        (334, "unsupported"),
    ] {
        let refused = get(mock(vec![(GET, error(number))])).unwrap_err();
        assert_eq!(refused.kind(), kind, "{number}");
    }
}

#[test]
fn an_enqueue_whose_ids_do_not_match_its_jobs_is_refused() {
    let job = || {
        let payload = Payload::from_json("{}").unwrap();
        NewJob::new(
            &QueueName::new("mail").unwrap(),
            Kind::new("send").unwrap(),
            payload,
        )
    };
    let address = mock(vec![(ENQUEUE, integers("job_id", &[8, 7]))]);
    let queue = queue(options(address));
    let stored = queue.enqueue(&[job(), job()]).unwrap();
    let ids: Vec<_> = stored.iter().map(|job| job.job_id().get()).collect();
    assert_eq!(ids, [7, 8], "the n-th lowest id is the n-th job's");
    assert_eq!(queue.enqueue(&[job()]).unwrap_err().kind(), "engine");
}

#[test]
fn a_late_answer_ends_the_connection() {
    let late = running().with_delay(Duration::from_secs(20));
    let options = options(mock(vec![(GET, late)]));
    let queue = queue(options.with_command_timeout(Duration::from_millis(300)));
    let refused = queue.get(JobId::new(7)).unwrap_err();
    assert_eq!(refused.kind(), "unavailable");
    assert_eq!(queue.open_connections(), 0);
}

#[test]
fn a_login_is_followed_to_the_server_it_is_sent_on_to() {
    let target = mock(vec![(GET, running())]);
    let gateway = serve(move || async move {
        let host = target.ip().to_string();
        let server = MockTdsServer::new_with_redirection("127.0.0.1:0", host, target.port());
        (server.await.unwrap(), Vec::new())
    });
    assert!(get(gateway).unwrap().is_some());
}

#[test]
fn a_transaction_begins_commits_and_begins_again_on_one_connection() {
    let address = mock(vec![("SELECT COUNT", integers("paid", &[3]))]);
    let mut connection = Connection::open(&options(address)).unwrap();
    for _ in 0..2 {
        let mut tx = connection.transaction().unwrap();
        let rows = tx
            .query("SELECT COUNT(*) AS paid FROM bill WHERE id = @P1", &[&7])
            .unwrap();
        assert_eq!(rows[0].get::<i64, _>("paid"), Some(3));
        tx.commit().unwrap();
    }
    assert!(!connection.is_broken());
}

#[test]
fn a_refused_row_ends_the_transaction_and_later_calls_say_so() {
    let address = mock(vec![("INSERT INTO BILL", error(2627))]);
    let mut connection = Connection::open(&options(address)).unwrap();
    let mut tx = connection.transaction().unwrap();
    let refused = tx.execute("INSERT INTO BILL VALUES (1)", &[]).unwrap_err();
    assert_eq!(refused.kind(), "rejected");
    let after = tx.execute("SELECT 1", &[]).unwrap_err();
    assert!(matches!(
        after,
        Error::Rejected(Rejected::NotInTransaction { .. })
    ));
}
