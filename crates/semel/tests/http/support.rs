//! A world in which time stands still, the store is watched and fails on command, and a service counts its calls.

use crate::bodies::whole;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, request};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use semel::{
    BoxError, BoxFuture, Clock, Fence, Key, MemoryStore, Once, Record, Store, StoreError, StoreErrorKind,
    Stored, Swap, Timestamp,
    http::{Body, IdempotencyLayer},
};
use semel_testkit::ManualClock;
use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;
use tower::{Layer as _, Service, ServiceExt as _};

pub(crate) const MINUTE: Duration = Duration::from_mins(1);

/// The body of a request in tests.
pub(crate) type Sent = Full<Bytes>;
/// The body of a response that a service gives.
pub(crate) type Given = UnsyncBoxBody<Bytes, BoxError>;

/// A store that is watched, and fails on command.
pub(crate) struct Spy {
    inner: MemoryStore,
    /// What was asked of it: `load`, or `swap` and the status that it would write.
    asked: Mutex<Vec<String>>,
    /// Fails whatever is asked.
    pub(crate) is_down: AtomicBool,
    /// Fails whatever would write this status.
    refuses: Mutex<Option<&'static str>>,
    /// Lets nothing through that would write this status, until it is told to.
    holds: Mutex<Option<&'static str>>,
    let_go: Notify,
}

impl Spy {
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }

    pub(crate) fn refuses(&self, status: Option<&'static str>) {
        *self.refuses.lock().unwrap() = status;
    }

    /// Holds back whatever would write this status, until [`Spy::let_go`].
    pub(crate) fn holds(&self, status: &'static str) {
        *self.holds.lock().unwrap() = Some(status);
    }

    pub(crate) fn let_go(&self) {
        *self.holds.lock().unwrap() = None;
        self.let_go.notify_waiters();
    }

    /// What a transaction wrote, when it commits.
    pub(crate) async fn commit(&self, key: &Key, expected: Option<Fence>, record: &Record) -> Swap {
        self.inner.swap(key, expected, record).await.unwrap()
    }

    fn ask(&self, what: String) -> Result<(), StoreError> {
        let is_refused = self.refuses.lock().unwrap().is_some_and(|status| what.ends_with(status));
        self.asked.lock().unwrap().push(what);
        if is_refused || self.is_down.load(Ordering::SeqCst) {
            return Err(StoreError::new(StoreErrorKind::Unavailable, "spied", "on command"));
        }
        Ok(())
    }
}

impl Store for Spy {
    fn load<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        Box::pin(async move {
            self.ask("load".to_owned())?;
            self.inner.load(key).await
        })
    }

    fn swap<'a>(
        &'a self,
        key: &'a Key,
        expected: Option<Fence>,
        record: &'a Record,
    ) -> BoxFuture<'a, Result<Swap, StoreError>> {
        Box::pin(async move {
            self.ask(format!("swap {}", record.status()))?;
            let is_held = *self.holds.lock().unwrap() == Some(record.status().as_str());
            if is_held {
                self.let_go.notified().await;
            }
            self.inner.swap(key, expected, record).await
        })
    }

    fn purge(&self, expired_at: Timestamp, limit: u32) -> BoxFuture<'_, Result<u32, StoreError>> {
        self.inner.purge(expired_at, limit)
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.inner.clock()
    }
}

/// A clock, a store on it, a `Once` over that, and how often a service was called.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) clock: ManualClock,
    pub(crate) store: Arc<Spy>,
    pub(crate) once: Once,
    calls: Arc<AtomicUsize>,
}

impl World {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::new();
        let store = Arc::new(Spy {
            inner: MemoryStore::with_clock(clock.arc()),
            asked: Mutex::default(),
            is_down: AtomicBool::new(false),
            refuses: Mutex::default(),
            holds: Mutex::default(),
            let_go: Notify::new(),
        });
        let once = Once::from_store(store.clone());
        Self { clock, store, once, calls: Arc::default() }
    }

    /// A layer whose duplicates do not wait.
    pub(crate) fn layer(&self) -> IdempotencyLayer {
        IdempotencyLayer::new(self.once.clone()).wait(Duration::ZERO)
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    pub(crate) fn called(&self) -> usize {
        self.calls.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// A service that answers with the number of its call.
    pub(crate) fn numbered(&self, layer: &IdempotencyLayer) -> App {
        self.answering(layer, |number| Response::new(whole(format!("call {number}"))))
    }

    /// A service that answers as the function says, which is given the number of the call.
    pub(crate) fn answering(
        &self,
        layer: &IdempotencyLayer,
        answer: impl Fn(usize) -> Response<Given> + Clone + Send + Sync + 'static,
    ) -> App {
        self.serving(layer, move |_, number| {
            let answer = answer(number);
            Box::pin(async move { Ok(answer) })
        })
    }

    /// A service that does as the function says, which is given the request and the number of the call.
    pub(crate) fn serving<F>(&self, layer: &IdempotencyLayer, serve: F) -> App
    where
        F: Fn(Request<Body<Sent>>, usize) -> BoxFuture<'static, Result<Response<Given>, Infallible>>
            + Clone
            + Send
            + Sync
            + 'static,
    {
        let world = self.clone();
        let inner = tower::service_fn(move |request| serve(request, world.called()));
        App(tower::util::BoxCloneSyncService::new(layer.layer(inner)))
    }
}

/// A service below a layer.
#[derive(Clone)]
pub(crate) struct App(tower::util::BoxCloneSyncService<Request<Sent>, Response<Body<Given>>, Infallible>);

impl App {
    /// Sends a request, and reads the response.
    pub(crate) async fn send(&self, request: Request<Sent>) -> Answer {
        Answer::of(self.raw(request).await).await
    }

    /// Sends a request.
    pub(crate) async fn raw(&self, request: Request<Sent>) -> Response<Body<Given>> {
        self.0.clone().oneshot(request).await.unwrap()
    }

    /// The response to come, to be polled by hand.
    pub(crate) fn begin(&self, request: Request<Sent>) -> BoxFuture<'static, Response<Body<Given>>> {
        let app = self.clone();
        Box::pin(async move { app.raw(request).await })
    }
}

/// A request of one caller, with a key as it stands in the header.
pub(crate) fn post(key: &str) -> request::Builder {
    Request::post("/orders").header("authorization", "Bearer ann").header("idempotency-key", key)
}

/// With a body of JSON.
pub(crate) fn json(builder: request::Builder, body: &str) -> Request<Sent> {
    builder.header("content-type", "application/json").body(Full::from(body.to_owned())).unwrap()
}

/// The usual request under this key.
pub(crate) fn order(key: &str) -> Request<Sent> {
    json(post(key), r#"{"item":"book","cents":1200}"#)
}

/// Without a key.
pub(crate) fn keyless(method: Method) -> Request<Sent> {
    Request::builder().method(method).uri("/orders").body(Full::default()).unwrap()
}

/// A response, read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) trailers: Option<HeaderMap>,
}

impl Answer {
    pub(crate) async fn of<B>(response: Response<B>) -> Self
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: std::fmt::Debug,
    {
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap();
        let trailers = body.trailers().cloned();
        Self { status: parts.status, headers: parts.headers, body: body.to_bytes(), trailers }
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn is_replay(&self) -> bool {
        self.headers.get("idempotency-replayed").is_some_and(|it| it == "true")
    }

    /// That it is this problem, in the one form that problems have.
    #[track_caller]
    pub(crate) fn is_problem(&self, status: u16, slug: &str) {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.headers["content-type"], "application/problem+json");
        let problem: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&self.body).unwrap();
        // How large a response was that is not kept is told where it is known.
        let is_told = |it: &&str| slug != "response-not-retained" || *it != "size";
        let mut members: Vec<_> = problem.keys().map(String::as_str).filter(is_told).collect();
        members.sort_unstable();
        assert_eq!(members, ["detail", "status", "title", "type"]);
        assert_eq!(problem["status"], status);
        let page = format!("/http/problems/{}/index.html", slug.replace('-', "_"));
        let address = problem["type"].as_str().unwrap();
        assert!(
            address.starts_with("https://docs.rs/") && address.ends_with(&page),
            "{address} is not {slug}'s"
        );
        assert!(!self.is_replay());
    }

    /// How large the response was that is not kept, as far as that is told.
    pub(crate) fn told_size(&self) -> Option<u64> {
        self.is_problem(409, "response-not-retained");
        serde_json::from_slice::<serde_json::Value>(&self.body).unwrap()["size"].as_u64()
    }

    /// What stands in `Retry-After`.
    pub(crate) fn retry_after(&self) -> u64 {
        self.headers["retry-after"].to_str().unwrap().parse().unwrap()
    }
}

/// Lets every task on this thread run until all of them wait.
pub(crate) async fn settle() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}

/// Polls a future once, which must not be ready.
#[track_caller]
pub(crate) fn poll_pending<F: Future + Unpin>(future: &mut F) {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(std::pin::Pin::new(future).poll(&mut context).is_pending());
}

/// A tower service in front of which stands a layer, for types that are not [`App`]'s.
pub(crate) async fn call<S, Q>(service: &S, request: Q) -> S::Response
where
    S: Service<Q> + Clone,
    S::Error: std::fmt::Debug,
{
    service.clone().oneshot(request).await.unwrap()
}
