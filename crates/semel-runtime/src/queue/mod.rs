//! Where executions wait: implementations of [`semel_core::queue::Queue`].
//!
//! - [`memory`]: in this process, for tests and simulations.
//! - [`postgres`]: in PostgreSQL, for several nodes.

mod cursor;
mod limits;
pub mod memory;
#[cfg(feature = "postgres")]
pub mod postgres;
