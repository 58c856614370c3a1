//! Proof that the library is right where it matters most: under chaos, duplicates, and as a service.

mod chaos;
mod chaos_effects;
mod duplicates;
mod service;
mod simulation;
