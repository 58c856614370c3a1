//! Connections to plain targets, used again and again.
//!
//! 1. A target without encryption, and without a proxy on the way, speaks HTTP/1.1: one request at a time on a connection.
//! 2. Whoever needs one takes the one that was used last, or makes a new one behind the guard. It goes back when its answer was
//!    read to its end; if it was not, it is closed.
//! 3. A connection has no task of its own: whoever waits for something that comes over it moves it on meanwhile. One that
//!    nobody uses stands still, and is looked at when it is taken: whether the target has closed it is known then.
//! 4. One that turns out to be dead is told as what it is, and no other one is tried.
//! 5. An unused one is given up in time, and no more than [`IDLE_MAX`] of a target are kept.
//!
//! The library's pool does the same, and more: it makes a task for each request, to wait for its connection, and looks for
//! what else may have become of it. And its connections have tasks: a request and its answer are then handed over between two of
//! them, mostly from one thread to another. Most functions are called like this, so it is worth to spare them that.

use super::{Cause, Limits, Trouble, client::IDLE_MAX, connect::Guarded, departure::Outgoing, guard::Target};
use http::{HeaderValue, Request, Response};
use hyper::{
    body::Incoming,
    client::conn::http1::{Builder, Connection, SendRequest},
};
use hyper_util::rt::TokioIo;
use semel_core::sabotage::is_on;
use std::{
    collections::HashMap,
    future::poll_fn,
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};
use tokio::{
    net::TcpStream,
    time::{Instant, sleep_until, timeout},
};

/// Connections to plain targets. Clones share them.
#[derive(Clone)]
pub(super) struct Lines(Arc<Shared>);

struct Shared {
    guarded: Guarded,
    builder: Builder,
    /// How long making one may take.
    connect: Duration,
    /// How long an unused one is kept.
    idle: Duration,
    unused: Mutex<Unused>,
}

/// By what `Host` says; of each target, the one that was used last comes last.
#[derive(Default)]
struct Unused {
    lines: HashMap<HeaderValue, Vec<Resting>>,
    /// Whether somebody gives them up in time.
    has_keeper: bool,
}

struct Resting {
    wire: Wire,
    since: Instant,
}

/// A connection that is in use.
pub(super) struct Line {
    wire: Wire,
    host: HeaderValue,
    lines: Lines,
}

/// A connection, and how to send over it.
struct Wire {
    sender: SendRequest<Outgoing>,
    connection: Moved,
}

/// What is moved on; nothing once it has ended. How it ended is told to whoever waits for an answer.
struct Moved(Option<Box<Connection<TokioIo<TcpStream>, Outgoing>>>);

impl Lines {
    pub(super) fn new(guarded: Guarded, limits: &Limits) -> Self {
        let mut builder = Builder::new();
        builder.max_buf_size(limits.head_bytes());
        let &Limits { connect, idle, .. } = limits;
        Self(Arc::new(Shared { guarded, builder, connect, idle, unused: Mutex::default() }))
    }

    /// A connection to the target: an unused one, or a new one.
    pub(super) async fn take(&self, target: &Target) -> Result<Line, Cause> {
        let host = target.host_header();
        while let Some(mut wire) = self.unused(host) {
            if wire.is_ready().await || is_on("connections_are_taken_unseen") {
                return Ok(self.line(wire, host));
            }
        }
        Ok(self.line(self.connect(target).await?, host))
    }

    fn line(&self, wire: Wire, host: &HeaderValue) -> Line {
        Line { wire, host: host.clone(), lines: self.clone() }
    }

    fn unused(&self, host: &HeaderValue) -> Option<Wire> {
        let now = Instant::now();
        let mut unused = self.0.unused();
        let resting = unused.lines.get_mut(host)?;
        let Resting { wire, since } = resting.pop()?;
        if now < since + self.0.idle {
            return Some(wire);
        }
        // Those before it are older.
        resting.clear();
        None
    }

    async fn connect(&self, target: &Target) -> Result<Wire, Cause> {
        let connecting = timeout(self.0.connect, self.0.guarded.connect(target.uri())).await;
        let stream = connecting.unwrap_or_else(|_| Err(Cause::new(Trouble::ConnectTooLate, "")))?;
        let begun = self.0.builder.handshake(TokioIo::new(stream)).await;
        let (sender, connection) = begun.map_err(|error| Cause::from_error(Trouble::Unconnected, &error))?;
        Ok(Wire { sender, connection: Moved(Some(Box::new(connection))) })
    }

    /// Keeps an unused connection for whoever needs one.
    fn keep(&self, host: HeaderValue, wire: Wire) {
        let mut unused = self.0.unused();
        let resting = unused.lines.entry(host).or_default();
        if resting.len() >= IDLE_MAX {
            return;
        }
        resting.push(Resting { wire, since: Instant::now() });
        if !unused.has_keeper {
            unused.has_keeper = true;
            tokio::spawn(give_up_in_time(Arc::downgrade(&self.0)));
        }
    }
}

impl Shared {
    fn unused(&self) -> MutexGuard<'_, Unused> {
        self.unused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives up what was not used in time, or is closed. When to look again, if anything is left.
    fn give_up(&self) -> Option<Instant> {
        if is_on("unused_connections_are_kept") {
            return None;
        }
        let now = Instant::now();
        let mut unused = self.unused();
        unused.lines.retain(|_, resting| {
            resting.retain(|it| now < it.since + self.idle);
            !resting.is_empty()
        });
        let next = unused.lines.values().flatten().map(|it| it.since + self.idle).min();
        unused.has_keeper = next.is_some();
        next
    }
}

/// Gives up unused connections until there are none, or nobody is left who would use them.
async fn give_up_in_time(shared: Weak<Shared>) {
    while let Some(at) = shared.upgrade().and_then(|it| it.give_up()) {
        sleep_until(at).await;
    }
}

impl Line {
    /// Sends a request, once, and waits for the head of its answer.
    pub(super) async fn send(&mut self, request: Request<Outgoing>) -> hyper::Result<Response<Incoming>> {
        let sent = self.wire.sender.send_request(request);
        self.meanwhile(sent).await
    }

    /// Waits for something that comes over the connection.
    pub(super) async fn meanwhile<F: Future>(&mut self, waited_for: F) -> F::Output {
        self.wire.connection.meanwhile(waited_for).await
    }

    /// Its answer was read to its end.
    pub(super) async fn give_back(self) {
        let Self { mut wire, host, lines } = self;
        if wire.is_ready().await {
            return lines.keep(host, wire);
        }
        // The target answered before it had read everything, or closes the connection: which one, will be seen. One that does
        // neither is given up as if nobody used it.
        tokio::spawn(async move {
            let within =
                if is_on("unread_requests_keep_their_connections") { Duration::MAX } else { lines.0.idle };
            let Wire { sender, connection } = &mut wire;
            let seen = timeout(within, connection.meanwhile(sender.ready())).await;
            if matches!(seen, Ok(Ok(()))) {
                lines.keep(host, wire);
            }
        });
    }
}

impl Wire {
    /// Looks, without waiting, whether a request can be sent.
    async fn is_ready(&mut self) -> bool {
        self.connection.meanwhile(std::future::ready(())).await;
        self.connection.0.is_some() && self.sender.is_ready()
    }
}

impl Moved {
    /// Waits for something, and reads and writes what can be until it is there.
    async fn meanwhile<F: Future>(&mut self, waited_for: F) -> F::Output {
        let mut waited_for = pin!(waited_for);
        poll_fn(|context| {
            if let Some(connection) = &mut self.0
                && Pin::new(connection).poll(context).is_ready()
            {
                self.0 = None;
            }
            waited_for.as_mut().poll(context)
        })
        .await
    }
}
