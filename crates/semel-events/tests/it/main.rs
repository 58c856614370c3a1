//! What senders may say, and what becomes of it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod cloudevents;
mod event;
mod given;
mod stored;
