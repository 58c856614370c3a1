//! Tests with clients, services and senders as people have them: curl, Python, Node, and packages for each.
//!
//! 1. curl, Python and Node come from the system; packages from PyPI and npm, each in one version, below cargo's target
//!    directory.
//! 2. What is missing is named.

use crate::{
    servers::pip,
    shell::{Failure, cargo, run as run_command, target, works},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// From PyPI.
const OF_PYTHON: [&str; 4] =
    ["cloudevents==2.2.0", "requests==2.32.5", "standardwebhooks==1.1.0", "stripe==16.1.0"];
/// From npm.
const OF_NODE: &str = "cloudevents@10.0.0";

/// What the tests read to find them.
const PYTHON_PATH: &str = "SEMEL_TEST_PYTHONPATH";
const NODE_PATH: &str = "SEMEL_TEST_NODE_PATH";

/// Runs the tests.
pub(crate) fn run() -> Result<(), Failure> {
    for program in ["curl", "node", "npm", "python3"] {
        if !works(Command::new(program).arg("--version")) {
            return Err(Failure::usage(format!(
                "`{program}` is missing\nhint: install it with the system's packages"
            )));
        }
    }
    let mut command =
        cargo(&["nextest", "run", "-p", "semel-server", "--features", "__clients", "--no-fail-fast"]);
    command.args(["-E", "test(/^clients::/)"]).env(PYTHON_PATH, python()?).env(NODE_PATH, node()?);
    run_command(&mut command)
}

/// Where Python's packages are, installed if need be.
fn python() -> Result<PathBuf, Failure> {
    installed(&OF_PYTHON.join("+"), |directory| pip(&OF_PYTHON, directory))
}

/// Where Node's packages are, installed if need be.
fn node() -> Result<PathBuf, Failure> {
    installed(OF_NODE, |directory| {
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--no-audit", "--no-fund", "--no-save", "--prefix"]);
        run_command(npm.arg(directory).arg(OF_NODE))
    })
}

/// A directory of this name that was filled to the end.
fn installed(name: &str, fill: impl Fn(&Path) -> Result<(), Failure>) -> Result<PathBuf, Failure> {
    let directory = target().join("servers").join(name);
    let directory = std::path::absolute(&directory).unwrap_or(directory);
    let is_full = directory.join("installed");
    if is_full.is_file() {
        return Ok(directory);
    }
    eprintln!("==> installing packages, once: {name}");
    let unwritable = |error| Failure::usage(format!("cannot write `{}`: {error}", directory.display()));
    fs::create_dir_all(&directory).map_err(unwritable)?;
    fill(&directory)?;
    fs::write(is_full, "").map_err(unwritable)?;
    Ok(directory)
}
