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
    TransactionalBackend, Worker, WorkerBuilder, WorkerId,
};

use crate::check::{Check, Failed};
use crate::fixture::Fixture;
use crate::harness::FromEnv;

mod effects;
pub(crate) mod versions;
mod watched;

pub(crate) use effects::{EFFECTS, Moment};

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
    /// Core's worker, whose handlers leave an effect in the same commit. It stands still when it
    /// has come to the moment, to be killed there.
    Effects(Option<Moment>),
    /// A worker that reads payloads of version 1.
    OldVersion,
    /// A worker that reads payloads of version 2, and brings those of version 1 up to it.
    NewVersion,
    /// Claims, acks and enqueues in one transaction that it leaves open.
    Transaction,
}

impl Role {
    /// Every role, the moments apart.
    const ALL: [Self; 5] = [
        Self::Worker,
        Self::Effects(None),
        Self::OldVersion,
        Self::NewVersion,
        Self::Transaction,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Effects(None) => "effects",
            Self::Effects(Some(moment)) => moment.as_str(),
            Self::OldVersion => "old version",
            Self::NewVersion => "new version",
            Self::Transaction => "transaction",
        }
    }

    /// What this process was started for, when it is a child.
    pub(crate) fn of_this_process() -> Option<Self> {
        let word = std::env::var(ROLE).ok()?;
        let at_a_moment = Moment::ALL.map(|moment| Self::Effects(Some(moment)));
        let mut all = Self::ALL.into_iter().chain(at_a_moment);
        all.find(|role| role.as_str() == word)
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
            Self::Effects(moment) => effects::work(backend, &queue, moment),
            Self::OldVersion => versions::work_as_old(backend, &queue),
            Self::NewVersion => versions::work_as_new(backend, &queue),
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

/// A worker as every child has it, without its handlers.
fn builder<B: Administration + 'static>(backend: B, queue: &QueueName) -> Check<WorkerBuilder<B>> {
    Ok(Worker::builder(Arc::new(backend))
        .name("child")
        .queue(queue)
        .lease(LEASE)
        .poll_interval(Duration::from_millis(50))
        .reap_every(Duration::from_secs(3_600))
        .retry_policy(RetryPolicy::fixed(Duration::from_millis(1))?))
}

/// Works until the parent says that it is enough, or is gone.
fn work_until_the_end<B: Administration + 'static>(builder: WorkerBuilder<B>) -> Check {
    let worker = builder.start().map_err(Failed::new)?;
    wait_for_the_end();
    let report = worker.stop(Duration::from_secs(10));
    let (succeeded, lost) = (report.succeeded, report.lost.total());
    say(format_args!("stopped {succeeded} {lost}"));
    Ok(())
}

fn work<B: Administration + 'static>(backend: B, queue: &QueueName) -> Check {
    let builder = builder(backend, queue)?.handle_kind("note", 1..=1, |job, _| {
        let (id, attempt) = (job.job_id(), job.attempt());
        say(format_args!("began {id} {attempt}"));
        match job.payload.decode::<u64>() {
            Ok(millis) => std::thread::sleep(Duration::from_millis(millis)),
            Err(_) => std::process::abort(),
        }
        say(format_args!("ended {id} {attempt}"));
    });
    work_until_the_end(builder)
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

    /// The next line that it says; `None` when it has ended.
    pub(crate) fn hear_next(&self) -> Check<Option<(String, [i64; 2])>> {
        use std::sync::mpsc::RecvTimeoutError::{Disconnected, Timeout};
        match self.said.recv_timeout(PATIENCE) {
            Ok(line) => Ok(Some(line)),
            Err(Disconnected) => Ok(None),
            Err(Timeout) => Err(Failed::new("the child says nothing")),
        }
    }

    /// The numbers of the next line that begins with the word; earlier lines are passed over.
    /// `None` when the child ends without saying it.
    pub(crate) fn hear(&self, word: &str) -> Check<Option<[i64; 2]>> {
        loop {
            let line = self
                .hear_next()
                .map_err(|failed| Failed::new(format_args!("waiting for `{word}`: {failed}")))?;
            match line {
                Some((said, numbers)) if said == word => return Ok(Some(numbers)),
                Some(_) => {}
                None => return Ok(None),
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
