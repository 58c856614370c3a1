//! Where records live: the adapters of the [`Store`](semel_core::store::Store) port.

#[cfg(feature = "dynamodb")]
pub mod dynamodb;
#[cfg(feature = "firestore")]
pub mod firestore;
mod memory;
#[cfg(feature = "nats")]
pub mod nats;
#[cfg(any(
    test,
    feature = "postgres",
    feature = "redis",
    feature = "nats",
    feature = "dynamodb",
    feature = "firestore"
))]
pub(crate) mod offset;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(any(
    feature = "postgres",
    feature = "sqlite",
    feature = "redis",
    feature = "nats",
    feature = "dynamodb",
    feature = "firestore"
))]
mod unreadable;

pub use memory::MemoryStore;
