//! The library, through its public API. Time is advanced by hand; nothing sleeps.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(
    clippy::unchecked_time_subtraction,
    reason = "constants, and each is larger than what is taken from it"
)]

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
