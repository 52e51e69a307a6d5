//! A connection that is cut around COMMIT.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use queue_table_core::{Administration, DedupScope, Error, QueueBackend, QueueBackendExt};
use queue_table_mysql::MysqlQueue;

use crate::support::{Server, Tables, job, on_each, request};

const PASS: u8 = 0;
const CUT_BEFORE_COMMIT: u8 = 1;
const CUT_AFTER_COMMIT: u8 = 2;

/// Passes everything on until it is told to cut at the next COMMIT.
struct Proxy {
    port: u16,
    mode: Arc<AtomicU8>,
}

impl Proxy {
    fn to(server: &Server) -> Self {
        let opts: mysql::Opts = server.opts().into();
        let target = (opts.get_ip_or_hostname().into_owned(), opts.get_tcp_port());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mode = Arc::new(AtomicU8::new(PASS));
        let modes = Arc::clone(&mode);
        thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                let server = TcpStream::connect((target.0.as_str(), target.1)).unwrap();
                let (from_server, to_client) =
                    (server.try_clone().unwrap(), client.try_clone().unwrap());
                thread::spawn(move || copy(from_server, to_client));
                let modes = Arc::clone(&modes);
                thread::spawn(move || copy_until_commit(client, server, &modes));
            }
        });
        Self { port, mode }
    }

    fn cut(&self, mode: u8) {
        self.mode.store(mode, Ordering::SeqCst);
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; 65_536];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    // Either side may be gone already.
    let _ = to.shutdown(Shutdown::Both);
}

fn copy_until_commit(mut client: TcpStream, mut server: TcpStream, modes: &AtomicU8) {
    let mut buffer = [0; 65_536];
    while let Ok(count @ 1..) = client.read(&mut buffer) {
        let is_commit = buffer[..count].ends_with(b"\x03COMMIT");
        let mode = if is_commit {
            modes.swap(PASS, Ordering::SeqCst)
        } else {
            PASS
        };
        if mode == CUT_AFTER_COMMIT {
            // No answer comes through, but the server has it.
            client.shutdown(Shutdown::Write).unwrap();
            server.write_all(&buffer[..count]).unwrap();
            thread::sleep(Duration::from_millis(200));
        }
        if mode != PASS || server.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
    let _ = client.shutdown(Shutdown::Both);
}

fn through(proxy: &Proxy, tables: &Tables<'_>) -> MysqlQueue {
    let opts = tables
        .server
        .opts()
        .ip_or_hostname(Some("127.0.0.1"))
        .tcp_port(proxy.port);
    MysqlQueue::builder_with(opts)
        .table(tables.table())
        .build()
        .unwrap()
}

#[test]
fn an_enqueue_whose_commit_is_not_answered_has_an_unknown_outcome_and_its_key_makes_it_safe_to_repeat()
 {
    on_each(|server| {
        let tables = server.tables();
        let proxy = Proxy::to(server);
        let queue = through(&proxy, &tables);
        for (mode, key, stored) in [
            (CUT_AFTER_COMMIT, "after", true),
            (CUT_BEFORE_COMMIT, "before", false),
        ] {
            let keyed = job().with_dedup(key, DedupScope::WhileRowExists).unwrap();
            queue.stats(None).unwrap();
            proxy.cut(mode);
            let unknown = queue.enqueue_one(&keyed).unwrap_err();
            assert!(matches!(unknown, Error::OutcomeUnknown(_)), "{unknown:?}");
            assert_eq!(queue.enqueue_one(&keyed).unwrap().is_new(), !stored);
        }
        assert_eq!(tables.number("SELECT COUNT(*) FROM {job}"), 2);
    });
}

#[test]
fn a_claim_whose_commit_is_not_answered_is_not_handed_out_twice() {
    on_each(|server| {
        let tables = server.tables();
        let proxy = Proxy::to(server);
        let queue = through(&proxy, &tables);
        queue.enqueue_one(&job()).unwrap();
        proxy.cut(CUT_AFTER_COMMIT);
        assert!(matches!(
            queue.claim(&request(1)),
            Err(Error::OutcomeUnknown(_))
        ));
        assert!(queue.claim(&request(1)).unwrap().is_empty());
        // The server commits a moment after the client lost it.
        let running = "SELECT COUNT(*) FROM {job} WHERE state = 'running' AND attempts = 1";
        let until = Instant::now() + Duration::from_secs(20);
        while tables.number(running) == 0 {
            assert!(Instant::now() < until, "the commit was not stored");
            thread::sleep(Duration::from_millis(20));
        }
        assert!(queue.claim(&request(1)).unwrap().is_empty());
    });
}
