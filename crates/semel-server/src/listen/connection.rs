//! One connection, from its first byte to its last.

use super::{
    Limits, Stop,
    accept::Door,
    head,
    inspect::Inspector,
    io::Inspected,
    preface::{Preface, preface},
    watch::{Connection, InFlight, Overdue, Watch},
};
use crate::problem::{Problem, harden, to_http1};
use bytes::Bytes;
use http::{
    HeaderValue, Request, Response, StatusCode, Version,
    header::{CONNECTION, CONTENT_LANGUAGE, CONTENT_TYPE},
};
use http_body::{Body, Frame, SizeHint};
use hyper::{body::Incoming, service::Service};
use hyper_util::rt::TokioIo;
use pin_project_lite::pin_project;
use semel::http::ProblemBase;
use semel_core::sabotage;
use std::{
    error::Error as StdError,
    future::poll_fn,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep_until, timeout},
};
use tracing::info;

type BoxError = Box<dyn StdError + Send + Sync>;

/// How much is read at once to tell the protocol; most requests fit.
const FIRST_BYTES: usize = 4 * 1024;
/// How long a connection that has said nothing is still waited for when it is time to stop.
const LAST_BYTE: Duration = Duration::from_millis(500);
/// How long, and how much, a refused client may go on sending until its answer is thrown away.
const LINGER_MAX: Duration = Duration::from_secs(1);
const LINGER_BYTES_MAX: usize = 1 << 20;

/// Serves one connection to its end.
pub(super) async fn run<S, B>(
    mut stream: TcpStream,
    peer: SocketAddr,
    held: Arc<dyn Send + Sync>,
    door: Arc<Door<S>>,
    stop: Stop,
) where
    S: Service<Arrived, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    let Some(First { bytes: first, since, protocol }) =
        first_bytes(&mut stream, &door.limits, stop.clone()).await
    else {
        return;
    };
    let watch = Arc::new(Watch::new(Arc::clone(&door.limits), since));
    let connection = Connection::new(peer, Arc::clone(&watch), held);
    let heads = Arc::new(Heads { limits: Arc::clone(&door.limits), problems: door.problems.clone() });
    let service = Tracked { inner: door.service.clone(), connection, heads };
    match protocol {
        Preface::Http2 => {
            watch.await_first();
            let io = Inspected::new(stream, first, None, Arc::clone(&watch));
            let mut serving = pin!(door.http2.serve_connection(TokioIo::new(io), service));
            let driven = Driven { watch: &watch, stop };
            driven
                .drive(|cx, told| {
                    if told == Told::Stop {
                        serving.as_mut().graceful_shutdown();
                    }
                    serving.as_mut().poll(cx)
                })
                .await;
        }
        Preface::Http1 | Preface::Undecided => {
            let inspector = Inspector::new(Arc::clone(&door.limits));
            let io = Inspected::new(stream, first, Some(inspector), Arc::clone(&watch));
            let mut serving = door.http1.serve_connection(TokioIo::new(io), service).with_upgrades();
            let driven = Driven { watch: &watch, stop };
            let overdue = driven
                .drive(|cx, told| {
                    let mut serving = Pin::new(&mut serving);
                    if told == Told::Stop {
                        serving.as_mut().graceful_shutdown();
                    }
                    serving.poll(cx)
                })
                .await;
            if let Some(parts) = serving.into_parts() {
                end(parts.io.into_inner(), overdue, &watch, peer, &door.problems).await;
            }
        }
    }
}

/// What a connection begins with.
struct First {
    bytes: Vec<u8>,
    /// When the first of them came.
    since: Instant,
    protocol: Preface,
}

/// What a connection begins with; nothing if it says nothing in time.
async fn first_bytes(stream: &mut TcpStream, limits: &Limits, mut stop: Stop) -> Option<First> {
    let mut first = Vec::with_capacity(FIRST_BYTES);
    let first_byte =
        if sabotage::is_on("listen_waits_for_first_byte") { limits.head * 100 } else { limits.first_byte };
    let reading = timeout(first_byte, stream.read_buf(&mut first));
    let mut reading = pin!(reading);
    let read = tokio::select! {
        read = &mut reading => read,
        // What was sent before that may still be on its way.
        () = stop.requested() => timeout(LAST_BYTE, reading).await.ok()?,
    };
    if read.ok()?.ok()? == 0 {
        return None;
    }
    let since = Instant::now();
    let deadline = since + limits.head;
    loop {
        match preface(&first) {
            Preface::Undecided => {}
            protocol => return Some(First { bytes: first, since, protocol }),
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if timeout(left, stream.read_buf(&mut first)).await.ok()?.ok()? == 0 {
            return None;
        }
    }
}

/// What the one who serves is told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Nothing,
    /// Once: finish what is under way.
    Stop,
}

/// Drives a connection, and looks at the clock.
struct Driven<'a> {
    watch: &'a Watch,
    stop: Stop,
}

impl Driven<'_> {
    /// Polls until it is done, or takes too long.
    async fn drive<E>(
        mut self,
        mut serve: impl FnMut(&mut Context<'_>, Told) -> Poll<Result<(), E>>,
    ) -> Option<Overdue> {
        let (mut is_requested, mut is_told) = (false, false);
        let mut stopping = pin!(self.stop.requested());
        let mut alarm = pin!(sleep_until(Instant::now().into()));
        poll_fn(|cx| {
            is_requested = is_requested || stopping.as_mut().poll(cx).is_ready();
            // Told at once where something is under way, so that its answer says that it is the last.
            let is_first = is_requested && !is_told && !self.watch.is_idle();
            is_told |= is_first;
            // What went wrong with a connection is its client's to know.
            if serve(cx, if is_first { Told::Stop } else { Told::Nothing }).is_ready() {
                return Poll::Ready(None);
            }
            // Else after that: what has come by now is under way, and is finished.
            if is_requested && !is_told {
                is_told = true;
                if serve(cx, Told::Stop).is_ready() {
                    return Poll::Ready(None);
                }
            }
            loop {
                let look_at = match self.watch.look(Instant::now()) {
                    Ok(at) => at.into(),
                    Err(overdue) => return Poll::Ready(Some(overdue)),
                };
                // An alarm that is too early costs a look; one that is too late would be missed.
                if alarm.is_elapsed() || look_at < alarm.deadline() {
                    alarm.as_mut().reset(look_at);
                }
                if alarm.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
            }
        })
        .await
    }
}

/// Tells the client why, if nothing else is being said, and lets it read that.
async fn end(
    io: Inspected,
    overdue: Option<Overdue>,
    watch: &Watch,
    peer: SocketAddr,
    problems: &ProblemBase,
) {
    let refused = io.refused().or(match overdue {
        Some(Overdue::Head) => Some(Problem::REQUEST_TIMEOUT),
        Some(Overdue::Idle | Overdue::Write) | None => None,
    });
    let (is_idle, is_in_body) = (watch.is_idle(), watch.is_in_body());
    let mut stream = io.into_stream();
    match refused {
        Some(problem) if is_idle => {
            log_refused(&problem, peer);
            let answer = to_http1(&problem, problems);
            let told = timeout(LINGER_MAX, async {
                stream.write_all(&answer).await?;
                stream.shutdown().await
            });
            if told.await.is_ok_and(|it| it.is_ok()) {
                linger(&mut stream).await;
            }
        }
        // The answer came before the whole request: it is lost if the rest finds nobody.
        None if is_in_body && overdue.is_none() => linger(&mut stream).await,
        Some(_) | None => {}
    }
}

/// A head that was refused is in the log, too; of what it says, nothing is.
fn log_refused(problem: &Problem, peer: SocketAddr) {
    let (status, slug) = (problem.status().as_u16(), problem.slug());
    info!(target: "semel_server::access", status, problem = slug, peer = %peer.ip(), "request refused");
}

/// Throws away what still comes, for a while.
async fn linger(stream: &mut TcpStream) {
    let mut thrown_away = 0;
    let mut buffer = vec![0; 16 * 1024];
    // However it ends, it ends.
    let _ = timeout(LINGER_MAX, async {
        while thrown_away < LINGER_BYTES_MAX {
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => break,
                Ok(read) => thrown_away += read,
            }
        }
    })
    .await;
}

/// A request, and where it comes from. Not in its extensions: most requests have none, and a map of them costs more than
/// all that is asked of it.
pub type Arrived = (Request<Incoming>, Connection);

/// The service of one connection: tells each request where it comes from, and notes when it ends.
#[derive(Clone, Debug)]
pub struct Tracked<T> {
    inner: T,
    connection: Connection,
    heads: Arc<Heads>,
}

/// What heads of HTTP/2 are held against, which nobody has inspected.
#[derive(Debug)]
struct Heads {
    limits: Arc<Limits>,
    problems: ProblemBase,
}

impl Heads {
    /// What the client is told instead of an answer, if its head is too much.
    fn refuse(&self, request: &Request<Incoming>, peer: SocketAddr) -> Option<Response<Bytes>> {
        let problem = head::check_read(request, &self.limits)?;
        log_refused(&problem, peer);
        let mut response = Response::new(problem.json(&self.problems));
        *response.status_mut() = problem.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(CONTENT_LANGUAGE, HeaderValue::from_static("en"));
        harden(headers);
        Some(response)
    }
}

impl<S, B> Service<Request<Incoming>> for Tracked<S>
where
    S: Service<Arrived, Response = Response<B>>,
{
    type Response = Response<TrackedBody<B>>;
    type Error = S::Error;
    type Future = TrackedFuture<S::Future>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let in_flight = Some(self.connection.begin());
        let is_http1 = request.version() <= Version::HTTP_11;
        let refused = if is_http1 { None } else { self.heads.refuse(&request, self.connection.peer()) };
        let answer = refused.is_none().then(|| self.inner.call((request, self.connection.clone())));
        TrackedFuture { answer, refused, in_flight, is_http1 }
    }
}

pin_project! {
    /// An answer to come.
    #[derive(Debug)]
    pub struct TrackedFuture<F> {
        #[pin]
        answer: Option<F>,
        // What is said instead of it.
        refused: Option<Response<Bytes>>,
        // Handed to the body of the answer.
        in_flight: Option<InFlight>,
        is_http1: bool,
    }
}

impl<F, B, E> Future for TrackedFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<TrackedBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let Some(answer) = this.answer.as_pin_mut() else {
            let refused = this.refused.take().expect("there is an answer, or why there is none");
            let in_flight = this.in_flight.take();
            let said = refused.map(|said| TrackedBody { said, body: None, _in_flight: in_flight });
            return Poll::Ready(Ok(said));
        };
        let mut answer = ready!(answer.poll(cx));
        let in_flight = this.in_flight.take();
        if let (Ok(answer), Some(in_flight), true) = (&mut answer, &in_flight, *this.is_http1)
            && is_refusal(answer.status())
            && in_flight.is_in_body()
        {
            // Nobody reads the rest: who sends it must not take the connection for one that can be used again.
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Poll::Ready(answer.map(|it| {
            it.map(|body| TrackedBody { said: Bytes::new(), body: Some(body), _in_flight: in_flight })
        }))
    }
}

fn is_refusal(status: StatusCode) -> bool {
    status.is_client_error() || status.is_server_error()
}

/// The body of an answer; its request is under way until this is dropped.
#[derive(Debug)]
pub struct TrackedBody<B> {
    /// What the listener itself says, which goes first.
    said: Bytes,
    body: Option<B>,
    _in_flight: Option<InFlight>,
}

impl<B: Body<Data = Bytes> + Unpin> Body for TrackedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if !self.said.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.said)))));
        }
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.said.is_empty() && self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let said = || SizeHint::with_exact(self.said.len() as u64);
        self.body.as_ref().map_or_else(said, Body::size_hint)
    }
}
