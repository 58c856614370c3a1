//! The queue.

mod rules;
