//! Delivery: one request to a function, and what came of it.
//!
//! 1. [`Deliver`] is the port: a [`Delivery`] goes in, an [`Answer`] comes out. An answer is a value, whatever happened.
//! 2. One delivery is at most one request on the wire. Nothing is sent twice, no redirect is followed.
//! 3. [`Client`] is the port over HTTP/1.1 and HTTP/2, with a pool of connections and a [`guard`] before each new one.
//! 4. [`verdict`](verdict()) says what an answer means: done, retry, fatal. It is pure, and knows the presets by name.
//! 5. Everything that a target can make large or slow has a limit: [`Limits`].
//!
//! It does not know events, functions or queues, does not retry, count or log, and uses no proxy of the environment
//! unless it is told to: [`Proxies`].

mod answer;
mod client;
mod connect;
mod departure;
pub(crate) mod fuzz;
pub mod guard;
mod lines;
mod proxies;
mod read;
mod resolve;
mod retry_after;
mod trouble;
mod verdict;

pub use answer::{Answer, BoxedAnswer, Deliver, Delivery, Outcome, Protocol, SEMEL_OUTCOME, Stage, Status};
pub use client::{Client, FIRST_BYTE, INFORMATIONAL_MAX, Limits, RESPONSE_BYTES_MAX, Settings};
pub use departure::Departure;
pub use proxies::{Proxies, UnusableProxy};
pub use resolve::{ADDRESSES_MAX, LOOKUPS_MAX, Resolve, SystemResolver};
pub use retry_after::RETRY_AFTER_MAX;
pub(crate) use retry_after::retry_after;
pub use trouble::{Cause, DETAIL_BYTES_MAX, Trouble};
pub use verdict::{ERROR_BODY_BYTES_MAX, Preset, UnknownPreset, Verdict, verdict};
