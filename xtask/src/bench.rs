//! Benchmarks, which live beside what they measure.

use crate::shell::{Failure, cargo, run};

/// Measures the embedded store, optimised, and passes the arguments on.
pub(crate) fn embedded(arguments: &[&str]) -> Result<(), Failure> {
    example("semel-embedded", "bench-embedded", arguments)
}

/// Measures what the tower layer adds to a call.
pub(crate) fn service(arguments: &[&str]) -> Result<(), Failure> {
    example("semel", "bench-service", arguments)
}

fn example(package: &str, name: &str, arguments: &[&str]) -> Result<(), Failure> {
    run(cargo(&["run", "--release", "--package", package, "--example", name, "--"]).args(arguments))
}
