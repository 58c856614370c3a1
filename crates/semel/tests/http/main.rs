//! `Idempotency-Key`, as clients see it. Time is advanced by hand; what goes over a wire goes over loopback.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bodies;
mod commit;
mod crowd;
mod draft;
mod extractor;
mod hang_up;
mod hostile;
mod memory;
mod quota;
mod replay;
mod responses;
mod routes;
mod settings;
mod stripe;
mod support;
mod tonic;
#[cfg(feature = "sqlite")]
mod transaction;
mod trouble;
mod wire;
