//! Where an execution comes from, and what it stands behind.

use std::sync::Arc;

/// What the event says of itself, which people look for it by. Kept when the event is not.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Origin {
    /// The event's `source`.
    pub source: Arc<str>,
    /// The event's `id`.
    pub id: Arc<str>,
    /// The event's `type`.
    pub kind: Arc<str>,
}

/// Executions of one function under one order run one after the other, in the sequence of their acceptance.
///
/// One that waits, for its turn, its next attempt or whoever parked it, blocks those behind it, and nobody
/// else. One that ended blocks nobody; redriven, it takes its old place.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Order {
    /// What they share.
    pub key: Arc<str>,
    /// The place among them. Given by the queue when it accepts, whatever it was before; grows with each.
    pub sequence: u64,
}
