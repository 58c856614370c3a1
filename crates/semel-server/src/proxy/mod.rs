//! `semel proxy`: a reverse proxy that makes requests of any HTTP service take effect once.
//!
//! 1. What carries no key passes through as it comes: nothing of it is kept, and it is not waited for.
//! 2. What carries one goes through [`semel::http::IdempotencyLayer`]: it is claimed durably before anything is sent, sent
//!    once, and its answer kept and replayed.
//! 3. What the upstream may have got, and did not answer, is not sent again while its lease stands, also if this process
//!    was killed meanwhile.
//! 4. Health and readiness are answered below [`RESERVED`].
//! 5. A request whose outcome is unknown is resolved by an operator, on an address that clients do not reach.
//! 6. What the proxy itself says is a problem document.
//!
//! It does not end TLS, balance load, cache, compress, or change bodies.

mod access;
mod body;
mod exchange;
mod forward;
mod gateway;
mod headers;
mod health;
mod memory;
pub(crate) mod pattern;
mod resolve;
mod routes;
mod start;
mod tunnel;
mod upstream;

pub use health::{FRESH, RESERVED};
pub use memory::SHARES;
pub use pattern::{PATTERN_BYTES_MAX, Pattern};
pub use resolve::DOUBTS_MAX;
pub use start::{Proxy, run};
