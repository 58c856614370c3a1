//! The port over HTTP.
//!
//! 1. A delivery is one `POST`. It goes out once: over a connection of the pool, or over a new one.
//! 2. What certainly did not go out, or was refused unseen, is [`Answer::NotSent`]; what may have is [`Answer::Broken`] or
//!    [`Answer::TimedOut`]. A connection of the pool that turns out to be dead is told as what it is, and no other one is
//!    tried. What this machine could not even try, because it has run out of descriptors, memory or ports, is told apart:
//!    [`Trouble::Exhausted`].
//! 3. A new connection is made in [`Limits::connect`], the head of the answer comes in [`Limits::first_byte`] or the
//!    delivery's own, and all of it in the delivery's own time.
//! 4. The answer is read up to [`Limits::response_bytes_max`], and then closed. Its head is limited by hyper: 100 headers,
//!    [`Limits::head_bytes_max`].
//! 5. An unused connection is given up after [`Limits::idle`]: sooner than most servers close it from their side.
//! 6. Plain targets have connections of our own ([`super::lines`]); encryption, HTTP/2 and proxies are left to the library's
//!    pool.
//!
//! It does not follow redirects, decompress, or keep cookies.

use super::{
    Answer, BoxedAnswer, Cause, Deliver, Delivery, Protocol, Proxies, Resolve, Stage, Status, SystemResolver,
    Trouble,
    connect::{Guarded, InTime},
    departure::{Departure, Outgoing},
    guard::{Policy, Target},
    lines::{Line, Lines},
    read::read,
    trouble::chain,
};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri,
    header::{
        CONNECTION, CONTENT_LENGTH, EXPECT, HOST, LOCATION, PROXY_AUTHORIZATION, TE, TRAILER,
        TRANSFER_ENCODING, UPGRADE, USER_AGENT,
    },
    uri::Scheme,
};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::{
    client::legacy,
    rt::{TokioExecutor, TokioTimer},
};
use rustls::{ClientConfig, RootCertStore};
use semel_core::{retry::TIMEOUT_MAX, sabotage};
use std::{
    error::Error as StdError,
    fmt, io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until, timeout_at},
};

/// How much of an answer is read, unless told otherwise.
pub const RESPONSE_BYTES_MAX: usize = 1024 * 1024;
/// How long the head of an answer may take, unless told otherwise.
pub const FIRST_BYTE: Duration = Duration::from_secs(15);
/// Most unused connections to one target that are kept.
pub(super) const IDLE_MAX: usize = 256;
/// What a target of HTTP/2 may have on the way: for one delivery, and for all of a connection.
const STREAM_WINDOW_BYTES: u32 = 128 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;
/// How often a silent connection of HTTP/2 with work on it is asked whether it lives, and how soon it must say so.
const PING_EVERY: Duration = Duration::from_secs(20);
const PONG_WITHIN: Duration = Duration::from_secs(10);
/// Most informational answers (1xx) before the answer.
pub const INFORMATIONAL_MAX: u32 = 64;
/// Of the connection, and not of a delivery.
const OWN_HEADERS: [HeaderName; 11] = [
    CONNECTION,
    CONTENT_LENGTH,
    EXPECT,
    HOST,
    KEEP_ALIVE,
    PROXY_AUTHORIZATION,
    PROXY_CONNECTION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const FLOOD: &str = "too many informational answers";
const AGENT: HeaderValue = HeaderValue::from_static(concat!("semel/", env!("CARGO_PKG_VERSION")));

/// How long things may take, and how large they may be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Until a connection is made: the name looked up, connected, encrypted.
    pub connect: Duration,
    /// Until the head of an answer is there, for deliveries that do not say it themselves.
    pub first_byte: Duration,
    /// How long an unused connection is kept.
    pub idle: Duration,
    /// Largest head of an answer, in bytes; 8 KiB at least.
    pub head_bytes_max: u32,
    /// How much of the body of an answer is read, in bytes.
    pub response_bytes_max: usize,
}

impl Limits {
    /// Room for the head of an answer: never less than the library needs.
    pub(super) fn head_bytes(&self) -> usize {
        self.head_bytes_max.max(8 * 1024) as usize
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            first_byte: FIRST_BYTE,
            // Node, Apache and uvicorn close after five.
            idle: Duration::from_secs(4),
            head_bytes_max: 64 * 1024,
            response_bytes_max: RESPONSE_BYTES_MAX,
        }
    }
}

/// What a client is made of.
#[derive(Clone)]
pub struct Settings {
    /// What may be called.
    pub policy: Policy,
    /// How long things may take.
    pub limits: Limits,
    /// Where names are looked up.
    pub resolver: Arc<dyn Resolve>,
    /// What is on the way.
    pub proxies: Proxies,
    /// Whose certificates are believed; this machine's own roots if nothing is given.
    pub roots: Option<RootCertStore>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy: Policy::public(),
            limits: Limits::default(),
            resolver: Arc::new(SystemResolver::default()),
            proxies: Proxies::default(),
            roots: None,
        }
    }
}

type Pool = legacy::Client<InTime, Outgoing>;

/// Calls functions over HTTP. Cheap to clone; clones share their connections.
///
/// A connection that was made stays in use as long as there is work for it. Another policy needs another client, and has
/// connections of its own.
///
/// ```no_run
/// use bytes::Bytes;
/// use http::HeaderMap;
/// use semel_runtime::deliver::{Client, Deliver, Delivery, Settings, guard::{Policy, check_url}};
/// use std::time::Duration;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::new(Settings::default());
/// let target = check_url("https://orders.example.com/created", &Policy::public())?;
/// let delivery = Delivery::new(target, HeaderMap::new(), Bytes::from("{}"), Duration::from_mins(1));
/// println!("{:?}", client.deliver(delivery).await);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    plain: Lines,
    negotiated: Pool,
    http2: Pool,
    proxies: Proxies,
    limits: Limits,
    roots: Arc<RootCertStore>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("limits", &self.limits)
            .field("has_roots", &self.has_roots())
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client. If this machine has no root certificates, encrypted targets cannot be called:
    /// see [`Client::has_roots`].
    pub fn new(settings: Settings) -> Self {
        let Settings { policy, limits, resolver, proxies, roots } = settings;
        let roots = roots.unwrap_or_else(native_roots);
        let policy = Arc::new(policy);
        let guarded = |protocol| Guarded {
            policy: Arc::clone(&policy),
            resolver: Arc::clone(&resolver),
            proxies: proxies.clone(),
            always_tunnels: protocol == Protocol::Http2,
        };
        let pool = |protocol| {
            let way = HttpsConnector::from((guarded(protocol), encryption(roots.clone(), protocol)));
            build(&limits, InTime { way, limit: limits.connect }, protocol)
        };
        let plain = Lines::new(guarded(Protocol::Negotiated), &limits);
        let (negotiated, http2) = (pool(Protocol::Negotiated), pool(Protocol::Http2));
        Self { plain, negotiated, http2, proxies, limits, roots: Arc::new(roots) }
    }

    /// Whether there are certificates to believe; without them, no encrypted target can be called.
    pub fn has_roots(&self) -> bool {
        !self.roots.is_empty()
    }

    /// The certificates that are believed.
    pub fn roots(&self) -> &RootCertStore {
        &self.roots
    }

    /// What is at a target: one `GET`, behind the same guard and within the same limits. For keys and certificates.
    pub async fn get(&self, target: Target, timeout: Duration) -> Answer {
        let until = Instant::now() + timeout;
        let mut request = Request::new(Outgoing::new(Bytes::new(), Departure::default()));
        *request.uri_mut() = target.uri().clone();
        request.headers_mut().insert(USER_AGENT, AGENT);
        self.authorize(&mut request);
        match timeout_at(until, self.negotiated.request(request)).await {
            Ok(Ok(response)) => self.read(response, until).await,
            Ok(Err(error)) => no_answer(&error),
            Err(_) => Answer::TimedOut(Stage::Head),
        }
    }

    /// As [`Deliver::deliver`], by whoever may let go of the client meanwhile: in one box.
    pub fn deliver_for(self: Arc<Self>, delivery: Delivery) -> BoxedAnswer<'static> {
        Box::pin(async move { self.send(delivery).await })
    }

    async fn send(&self, delivery: Delivery) -> Answer {
        let now = Instant::now();
        let all_until = now + delivery.timeout.min(TIMEOUT_MAX);
        let head_until =
            all_until.min(now + delivery.first_byte.unwrap_or(self.limits.first_byte).min(TIMEOUT_MAX));
        let takes_processing = delivery.takes_processing;
        let informed = Arc::new(Informed::default());
        let answered = tokio::select! {
            biased;
            answered = self.ask(delivery, &informed) => answered,
            () = informed.too_often.notified() => {
                return Answer::Broken(Cause::new(Trouble::Malformed, FLOOD));
            }
            () = sleep_until(head_until) => {
                return informed.instead_of(Answer::TimedOut(Stage::Head), takes_processing);
            }
        };
        let (response, line) = match answered {
            Ok((response, line)) if sabotage::is_on("redirects_followed") => {
                (follow(&self.negotiated, response).await, line)
            }
            Ok(answered) => answered,
            Err(no_answer) => return informed.instead_of(no_answer, takes_processing),
        };
        let reading = self.read(response, all_until);
        let Some(mut line) = line else { return reading.await };
        let answer = line.meanwhile(reading).await;
        if let Answer::Status(Status { is_truncated: false, .. }) = &answer {
            line.give_back().await;
        }
        answer
    }

    /// Sends the request, and waits for the head of its answer. The connection is there if it is ours to give back.
    async fn ask(&self, delivery: Delivery, informed: &Arc<Informed>) -> Result<Asked, Answer> {
        let (protocol, target) = (delivery.protocol, delivery.target.clone());
        let again = sabotage::is_on("deliveries_retried_by_the_client").then(|| delivery.clone());
        let mut request = request(delivery, informed);
        if protocol == Protocol::Http2 {
            return pooled(&self.http2, request).await;
        }
        let is_plain = target.uri().scheme() == Some(&Scheme::HTTP);
        if !is_plain || self.proxies.to(target.uri()).is_some() {
            self.authorize(&mut request);
            return pooled(&self.negotiated, request).await;
        }
        *request.uri_mut() = target.origin_form().clone();
        let mut line = self.plain.take(&target).await.map_err(Answer::NotSent)?;
        match line.send(request).await {
            Ok(response) => Ok((response, Some(line))),
            Err(_) if let Some(again) = again => {
                pooled(&self.negotiated, self::request(again, informed)).await
            }
            Err(error) => Err(unanswered(&error)),
        }
    }

    /// Tells a proxy who asks, where it sees the request. What goes through a tunnel must not say it to the target.
    fn authorize(&self, request: &mut Request<Outgoing>) {
        if request.uri().scheme() == Some(&Scheme::HTTP)
            && let Some(authorization) = self.proxies.to(request.uri()).and_then(|it| it.authorization())
        {
            request.headers_mut().insert(PROXY_AUTHORIZATION, authorization);
        }
    }

    async fn read(&self, response: Response<Incoming>, until: Instant) -> Answer {
        let (head, body) = response.into_parts();
        let mut status = Status::of_head(head.status, &head.headers);
        match timeout_at(until, read(body, self.limits.response_bytes_max)).await {
            Ok(Ok((bytes, is_truncated))) => {
                (status.body, status.is_truncated) = (bytes, is_truncated);
                Answer::Status(status)
            }
            Ok(Err(error)) => Answer::Broken(Cause::from_error(trouble_of(&error), &error)),
            Err(_) => Answer::TimedOut(Stage::Body),
        }
    }
}

/// An answer's head, and the connection that it came over if that is ours to give back.
type Asked = (Response<Incoming>, Option<Line>);

/// Sends a request over a connection of the library's pool.
async fn pooled(pool: &Pool, request: Request<Outgoing>) -> Result<Asked, Answer> {
    pool.request(request).await.map(|response| (response, None)).map_err(|error| no_answer(&error))
}

impl Deliver for Client {
    fn deliver(&self, delivery: Delivery) -> BoxedAnswer<'_> {
        Box::pin(self.send(delivery))
    }
}

/// A seeded bug: goes where the answer points.
async fn follow(pool: &Pool, response: Response<Incoming>) -> Response<Incoming> {
    let to = response.headers().get(LOCATION).and_then(|to| Uri::try_from(to.as_bytes()).ok());
    let Some(to) = to else { return response };
    let request =
        Request::post(to).header(CONTENT_LENGTH, 0).body(Outgoing::new(Bytes::new(), Departure::default()));
    pool.request(request.expect("a URL is all it needs")).await.unwrap_or(response)
}

/// What a target said before its answer.
#[derive(Default)]
struct Informed {
    times: AtomicU32,
    is_processing: AtomicBool,
    too_often: Notify,
}

impl Informed {
    fn note(&self, code: StatusCode) {
        if code == StatusCode::PROCESSING {
            self.is_processing.store(true, Ordering::Relaxed);
        }
        if self.times.fetch_add(1, Ordering::Relaxed) >= INFORMATIONAL_MAX {
            self.too_often.notify_one();
        }
    }

    /// `102 Processing`, if there was one, it counts, and what came after it was no answer.
    fn instead_of(&self, no_answer: Answer, takes_processing: bool) -> Answer {
        if takes_processing && self.is_processing.load(Ordering::Relaxed) {
            return Answer::Status(Status::of(StatusCode::PROCESSING));
        }
        no_answer
    }
}

fn native_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

fn encryption(roots: RootCertStore, protocol: Protocol) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has the versions that it comes with")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = match protocol {
        Protocol::Negotiated => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        Protocol::Http2 => vec![b"h2".to_vec()],
    };
    config
}

fn build(limits: &Limits, way: InTime, protocol: Protocol) -> Pool {
    legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(limits.idle)
        .pool_max_idle_per_host(IDLE_MAX)
        .retry_canceled_requests(sabotage::is_on("deliveries_retried_by_the_client"))
        .http1_max_buf_size(limits.head_bytes())
        .http2_only(protocol == Protocol::Http2)
        .http2_max_header_list_size(limits.head_bytes_max)
        .http2_initial_stream_window_size(STREAM_WINDOW_BYTES)
        .http2_initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .http2_keep_alive_interval(PING_EVERY)
        .http2_keep_alive_timeout(PONG_WITHIN)
        .build(way)
}

fn request(delivery: Delivery, informed: &Arc<Informed>) -> Request<Outgoing> {
    let is_empty = delivery.body.is_empty();
    let mut request = Request::new(Outgoing::new(delivery.body, delivery.departure));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = delivery.target.uri().clone();
    let mut headers = sendable(delivery.headers, is_empty);
    // The library would make it anew for each request. In HTTP/2, which only encrypted targets and those that are said to
    // speak it have, there is another way to say it.
    if delivery.protocol == Protocol::Negotiated && delivery.target.uri().scheme() == Some(&Scheme::HTTP) {
        headers.insert(HOST, delivery.target.host_header().clone());
    }
    *request.headers_mut() = headers;
    let informed = Arc::clone(informed);
    hyper::ext::on_informational(&mut request, move |response| informed.note(response.status()));
    request
}

fn sendable(mut headers: HeaderMap, is_empty: bool) -> HeaderMap {
    for own in &OWN_HEADERS {
        headers.remove(own);
    }
    headers.entry(USER_AGENT).or_insert(AGENT);
    if is_empty {
        // The library leaves it out where there is nothing to send, and some servers then wait for more.
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    headers
}

fn no_answer(error: &legacy::Error) -> Answer {
    if let Some(cause) = chain(error).find_map(|error| error.downcast_ref::<Cause>()) {
        return Answer::NotSent(cause.clone());
    }
    if error.is_connect() {
        let is_encryption = chain(error).any(is_encryption);
        let trouble = if is_encryption { Trouble::Unencrypted } else { Trouble::Unconnected };
        return Answer::NotSent(Cause::from_error(trouble, error));
    }
    if chain(error).any(is_refusal) {
        return Answer::NotSent(Cause::from_error(Trouble::Refused, error));
    }
    match chain(error).find_map(|error| error.downcast_ref::<hyper::Error>()) {
        Some(inner) => unanswered(inner),
        None => Answer::Broken(Cause::from_error(Trouble::Closed, error)),
    }
}

/// What a connection that was there says instead of an answer.
fn unanswered(error: &hyper::Error) -> Answer {
    if error.is_canceled() {
        // It was handed back whole.
        return Answer::NotSent(Cause::from_error(Trouble::Stale, error));
    }
    Answer::Broken(Cause::from_error(trouble_of(error), error))
}

/// Whether a target of HTTP/2 says that it has done nothing about the request.
fn is_refusal(error: &(dyn StdError + 'static)) -> bool {
    let refused = |it: &h2::Error| it.is_remote() && it.reason() == Some(h2::Reason::REFUSED_STREAM);
    error.downcast_ref().is_some_and(refused)
}

/// The library wraps what went wrong with encryption in errors of the machine's kind, which hide it from the chain.
fn is_encryption(error: &(dyn StdError + 'static)) -> bool {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(wrapped) => is_encryption(wrapped),
        None => error.is::<rustls::Error>(),
    }
}

fn trouble_of(error: &hyper::Error) -> Trouble {
    if error.is_parse() { Trouble::Malformed } else { Trouble::Closed }
}
