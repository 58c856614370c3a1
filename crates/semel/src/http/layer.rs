//! The layer, as it is described.

use super::{
    caller::Caller,
    headers::{Kept, REPLAY_HEADERS},
    problem::{Problem, ProblemBase},
    quota::{Counted, Quota},
    service::{Admission, Idempotency, admit},
    unfinished::Works,
};
use crate::once::{BODY_BYTES_MAX, Once, WAIT_MAX};
use ::http::{HeaderName, Method, header::CONTENT_TYPE, request::Parts};
use semel_core::{key::Key, record::OnLapse};
use std::{fmt, sync::Arc, time::Duration};

/// Largest request body with a key, unless the layer says otherwise.
pub const REQUEST_BYTES_MAX: usize = 1024 * 1024;
/// Largest response body that is kept, unless the layer says otherwise.
pub const RESPONSE_BYTES_MAX: usize = BODY_BYTES_MAX;
/// How long a response's body may take before it counts as a stream, unless the layer says otherwise.
pub const RESPONSE_WAIT_MAX: Duration = Duration::from_secs(5);

/// Makes the HTTP service below it idempotent by `Idempotency-Key`. Cheap to clone; clones share the quota.
///
/// ```
/// use bytes::Bytes;
/// use http::{Request, Response};
/// use http_body_util::Full;
/// use semel::{Once, http::IdempotencyLayer};
/// use std::{convert::Infallible, sync::atomic::{AtomicU32, Ordering}};
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// static CHARGED: AtomicU32 = AtomicU32::new(0);
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let pay = ServiceBuilder::new()
///     .layer(IdempotencyLayer::new(Once::memory()).required())
///     .service(service_fn(async |_request| {
///         let number = CHARGED.fetch_add(1, Ordering::Relaxed);
///         Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(format!("receipt {number}")))))
///     }));
///
/// let request = || {
///     Request::post("/charges")
///         .header("authorization", "Bearer ann")
///         .header("idempotency-key", "\"8e03978e\"")
///         .body(Full::new(Bytes::from("12.00 EUR")))
///         .unwrap()
/// };
/// let first = pay.clone().oneshot(request()).await.unwrap();
/// assert!(!first.headers().contains_key("idempotency-replayed"));
/// let again = pay.clone().oneshot(request()).await.unwrap();
/// assert_eq!(again.headers()["idempotency-replayed"], "true");
/// assert_eq!(CHARGED.load(Ordering::Relaxed), 1);
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
#[must_use = "a layer does nothing until a service is put below it"]
pub struct IdempotencyLayer {
    pub(super) settings: Arc<Settings>,
}

type RouteOf = Arc<dyn Fn(&Parts) -> String + Send + Sync>;

/// What a layer was told.
#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is told on its own, and none depends on another")]
pub(super) struct Settings {
    pub(super) once: Once,
    pub(super) service: String,
    pub(super) is_required: bool,
    pub(super) is_strict: bool,
    pub(super) methods: Vec<Method>,
    pub(super) caller: Caller,
    pub(super) route: Option<RouteOf>,
    pub(super) compared: Vec<HeaderName>,
    pub(super) kept: Kept,
    pub(super) request_bytes_max: usize,
    pub(super) response_bytes_max: usize,
    pub(super) response_wait: Duration,
    pub(super) stores_errors: bool,
    pub(super) quota: Option<Arc<Counted>>,
    pub(super) problems: ProblemBase,
    pub(super) marks_answers: bool,
    pub(super) call: CallSettings,
    pub(super) works: Arc<Works>,
}

/// What a layer was told about its calls.
#[derive(Clone, Copy)]
pub(super) struct CallSettings {
    pub(super) wait: Duration,
    pub(super) lease: Option<Duration>,
    pub(super) retention: Option<Duration>,
    pub(super) body_retention: Option<Duration>,
    pub(super) is_elsewhere: bool,
    pub(super) on_lapse: OnLapse,
    pub(super) fails_open: bool,
}

impl IdempotencyLayer {
    /// A layer whose records are kept by this `Once`.
    pub fn new(once: Once) -> Self {
        let call = CallSettings {
            wait: WAIT_MAX,
            lease: None,
            retention: None,
            body_retention: None,
            is_elsewhere: false,
            on_lapse: OnLapse::Rerun,
            fails_open: false,
        };
        let settings = Settings {
            once,
            service: "http".to_owned(),
            is_required: false,
            is_strict: false,
            methods: vec![Method::POST, Method::PATCH],
            caller: Caller::default(),
            route: None,
            compared: vec![CONTENT_TYPE],
            kept: Kept::new(REPLAY_HEADERS),
            request_bytes_max: REQUEST_BYTES_MAX,
            response_bytes_max: RESPONSE_BYTES_MAX,
            response_wait: RESPONSE_WAIT_MAX,
            stores_errors: false,
            quota: None,
            problems: ProblemBase::default(),
            marks_answers: false,
            call,
            works: Arc::default(),
        };
        Self { settings: Arc::new(settings) }
    }

    fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self
    }

    /// Under which name its keys are kept; `http` unless set. Services that share a store have names of their own. So have
    /// hosts that are services of their own, if each has a layer: none looks at `Host`. One layer for several tells them apart
    /// by its [`route`](Self::route).
    pub fn service_name(self, name: impl Into<String>) -> Self {
        self.with(|it| it.service = name.into())
    }

    /// Refuses requests without a key. Without this they pass through, unprotected.
    pub fn required(self) -> Self {
        self.with(|it| it.is_required = true)
    }

    /// Lets requests without a key pass through, unprotected, which is so unless [`required`](Self::required) was said:
    /// for a route that differs from the others.
    pub fn optional(self) -> Self {
        self.with(|it| it.is_required = false)
    }

    /// Which methods it is for; `POST` and `PATCH` unless set. All others pass through untouched, with or without a key.
    ///
    /// # Panics
    ///
    /// If there is none: such a layer would protect nothing.
    pub fn methods(self, methods: impl IntoIterator<Item = Method>) -> Self {
        let methods: Vec<_> = methods.into_iter().collect();
        assert!(!methods.is_empty(), "a layer for no method protects nothing");
        self.with(|it| it.methods = methods)
    }

    /// How callers are told apart; by `Authorization` unless set.
    pub fn caller(self, caller: Caller) -> Self {
        self.with(|it| it.caller = caller)
    }

    /// Which route a request takes: part of what its key names, and of the metrics' labels. Unless set, it is axum's
    /// `MatchedPath` where there is one (feature `axum`), else the path. A service that answers for several hosts has the host in
    /// it.
    pub fn route(self, route: impl Fn(&Parts) -> String + Send + Sync + 'static) -> Self {
        self.with(|it| it.route = Some(Arc::new(route)))
    }

    /// Which headers must be the same when a key comes again; `Content-Type` unless set. `Content-Encoding` must be in any case.
    pub fn fingerprint_headers(self, names: impl IntoIterator<Item = HeaderName>) -> Self {
        let mut names: Vec<_> = names.into_iter().collect();
        names.sort_by(|one, other| one.as_str().cmp(other.as_str()));
        names.dedup();
        self.with(|it| it.compared = names)
    }

    /// Takes keys only as the draft has them: quoted. Without this, bare keys are taken too.
    pub fn strict(self) -> Self {
        self.with(|it| it.is_strict = true)
    }

    /// Largest request body with a key; [`REQUEST_BYTES_MAX`] unless set. Each may take up so much memory.
    pub fn request_bytes_max(self, bytes: usize) -> Self {
        self.with(|it| it.request_bytes_max = bytes)
    }

    /// Largest response body that is kept; [`RESPONSE_BYTES_MAX`] unless set. A larger one reaches its client all the
    /// same, but cannot be replayed.
    pub fn response_bytes_max(self, bytes: usize) -> Self {
        self.with(|it| it.response_bytes_max = bytes)
    }

    /// How long a response's body may take; [`RESPONSE_WAIT_MAX`] unless set. One that takes longer counts as a stream:
    /// it reaches its client all the same, but cannot be replayed.
    pub fn response_wait(self, wait: Duration) -> Self {
        self.with(|it| it.response_wait = wait)
    }

    /// How long a duplicate waits for the first one's response before it is told to come again; 2 s unless set.
    pub fn wait(self, wait: Duration) -> Self {
        self.with(|it| it.call.wait = wait)
    }

    /// Keeps and replays 5xx, 429 and 408, too. Without this they let the next try run.
    pub fn store_errors(self) -> Self {
        self.with(|it| it.stores_errors = true)
    }

    /// Which headers of a response are kept and replayed; [`REPLAY_HEADERS`] unless set. `Set-Cookie`, `Date`, hop-by-hop
    /// headers and Semel's own are not, even if they are listed.
    ///
    /// ```
    /// use http::HeaderName;
    /// use semel::{Once, http::{IdempotencyLayer, REPLAY_HEADERS}};
    /// let request_id = HeaderName::from_static("x-request-id");
    /// let layer = IdempotencyLayer::new(Once::memory())
    ///     .replay_headers(REPLAY_HEADERS.into_iter().chain([request_id]));
    /// ```
    pub fn replay_headers(self, names: impl IntoIterator<Item = HeaderName>) -> Self {
        self.with(|it| it.kept = Kept::new(names))
    }

    /// The work is done outside of this process (a proxy's upstream) and may go on when this process dies. A claim is
    /// then durable before the work begins, and its lease stands until it lapses, also across a restart.
    pub fn elsewhere(self) -> Self {
        self.with(|it| it.call.is_elsewhere = true)
    }

    /// What whoever finds a request's call lapsed must do: run it again, which is so unless this is set, or report its
    /// outcome as unknown.
    pub fn on_lapse(self, on_lapse: OnLapse) -> Self {
        self.with(|it| it.call.on_lapse = on_lapse)
    }

    /// Declares that the service is naturally idempotent, so that running a request twice does no harm, and that it shall
    /// run **unprotected** when the store cannot be reached. Without this such requests are refused.
    pub fn fail_open(self) -> Self {
        self.with(|it| it.call.fails_open = true)
    }

    /// How long the service may work undisturbed between renewals; as the `Once` says unless set.
    pub fn lease(self, lease: Duration) -> Self {
        self.with(|it| it.call.lease = Some(lease))
    }

    /// How long it is remembered that a request was carried out, and its response kept, unless
    /// [`body_retention`](Self::body_retention) is set, too; as the `Once` says unless set.
    pub fn retention(self, retention: Duration) -> Self {
        self.with(|it| it.call.retention = Some(retention))
    }

    /// How long a response is kept; as long as the request is remembered if only [`retention`](Self::retention) is set, as the
    /// `Once` says if neither is, and never longer than the request is remembered.
    pub fn body_retention(self, retention: Duration) -> Self {
        self.with(|it| it.call.body_retention = Some(retention))
    }

    /// How many keys of each caller are remembered by this node; any number unless set. A layer that is reached by callers whom
    /// nobody knows should have one, [`Quota::live`]: each key takes up room for as long as it is remembered.
    pub fn quota(self, quota: Quota) -> Self {
        self.with(|it| it.quota = Some(Arc::new(Counted::new(quota))))
    }

    /// Where the `type` of a problem points: its slug is appended to this. This crate's documentation unless set.
    pub fn problem_base(self, base: impl Into<String>) -> Self {
        self.with(|it| it.problems = ProblemBase::new(base))
    }

    /// Puts how each request with a key was answered among the extensions of its response:
    /// [`Answered`](super::Answered), with [`InDoubt`](super::InDoubt) where its outcome is unknown, and
    /// [`NotRetained`](super::NotRetained) where its response is not kept. For access logs.
    pub fn mark_answers(self) -> Self {
        self.with(|it| it.marks_answers = true)
    }

    /// What a request with this head is recorded under: for operators' verbs, such as
    /// [`Once::resolve`](crate::Once::resolve). `None` of one that passes through, and the problem of one that is refused.
    ///
    /// ```
    /// use semel::{Once, http::IdempotencyLayer};
    /// let layer = IdempotencyLayer::new(Once::memory());
    /// let request = http::Request::post("/orders").header("authorization", "Bearer ann");
    /// let (parts, ()) = request.header("idempotency-key", "\"8e03978e\"").body(()).unwrap().into_parts();
    /// let key = layer.key_of(&parts).unwrap().expect("it has a key");
    /// assert_eq!(key.scope(), "http:POST:/orders");
    /// ```
    pub fn key_of(&self, parts: &Parts) -> Result<Option<Key>, Problem> {
        match admit(&self.settings, parts) {
            Admission::Pass => Ok(None),
            Admission::Refuse(problem) => Err(problem),
            Admission::Protect(admitted) => Ok(Some(admitted.key)),
        }
    }

    /// Resolves when no request with a key is being worked on, also none whose client has hung up: for a graceful stop.
    /// All clones of a layer, and what they were made into by the methods above, count together.
    pub async fn idle(&self) {
        self.settings.works.idle().await;
    }
}

impl<S> tower_layer::Layer<S> for IdempotencyLayer {
    type Service = Idempotency<S>;

    fn layer(&self, inner: S) -> Idempotency<S> {
        Idempotency::new(inner, Arc::clone(&self.settings))
    }
}

impl fmt::Debug for IdempotencyLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let it = &self.settings;
        f.debug_struct("IdempotencyLayer")
            .field("service_name", &it.service)
            .field("is_required", &it.is_required)
            .field("is_strict", &it.is_strict)
            .field("methods", &it.methods)
            .field("caller", &it.caller)
            .field("quota", &it.quota.as_ref().map(|it| it.quota()))
            .finish_non_exhaustive()
    }
}
