//! A way to a server that counts how often it is asked.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Listens for connections and passes them on to the server at `url`. Returns the same address by
/// way of here. The threads end with their connections, and the listener with the process.
pub(crate) fn count_round_trips(url: &str, trips: Arc<AtomicU64>) -> String {
    let place = url.rsplit_once('@').unwrap().1;
    let place = place.split(['/', '?']).next().unwrap().to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let here = listener.local_addr().unwrap().to_string();
    let through = url.replace(&place, &here);
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(&place) else {
                continue;
            };
            pass_on(client, server, &trips);
        }
    });
    through
}

/// What the client sends after an answer is one more round trip.
fn pass_on(client: TcpStream, server: TcpStream, trips: &Arc<AtomicU64>) {
    let answered = Arc::new(AtomicBool::new(true));
    let (asks, trips) = (Arc::clone(&answered), Arc::clone(trips));
    let (from_client, to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    std::thread::spawn(move || {
        copy(from_client, to_server, || {
            let new = asks.swap(false, Ordering::Relaxed);
            trips.fetch_add(u64::from(new), Ordering::Relaxed);
        });
    });
    std::thread::spawn(move || copy(server, client, || answered.store(true, Ordering::Relaxed)));
}

/// Copies until either side is gone, and then ends both.
fn copy(mut from: TcpStream, mut to: TcpStream, each: impl Fn()) {
    let mut bytes = [0; 16_384];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        each();
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    // Either side may be gone already.
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
