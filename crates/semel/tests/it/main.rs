//! The library, through its public API. Time is advanced by hand; nothing sleeps.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(
    clippy::unchecked_time_subtraction,
    reason = "constants, and each is larger than what is taken from it"
)]
#![expect(clippy::unused_async, reason = "doubles of what waits in the real world")]
#![expect(
    clippy::unused_self,
    reason = "the world is asked for everything, also for what is always the same"
)]

mod call;
mod compile_fail;
mod doubt;
mod effect;
#[cfg(feature = "embedded")]
mod embedded;
mod heartbeat;
mod lost;
mod messages;
mod observe;
mod operator;
mod result;
#[cfg(feature = "seal")]
mod seal;
mod shape;
mod support;
mod transaction;
mod wait;
