//! The library, through its public API. Time is advanced by hand; nothing sleeps.

mod call;
mod compile_fail;
mod doubt;
mod effect;
mod heartbeat;
mod lost;
mod messages;
mod observe;
mod operator;
mod result;
mod shape;
mod support;
mod wait;
