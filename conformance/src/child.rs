//! A second process: this program started again, to work on a scenario's tables until it is told to
//! stop, or killed.
//!
//! Parent and child speak in lines. The child says what it does on its standard output; the end of
//! its standard input tells it to stop, so that it never outlives its parent.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child as Process, ChildStdin, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use queue_table_core::{
    Administration, BatchSize, ClaimRequest, Kind, NewJob, Payload, QueueName, RetryPolicy,
    TransactionalBackend, Worker, WorkerId,
};

use crate::check::{Check, Failed};
use crate::fixture::Fixture;
use crate::harness::FromEnv;

/// Tells a new process that it is a child, and what for.
const ROLE: &str = "QUEUE_TABLE_CONFORMANCE_ROLE";

/// Tells it where the tables are.
const TABLES: &str = "QUEUE_TABLE_CONFORMANCE_TABLES";

/// The lease of a child's claims. Scenarios let it run out by moving rows back, so that it may be
/// long.
const LEASE: Duration = Duration::from_secs(20);

/// Far more than a process needs to start and to do a few jobs.
const PATIENCE: Duration = Duration::from_secs(40);

/// What a child is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Core's worker. A payload is how many milliseconds the handler takes; `"abort"` ends the
    /// process.
    Worker,
    /// Claims, acks and enqueues in one transaction that it leaves open.
    Transaction,
}

impl Role {
    const ALL: [Self; 2] = [Self::Worker, Self::Transaction];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Transaction => "transaction",
        }
    }

    /// What this process was started for, when it is a child.
    pub(crate) fn of_this_process() -> Option<Self> {
        let word = std::env::var(ROLE).ok()?;
        Self::ALL.into_iter().find(|role| role.as_str() == word)
    }

    /// The child's whole life.
    pub(crate) fn play<F: Fixture>(self, fixture: FromEnv<F>) -> ExitCode {
        let played = match fixture {
            FromEnv::Ready(fixture) => self.on_tables(&fixture),
            FromEnv::NotRun { reason, .. } => Err(Failed::new(reason)),
        };
        match played {
            Ok(()) => ExitCode::SUCCESS,
            Err(failed) => {
                eprintln!("child {}: {failed}", self.as_str());
                ExitCode::FAILURE
            }
        }
    }

    fn on_tables<F: Fixture>(self, fixture: &F) -> Check {
        let address = std::env::var(TABLES).map_err(Failed::new)?;
        let (backend, queue) = (fixture.reopen(&address)?, QueueName::new("mail")?);
        match self {
            Self::Worker => work(backend, &queue),
            Self::Transaction => stay_in_transaction(&backend, &queue),
        }
    }
}

/// Says a line that the parent waits for.
fn say(line: std::fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    // A parent that is gone hears nothing; the end of the input ends this process.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Waits until the parent closes the child's input, or is gone.
fn wait_for_the_end() {
    let mut nothing = Vec::new();
    // An input that cannot be read is at its end too.
    let _ = std::io::stdin().lock().read_to_end(&mut nothing);
}

fn work<B: Administration + 'static>(backend: B, queue: &QueueName) -> Check {
    let worker = Worker::builder(Arc::new(backend))
        .name("child")
        .queue(queue)
        .lease(LEASE)
        .poll_interval(Duration::from_millis(50))
        .reap_every(Duration::from_secs(3_600))
        .retry_policy(RetryPolicy::fixed(Duration::from_millis(1))?)
        .handle_kind("note", 1..=1, |job, _| {
            let (id, attempt) = (job.job_id(), job.attempt());
            say(format_args!("began {id} {attempt}"));
            match job.payload.decode::<u64>() {
                Ok(millis) => std::thread::sleep(Duration::from_millis(millis)),
                Err(_) => std::process::abort(),
            }
            say(format_args!("ended {id} {attempt}"));
        })
        .start()
        .map_err(Failed::new)?;
    wait_for_the_end();
    let report = worker.stop(Duration::from_secs(10));
    let (succeeded, lost) = (report.succeeded, report.lost.total());
    say(format_args!("stopped {succeeded} {lost}"));
    Ok(())
}

fn stay_in_transaction<B: TransactionalBackend>(backend: &B, queue: &QueueName) -> Check {
    let job = NewJob::new(queue, Kind::new("note")?, Payload::from_json("0")?);
    let request = ClaimRequest::new(queue.clone(), WorkerId::new("child")?);
    let request = request.with_limit(BatchSize::ONE);
    backend.transaction(|tx| {
        backend.enqueue_in(tx, &[job])?;
        for claimed in backend.claim_in(tx, &request)? {
            backend.ack_in(tx, &claimed.receipt)?;
            say(format_args!(
                "began {} {}",
                claimed.job_id(),
                claimed.attempt()
            ));
        }
        wait_for_the_end();
        Ok::<(), queue_table_core::Error>(())
    })?;
    say(format_args!("stopped 1 0"));
    Ok(())
}

/// A child as its parent sees it. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Child {
    process: Process,
    input: Option<ChildStdin>,
    said: Receiver<(String, [i64; 2])>,
}

impl Child {
    /// Starts this program again, for the tables at the address.
    pub(crate) fn start(role: Role, address: &str) -> Check<Self> {
        let program = std::env::current_exe().map_err(Failed::new)?;
        let mut process = Command::new(program)
            .env(ROLE, role.as_str())
            .env(TABLES, address)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| Failed::new(format_args!("no second process: {error}")))?;
        let (input, output) = (process.stdin.take(), process.stdout.take());
        let (hears, said) = channel();
        std::thread::spawn(move || {
            let lines = output
                .into_iter()
                .flat_map(|output| BufReader::new(output).lines());
            for line in lines.map_while(Result::ok).filter_map(|line| parse(&line)) {
                if hears.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            process,
            input,
            said,
        })
    }

    /// The numbers of the next line that begins with the word; earlier lines are passed over.
    /// `None` when the child ends without saying it.
    pub(crate) fn hear(&self, word: &str) -> Check<Option<[i64; 2]>> {
        use std::sync::mpsc::RecvTimeoutError::{Disconnected, Timeout};
        loop {
            match self.said.recv_timeout(PATIENCE) {
                Ok((said, numbers)) if said == word => return Ok(Some(numbers)),
                Ok(_) => {}
                Err(Disconnected) => return Ok(None),
                Err(Timeout) => {
                    return Err(Failed::new(format_args!("the child never said `{word}`")));
                }
            }
        }
    }

    /// All that it says from now on until it ends.
    pub(crate) fn hear_out(&self) -> Vec<(String, [i64; 2])> {
        std::iter::from_fn(|| self.said.recv_timeout(PATIENCE).ok()).collect()
    }

    /// Everything with the word that it says from now on until it ends.
    pub(crate) fn hear_all(&self, word: &str) -> Check<Vec<[i64; 2]>> {
        std::iter::from_fn(|| self.hear(word).transpose()).collect()
    }

    /// Ends it as SIGKILL does: it gets no say.
    pub(crate) fn kill(&mut self) -> Check {
        self.process.kill().map_err(Failed::new)?;
        self.process.wait().map_err(Failed::new).map(|_| ())
    }

    /// Stops it where it stands, or lets it go on: `STOP` or `CONT`. Through the shell, which every
    /// Unix has.
    pub(crate) fn signal(&self, signal: &str) -> Check {
        let command = format!("kill -{signal} {}", self.process.id());
        let status = Command::new("sh").args(["-c", &command]).status();
        match status.map_err(Failed::new)? {
            status if status.success() => Ok(()),
            status => Err(Failed::new(format_args!("{command}: {status}"))),
        }
    }

    /// Tells it to stop: it finishes what it does, and ends.
    pub(crate) fn tell_to_stop(&mut self) {
        drop(self.input.take());
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to kill and nothing to say about it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// `word number number`.
fn parse(line: &str) -> Option<(String, [i64; 2])> {
    let mut words = line.split(' ');
    let word = words.next()?.to_owned();
    let mut number = || words.next()?.parse().ok();
    Some((word, [number()?, number()?]))
}
