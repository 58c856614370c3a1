//! The lease of a request, for the service that carries it out.
//!
//! 1. It is among the extensions of a request with a key: [`CallLease::of`], and an extractor of
#![cfg_attr(feature = "axum", doc = "   [`semel::axum`](crate::axum).")]
#![cfg_attr(not(feature = "axum"), doc = "   `semel::axum` (feature `axum`).")]
//! 2. The call is finished when the service has answered and has let go of it. Who takes it to another task keeps the call,
//!    and the client, waiting until that task is done with it. It cannot be moved into the body of a stream, whose head is
//!    sent after the call is finished: such a response is given up.
//! 3. Extensions that were copied elsewhere hold nothing.

use crate::{lease::Lease, service::LentLease};
use ::http::Extensions;
use std::{
    fmt, ops,
    sync::{Arc, Weak},
};

/// The lease that a request is carried out under: for effects, and to see its key, attempt, fence and cancellation.
///
/// ```
/// use semel::{Error, HandlerError, http::CallLease};
/// async fn greet(lease: &CallLease) -> Result<(), Error> {
///     lease.effect("greeting").at_most_once().run(async || Ok::<_, HandlerError>(println!("hello"))).await
/// }
/// ```
#[derive(Clone)]
pub struct CallLease {
    lent: Arc<LentLease>,
}

/// As it stands among the extensions: a way to the lease while the layer holds it.
#[derive(Clone)]
struct Way(Weak<LentLease>);

impl CallLease {
    /// The lease of the request with these extensions; `None` if it has no key, or if there is no layer above.
    pub fn of(extensions: &Extensions) -> Option<Self> {
        let Way(way) = extensions.get()?;
        way.upgrade().map(|lent| Self { lent })
    }

    /// Puts the way to it among a request's extensions. What is given back keeps the way open.
    pub(super) fn put(lent: LentLease, extensions: &mut Extensions) -> Self {
        let lent = Arc::new(lent);
        extensions.insert(Way(Arc::downgrade(&lent)));
        Self { lent }
    }
}

impl ops::Deref for CallLease {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lent
    }
}

impl fmt::Debug for CallLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lent.fmt(f)
    }
}
