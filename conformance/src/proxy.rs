//! A network between a backend and its server that fails when it is told to.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::fixture::{PortError, Server};

/// Passes on what a backend and its server say to each other, until it is told otherwise.
///
/// It listens on a port of this machine. Blocking, one thread for each direction of a connection;
/// they end with it.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// Which side of a commit is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The request: the server never hears of it.
    Request,
    /// The reply: the server has committed, and the client is not told.
    Reply,
}

#[derive(Debug)]
struct Shared {
    server: Server,
    next_commit: Mutex<Option<Cut>>,
    refuses: AtomicBool,
    ended: AtomicBool,
    tried: AtomicUsize,
    open: Mutex<Vec<TcpStream>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends a connection in both directions. The other side may have done so before.
fn end(stream: &TcpStream) {
    let _ = stream.shutdown(Shutdown::Both);
}

impl Proxy {
    /// A network before this server.
    ///
    /// # Errors
    /// [`PortError`] when there is no port to listen on.
    pub fn before(server: Server) -> Result<Self, PortError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(PortError::new)?;
        let address = listener.local_addr().map_err(PortError::new)?;
        let shared = Arc::new(Shared {
            server,
            next_commit: Mutex::default(),
            refuses: AtomicBool::default(),
            ended: AtomicBool::default(),
            tried: AtomicUsize::default(),
            open: Mutex::default(),
        });
        let accepts = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming() {
                if accepts.ended.load(Ordering::SeqCst) {
                    return;
                }
                if let Ok(client) = client {
                    accepts.pass_on(client);
                }
            }
        });
        Ok(Self { address, shared })
    }

    /// Where the backend connects to, instead of the server.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts every connection that is open now. New ones are passed on.
    pub fn cut_all(&self) {
        lock(&self.shared.open).drain(..).for_each(|one| end(&one));
    }

    /// Takes the server out of reach: what is open is cut, and what comes is refused.
    pub fn close(&self) {
        self.shared.refuses.store(true, Ordering::SeqCst);
        self.cut_all();
    }

    /// Brings the server back.
    pub fn open(&self) {
        self.shared.refuses.store(false, Ordering::SeqCst);
    }

    /// Cuts the connection of the next commit on this side of it.
    pub fn cut_next_commit(&self, cut: Cut) {
        *lock(&self.shared.next_commit) = Some(cut);
    }

    /// Whether the commit that was to be cut has not come by yet.
    #[must_use]
    pub fn still_waits(&self) -> bool {
        lock(&self.shared.next_commit).is_some()
    }

    /// How many connections were asked for, those refused included.
    #[must_use]
    pub fn tried(&self) -> usize {
        self.shared.tried.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        self.cut_all();
        // Wakes the thread that listens, so that it ends; when it cannot be reached it has ended.
        drop(TcpStream::connect(self.address));
    }
}

impl Shared {
    fn pass_on(self: &Arc<Self>, client: TcpStream) {
        self.tried.fetch_add(1, Ordering::SeqCst);
        if self.refuses.load(Ordering::SeqCst) {
            return;
        }
        // A server that is not there looks to the client like one that hangs up.
        let Ok(server) = TcpStream::connect(&self.server.address) else {
            return;
        };
        let both = [client.try_clone(), server.try_clone()];
        let [Ok(to_client), Ok(from_server)] = both else {
            return;
        };
        // Each request is a write of its own: do not hold small ones back.
        for stream in [&client, &server] {
            let _ = stream.set_nodelay(true);
        }
        let mut open = lock(&self.open);
        open.extend(
            [client.try_clone(), server.try_clone()]
                .into_iter()
                .flatten(),
        );
        drop(open);
        let (requests, swallows) = (Arc::clone(self), Arc::new(AtomicBool::default()));
        let replies = Arc::clone(&swallows);
        thread::spawn(move || requests.pass_requests(&client, &server, &swallows));
        thread::spawn(move || pass_replies(&from_server, &to_client, &replies));
    }

    fn pass_requests(&self, mut client: &TcpStream, mut server: &TcpStream, swallows: &AtomicBool) {
        let mut bytes = vec![0; 65_536];
        while let Ok(count @ 1..) = client.read(&mut bytes) {
            match self.cut(&bytes[..count]) {
                Some(Cut::Request) => break,
                Some(Cut::Reply) => swallows.store(true, Ordering::SeqCst),
                None => {}
            }
            if server.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        if !swallows.load(Ordering::SeqCst) {
            end(client);
            end(server);
        }
    }

    /// The cut that was asked for, when this asks the server to commit.
    fn cut(&self, request: &[u8]) -> Option<Cut> {
        let commit = &*self.server.commit;
        let commits = request.windows(commit.len()).any(|bytes| bytes == commit);
        commits.then(|| lock(&self.next_commit).take()).flatten()
    }
}

/// The first reply that is swallowed tells that the server has committed: then the client may see
/// the connection end.
fn pass_replies(mut server: &TcpStream, mut client: &TcpStream, swallows: &AtomicBool) {
    let mut bytes = vec![0; 65_536];
    while let Ok(count @ 1..) = server.read(&mut bytes) {
        if swallows.load(Ordering::SeqCst) || client.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    end(client);
    end(server);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that says back what it is told.
    fn echo() -> Server {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                thread::spawn(move || {
                    let (mut from, mut to) = (&client, &client);
                    std::io::copy(&mut from, &mut to)
                });
            }
        });
        Server {
            address,
            commit: b"COMMIT".to_vec(),
        }
    }

    fn said_back(stream: &mut TcpStream, text: &str) -> String {
        let mut bytes = vec![0; text.len()];
        let answer = stream
            .write_all(text.as_bytes())
            .and_then(|()| stream.read_exact(&mut bytes));
        answer.map_or_else(|_| "cut".to_owned(), |()| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn it_passes_on_until_the_commit_that_it_is_to_cut() {
        for cut in [Cut::Request, Cut::Reply] {
            let proxy = Proxy::before(echo()).unwrap();
            let mut stream = TcpStream::connect(proxy.address()).unwrap();
            assert_eq!(said_back(&mut stream, "a COMMIT"), "a COMMIT");
            proxy.cut_next_commit(cut);
            assert_eq!(said_back(&mut stream, "more"), "more");
            assert!(proxy.still_waits());
            assert_eq!(said_back(&mut stream, "COMMIT"), "cut");
            assert!(!proxy.still_waits());
        }
    }

    #[test]
    fn a_closed_one_refuses_and_an_opened_one_passes_on_again() {
        let proxy = Proxy::before(echo()).unwrap();
        let mut first = TcpStream::connect(proxy.address()).unwrap();
        assert_eq!(said_back(&mut first, "hello"), "hello");
        proxy.close();
        assert_eq!(said_back(&mut first, "hello"), "cut");
        let mut refused = TcpStream::connect(proxy.address()).unwrap();
        assert_eq!(said_back(&mut refused, "hello"), "cut");
        proxy.open();
        let mut again = TcpStream::connect(proxy.address()).unwrap();
        assert_eq!(said_back(&mut again, "hello"), "hello");
        assert_eq!(proxy.tried(), 3);
    }
}
