//! `semel serve`: events in, functions called, until each event has taken effect once or is a dead letter.
//!
//! 1. `POST /events` and `POST /sources/NAME` take events in: see [`crate::ingest`].
//! 2. `GET /health` answers while the process lives, `GET /ready` while it takes events, `GET /version` says which one it is,
//!    `GET /metrics` counts, for whoever may ask the admin API. They, and everything below `/v1`, are answered on an address
//!    of their own if there is one, and nowhere else.
//! 3. The queue is opened and asked what it promises, then the addresses are bound; only then anybody is let in.
//! 4. SIGTERM and SIGINT stop it: nobody is accepted any more, what is under way is finished or handed back within
//!    `shutdown`, and the process ends with 0. A second signal ends it at once.
//! 5. SIGHUP reads the file again: it is checked as a whole, and its functions, sources and guard take the place of the old
//!    ones; or nothing changes, and the log says why. What is under way is finished on the terms it began on. What changed is audited.
//!
//! It does not end TLS.

mod access;
mod changed;
mod crashes;
mod fetch;
mod foundation;
mod functions;
mod health;
mod metrics;
mod queue;
mod reload;
mod signals;
mod site;
mod start;

pub(crate) use crashes::fuzz as crashes;
pub(crate) use foundation::Ailments;
pub use foundation::Foundation;
pub(crate) use functions::{function, functions};
pub(crate) use queue::open as open_queue;
pub use reload::Reread;
pub use start::{Server, run};

use bytes::Bytes;
use http_body_util::combinators::BoxBody;

/// What may go wrong with a body.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// The body of an answer: bytes, or a stream.
pub type Answer = semel::http::Body<BoxBody<Bytes, BoxError>>;
