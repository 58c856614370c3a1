//! Semel's embedded store and queue: no server, no setup, one directory.
//!
//! A journal of checksummed frames takes every write and is synced in groups; finished records move behind
//! it into SQLite files, one for each span of expiry, which are removed whole when they have expired.
//! The queue's unfinished executions that outlive the journal wait in files of their own.
//! ARCHITECTURE.md tells why, and what it costs.

mod archive;
mod batch;
mod bloom;
mod bucket;
mod commit;
#[doc(hidden)]
pub mod disk;
mod engine;
mod error;
mod expire;
mod flush;
mod frame;
#[doc(hidden)]
pub mod fuzz;
#[cfg(test)]
mod gate;
mod home;
mod hot;
mod keep;
mod kept;
mod owner;
mod pace;
#[cfg(test)]
mod power_cut;
mod queue;
mod recover;
mod segment;
mod spares;
mod store;
mod workers;

pub use engine::Options;
pub use home::Home;
pub use queue::{EmbeddedQueue, QueueBuilder};
pub use store::EmbeddedStore;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks. A panic under a lock is a broken invariant of ours, which its own assertion has reported.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
