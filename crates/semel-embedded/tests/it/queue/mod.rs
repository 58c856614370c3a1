//! The queue.

mod damage;
mod kill;
mod room;
mod rules;
