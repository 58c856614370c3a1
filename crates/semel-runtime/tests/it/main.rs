//! The runtime against real targets and real queues.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod engine;
mod fuzz;
mod queue;
mod sim;
mod support;
mod zoo;
