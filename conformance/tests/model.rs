//! The suite on its own yardstick: the model keeps every rule.

use std::process::ExitCode;

use queue_table_conformance::{FromEnv, ModelFixture};

fn main() -> ExitCode {
    queue_table_conformance::main(FromEnv::Ready(ModelFixture::new()))
}
