//! The proofs of the core, in one binary.
//!
//! `model` walks every interleaving of the call machine; `machine` and `execution` show the machines as
//! tables; the rest are properties and stored fixtures. A property that fails prints the case and its seed,
//! and keeps the seed beside this file.

mod fingerprint;
mod given;
mod wire;
