//! The inside of Semel: every rule, as pure functions, and the ports that the outside implements.
//!
//! 1. Nothing here does I/O, awaits, reads a clock or draws a random number: now, jitter and nonces are
//!    arguments.
//! 2. A machine decides on what is stored, what happened and what time it is; the driver acts.
//! 3. A store only keeps records under a key, swaps one if its fence still matches, and shows what is
//!    there if it does not.
//!
//! Users add the crate `semel`, which re-exports what they need from here.

pub mod call;
pub mod execution;
pub mod fence;
pub mod fingerprint;
pub mod hex;
pub mod key;
pub mod queue;
pub mod record;
pub mod retry;
pub mod sabotage;
pub mod scan;
pub mod scratch;
pub mod sha256;
pub mod store;
pub mod time;
pub mod wire;

/// A boxed future: ports are dyn-compatible and put no type parameters into users' signatures.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
