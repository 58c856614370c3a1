//! The embedded store, as its users meet it: on a real directory.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod damage;
mod directory;
mod format;
mod fuzz;
mod kill;
mod queue;
mod reopen;
mod rules;
mod sample;
