//! The command line.
//!
//! 1. What was typed is read first, and given a meaning after: the same functions read the file.
//! 2. What cannot be meant is told in one line, with one remedy, and ends with 2.
//! 3. Data goes to standard output, everything else to standard error.

mod bench;
mod check;
mod demo;
mod plan;
mod proxy;
mod serve;
mod wrong;

use crate::exit::Failure;
use clap::{Parser, Subcommand};
use std::ffi::OsString;

/// What was typed.
#[derive(Parser, Debug)]
#[command(
    name = "semel",
    version,
    about = "Every event takes effect once.",
    disable_help_subcommand = true,
    after_help = "`semel COMMAND --help` says what each of them takes."
)]
struct Typed {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Takes events in, and gives each to its functions until it has taken effect once
    Serve(Box<serve::Typed>),
    /// Puts idempotency keys in front of any HTTP service
    Proxy(Box<proxy::Typed>),
    /// Looks at a configuration file, and starts nothing
    Check(check::Typed),
    /// Prints when the attempts of each function would be, if they all failed
    Plan(plan::Typed),
    /// Shows in this process that every event takes effect once, whatever goes wrong
    Demo(demo::Typed),
    /// Measures how fast a server is
    Bench(bench::Typed),
}

/// Does what was typed.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Result<(), Failure> {
    let typed = match Typed::try_parse_from(arguments) {
        Ok(typed) => typed,
        Err(error) => return wrong::told(&error),
    };
    match typed.command {
        Command::Serve(typed) => serve::run(*typed),
        Command::Proxy(typed) => proxy::run(&typed),
        Command::Check(typed) => check::run(&typed),
        Command::Plan(typed) => plan::run(&typed),
        Command::Demo(typed) => demo::run(typed),
        Command::Bench(typed) => bench::run(&typed),
    }
}
