//! The `semel` program. What it does stands in the library beside it.

use mimalloc::MiMalloc;
use std::process::ExitCode;

/// What a request brings is often let go of by another thread, and the system's allocator makes them take turns.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    semel_server::run(std::env::args_os())
}
