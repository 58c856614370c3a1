//! Semel in axum handlers.
//!
//! 1. [`IdempotencyLayer`](crate::http::IdempotencyLayer) goes on a router: `.layer(…)`, or `.route_layer(…)` for matched routes
//!    only. Its routes are the router's (`/orders/{id}`).
//! 2. A handler takes a [`CallLease`] to give its side effects records of their own, or to commit its response with its rows. One
//!    that serves requests without a key, too, takes `Option<CallLease>`.
//! 3. Effects return Semel's [`Error`], which is a response: what is in doubt is told as such, and not repeated; what failed for
//!    good is kept; everything else lets the next try run.
//!
//! ```
//! use axum::{Json, Router, http::StatusCode, routing::post};
//! use semel::{Error, Once, Provider, axum::CallLease, http::IdempotencyLayer};
//! # use serde::{Deserialize, Serialize};
//! # #[derive(Deserialize)] struct Order { cents: u32 }
//! # #[derive(Serialize)] struct Receipt { charge: String }
//! # async fn charge(order: &Order, key: &str) -> Result<String, std::io::Error> { Ok(format!("{} {key}", order.cents)) }
//!
//! async fn create(lease: CallLease, Json(order): Json<Order>) -> Result<(StatusCode, Json<Receipt>), Error> {
//!     let charge = lease.effect("charge").keyed(Provider::STRIPE)
//!         .run(async |key| charge(&order, key.as_str()).await).await?;
//!     Ok((StatusCode::CREATED, Json(Receipt { charge })))
//! }
//!
//! let app: Router = Router::new()
//!     .route("/orders", post(create))
//!     .layer(IdempotencyLayer::new(Once::memory()).service_name("shop").required());
//! ```
//!
//! Put it below what authenticates and what sets headers for browsers (CORS), so that neither depends on a replay; and above
//! nothing that must see each request, such as a rate limit.

pub use crate::http::CallLease;

use crate::{
    effect::doubt,
    error::{Error, ErrorKind},
    handler_error::{Class, class_of},
    http::{Doubt, Problem, ProblemBase, STORE_WAIT, Told, Verdict},
};
use ::axum::{
    extract::{FromRequestParts, OptionalFromRequestParts},
    response::{IntoResponse, Response},
};
use ::http::request::Parts;
use std::{convert::Infallible, error::Error as StdError, fmt, time::Duration};

/// The handler wants a lease, and the request has none: it came without a key, or there is no layer above the handler.
#[derive(Clone, Copy, Debug)]
pub struct NoLease(());

impl IntoResponse for NoLease {
    fn into_response(self) -> Response {
        problem(Problem::LEASE_MISSING, None)
    }
}

impl fmt::Display for NoLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no lease: put `IdempotencyLayer` above the handler, and require keys")
    }
}

impl StdError for NoLease {}

impl<S: Send + Sync> FromRequestParts<S> for CallLease {
    type Rejection = NoLease;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NoLease> {
        Self::of(&parts.extensions).ok_or(NoLease(()))
    }
}

impl<S: Send + Sync> OptionalFromRequestParts<S> for CallLease {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Infallible> {
        Ok(Self::of(&parts.extensions))
    }
}

/// As a problem, with what it means for the request's call.
impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let (said, verdict) = meaning(&self);
        let wait = (said == Problem::INTERRUPTED).then_some(STORE_WAIT);
        let mut response = problem(said, wait);
        response.extensions_mut().insert(verdict);
        if let (Verdict::Unknown, Some(key)) = (verdict, self.key()) {
            response.extensions_mut().insert(Doubt(doubt::blame(key, self.detail().unwrap_or_default())));
        }
        response
    }
}

/// What an error of one of its effects means for a request.
fn meaning(error: &Error) -> (Problem, Verdict) {
    match class_of(error) {
        Class::Unknown => (Problem::OUTCOME_UNKNOWN, Verdict::Unknown),
        Class::Fatal => (Problem::INTERNAL, Verdict::Kept),
        Class::NotOurs => (Problem::INTERNAL, Verdict::Lost),
        Class::Retryable if matches!(error.kind(), ErrorKind::Store | ErrorKind::Unconfirmed) => {
            // The handler was at work: what it did before is done, and nobody may take it for nothing.
            (Problem::INTERRUPTED, Verdict::Released)
        }
        Class::Retryable => (Problem::INTERNAL, Verdict::Released),
    }
}

/// A problem, which the layer above words as its own.
fn problem(problem: Problem, wait: Option<Duration>) -> Response {
    let base = ProblemBase::default();
    let response = match wait {
        Some(wait) => problem.response_after::<::axum::body::Body>(&base, wait),
        None => problem.response(&base),
    };
    let mut response = response.into_response();
    response.extensions_mut().insert(Told(problem));
    response
}
