//! Every store against its real server, or the emulator that stands in for it.
//!
//! The servers are started by `cargo xtask test`; for one's own runs, `cargo xtask servers` starts them and prints
//! where they are. What a store's feature is not switched on for is not tested.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod cleanup;
#[cfg(any(feature = "dynamodb", feature = "firestore"))]
mod cloud_stub;
mod doctor;
#[cfg(feature = "dynamodb")]
mod dynamodb;
#[cfg(any(feature = "dynamodb", feature = "firestore", feature = "nats", feature = "redis"))]
mod end_to_end;
mod faults;
#[cfg(feature = "firestore")]
mod firestore;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "postgres")]
mod postgres;
mod processed;
#[cfg(feature = "redis")]
mod redis;
mod repository;
#[cfg(feature = "sqlite")]
mod sqlite;
mod support;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod transactions;
