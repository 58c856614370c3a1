//! The `semel` program, as a library: what its commands share.
//!
//! - [`api`]: what operators ask of `semel serve`.
//! - [`cli`]: what was typed, and what it means; [`exit`]: how a command ends.
//! - [`bench`](mod@bench): traffic to measure by.
//! - [`config`]: the file.
//! - [`listen`]: connections in, requests out.
//! - [`proxy`]: `semel proxy`.
//! - [`serve`]: `semel serve`, and [`ingest`]: what it takes in.
//! - [`store_url`]: where records are kept.
//! - [`log`]: what is written to standard error.
//!
//! Applications use the crate `semel` instead.

pub mod api;
pub mod bench;
pub mod cli;
pub mod config;
pub(crate) mod demo;
pub mod exit;
#[doc(hidden)]
pub mod fuzz;
mod hex;
pub mod ingest;
pub mod listen;
pub mod log;
pub mod problem;
pub(crate) mod progress;
pub mod proxy;
pub mod serve;
pub mod store_url;

use std::{ffi::OsString, process::ExitCode};

/// Does what was typed.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match cli::run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprint!("{failure}");
            failure.exit_code()
        }
    }
}
