//! What may start, and when: machines without I/O.
//!
//! - [`breaker`]: a target that is down is left alone, and tried again.
//! - [`ramp`]: a target that came back is not run over.
//! - [`bucket`]: the rate of a function.
//! - [`share`]: fresh events beside a backlog.
//! - [`pace`]: what may be held while it is being written.
//! - [`budget`]: functions beside each other.
//! - [`asking`]: when the queue is worth asking.
//! - [`Gate`]: the first five, for one function.

pub mod asking;
pub mod breaker;
pub mod bucket;
pub mod budget;
mod function_gate;
pub mod pace;
pub mod ramp;
pub mod share;

pub use function_gate::{Gate, Terms, Turn};
