//! Where records live: the adapters of the [`Store`](semel_core::store::Store) port.

mod memory;

pub use memory::MemoryStore;
