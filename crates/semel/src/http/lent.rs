//! The lease of a request, for the service that carries it out.
//!
//! 1. It is among the extensions of a request with a key: [`CallLease::of`], and an extractor of
#![cfg_attr(feature = "axum", doc = "   [`semel::axum`](crate::axum).")]
#![cfg_attr(not(feature = "axum"), doc = "   `semel::axum` (feature `axum`).")]
//! 2. The call is finished when the service has answered and has let go of it. Who takes it to another task keeps the call,
//!    and the client, waiting until that task is done with it. It cannot be moved into the body of a stream, whose head is
//!    sent after the call is finished: such a response is given up.
//! 3. Extensions that were copied elsewhere hold nothing.
//! 4. [`CallLease::complete_in`] writes the response in the service's own transaction: its rows and the response are there
//!    together, or neither is. Whether it was committed, the layer sees for itself.

use super::{Body, layer::Settings};
use crate::{effect::Transaction, error::Error, lease::Lease, service::LentLease};
use ::http::{Extensions, Response};
use bytes::Bytes;
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
pub struct CallLease(Arc<Lent>);

/// What all clones share.
struct Lent {
    settings: Arc<Settings>,
    is_head: bool,
    /// Dropped last: who lent it goes on then.
    lease: LentLease,
}

/// As it stands among the extensions: a way to the lease while the layer holds it.
#[derive(Clone)]
struct Way(Weak<Lent>);

/// Marks a response that was written in a transaction.
#[derive(Clone, Copy)]
pub(super) struct InTransaction;

impl CallLease {
    /// The lease of the request with these extensions; `None` if it has no key, or if there is no layer above.
    pub fn of(extensions: &Extensions) -> Option<Self> {
        let Way(lent) = extensions.get()?;
        lent.upgrade().map(Self)
    }

    /// Puts the way to it among a request's extensions. What is given back keeps the way open.
    pub(super) fn put(
        lease: LentLease,
        settings: &Arc<Settings>,
        is_head: bool,
        extensions: &mut Extensions,
    ) -> Self {
        let lent = Arc::new(Lent { settings: Arc::clone(settings), is_head, lease });
        extensions.insert(Way(Arc::downgrade(&lent)));
        Self(lent)
    }

    /// The request was carried out, with this response, if the transaction commits: the response is stored if the service's
    /// own rows are. Then commit, and return what this gives. An error means: roll back.
    ///
    /// The transaction must be one of the store that the layer uses. Every response is kept like this, whatever its status,
    /// as far as it fits. If it was not committed after all, its client is told that the service failed, and the next try
    /// runs.
    #[cfg_attr(
        feature = "sqlite",
        doc = r#"
```
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use semel::{BoxError, http::{Body, CallLease}, store::sqlite::SqliteStore};

async fn order<B>(db: SqliteStore, request: Request<B>) -> Result<Response<Body<Full<Bytes>>>, BoxError> {
    let lease = CallLease::of(request.extensions()).ok_or("there is no layer")?;
    let mut tx = db.begin().await?;
    sqlx::query("INSERT INTO orders (id) VALUES (7)").execute(&mut *tx).await?;
    let response = Response::builder().status(201).body(Full::from("order 7"))?;
    let response = lease.complete_in(&mut tx, response).await?;
    tx.commit().await?;
    Ok(response)
}
```
"#
    )]
    pub async fn complete_in<X, B>(
        self,
        transaction: &mut X,
        response: Response<B>,
    ) -> Result<Response<Body<B>>, Error>
    where
        X: Transaction,
        B: http_body::Body<Data = Bytes>,
    {
        let (mut parts, body) = response.into_parts();
        let Lent { settings, is_head, lease } = &*self.0;
        let mut reading = settings.reading(body);
        let ended = (&mut reading).await;
        let (body, stored) = settings.read(&parts, reading, ended, *is_head);
        lease.complete_bytes_in(transaction, stored.content()).await?;
        if self.is_protected() {
            parts.extensions.insert(InTransaction);
        }
        Ok(Response::from_parts(parts, body))
    }
}

impl ops::Deref for CallLease {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.0.lease
    }
}

impl fmt::Debug for CallLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.lease.fmt(f)
    }
}
