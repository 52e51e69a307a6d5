//! A network between the crate and the server that can lose a commit on the way there or its answer
//! on the way back.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;

const PASS: u8 = 0;
const CUT_BEFORE: u8 = 1;
const CUT_AFTER: u8 = 2;

/// Forwards connections to the server until it is told to cut the next commit.
pub(crate) struct Proxy {
    port: u16,
    mode: Arc<AtomicU8>,
}

impl Proxy {
    /// A proxy before the server of this URL.
    pub(crate) fn before(url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mode = Arc::new(AtomicU8::new(PASS));
        let (server, modes) = (place(url).to_owned(), Arc::clone(&mode));
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(&server).unwrap();
                forward(client, server, &modes);
            }
        });
        Self { port, mode }
    }

    pub(crate) fn url(&self, url: &str) -> String {
        // Without TLS, so that the proxy can read what passes.
        url.replace(place(url), &format!("127.0.0.1:{}", self.port)) + "?sslmode=disable"
    }

    /// The next COMMIT does not reach the server.
    pub(crate) fn cut_before_commit(&self) {
        self.mode.store(CUT_BEFORE, Ordering::SeqCst);
    }

    /// The next COMMIT reaches the server, and its answer does not come back.
    pub(crate) fn cut_after_commit(&self) {
        self.mode.store(CUT_AFTER, Ordering::SeqCst);
    }
}

fn place(url: &str) -> &str {
    let (_, rest) = url.rsplit_once('@').unwrap();
    rest.split(['/', '?']).next().unwrap()
}

fn forward(client: TcpStream, server: TcpStream, mode: &Arc<AtomicU8>) {
    let (mut from_server, mut to_client) =
        (server.try_clone().unwrap(), client.try_clone().unwrap());
    let mode = Arc::clone(mode);
    thread::spawn(move || {
        let (mut client, mut server) = (client, server);
        let mut bytes = [0; 65_536];
        while let Ok(count @ 1..) = client.read(&mut bytes) {
            let is_commit = bytes[..count].windows(7).any(|word| word == b"COMMIT\0");
            let cut = match is_commit {
                true => mode.swap(PASS, Ordering::SeqCst),
                false => PASS,
            };
            if cut == CUT_AFTER {
                // The client is gone first: it must not see the answer.
                client.shutdown(Shutdown::Both).unwrap();
            }
            if cut != CUT_BEFORE && server.write_all(&bytes[..count]).is_err() {
                break;
            }
            if cut == CUT_AFTER {
                // The server finishes what it has read before it sees that nobody is there.
                thread::sleep(std::time::Duration::from_millis(300));
            }
            if cut != PASS {
                break;
            }
        }
        drop(client.shutdown(Shutdown::Both));
        drop(server.shutdown(Shutdown::Both));
    });
    thread::spawn(move || {
        let mut bytes = [0; 65_536];
        while let Ok(count @ 1..) = from_server.read(&mut bytes) {
            if to_client.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        drop(to_client.shutdown(Shutdown::Both));
    });
}
