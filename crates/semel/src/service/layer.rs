//! The layer, as it is described.

use super::{
    classify::{AllRetryable, Classifies, FatalIf, Meaning},
    loan::{Plain, PlainOrUnprotected, WithLease},
};
use crate::{call::Call, once::Once};
use semel_core::key::{IntoParts, Key, KeyError, Part};
use serde::Serialize;
use std::{
    fmt::{self, Display},
    marker::PhantomData,
    sync::Arc,
};

/// Makes the service below it idempotent. It is no layer until it has a key.
///
/// ```
/// use semel::{Once, service::IdempotentLayer};
/// use std::{convert::Infallible, sync::atomic::{AtomicU32, Ordering}};
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// static SHIPPED: AtomicU32 = AtomicU32::new(0);
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let ship = ServiceBuilder::new()
///     .layer(IdempotentLayer::new(Once::memory(), "ship-order").key(|order: &u32| *order))
///     .service(service_fn(async |order: u32| {
///         SHIPPED.fetch_add(1, Ordering::Relaxed);
///         Ok::<_, Infallible>(format!("order {order} is on its way"))
///     }));
///
/// for _delivery in 0..3 {
///     assert_eq!(ship.clone().oneshot(7).await.unwrap(), "order 7 is on its way");
/// }
/// assert_eq!(SHIPPED.load(Ordering::Relaxed), 1);
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// Without a key it does not compile:
///
/// ```compile_fail,E0277
/// # use semel::{Once, service::IdempotentLayer};
/// # use tower::{ServiceBuilder, service_fn};
/// # let ship = service_fn(|order: u32| std::future::ready(Ok::<u32, std::io::Error>(order)));
/// ServiceBuilder::new().layer(IdempotentLayer::new(Once::memory(), "ship-order")).service(ship);
/// ```
#[must_use = "a layer does nothing until a service is put below it"]
pub struct IdempotentLayer<K = NoKey> {
    once: Once,
    scope: Arc<[Part]>,
    keyed: K,
}

/// A layer that was not told yet what its requests' ids are.
#[derive(Clone, Copy, Debug)]
pub struct NoKey;

type IdOf<Req> = Arc<dyn Fn(&Req) -> Vec<Part> + Send + Sync>;
type Prepare<Req> = Arc<dyn Fn(Call, &Req) -> Call + Send + Sync>;

/// A layer that knows its requests' ids; also how they reach the service and which errors are fatal.
pub struct Keyed<Req, D = Plain, F = AllRetryable> {
    id: IdOf<Req>,
    prepare: Prepare<Req>,
    classes: F,
    dress: PhantomData<fn() -> D>,
}

impl IdempotentLayer<NoKey> {
    /// A layer for one operation: the scope is its name, alone or with service, route and the like.
    pub fn new(once: Once, scope: impl IntoParts) -> Self {
        let mut parts = Vec::new();
        scope.append_to(&mut parts);
        Self { once, scope: parts.into(), keyed: NoKey }
    }

    /// What names a request within the scope: an event's id, an order number, a tuple of such. Two requests
    /// with the same id are one; a request whose id is empty, blank or `None` is refused.
    pub fn key<Req, P: IntoParts>(
        self,
        id: impl Fn(&Req) -> P + Send + Sync + 'static,
    ) -> IdempotentLayer<Keyed<Req>> {
        let id = move |request: &Req| {
            let mut parts = Vec::new();
            id(request).append_to(&mut parts);
            parts
        };
        let (id, prepare) = (Arc::new(id), Arc::new(|call, _: &Req| call));
        let keyed = Keyed { id, prepare, classes: AllRetryable, dress: PhantomData };
        IdempotentLayer { once: self.once, scope: self.scope, keyed }
    }
}

impl<Req: 'static, D, F> IdempotentLayer<Keyed<Req, D, F>> {
    /// Demands that a duplicate is equal to the first request, compared as canonical JSON; one that is not
    /// is a mismatch. To compare a part of the request, use [`IdempotentLayer::prepare`].
    pub fn payload(self) -> Self
    where
        Req: Serialize,
    {
        self.prepare(Call::payload)
    }

    /// Says more about the call of a request: its payload, lease, retention, what to do if it is busy.
    ///
    /// ```
    /// use semel::{OnBusy, Once, service::IdempotentLayer};
    /// struct Order { id: u32, body: Vec<u8> }
    /// let layer = IdempotentLayer::new(Once::memory(), "ship-order")
    ///     .key(|order: &Order| order.id)
    ///     .prepare(|call, order| call.payload_bytes(&order.body).on_busy(OnBusy::Reject));
    /// ```
    pub fn prepare(mut self, prepare: impl Fn(Call, &Req) -> Call + Send + Sync + 'static) -> Self {
        let before = self.keyed.prepare;
        self.keyed.prepare = Arc::new(move |call, request| prepare(before(call, request), request));
        self
    }

    /// Tells which of the service's errors are fatal: trying again is pointless, and duplicates are told so.
    pub fn is_fatal<E, C>(self, is_fatal: C) -> IdempotentLayer<Keyed<Req, D, FatalIf<C>>>
    where
        C: Fn(&E) -> bool + Clone + Send + Sync + 'static,
    {
        let Self { once, scope, keyed: Keyed { id, prepare, dress, .. } } = self;
        IdempotentLayer { once, scope, keyed: Keyed { id, prepare, classes: FatalIf(is_fatal), dress } }
    }

    fn dressed<To>(self) -> IdempotentLayer<Keyed<Req, To, F>> {
        let Self { once, scope, keyed: Keyed { id, prepare, classes, .. } } = self;
        IdempotentLayer { once, scope, keyed: Keyed { id, prepare, classes, dress: PhantomData } }
    }
}

impl<Req: 'static, F> IdempotentLayer<Keyed<Req, Plain, F>> {
    /// Hands the service its lease with the request, for effects of its own: it takes a
    /// [`Leased`](super::Leased) request.
    pub fn with_lease(self) -> IdempotentLayer<Keyed<Req, WithLease, F>> {
        self.dressed()
    }

    /// Runs a request without an id all the same, **unprotected**: its duplicates run too.
    ///
    /// For services that serve requests which need no protection beside others that do. An id that is there
    /// and malformed is still refused.
    pub fn run_unprotected_without_key(self) -> IdempotentLayer<Keyed<Req, PlainOrUnprotected, F>> {
        self.dressed()
    }
}

impl<Req, D, F> IdempotentLayer<Keyed<Req, D, F>> {
    /// The call of this request.
    pub(super) fn call(&self, request: &Req) -> Result<Call, KeyError> {
        let key = Key::new(self.scope.to_vec(), (self.keyed.id)(request))?;
        Ok((self.keyed.prepare)(self.once.call_key(key), request))
    }

    pub(super) fn meaning<E: Display + 'static>(&self, error: &E) -> Meaning
    where
        F: Classifies<E>,
    {
        Meaning::of(error, &self.keyed.classes)
    }
}

impl<K: Clone> Clone for IdempotentLayer<K> {
    fn clone(&self) -> Self {
        Self { once: self.once.clone(), scope: Arc::clone(&self.scope), keyed: self.keyed.clone() }
    }
}

impl<Req, D, F: Clone> Clone for Keyed<Req, D, F> {
    fn clone(&self) -> Self {
        Self {
            id: Arc::clone(&self.id),
            prepare: Arc::clone(&self.prepare),
            classes: self.classes.clone(),
            dress: PhantomData,
        }
    }
}

impl<K> fmt::Debug for IdempotentLayer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotentLayer").field("scope", &self.scope).finish_non_exhaustive()
    }
}
