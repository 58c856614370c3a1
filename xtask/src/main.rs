//! The project's own commands: `cargo xtask help`.
//!
//! 1. `test` is the one command that must pass: it checks tools, style, lints, tests, docs, examples, and
//!    that every seeded bug is caught.
//! 2. Exit codes: 0 it passed, 1 it did not, 2 it was called wrongly or cannot run here.
//!
//! It needs nothing but a Rust toolchain; what else is missing it installs, or says how to.

mod bench;
mod clients;
mod sabotage;
mod servers;
mod shell;
mod steps;
mod stores;
mod test;
mod tidy;

use servers::Kind;
use shell::Failure;
use std::process::ExitCode;

const HELP: &str = "\
Usage: cargo xtask <command>

Commands:
  test [--without …] everything that must pass: tools, format, lints, tidy, tests, stores, docs, examples, sabotages
  stores [--without …]
                     only the tests of the stores, beside their servers
  clients            only the tests with curl, Python and Node in front of and behind the proxy
  servers [--without …] [command …]
                     starts the servers that tests of the stores need, and runs the command beside them; without
                     one, prints where they are, and keeps them until it is interrupted
  tidy               house rules that no compiler checks
  sabotage [name | --without …]
                     switches on every seeded bug in turn, or the one of this name, and demands that a test fails
  bench embedded …   measures the embedded store; what follows is passed on (`--help` lists it)
  bench service      measures what the tower layer adds to a call, on the memory store
  bench http …       measures what `Idempotency-Key` costs an axum route; what follows is passed on (`--help` lists it)
  bench proxy …      measures what `semel proxy` costs a request without a key, beside a minimal proxy
  bench runtime …    measures `semel serve` end to end, beside a forwarder that stores nothing; or `start`, `memory`, `flat`
  bench sql …        measures the SQL stores beside plain SQL: `sqlite`, `postgres`, `postgres-size`, or all
  bench redis        measures the Redis store beside bare scripts
  bench queue-postgres …  measures the queue on PostgreSQL beside plain SQL: `steps`, `duplicates`, `size`, or all
  help               this text

Options:
  --without a,b      leaves these servers out, for a desk that does not have them: postgres, redis, valkey, nats,
                     dynamodb, firestore
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments[..] {
        // Those of a benchmark are its own.
        ["help" | "--help" | "-h"]
        | ["test" | "stores" | "clients" | "servers" | "tidy" | "sabotage", "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        ["test"] => test::run(&[]),
        ["test", "--without", list] => Kind::parse_list(list).and_then(|without| test::run(&without)),
        ["stores"] => stores::run(Vec::new()),
        ["clients"] => clients::run(),
        ["stores", "--without", list] => Kind::parse_list(list).and_then(stores::run),
        ["servers", "--without", list, ref command @ ..] => {
            Kind::parse_list(list).and_then(|without| servers::run(&without, command))
        }
        ["servers", ref command @ ..] => servers::run(&[], command),
        ["tidy"] => tidy::run(),
        ["sabotage"] => sabotage::run(None, &[]),
        ["sabotage", "--without", list] => {
            Kind::parse_list(list).and_then(|without| sabotage::run(None, &without))
        }
        ["sabotage", name] => sabotage::run(Some(name), &[]),
        ["bench", "embedded", ref rest @ ..] => bench::embedded(rest),
        ["bench", "service", ref rest @ ..] => bench::service(rest),
        ["bench", "http", ref rest @ ..] => bench::http(rest),
        ["bench", "proxy", ref rest @ ..] => bench::proxy(rest),
        ["bench", "runtime", ref rest @ ..] => bench::runtime(rest),
        ["bench", "sql", ref rest @ ..] => bench::sql(rest),
        ["bench", "redis", ref rest @ ..] => bench::redis(rest),
        ["bench", "queue-postgres", ref rest @ ..] => bench::queue_postgres(rest),
        [] => Err(Failure::usage(format!("which command?\n\n{HELP}"))),
        _ => Err(Failure::usage(format!("no such command: `{}`\n\n{HELP}", arguments.join(" ")))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            failure.exit_code()
        }
    }
}
