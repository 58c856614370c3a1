//! What you need to test a store, or a handler, against Semel's rules.
//!
//! - [`ManualClock`]: time that moves when you say so; a policy of seven days is tested in milliseconds.
//! - [`conformance`]: every rule a store must keep, as a function that takes `&dyn Store`.
//! - [`ChaosStore`]: a store that fails before a write, loses the reply after it, and delays, by seed.
//! - [`duplicate`]: delivers an event to a handler in every way, and reports effects that happened twice.
//! - [`servers`]: a place of a test's own on a real database server.
//! - [`lambda`]: the runtime API of AWS Lambda, for functions as the platform runs them.
//! - [`fuzz`]: a short run of fuzz entries over a kept corpus.
//! - [`Mount`]: a small disk, to be full.
//! - [`FaultProxy`]: a line to such a server that breaks when the test says so.

mod chaos;
mod clock;
pub mod conformance;
#[cfg(feature = "duplicate")]
pub mod duplicate;
pub mod fuzz;
mod join;
#[cfg(feature = "lambda")]
pub mod lambda;
mod mount;
#[cfg(feature = "servers")]
mod proxy;
#[cfg(feature = "servers")]
pub mod servers;

pub use chaos::{ChaosStore, Injected};
pub use clock::ManualClock;
#[cfg(feature = "duplicate")]
pub use duplicate::Probe;
pub use mount::Mount;
#[cfg(feature = "servers")]
pub use proxy::{Fault, FaultProxy, Traffic};
