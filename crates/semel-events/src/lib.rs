//! Bytes in, one [`Event`](event::Event) out.
//!
//! 1. Everything here is a pure function of headers, body, configuration and the time: no I/O, no async, no
//!    clock, no randomness.
//! 2. Whatever a sender speaks becomes one CloudEvent 1.0, or is refused. Nothing is guessed: what two readers
//!    could read differently is refused.
//! 3. A refusal says what is wrong in fixed words. It never repeats what was sent.
//! 4. Everything that a sender can make long has a limit, and no length is believed before the bytes are there.
//!
//! It does not store, deliver or fetch anything: keys and certificates that were fetched are arguments.

pub mod auth;
pub mod encoding;
pub mod event;
pub mod expression;
pub mod filter;
pub mod format;
#[doc(hidden)]
pub mod fuzz;
pub mod handshake;
mod json;
mod media;
