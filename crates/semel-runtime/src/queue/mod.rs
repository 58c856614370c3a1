//! Where executions wait: implementations of [`semel_core::queue::Queue`].
//!
//! - [`memory`]: in this process, for tests and simulations.

mod cursor;
mod limits;
pub mod memory;
