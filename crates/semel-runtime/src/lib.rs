//! The runtime of Semel, as a library: executions are claimed, delivered to functions, and settled.
//!
//! It has no command line and no HTTP server of its own.

pub mod deliver;
pub mod queue;
