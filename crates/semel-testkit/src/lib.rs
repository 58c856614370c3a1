//! What you need to test a store, or a handler, against Semel's rules.
//!
//! - [`ManualClock`]: time that moves when you say so; a policy of seven days is tested in milliseconds.

mod clock;

pub use clock::ManualClock;
