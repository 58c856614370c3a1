//! The `semel` program. What it does stands in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    semel_server::run(std::env::args_os())
}
