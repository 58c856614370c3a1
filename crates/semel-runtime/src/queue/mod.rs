//! Where executions wait: implementations of [`semel_core::queue::Queue`].
//!
//! - [`memory`]: in this process, for tests and simulations.
//! - [`postgres`]: in PostgreSQL, for several nodes.

mod cursor;
mod limits;
pub mod memory;
#[cfg(feature = "postgres")]
pub mod postgres;

/// What a cursor says, written again; `None` if it is none. For [`crate::fuzz`].
pub(crate) fn read_cursor(cursor: &semel_core::queue::Cursor) -> Option<semel_core::queue::Cursor> {
    cursor::Place::read("fuzz", cursor).ok().map(cursor::Place::cursor)
}
