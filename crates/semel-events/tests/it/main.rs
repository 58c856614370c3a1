//! What senders may say, and what becomes of it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod any;
mod aws;
mod cloudevents;
mod encoding;
mod event;
mod expression;
mod filter;
mod fuzz;
mod given;
mod google;
mod handshake;
mod senders;
mod signatures;
mod sns_signature;
mod stored;
mod tokens;
