//! The queue.

mod damage;
mod format;
mod kill;
mod room;
mod rules;
