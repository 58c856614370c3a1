//! Extractors for axum: the lease that a request is carried out under.

pub use crate::http::CallLease;

use crate::http::{Problem, ProblemBase};
use ::axum::{
    extract::{FromRequestParts, OptionalFromRequestParts},
    response::{IntoResponse, Response},
};
use ::http::request::Parts;
use std::convert::Infallible;

/// The handler wants a lease, and the request has none: it came without a key, or there is no layer above the handler.
#[derive(Debug)]
pub struct NoLease(());

impl IntoResponse for NoLease {
    fn into_response(self) -> Response {
        Problem::INTERNAL.response::<::axum::body::Body>(&ProblemBase::default()).into_response()
    }
}

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
