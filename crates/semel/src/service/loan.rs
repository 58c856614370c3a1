//! Lending the lease to the inner service, and taking it back.
//!
//! 1. The layer keeps the lease and lends it with the request. Who has it can use its effects, and see its
//!    attempt, fence and cancellation, but not finish it.
//! 2. The call is finished when the inner service has answered and the lease was given back, which dropping
//!    the request does. Who takes it to another task keeps the call open until that task is done with it.

use crate::lease::Lease;
use semel_core::sabotage;
use std::{
    fmt, ops,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::Notify;

/// How a request reaches the inner service.
pub trait Dress<Req> {
    /// What the inner service takes.
    type Dressed;

    /// The request, with the lease if that was asked for.
    fn dress(request: Req, lease: LentLease) -> Self::Dressed;

    /// The request without a key, if running such requests unprotected was asked for.
    fn undressed(request: Req) -> Option<Self::Dressed>;
}

/// The inner service takes the request as it is.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl<Req> Dress<Req> for Plain {
    type Dressed = Req;

    fn dress(request: Req, _: LentLease) -> Req {
        request
    }

    fn undressed(request: Req) -> Option<Req> {
        sabotage::is_on("missing_key_runs_unprotected").then_some(request)
    }
}

/// The inner service takes the request as it is, also when it has no key, and then unprotected.
#[derive(Clone, Copy, Debug)]
pub struct PlainOrUnprotected;

impl<Req> Dress<Req> for PlainOrUnprotected {
    type Dressed = Req;

    fn dress(request: Req, _: LentLease) -> Req {
        request
    }

    fn undressed(request: Req) -> Option<Req> {
        Some(request)
    }
}

/// The inner service takes the request and the lease it runs under.
#[derive(Clone, Copy, Debug)]
pub struct WithLease;

impl<Req> Dress<Req> for WithLease {
    type Dressed = Leased<Req>;

    fn dress(request: Req, lease: LentLease) -> Leased<Req> {
        Leased { request, lease }
    }

    fn undressed(_: Req) -> Option<Leased<Req>> {
        None
    }
}

/// A request, and the lease that its service runs under.
///
/// ```
/// use semel::{Error, HandlerError, service::Leased};
/// async fn greet(leased: Leased<String>) -> Result<(), Error> {
///     let greeting = leased.lease.effect("greeting").at_most_once();
///     greeting.run(async || Ok::<_, HandlerError>(println!("hello, {}", leased.request))).await
/// }
/// ```
///
/// The service cannot finish the call; the layer does:
///
/// ```compile_fail,E0507
/// # use semel::{Error, service::Leased};
/// async fn finish(leased: Leased<String>) -> Result<(), Error> {
///     leased.lease.complete(&()).await
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Leased<Req> {
    /// As it came in.
    pub request: Req,
    /// For the service's effects. The call is finished when this was dropped.
    pub lease: LentLease,
}

/// A lease that belongs to the layer: can be used, and not finished.
pub struct LentLease {
    /// Gone only in the moment of being given back.
    lease: Option<Lease>,
    given_back: Arc<GivenBack>,
}

#[derive(Default)]
struct GivenBack {
    is_back: AtomicBool,
    came: Notify,
}

impl ops::Deref for LentLease {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        self.lease.as_ref().expect("it is given back by being dropped, and not used after that")
    }
}

impl fmt::Debug for LentLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl Drop for LentLease {
    fn drop(&mut self) {
        // In this order: whoever sees the flag holds the only one left, and what it refers to is theirs to drop.
        self.lease = None;
        self.given_back.is_back.store(true, Ordering::Release);
        self.given_back.came.notify_one();
    }
}

/// Who lent a lease.
pub(crate) struct Lender {
    lease: Lease,
    given_back: Arc<GivenBack>,
}

/// Lends a lease; it comes back when what is lent is dropped.
pub(crate) fn lend(lease: Lease) -> (LentLease, Lender) {
    let given_back = Arc::default();
    let lent = LentLease { lease: Some(lease.lent()), given_back: Arc::clone(&given_back) };
    (lent, Lender { lease, given_back })
}

impl Lender {
    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Whether the lease was given back.
    pub(crate) fn is_back(&self) -> bool {
        self.given_back.is_back.load(Ordering::Acquire)
    }

    /// Resolves when the lease was given back.
    pub(crate) async fn returned(&self) {
        while !self.is_back() {
            self.given_back.came.notified().await;
        }
    }

    /// The lease, once it was given back.
    pub(crate) fn take_back(self) -> Lease {
        self.lease
    }
}
