//! Tests with clients and services as people have them: curl, Python with `requests`, Node.
//!
//! 1. curl, Python and Node come from the system; `requests` from PyPI, in one version, below cargo's target directory.
//! 2. What is missing is named.

use crate::{
    servers::pip,
    shell::{Failure, cargo, run as run_command, target, works},
};
use std::{path::PathBuf, process::Command};

const REQUESTS: &str = "requests==2.32.5";

/// What the tests read to find `requests`.
const PYTHON_PATH: &str = "SEMEL_TEST_PYTHONPATH";

/// Runs the tests.
pub(crate) fn run() -> Result<(), Failure> {
    for program in ["curl", "node", "python3"] {
        if !works(Command::new(program).arg("--version")) {
            return Err(Failure::usage(format!(
                "`{program}` is missing\nhint: install it with the system's packages"
            )));
        }
    }
    let mut command =
        cargo(&["nextest", "run", "-p", "semel-server", "--features", "__clients", "--no-fail-fast"]);
    command.args(["-E", "test(/^clients::/)"]).env(PYTHON_PATH, requests()?);
    run_command(&mut command)
}

/// Where `requests` is, installed if need be.
fn requests() -> Result<PathBuf, Failure> {
    let directory = target().join("servers").join(REQUESTS);
    let directory = std::path::absolute(&directory).unwrap_or(directory);
    if directory.join("requests").is_dir() {
        return Ok(directory);
    }
    eprintln!("==> installing a Python package, once: {REQUESTS}");
    pip(&[REQUESTS], &directory)?;
    Ok(directory)
}
