//! Benchmarks, which live beside what they measure.

use crate::shell::{Failure, cargo, run};

/// Measures the embedded store, optimised, and passes the arguments on.
pub(crate) fn embedded(arguments: &[&str]) -> Result<(), Failure> {
    let mut command =
        cargo(&["run", "--release", "--package", "semel-embedded", "--example", "bench-embedded", "--"]);
    run(command.args(arguments))
}
