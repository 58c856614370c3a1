//! The NATS store.
