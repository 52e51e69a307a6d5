//! A scripted server: answers TDS as a test tells it, and hangs up, stalls or refuses where a real
//! one might.
//!
//! It knows no SQL. A request is recognised by the statement's own text, and its answer is the
//! script's.

mod tds;

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use queue_table_core::Table;
use queue_table_sqlserver::{ConnectOptions, SqlServerQueue, Statements};

pub(crate) use tds::Cell;

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    Login,
    /// A statement with parameters, by its file's name; `other` for a text of the test's own.
    Statement(&'static str),
    /// The session's settings.
    Session,
    /// A text without parameters.
    Batch(String),
    Begin,
    Commit,
    /// `ROLLBACK` as the crate sends it.
    Rollback,
}

/// What the server does then.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// Answers with nothing but the end, and without a row count, as under NOCOUNT.
    Done,
    /// Answers with rows: the columns' names, then the cells.
    Rows(Vec<&'static str>, Vec<Vec<Cell>>),
    /// Answers with an error: number and severity. An open transaction is rolled back, as under
    /// XACT_ABORT.
    Error(u32, u8),
    /// Answers with an error that ends neither the statement nor the transaction.
    Warning(u32, u8),
    /// Closes the connection without an answer.
    Cut,
    /// Sends these rows but not their end, and closes the connection.
    CutAfter(Vec<&'static str>, Vec<Vec<Cell>>),
    /// Answers late.
    Late(Duration),
}

type Script = dyn FnMut(&Request) -> Reply + Send;

/// The server. It serves connections, each on a thread, until the test's process ends.
pub(crate) struct Fake {
    address: SocketAddr,
    log: Arc<Mutex<Vec<Request>>>,
}

impl Fake {
    /// Serves by a script, which is asked about every request of every connection in turn.
    pub(crate) fn serve(script: impl FnMut(&Request) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let script: Arc<Mutex<Box<Script>>> = Arc::new(Mutex::new(Box::new(script)));
        let (seen, statements) = (log.clone(), Arc::new(Statements::new(&Table::default())));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let connection = Served {
                    stream: stream.unwrap(),
                    script: script.clone(),
                    log: seen.clone(),
                    statements: statements.clone(),
                    in_transaction: false,
                };
                // A client that hangs up ends the thread with an error that nobody needs.
                thread::spawn(move || drop(connection.serve()));
            }
        });
        Self { address, log }
    }

    pub(crate) fn options(&self) -> ConnectOptions {
        let port = self.address.port();
        let url = format!("sqlserver://app:secret@127.0.0.1:{port}/shop?encrypt=danger_plaintext");
        ConnectOptions::parse(&url).unwrap()
    }

    pub(crate) fn queue(&self) -> SqlServerQueue {
        self.queue_with(self.options())
    }

    pub(crate) fn queue_with(&self, options: ConnectOptions) -> SqlServerQueue {
        SqlServerQueue::builder_with(options)
            .pool_size(2)
            .pool_wait(Duration::from_secs(2))
            .build()
            .unwrap()
    }

    /// Everything that was asked, but logins and the session's settings.
    pub(crate) fn asked(&self) -> Vec<Request> {
        let log = self.log.lock().unwrap();
        let asked = log
            .iter()
            .filter(|request| !matches!(request, Request::Login | Request::Session));
        asked.cloned().collect()
    }

    pub(crate) fn count(&self, wanted: &Request) -> usize {
        let log = self.log.lock().unwrap();
        log.iter().filter(|request| *request == wanted).count()
    }
}

/// One connection, on its thread.
struct Served {
    stream: TcpStream,
    script: Arc<Mutex<Box<Script>>>,
    log: Arc<Mutex<Vec<Request>>>,
    statements: Arc<Statements>,
    in_transaction: bool,
}

impl Served {
    fn serve(mut self) -> std::io::Result<()> {
        loop {
            let (kind, body) = tds::read_message(&mut self.stream)?;
            if kind == tds::PRELOGIN {
                tds::write_message(&mut self.stream, &tds::prelogin())?;
                continue;
            }
            let request = self.recognise(kind, &body);
            self.log.lock().unwrap().push(request.clone());
            let reply = match self.is_of_the_transaction(&request, &body) {
                true => (self.script.lock().unwrap())(&request),
                // What a server says to a request that names a transaction it has not open.
                false => Reply::Error(3989, 16),
            };
            match self.tokens(&request, reply) {
                Answer::Whole(tokens) => tds::write_message(&mut self.stream, &tokens)?,
                Answer::Part(tokens) => {
                    tds::write_unfinished(&mut self.stream, &tokens)?;
                    return self.stream.flush();
                }
                Answer::None => return Ok(()),
            }
        }
    }

    /// Whether the request names the open transaction, or none when none is open.
    fn is_of_the_transaction(&self, request: &Request, body: &[u8]) -> bool {
        *request == Request::Login || tds::names_transaction(body) == self.in_transaction
    }

    fn recognise(&self, kind: u8, body: &[u8]) -> Request {
        match kind {
            tds::LOGIN => Request::Login,
            tds::TRANSACTION => match tds::transaction_request(body) {
                tds::BEGIN => Request::Begin,
                _ => Request::Commit,
            },
            tds::BATCH => match tds::batch_text(body) {
                text if text.contains("SET XACT_ABORT ON") => Request::Session,
                text if text.contains("ROLLBACK TRANSACTION") => Request::Rollback,
                text => Request::Batch(text),
            },
            _ => {
                let all = self.statements.all();
                let found = all
                    .into_iter()
                    .find(|(_, text)| tds::holds_text(body, text));
                Request::Statement(found.map_or("other", |(name, _)| name))
            }
        }
    }

    fn tokens(&mut self, request: &Request, reply: Reply) -> Answer {
        let mut tokens = Vec::new();
        match reply {
            Reply::Cut => return Answer::None,
            Reply::CutAfter(columns, rows) => {
                return Answer::Part(tds::rows(&columns, &rows));
            }
            Reply::Late(by) => thread::sleep(by),
            Reply::Rows(columns, rows) => tokens = tds::rows(&columns, &rows),
            Reply::Error(number, class) => {
                tokens.extend(tds::error(number, class));
                if std::mem::take(&mut self.in_transaction) {
                    tokens.extend(tds::transaction_ended(tds::ROLLBACK));
                }
                tokens.extend(tds::done(true));
                return Answer::Whole(tokens);
            }
            Reply::Warning(number, class) => tokens.extend(tds::error(number, class)),
            Reply::Done => {}
        }
        match request {
            Request::Login => tokens.extend(tds::login_ack()),
            Request::Begin => {
                self.in_transaction = true;
                tokens.extend(tds::transaction_begun());
            }
            Request::Commit | Request::Rollback if self.in_transaction => {
                self.in_transaction = false;
                tokens.extend(tds::transaction_ended(tds::COMMIT));
            }
            _ => {}
        }
        tokens.extend(tds::done(false));
        Answer::Whole(tokens)
    }
}

enum Answer {
    Whole(Vec<u8>),
    Part(Vec<u8>),
    None,
}
