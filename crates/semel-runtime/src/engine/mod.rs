//! The engine: what is accepted is durable, what is due is claimed, what is claimed is delivered and settled.
//!
//! 1. Every decision is made by a machine without I/O: what may start by [`gate`] and the table above it, what an answer
//!    means by [`crate::deliver::verdict`], what an execution becomes by [`semel_core::execution::step`].
//! 2. State is written first, and acted on after: nothing is delivered whose claim is not durable, nothing is reported whose
//!    end is not.
//! 3. Everything that can grow has a limit.
//! 4. It takes time from the queue's clock and numbers from one place, so that a simulation is the same every time.

mod accept;
mod admission;
mod attempt;
mod call;
mod caught;
mod chance;
mod claim;
mod crew;
mod flying;
mod forward;
pub mod gate;
mod gather;
mod guarded;
mod informed;
mod place;
mod purge;
mod receipt;
mod repeats;
mod runtime;
mod settle;
mod shared;
mod status;
mod table;
mod tasks;
mod verdict;

pub use admission::Waiting;
pub use call::{Answered, CallOutcome, Called};
pub(crate) use informed::{BELIEVED, Here};
pub use receipt::{Entry, Receipt, Refused, Taken};
pub use runtime::{Builder, FunctionsError, IN_FLIGHT_MAX, MEMORY_MAX, Runtime, StartError};
pub(crate) use shared::{Engine, Stage, locked};
pub use status::{FunctionStatus, Totals};
pub(crate) use table::LEASE_SLACK;
