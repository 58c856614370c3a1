//! Delivery: one request to a function, and what came of it.
