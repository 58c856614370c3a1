//! Forwarding one request to the upstream.
//!
//! 1. A request goes out once. What comes back, whatever its status, goes to the client; redirects included.
//! 2. A request that was certainly not sent (nobody listens, no connection in time) is answered with 502, and its key is
//!    released: the next try is a first one.
//! 3. A request that was sent, and whose answer did not come (the connection broke, the time was over) or can be read in
//!    more than one way, may have been carried out. It is answered with 502 or 504, and nothing is written: its key stays in progress until its lease has
//!    lapsed. What happens then is the route's `on_lost`: the next duplicate is sent to the upstream, or everybody is told
//!    that the outcome is unknown until an operator has resolved it.
//! 4. A request that asks for a WebSocket, and has no key, is passed on; if the upstream agrees, the two connections
//!    become one.
//!
//! It does not wait for `100 Continue`: the client is told to go on when its body is first wanted. Other informational
//! answers (103) end here.

use super::{
    body::{Inbound, Outbound},
    exchange::Exchange,
    headers::{
        CalledBy, add_via, is_ambiguous, is_websocket, join_cookies, name_te, set_forwarded, set_websocket,
        strip_hop_by_hop,
    },
    memory::Room,
    resolve::record,
    tunnel,
    upstream::Upstream,
};
use crate::config::{HostPolicy, Network, Timeouts, UpstreamUrl};
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version,
    header::{EXPECT, HOST, LOCATION, TRANSFER_ENCODING},
    request::Parts,
    uri::{PathAndQuery, Scheme},
};
use http_body::Body as _;
use hyper::{body::Incoming, upgrade::OnUpgrade};
use hyper_util::client::legacy;
use semel::{
    BoxFuture,
    http::{Body, CallLease, IDEMPOTENCY_KEY, Problem, ProblemBase, Verdict},
};
use semel_core::{key::Identity, sabotage};
use std::{
    convert::Infallible,
    error::Error as StdError,
    net::IpAddr,
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::time::timeout;
use tower_service::Service;
use tracing::warn;

/// A request on its way: as it came, or read already.
pub(super) type Sent = Body<Inbound>;
/// An answer on its way: the upstream's, or one of ours.
pub(super) type Answer = Body<Outbound>;

/// Forwards requests. Cheap to clone.
#[derive(Clone)]
pub(super) struct Forward(pub(super) Arc<Forwarding>);

/// How requests are forwarded.
pub(super) struct Forwarding {
    pub(super) client: Upstream<Sent>,
    pub(super) url: UpstreamUrl,
    pub(super) is_http2: bool,
    pub(super) host: HostPolicy,
    pub(super) via: Option<String>,
    pub(super) timeouts: Timeouts,
    pub(super) trusted: Vec<Network>,
    pub(super) problems: ProblemBase,
}

impl Forward {
    /// Whether what this one says of those before it is believed.
    pub(super) fn trusts(&self, peer: IpAddr) -> bool {
        self.0.trusts(peer)
    }
}

impl Service<Request<Sent>> for Forward {
    type Response = Response<Outbound>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Outbound>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Sent>) -> Self::Future {
        let forwarding = Arc::clone(&self.0);
        let underway = forwarding.begin(request);
        Box::pin(async move { Ok(forwarding.answer(underway).await) })
    }
}

/// A request that is being sent.
struct Underway {
    sending: legacy::ResponseFuture,
    /// For a seeded bug: what is sent a second time.
    again: Option<Box<Request<Sent>>>,
    exchange: Arc<Exchange>,
    /// Dropped when the answer has begun: by then the request was sent.
    room: Option<Room>,
    call: Option<Identity>,
    /// The client's connection, if it wants it for something else.
    client_side: Option<OnUpgrade>,
}

/// Why there is no answer.
#[derive(Debug)]
enum NoAnswer {
    /// It was certainly not sent.
    NotSent(legacy::Error),
    /// It may have been sent.
    Broken(legacy::Error),
    /// It was sent, and what came can be read in more than one way.
    Ambiguous,
    /// It was sent, and nothing came.
    TooLate,
}

/// What a client is told whose request had no key: nothing keeps it from being carried out again.
const KEYLESS_NOT_SENT: Problem = Problem::UPSTREAM.with_detail(
    "The service behind the proxy could not be reached, and got nothing of the request. Send it again later.",
);
const KEYLESS_LOST: Problem = Problem::UPSTREAM.with_detail(
    "The answer of the service behind the proxy was lost, and it may have carried the request out. Send it again only if it may be done twice.",
);
const KEYLESS_TOO_LATE: Problem = Problem::UPSTREAM_TIMEOUT.with_detail(
    "The service behind the proxy did not answer in time, and may carry the request out. Send it again only if it may be done twice.",
);

impl Forwarding {
    fn trusts(&self, peer: IpAddr) -> bool {
        self.trusted.iter().any(|it| it.contains(peer))
    }

    /// Begins to send a request. Not in an `async` function, which would have room for it at each of its steps.
    fn begin(&self, mut request: Request<Sent>) -> Underway {
        let known = request.extensions_mut().remove::<Arc<Exchange>>();
        let exchange = known.or_else(|| request.body().passed().map(|it| Arc::clone(it.exchange())));
        let exchange = exchange.expect("the gateway says it of what is read, and other bodies know");
        let room = request.extensions_mut().remove::<Room>();
        let call = CallLease::of(request.extensions()).map(|it| *it.key().identity());
        let wants_upgrade = call.is_none() && is_websocket(request.headers());
        let client_side = wants_upgrade.then(|| hyper::upgrade::on(&mut request));
        let (parts, body) = request.into_parts();
        let mut request = self.outgoing(parts, body, &exchange);
        if wants_upgrade {
            set_websocket(request.headers_mut());
        }
        let again = sabotage::is_on("proxy_retries_sent_request").then(|| Box::new(copy_of_head(&request)));
        Underway { sending: self.client.request(request), again, exchange, room, call, client_side }
    }

    async fn answer(&self, underway: Underway) -> Response<Outbound> {
        let Underway { sending, again, exchange, room, call, client_side } = underway;
        let answered = self.sent(sending, again, &exchange).await;
        drop(room);
        let mut response = match answered {
            Ok(response) => response,
            Err(no_answer) => return self.told(&no_answer, &exchange, call.as_ref()),
        };
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return self.incoming(response);
        }
        match client_side {
            Some(client_side) if is_websocket(response.headers()) => {
                exchange.connection.upgrade();
                let upstream_side = hyper::upgrade::on(&mut response);
                tunnel::open(client_side, upstream_side, exchange.connection.clone());
                let mut response = self.incoming(response);
                set_websocket(response.headers_mut());
                response
            }
            // Nobody asked for it.
            Some(_) | None if call.is_some() => self.problem(Problem::UPSTREAM, Verdict::Lost),
            Some(_) | None => self.problem(KEYLESS_LOST, Verdict::Lost),
        }
    }

    /// The request as the upstream gets it.
    fn outgoing(&self, parts: Parts, body: Sent, exchange: &Exchange) -> Request<Sent> {
        let Parts { method, uri, mut headers, .. } = parts;
        strip_hop_by_hop(&mut headers);
        headers.remove(EXPECT);
        let (connection, host) = (&exchange.connection, exchange.host.as_ref());
        let is_trusted = self.trusts(connection.peer().ip());
        set_forwarded(&mut headers, &CalledBy { peer: connection.peer_name(), host, is_trusted });
        if let Some(via) = &self.via {
            add_via(&mut headers, exchange.is_http2, via);
        }
        self.set_host(&mut headers, exchange);
        if !self.is_http2 {
            join_cookies(&mut headers);
            name_te(&mut headers);
            if !body.is_end_stream() && body.size_hint().exact().is_none() {
                // Without a word about its length, a body of a GET would be left out.
                headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
            }
        }
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = self.target(&uri);
        *request.version_mut() = if self.is_http2 { Version::HTTP_2 } else { Version::HTTP_11 };
        *request.headers_mut() = headers;
        request
    }

    /// HTTP/2 has the host in the target; two might differ.
    fn set_host(&self, headers: &mut HeaderMap, exchange: &Exchange) {
        headers.remove(HOST);
        let preserved =
            exchange.host.as_ref().filter(|_| self.host == HostPolicy::Preserve && !self.is_http2);
        if let Some(host) = preserved {
            headers.insert(HOST, host.clone());
        }
    }

    fn target(&self, uri: &Uri) -> Uri {
        let asked = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        let path = if self.url.base.is_empty() {
            asked
        } else {
            let joined = format!("{}{}", self.url.base, asked.as_str());
            PathAndQuery::try_from(joined).unwrap_or(asked)
        };
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(if self.url.is_https { Scheme::HTTPS } else { Scheme::HTTP });
        parts.authority = Some(self.url.authority.clone());
        parts.path_and_query = Some(path);
        Uri::from_parts(parts).expect("its parts are all there")
    }

    async fn sent(
        &self,
        sending: legacy::ResponseFuture,
        again: Option<Box<Request<Sent>>>,
        exchange: &Exchange,
    ) -> Result<Response<Incoming>, NoAnswer> {
        let sent = self.in_time(sending, exchange).await;
        let sent = match (sent, again) {
            (Some(Err(_)), Some(again)) => self.in_time(self.client.request(*again), exchange).await,
            (sent, _) => sent,
        };
        match sent {
            Some(Ok(response)) if is_followed(&response) => {
                let mut onward = Request::new(Body::empty());
                *onward.uri_mut() = self.target(&location(&response));
                self.client.request(onward).await.map_err(NoAnswer::Broken)
            }
            Some(Ok(response)) if is_refused(&response) => Err(NoAnswer::Ambiguous),
            Some(Ok(response)) => Ok(response),
            Some(Err(error)) if was_not_sent(&error) => Err(NoAnswer::NotSent(error)),
            Some(Err(error)) => Err(NoAnswer::Broken(error)),
            None => Err(NoAnswer::TooLate),
        }
    }

    /// The answer, unless it takes too long from when the last of the request was sent.
    async fn in_time<T>(&self, answer: impl Future<Output = T>, exchange: &Exchange) -> Option<T> {
        let mut answer = pin!(answer);
        loop {
            let received = exchange.received();
            match timeout(self.timeouts.response, answer.as_mut()).await {
                Ok(answer) => return Some(answer),
                Err(_) if exchange.received() > received => {}
                Err(_) => return None,
            }
        }
    }

    /// The answer as the client gets it.
    fn incoming(&self, response: Response<Incoming>) -> Response<Outbound> {
        let (mut parts, body) = response.into_parts();
        strip_hop_by_hop(&mut parts.headers);
        if let Some(via) = &self.via {
            add_via(&mut parts.headers, parts.version == Version::HTTP_2, via);
        }
        // Each side has its own.
        parts.version = Version::HTTP_11;
        Response::from_parts(parts, Outbound::new(Body::pass(body), self.timeouts.response_idle))
    }

    /// What the client is told when there is no answer, and what that means for its key.
    fn told(&self, no_answer: &NoAnswer, exchange: &Exchange, call: Option<&Identity>) -> Response<Outbound> {
        let (record, has_key) = (call.map(record), call.is_some());
        if let Some(refused) = exchange.refused() {
            return self.problem(refused, Verdict::Lost);
        }
        match no_answer {
            NoAnswer::NotSent(error) => {
                warn!(error = chain(error), "the upstream cannot be reached");
                self.problem(if has_key { Problem::UPSTREAM } else { KEYLESS_NOT_SENT }, Verdict::Released)
            }
            NoAnswer::Broken(error) => {
                let error = chain(error);
                warn!(error, record, "the upstream did not answer a request that it may have got");
                self.problem(if has_key { Problem::UPSTREAM } else { KEYLESS_LOST }, Verdict::Lost)
            }
            NoAnswer::Ambiguous => {
                warn!(record, "the upstream's answer can be read in more than one way, and is not passed on");
                self.problem(if has_key { Problem::UPSTREAM } else { KEYLESS_LOST }, Verdict::Lost)
            }
            NoAnswer::TooLate => {
                warn!(record, "the upstream did not answer in time");
                self.problem(
                    if has_key { Problem::UPSTREAM_TIMEOUT } else { KEYLESS_TOO_LATE },
                    Verdict::Lost,
                )
            }
        }
    }

    fn problem(&self, problem: Problem, verdict: Verdict) -> Response<Outbound> {
        let is_released = sabotage::is_on("proxy_releases_lost_request");
        let mut response =
            problem.response(&self.problems).map(|it| Outbound::new(it, self.timeouts.response_idle));
        response.extensions_mut().insert(if is_released { Verdict::Released } else { verdict });
        response
    }
}

/// Whether an answer is not to be passed on.
fn is_refused(response: &Response<Incoming>) -> bool {
    is_ambiguous(response.headers()) && !sabotage::is_on("proxy_passes_ambiguous_answers")
}

/// Whether nothing of a request can have reached the upstream: there was no connection, or it was closed before it took
/// the request.
fn was_not_sent(error: &legacy::Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_canceled) {
            return true;
        }
        cause = error.source();
    }
    error.is_connect()
}

/// What went wrong, and why.
fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// For a seeded bug: what is sent a second time.
fn copy_of_head(request: &Request<Sent>) -> Request<Sent> {
    let mut copy = Request::new(Body::empty());
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    copy.headers_mut().extend(request.headers().get(IDEMPOTENCY_KEY).map(|it| (IDEMPOTENCY_KEY, it.clone())));
    copy
}

/// For a seeded bug: whether a redirect is followed.
fn is_followed(response: &Response<Incoming>) -> bool {
    sabotage::is_on("proxy_follows_redirects") && response.status().is_redirection()
}

/// For a seeded bug: where a redirect leads.
fn location(response: &Response<Incoming>) -> Uri {
    let location = response.headers().get(LOCATION).and_then(|it| it.to_str().ok());
    location.and_then(|it| it.parse().ok()).unwrap_or_default()
}

/// Whether requests of this method cannot be forwarded.
pub(super) fn is_unsupported(method: &Method, uri: &Uri) -> bool {
    // A tunnel to anywhere, and a question about the server as a whole, are nothing for a reverse proxy.
    *method == Method::CONNECT || uri.path() == "*" || !uri.path().starts_with('/')
}
