//! A list of steps, each announced, timed and counted.

use crate::shell::Failure;
use std::time::{Duration, Instant};

/// What became of the steps so far.
#[derive(Default)]
pub(crate) struct Steps {
    done: Vec<(String, Duration, Result<(), Failure>)>,
}

impl Steps {
    /// Runs one step. A failed one does not keep the rest from running: a person wants to see all of them.
    pub(crate) fn step(&mut self, name: &str, action: impl FnOnce() -> Result<(), Failure>) {
        println!("\n==> {name}");
        let start = Instant::now();
        let result = action();
        let took = start.elapsed();
        match &result {
            Ok(()) => println!("    {name}: ok, {}", seconds(took)),
            Err(failure) => println!("    {name}: FAILED, {}\n    {failure}", seconds(took)),
        }
        self.done.push((name.to_owned(), took, result));
    }

    /// Sums up, and fails if a step did.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        println!("\n{}", self.summary());
        let failed = self.failed();
        if failed == 0 { Ok(()) } else { Err(Failure::no(format!("{failed} steps failed"))) }
    }

    fn summary(&self) -> String {
        let line = |(name, took, result): &(String, Duration, Result<(), Failure>)| {
            let verdict = if result.is_ok() { "ok" } else { "FAILED" };
            format!("{name:<12} {verdict:<7} {:>8}\n", seconds(*took))
        };
        let table: String = self.done.iter().map(line).collect();
        let failed = self.failed();
        format!("{table}\n{} passed, {failed} failed", self.done.len() - failed)
    }

    fn failed(&self) -> usize {
        self.done.iter().filter(|(_, _, result)| result.is_err()).count()
    }
}

pub(crate) fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_counts_what_passed_and_what_failed() {
        let mut steps = Steps::default();
        steps.step("one", || Ok(()));
        steps.step("two", || Err(Failure::no("no")));
        steps.step("three", || Ok(()));
        assert_eq!(steps.summary().lines().last(), Some("2 passed, 1 failed"));
        assert!(steps.finish().is_err());
    }

    #[test]
    fn a_list_without_failures_passes() {
        let mut steps = Steps::default();
        steps.step("one", || Ok(()));
        assert!(steps.finish().is_ok());
    }
}
