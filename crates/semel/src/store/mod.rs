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
#[cfg_attr(
    not(feature = "postgres"),
    expect(unreachable_pub, reason = "the runtime's queue shares it, on PostgreSQL")
)]
pub(crate) mod offset;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
#[cfg_attr(
    not(feature = "postgres"),
    expect(unreachable_pub, reason = "the runtime's queue shares it, on PostgreSQL")
)]
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
