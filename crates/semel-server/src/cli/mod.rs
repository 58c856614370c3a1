//! The command line.
//!
//! 1. What was typed is read first, and given a meaning after: the same functions read the file.
//! 2. What cannot be meant is told in one line, with one remedy, and ends with 2.
//! 3. Data goes to standard output, everything else to standard error.
//! 4. Whatever asks a running server takes `--server`, `--token` and `--json`, or the environment's word for them.

mod act;
mod bench;
mod check;
mod client;
mod demo;
mod doctor;
mod list;
mod past;
mod plan;
mod proxy;
mod send;
mod serve;
mod shell;
mod switch;
pub(crate) mod text;
mod why;
mod wrong;

use crate::{api::views::Verb, exit::Failure};
use clap::{CommandFactory as _, Parser, Subcommand};
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
    /// Gives an event to a server, once or several times
    Send(send::Typed),
    /// Tells what became of an event: received when, duplicate of what, which attempts, what next
    Why(why::Typed),
    /// Lists events on their way through functions
    #[command(visible_alias = "events")]
    Executions(list::Executions),
    /// Lists what failed for good, and is kept
    Dead(list::Dead),
    /// Lists functions, and how they stand
    Functions(list::Only),
    /// Starts executions again after they failed
    Redrive(Box<act::Redrive>),
    /// Ends executions
    Cancel(Box<act::Typed>),
    /// Lets executions wait until they are unparked
    Park(Box<act::Typed>),
    /// Lets parked executions go on
    Unpark(Box<act::Typed>),
    /// Says what became of an execution that nobody could tell of
    Resolve(act::Resolve),
    /// Lists what is done to many executions
    Jobs(list::Only),
    /// Stops a job
    Abort(act::Abort),
    /// Starts nothing more of a function
    Pause(switch::Typed),
    /// Lets a paused function go on
    Resume(switch::Typed),
    /// Pauses a function, and waits until nothing of it runs
    Drain(switch::Drain),
    /// Decides what becomes of what a store has that forgot something: replay it, or skip it
    Past(past::Typed),
    /// Lists who changed what
    Audit(list::Audit),
    /// Looks whether a server is well
    Doctor(doctor::Typed),
    /// Removes now what has outlived its retention
    Purge(list::Only),
    /// Prints the SQL that makes the tables in PostgreSQL
    Schema(shell::Schema),
    /// Prints what makes a shell complete these commands
    Completions(shell::Completions),
    /// Prints the manual page
    Man(shell::Man),
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
        Command::Send(typed) => send::run(&typed),
        Command::Why(typed) => why::run(&typed),
        Command::Executions(typed) => list::executions(&typed),
        Command::Dead(typed) => list::dead(&typed),
        Command::Functions(typed) => list::functions(&typed),
        Command::Redrive(typed) => act::redrive(&typed),
        Command::Cancel(typed) => act::run(&typed, Verb::Cancel),
        Command::Park(typed) => act::run(&typed, Verb::Park),
        Command::Unpark(typed) => act::run(&typed, Verb::Unpark),
        Command::Resolve(typed) => act::resolve(&typed),
        Command::Jobs(typed) => list::jobs(&typed),
        Command::Abort(typed) => act::abort(&typed),
        Command::Pause(typed) => switch::pause(&typed),
        Command::Resume(typed) => switch::resume(&typed),
        Command::Drain(typed) => switch::drain(&typed),
        Command::Past(typed) => past::run(&typed),
        Command::Audit(typed) => list::audit(&typed),
        Command::Doctor(typed) => doctor::run(&typed),
        Command::Purge(typed) => switch::purge(&typed),
        Command::Schema(typed) => shell::schema(&typed),
        Command::Completions(typed) => {
            shell::completions(&typed, Typed::command());
            Ok(())
        }
        Command::Man(typed) => shell::man(&typed, Typed::command()),
        Command::Demo(typed) => demo::run(typed),
        Command::Bench(typed) => bench::run(&typed),
    }
}
