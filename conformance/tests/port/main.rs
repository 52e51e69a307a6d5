//! A complete port: the queue on an engine that is an ordered map with transactions, and the suite
//! on that port.
//!
//! `store` is the engine, which a porter already has. `job` and `lifecycle` are the statements,
//! `admin` those for operators, `backend` the three traits around them, `fixture` what the suite
//! needs. The README walks through them.

mod admin;
mod backend;
mod fixture;
mod job;
mod lifecycle;
mod store;

use std::process::ExitCode;

use queue_table_conformance::FromEnv;

fn main() -> ExitCode {
    queue_table_conformance::main(FromEnv::Ready(fixture::ToyFixture))
}
