//! The admin API, below `/v1`.
//!
//! 1. There is one table of what can be asked for, and both the router and `/v1/openapi.json` are made from it.
//! 2. Who asks is settled before anything else: see `door`. Viewers look, operators keep things going, admins change what there is.
//! 3. Every answer is JSON, every refusal a problem document: see [`problems`].
//! 4. A request with a member or a parameter that nobody knows is refused.
//! 5. Lists have pages, and a cursor that only its list can read.
//! 6. Every change is in the audit log, with who made it; so is every change that was refused for its maker's role.
//!
//! It decides nothing about executions: the runtime does. It does not take events in: see [`crate::ingest`].

mod beginning;
mod book;
mod desk;
mod door;
mod executions;
mod function_shape;
mod functions;
pub(crate) mod fuzz;
mod jobs;
mod next;
mod openapi;
mod overview;
pub mod problems;
mod routes;
pub(crate) mod shape;
pub(crate) mod table;
mod together;
pub(crate) mod views;

pub use beginning::SEARCHED_MAX;
pub use book::{ADDED_MAX, Book};
pub use desk::{BODY_BYTES_MAX, Clerk, Desk};
pub use door::{GUESSERS_MAX, GUESSES_MAX, GUESSES_PER};
pub use functions::DRAIN_SECS;
pub use overview::{LOOKED_AT_MAX, PURGED_MAX};
pub use table::QUERY_BYTES_MAX;
