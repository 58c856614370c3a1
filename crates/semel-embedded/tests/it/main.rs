//! The embedded store, as its users meet it: on a real directory.

mod damage;
mod directory;
mod format;
mod kill;
mod reopen;
mod rules;
mod sample;
