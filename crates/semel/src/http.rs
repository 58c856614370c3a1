//! `Idempotency-Key` for HTTP services: a tower layer for axum, hyper and whatever else speaks `http`.
mod attempt;
mod body;
mod buffer;
mod caller;
mod fingerprint;
mod headers;
mod key;
mod layer;
mod lent;
mod parameters;
mod problem;
pub mod problems;
mod quota;
mod route;
mod service;
mod stored;
mod unfinished;
mod verdict;

pub use body::Body;
pub use caller::{Caller, Teller};
pub use headers::REPLAY_HEADERS;
pub use key::KEY_BYTES_MAX;
pub use layer::{IdempotencyLayer, REQUEST_BYTES_MAX, RESPONSE_BYTES_MAX, RESPONSE_WAIT_MAX};
pub use lent::CallLease;
pub use problem::{BodyRefused, Problem, ProblemBase, RETRY_AFTER_SECS_MAX};
pub use quota::{CALLERS_MAX, Quota};
pub use service::{Idempotency, ResponseFuture};
pub use verdict::{Answered, Verdict};

use ::http::HeaderName;

/// The header that names an operation.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The header that marks a replayed response.
pub const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
