//! `semel demo`: everything in one process, to see that every event takes effect once.
//!
//! 1. Senders deliver events more than once, copies also at the same time, and send again whatever was not acknowledged.
//! 2. The function charges an account with each event's `Idempotency-Key`, as a payment provider is charged. By choice it
//!    fails, is slow, or crashes: before the charge, and after it.
//! 3. In the middle the server crashes: it is dropped where it stands, and opened again.
//! 4. It ends well only if every event was charged once, with its own amount; if nothing but a crash made the function be
//!    called again after it had said that it charged; and if the server counts the same.
//! 5. What is random comes from a seed, which is printed.
//!
//! It shows the runtime as users have it, over HTTP: it knows nothing of its inside.

mod account;
mod chance;
mod here;
mod plan;
mod run;
mod scratch;
mod sender;
mod show;

pub(crate) use here::Here;
pub(crate) use run::{Asked, run};
pub(crate) use scratch::Scratch;
