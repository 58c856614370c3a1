//! A tower layer that makes any service idempotent: request in, response replayed.
//!
//! 1. The layer's scope and the request's id name the call. A request without an id is refused; running such
//!    requests unprotected must be asked for by name.
//! 2. The inner service is called for the first of many duplicates only; the others get its response. It is
//!    called under a lease that is renewed while it works, and can have the lease, for its effects, with the
//!    request: [`IdempotentLayer::with_lease`].
//! 3. The service that was polled ready is the one that is called. Its clone stays behind, to be polled again.
//!    Not being ready is passed through; a duplicate gives back unused whatever readiness had reserved.
//! 4. The inner service's error goes to its caller as it is. It is retryable unless [`IdempotentLayer::is_fatal`]
//!    says otherwise; a [`HandlerError`](crate::HandlerError) and Semel's own errors say themselves what they
//!    mean. A fatal one is kept, and duplicates are told so.
//! 5. A dropped response future is a crash, not a failure: nothing is written, and the lease lapses.
//!
//! It does not retry the inner service, and it does not know HTTP.

mod classify;
mod error;
mod layer;
mod loan;

pub use classify::{AllRetryable, Classifies, FatalIf};
pub use error::ServiceError;
pub use layer::{IdempotentLayer, Keyed, NoKey};
pub use loan::{Dress, Leased, LentLease, Plain, PlainOrUnprotected, WithLease};

use crate::{
    begin::Begin,
    call::Call,
    error::{Error, ErrorKind},
    handler_error::Class,
    lease::Lease,
};
use classify::Meaning;
#[cfg(feature = "http")]
pub(crate) use loan::Lender;
pub(crate) use loan::{GivenBack, lend};
use semel_core::{BoxFuture, key::KeyError, sabotage};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    fmt::{self, Display},
    task::{Context, Poll},
};
use tower_service::Service;

/// A service that calls the one it wraps once for each key. Made by [`IdempotentLayer`].
pub struct Idempotent<S, Req, D = Plain, F = AllRetryable> {
    inner: S,
    layer: IdempotentLayer<Keyed<Req, D, F>>,
}

impl<S, Req, D, F: Clone> tower_layer::Layer<S> for IdempotentLayer<Keyed<Req, D, F>> {
    type Service = Idempotent<S, Req, D, F>;

    fn layer(&self, inner: S) -> Self::Service {
        Idempotent { inner, layer: self.clone() }
    }
}

impl<S: Clone, Req, D, F: Clone> Clone for Idempotent<S, Req, D, F> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<S: fmt::Debug, Req, D, F> fmt::Debug for Idempotent<S, Req, D, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idempotent").field("inner", &self.inner).field("layer", &self.layer).finish()
    }
}

impl<S, Req, D, F> Service<Req> for Idempotent<S, Req, D, F>
where
    Req: Send + 'static,
    D: Dress<Req> + 'static,
    D::Dressed: Send,
    S: Service<D::Dressed> + Clone + Send + 'static,
    S::Response: Serialize + DeserializeOwned + Send + Sync,
    S::Error: Display + Send + Sync + 'static,
    S::Future: Send,
    F: Classifies<S::Error> + 'static,
{
    type Response = S::Response;
    type Error = ServiceError<S::Error>;
    type Future = BoxFuture<'static, Result<S::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(ServiceError::Inner)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let service = take_ready(&mut self.inner);
        let call = self.layer.call(&request);
        let attempt = Attempt { service, request, layer: self.layer.clone() };
        match call {
            Ok(call) => Box::pin(attempt.under(call)),
            Err(error) => Box::pin(attempt.without_key(error)),
        }
    }
}

/// The service that was polled ready; in its place stays a clone, which may not be.
pub(crate) fn take_ready<S: Clone>(inner: &mut S) -> S {
    let clone = inner.clone();
    if sabotage::is_on("unready_clone_is_called") {
        return clone;
    }
    std::mem::replace(inner, clone)
}

/// One request, and the service that is ready for it.
struct Attempt<S, Req, D, F> {
    service: S,
    request: Req,
    layer: IdempotentLayer<Keyed<Req, D, F>>,
}

impl<S, Req, D, F> Attempt<S, Req, D, F>
where
    D: Dress<Req>,
    S: Service<D::Dressed>,
    S::Response: Serialize + DeserializeOwned,
    S::Error: Display + 'static,
    F: Classifies<S::Error>,
{
    /// Calls the service, or gives what came of it before.
    async fn under(self, call: Call) -> Result<S::Response, ServiceError<S::Error>> {
        let refusal = match call.begin().await? {
            Begin::Run(lease) => return self.run(lease).await,
            Begin::Replay(replay) => return Ok(replay.value()?),
            Begin::Failed(failure) => failure.into_error(),
            Begin::Busy { key, until } => Error::new(ErrorKind::InProgress { until }, key),
            Begin::Mismatch { key } => Error::new(ErrorKind::Mismatch, key),
        };
        Err(refusal.into())
    }

    async fn run(self, lease: Lease) -> Result<S::Response, ServiceError<S::Error>> {
        let Self { mut service, request, layer } = self;
        let (lent, lender) = lend(lease);
        let work = async {
            let result = service.call(D::dress(request, lent)).await;
            // Whoever took the lease elsewhere still works under it.
            lender.returned().await;
            result
        };
        let result = lender.lease().hold_in_span(work).await?;
        let lease = lender.take_back();
        match result {
            Ok(response) => {
                lease.complete(&response).await?;
                Ok(response)
            }
            Err(error) => Err(end(lease, layer.meaning(&error), error).await),
        }
    }

    /// Refuses, unless running without a key was asked for.
    async fn without_key(mut self, error: KeyError) -> Result<S::Response, ServiceError<S::Error>> {
        match D::undressed(self.request) {
            Some(request) if error.is_missing() => {
                self.service.call(request).await.map_err(ServiceError::Inner)
            }
            Some(_) | None => Err(Error::bad_key(error).into()),
        }
    }
}

/// Writes what the service's error means, and gives the error that its caller sees.
async fn end<E: Display>(lease: Lease, meaning: Meaning, error: E) -> ServiceError<E> {
    let Meaning { class, text } = meaning;
    let written = match class {
        Class::Retryable if sabotage::is_on("service_error_is_fatal") => lease.fail(text).await,
        Class::Retryable => lease.release(text).await,
        Class::Fatal => lease.fail(text).await,
        Class::Unknown => lease.fail_unknown(text).await,
        Class::NotOurs => Ok(()),
    };
    match written {
        Err(lost) if lost.kind() == ErrorKind::Superseded => ServiceError::Semel(lost),
        // Whether the failure was kept or not, this is what the service said; if not, the lease lapses.
        Ok(()) | Err(_) => ServiceError::Inner(error),
    }
}
