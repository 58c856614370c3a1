//! The embedded store, as its users meet it: on a real directory.

mod rules;
