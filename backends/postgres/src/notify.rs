//! Wake-up across processes by LISTEN and NOTIFY, off the path of every write.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use diesel::prelude::*;
use diesel::sql_types::Text;
use queue_table_core::{Bell, QueueName, Result};

use crate::error::failed;
use crate::lifecycle::Protocol;
use crate::pool::{Connection, Pool};
use crate::statement::{Bind, Statement};

/// How long announcements are collected before they are sent: each is one statement, however many
/// jobs it is for.
const COLLECT: Duration = Duration::from_millis(5);

/// How often the listener looks into its socket, which asks the server nothing.
const LOOK: Duration = Duration::from_millis(20);

/// The first and the longest wait before a lost connection is opened again.
const RECONNECT: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(30));

/// How long dropping it waits for its threads: a process that ends under libpq may die of it. One
/// that cannot reach its server ends later.
const END_WAIT: Duration = Duration::from_secs(1);

/// Announces this process's jobs to others, and rings the bell for theirs. Its threads end when it
/// is dropped.
pub(crate) struct Notifier {
    shared: Arc<Shared>,
    threads: Vec<thread::JoinHandle<()>>,
}

struct Shared {
    pool: Arc<Pool>,
    bell: Arc<Bell>,
    protocol: Arc<Protocol>,
    channel: String,
    pending: Mutex<BTreeSet<QueueName>>,
    announced: Condvar,
    stopped: AtomicBool,
}

impl Notifier {
    /// Starts both threads. Where a thread cannot be started its half does not work, and workers
    /// poll.
    pub(crate) fn start(pool: &Arc<Pool>, protocol: &Arc<Protocol>, bell: &Arc<Bell>) -> Self {
        let shared = Arc::new(Shared {
            pool: Arc::clone(pool),
            bell: Arc::clone(bell),
            protocol: Arc::clone(protocol),
            channel: format!("{}_ready", protocol.table.name()),
            pending: Mutex::default(),
            announced: Condvar::new(),
            stopped: AtomicBool::new(false),
        });
        let (sender, listener) = (Arc::clone(&shared), Arc::clone(&shared));
        let sender = spawn("queue-notify", move || sender.send_all());
        let listener = spawn("queue-listen", move || listener.listen_all());
        let mut threads = Vec::new();
        for spawned in [sender, listener] {
            match spawned {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    tracing::warn!(%error, "postgres: no thread for notifications; workers poll");
                }
            }
        }
        Self { shared, threads }
    }

    /// Tells other processes that jobs of a queue were committed. Returns at once.
    pub(crate) fn announce(&self, queue: &QueueName) {
        self.shared.pending().insert(queue.clone());
        self.shared.announced.notify_one();
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Release);
        // Under the lock, or the sender could check the flag before and begin to wait after.
        drop(self.shared.pending());
        self.shared.announced.notify_all();
        let until = Instant::now() + END_WAIT;
        let is_ended = || self.threads.iter().all(thread::JoinHandle::is_finished);
        while !is_ended() && Instant::now() < until {
            thread::sleep(Duration::from_millis(2));
        }
    }
}

fn spawn(
    name: &str,
    run: impl FnOnce() + Send + 'static,
) -> std::io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(run)
}

impl Shared {
    fn pending(&self) -> MutexGuard<'_, BTreeSet<QueueName>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Sends what is announced until the queue is dropped. What cannot be sent is dropped: workers
    /// poll.
    fn send_all(&self) {
        let mut connection = None;
        while let Some(queues) = self.next_announced() {
            if let Err(error) = self.send(&mut connection, &queues) {
                tracing::warn!(%error, "postgres: cannot notify; workers poll");
                connection = None;
            }
        }
    }

    /// Waits for announcements and collects them; `None` when the queue is dropped.
    fn next_announced(&self) -> Option<BTreeSet<QueueName>> {
        let mut pending = self.pending();
        while pending.is_empty() && !self.is_stopped() {
            let waited = self.announced.wait(pending);
            pending = waited.unwrap_or_else(PoisonError::into_inner);
        }
        if self.is_stopped() {
            return None;
        }
        drop(pending);
        thread::sleep(COLLECT);
        Some(std::mem::take(&mut *self.pending()))
    }

    fn send(
        &self,
        connection: &mut Option<Connection>,
        queues: &BTreeSet<QueueName>,
    ) -> Result<()> {
        let connection = match connection {
            Some(connection) => connection,
            None => connection.insert(self.pool.get_apart("notify")?),
        };
        for queue in queues {
            let binds = vec![Bind::Text(&self.channel), Bind::Text(queue.as_str())];
            Statement::<Text>::new(&self.protocol.texts.notify, binds)
                .execute(&mut **connection)
                .map_err(failed("notify"))?;
        }
        Ok(())
    }

    /// Listens until the queue is dropped, again and again when the connection is lost.
    fn listen_all(&self) {
        let mut wait = RECONNECT.0;
        while !self.is_stopped() {
            let mut heard = false;
            let Err(error) = self.listen(&mut heard) else {
                return;
            };
            if heard {
                wait = RECONNECT.0;
            }
            tracing::warn!(%error, "postgres: not listening; workers poll");
            self.sleep(wait.mul_f64(0.5 + fastrand::f64() / 2.0));
            wait = (wait * 2).min(RECONNECT.1);
        }
    }

    /// Listens on one connection. `Ok` when the queue is dropped; `heard` tells whether it was
    /// listening at all.
    fn listen(&self, heard: &mut bool) -> Result<()> {
        let mut connection = self.pool.get_apart("listen")?;
        diesel::sql_query(format!("LISTEN \"{}\"", self.channel))
            .execute(&mut *connection)
            .map_err(failed("listen"))?;
        *heard = true;
        while !self.is_stopped() {
            for notification in connection.notifications_iter() {
                let notification = notification.map_err(failed("listen"))?;
                // Anybody may notify on the channel; a name that is none wakes nobody.
                if let Ok(queue) = QueueName::new(&notification.payload) {
                    self.bell.ring(&queue);
                }
            }
            thread::sleep(LOOK);
        }
        // A given pool gets its connection back as it was.
        diesel::sql_query(format!("UNLISTEN \"{}\"", self.channel))
            .execute(&mut *connection)
            .map_err(failed("listen"))?;
        Ok(())
    }

    /// Sleeps, but not longer than the queue lives.
    fn sleep(&self, wait: Duration) {
        let mut left = wait;
        while !left.is_zero() && !self.is_stopped() {
            let nap = left.min(LOOK);
            thread::sleep(nap);
            left -= nap;
        }
    }
}
