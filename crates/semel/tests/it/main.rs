//! The library, through its public API. Time is advanced by hand; nothing sleeps.

mod shape;
