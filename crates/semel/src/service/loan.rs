//! Lending the lease to the inner service, and taking it back.
//!
//! 1. The layer keeps the lease and lends it with the request. Who has it can use its effects, and see its
//!    attempt, fence and cancellation, but not finish it.
//! 2. The call is finished when the inner service has answered and the lease was given back, which dropping
//!    the request does. Who takes it to another task keeps the call open until that task is done with it.
//! 3. When it is back, nobody else holds any of it: what it refers to is the layer's to drop.

use crate::lease::Lease;
use semel_core::sabotage;
use std::{
    fmt, ops,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::{sync::Notify, task::yield_now};

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
    lease: Lease,
}

/// Whether a lease that was lent was given back. Each lease has one: to lend it costs no allocation.
#[derive(Default)]
pub(crate) struct GivenBack {
    is_back: AtomicBool,
    came: Notify,
}

impl ops::Deref for LentLease {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

impl fmt::Debug for LentLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl Drop for LentLease {
    fn drop(&mut self) {
        // It is let go of right after this, which the lender waits for.
        let given_back = &self.lease.inner.given_back;
        given_back.is_back.store(true, Ordering::Release);
        given_back.came.notify_one();
    }
}

/// Who lent a lease.
pub(crate) struct Lender {
    lease: Lease,
}

/// Lends a lease; it comes back when what is lent is dropped.
pub(crate) fn lend(lease: Lease) -> (LentLease, Lender) {
    lease.inner.given_back.is_back.store(false, Ordering::Relaxed);
    (LentLease { lease: lease.lent() }, Lender { lease })
}

impl Lender {
    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Whether the lease was given back.
    #[cfg(feature = "http")]
    pub(crate) fn is_back(&self) -> bool {
        self.is_given_back() && self.is_let_go()
    }

    fn is_given_back(&self) -> bool {
        self.lease.inner.given_back.is_back.load(Ordering::Acquire)
    }

    /// Whether whoever gave it back has let go of it, too.
    fn is_let_go(&self) -> bool {
        Arc::strong_count(&self.lease.inner) == 1
    }

    /// Resolves when the lease was given back.
    pub(crate) async fn returned(&self) {
        while !self.is_given_back() {
            self.lease.inner.given_back.came.notified().await;
        }
        // Another thread is about to.
        while !self.is_let_go() {
            yield_now().await;
        }
    }

    /// The lease, once it was given back.
    pub(crate) fn take_back(self) -> Lease {
        self.lease
    }
}
