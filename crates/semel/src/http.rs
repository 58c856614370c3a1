//! `Idempotency-Key` for HTTP services: a tower layer for axum, hyper, tonic-web and whatever else speaks `http`.
//!
//! 1. A request with a key is carried out once. Its duplicates get its response, marked with `Idempotency-Replayed: true`: the
//!    status, the body, the trailers and the allow-listed headers, to the byte. It follows the IETF's
//!    `draft-ietf-httpapi-idempotency-key-header-07`.
//! 2. A key names an operation of one caller on one route of one service: service, method, route, caller and key together. So
//!    nobody gets, blocks or even notices another caller's keys. A key without a caller is refused: [`Caller`]. The host is no
//!    part of it: a service that answers for several says so, by [`IdempotencyLayer::route`].
//! 3. A key that comes again on its route with another request (path, query, chosen headers, `Content-Encoding`, body) is
//!    refused, and nothing of the first one is shown. With another method, or on another route, it names another operation, and
//!    that runs. Where nothing tells routes apart ([`IdempotencyLayer::route`]), each path is one. A compressed body is compared
//!    as the bytes that came.
//! 4. Requests of other methods than the layer's, and those without a key where none is required, pass through untouched.
//! 5. Work that was begun is finished. When its client hangs up it goes on in a task of its own, and its outcome is recorded:
//!    [`IdempotencyLayer::idle`] waits for it. A panic is a crash: nothing is written, the client gets a 500, and the next try
//!    runs when the lease has lapsed.
//! 6. The outcome is on record before the client sees anything of the response.
//! 7. 2xx, 3xx and 4xx are kept and replayed. 5xx, 429 and 408 say "try again", so the next try runs, as does one after an
//!    error of the service; so do the statuses of gRPC that mean the same. [`IdempotencyLayer::store_errors`] keeps those, too; a [`Verdict`] goes before either.
//! 8. A response that is too large, a stream, or cut off by an error, reaches its client as it is, and is recorded without its
//!    body, but with what was known of it by then: [`Unkept`]. It cannot be replayed, and what it tells of is never done again
//!    for that.
//! 9. Bodies have limits. A request's is read once, into one buffer, and handed on as that. Nothing is allocated for what was
//!    only announced, and a large body is not copied to be compared, JSON or not.
//! 10. What only Semel may say (`Idempotency-Replayed`, `Semel-…`) is taken off requests and responses, headers and trailers.
//! 11. Refusals are problems (RFC 9457) with fixed texts, and a page each: [`problems`]. Who speaks gRPC or gRPC-web is told the
//!     same as a `grpc-status` and a `grpc-message`, with HTTP 200, as such clients expect it.
//!
//! # What a client is told
//!
//! | situation | answer |
//! |---|---|
//! | no key where one is required | 400 [`key-missing`](problems::key_missing) |
//! | no well-formed key, or two | 400 [`key-invalid`](problems::key_invalid) |
//! | a key, and nobody knows whose | 401 [`caller-missing`](problems::caller_missing), with `WWW-Authenticate` if that would tell |
//! | the body is too large, or ends early | 413 [`request-too-large`](problems::request_too_large), 400 [`request-incomplete`](problems::request_incomplete) |
//! | the first one is still being carried out | waits for it; then 409 [`in-progress`](problems::in_progress), with `Retry-After` |
//! | another request under the same key, on the same route | 422 [`mismatch`](problems::mismatch) |
//! | done, and the response was not kept, or not for so long | 409 [`response-not-retained`](problems::response_not_retained) |
//! | nobody knows whether it was done | 409 [`outcome-unknown`](problems::outcome_unknown) |
//! | as many keys of its caller are remembered as may be | 429 [`quota`](problems::quota), with `Retry-After` |
//! | the store cannot be reached, so nothing was done | 503 [`store`](problems::store), with `Retry-After` |
//! | begun, and stopped because the store did not renew its lease in time | 503 [`interrupted`](problems::interrupted), with `Retry-After` |
//! | done, and the store did not confirm it | 503 [`outcome-unconfirmed`](problems::outcome_unconfirmed), with `Retry-After` |
//! | the handler panicked, or was superseded | 500 [`internal`](problems::internal) |
//!
//! Nothing runs while the store cannot tell whether it ran before ([`IdempotencyLayer::fail_open`] changes that, for what is
//! naturally idempotent). If the store vanishes after the work was done, its outcome is written again and again until the lease
//! is over. If that fails, too, the client is not told "done": its own next try would then find no trace of it. It is told that
//! this is not certain, and that the same key will tell. Whoever was superseded, because it was paused for longer than its
//! lease, is not believed either: the other one's response is what counts, and the same key will get it.
//!
//! # Where it goes
//!
//! Below what authenticates. Below what changes each response (CORS, compression, cookies), which replays then get, too. Above
//! what does the work. Limits of rate and of time above it see each try; below it, only those that run. Above tonic's
//! `GrpcWebLayer`: below it every answer is `application/grpc`, which counts as a stream, and none could be replayed.
//!
//! # What it does not do
//!
//! It does not authenticate, does not retry, does not decompress, and does not limit how slowly a body comes. Values that outer
//! layers keep in task-local storage are there as long as the client waits: a handler that needs them after that takes them
//! from the request.

mod attempt;
mod body;
mod buffer;
mod caller;
mod fingerprint;
mod grpc_web;
mod headers;
mod key;
mod layer;
mod lent;
mod parameters;
mod problem;
pub mod problems;
mod quota;
mod recorded;
mod refusal;
mod response;
mod route;
mod service;
mod stored;
mod unfinished;
mod verdict;

#[cfg(feature = "lambda")]
pub(crate) use self::{
    caller::CallerId,
    fingerprint::{Asked, fingerprint},
    headers::{Kept as HeaderList, is_own},
    key::key_of,
    problem::challenge,
    route::part_of,
    verdict::is_retryable,
};
pub use body::Body;
pub use caller::{Caller, Teller};
pub use headers::{REPLAY_HEADERS, is_replayable};
pub use key::KEY_BYTES_MAX;
pub use layer::{IdempotencyLayer, REQUEST_BYTES_MAX, RESPONSE_BYTES_MAX, RESPONSE_WAIT_MAX};
pub use lent::CallLease;
#[cfg(any(feature = "axum", feature = "lambda"))]
pub(crate) use problem::STORE_WAIT;
pub use problem::{BodyRefused, Problem, ProblemBase, RETRY_AFTER_SECS_MAX};
pub use quota::{CALLERS_MAX, Quota};
pub use recorded::{Recorded, RecordedBody};
pub use service::{HttpResponse, Idempotency, ResponseFuture};
pub use stored::{DIGEST_BYTES_MAX, Unkept, UnkeptReason};
pub use verdict::{Answered, InDoubt, NotRetained, Verdict};
#[cfg(feature = "axum")]
pub(crate) use {problem::Told, verdict::Doubt};

use ::http::HeaderName;

/// The header that names an operation.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The header that marks a replayed response.
pub const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
