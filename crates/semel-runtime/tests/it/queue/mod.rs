//! Queues, each against the rules for all of them.

mod memory;
#[cfg(feature = "postgres")]
mod postgres;
