//! Traffic to measure by: what `semel bench`, `semel demo` and `cargo xtask bench` send, whom they call, and whom they compare.
//!
//! 1. A client has one connection, and asks again when it has read the whole answer: what it costs is little, and the same
//!    for everybody who is measured.
//! 2. No two events have one id, unless duplicates are wanted.
//! 3. A turn lasts as long as it was told to, and what was begun in it is finished.
//!
//! It judges nothing: figures are for whoever asked for them.

pub mod client;
pub mod forward;
pub mod load;
pub mod noop;
pub mod percentile;
pub mod traffic;
