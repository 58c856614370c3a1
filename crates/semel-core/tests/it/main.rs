//! The proofs of the core, in one binary.
//!
//! `model` walks every interleaving of the call machine; `machine` and `execution` show the machines as
//! tables; the rest are properties and stored fixtures. A property prints its seed, and runs again from it.

mod execution;
mod fence;
mod fingerprint;
mod given;
mod key;
mod machine;
mod model;
mod queue;
mod retry;
mod wire;
