//! Functions: what is called, for which events, and on which terms.
//!
//! 1. A [`Function`] is a value. Every part of it was checked when it was made.
//! 2. What an event means for the functions there are is decided in [`route`], without I/O: which ones match, under
//!    which key, in which order.
//! 3. What is sent to a function is made in [`dispatch`], from the event and the attempt.
//!
//! It does not read configurations: that is for whoever has them.

mod aim;
pub mod dispatch;
mod name;
mod rate;
pub mod route;
mod spec;

pub use aim::{Aim, Attempted, Handle, HandleError, handler};
pub use name::{FUNCTION_NAME_BYTES_MAX, FunctionName, InvalidName};
pub use rate::Rate;
pub use spec::{CONCURRENCY_DEFAULT, CONCURRENCY_MAX, Content, DeadLetter, Function, KeyRule, OnLost};
