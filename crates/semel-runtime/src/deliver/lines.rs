//! Connections to plain targets, used again and again.
//!
//! 1. A target without encryption, and without a proxy on the way, speaks HTTP/1.1: one request at a time on a connection.
//! 2. Whoever needs one takes the one that was used last, or makes a new one behind the guard. It goes back when its answer was
//!    read to its end; if it was not, it is closed.
//! 3. One that turns out to be dead is told as what it is, and no other one is tried.
//! 4. An unused one is given up in time, and no more than [`IDLE_MAX`] of a target are kept.
//!
//! The library's pool does the same, and more: it makes a task for each request, to wait for its connection, and looks for
//! what else may have become of it. Most functions are called like this, so it is worth to spare them that.

use super::{Cause, Limits, Trouble, client::IDLE_MAX, connect::Guarded, departure::Outgoing, guard::Target};
use http::{HeaderValue, Request, Response};
use hyper::{
    body::Incoming,
    client::conn::{
        TrySendError,
        http1::{Builder, SendRequest},
    },
};
use hyper_util::rt::TokioIo;
use semel_core::sabotage::is_on;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};
use tokio::time::{Instant, sleep_until, timeout};

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
    sender: SendRequest<Outgoing>,
    since: Instant,
}

/// A connection that is in use.
pub(super) struct Line {
    sender: SendRequest<Outgoing>,
    host: HeaderValue,
    lines: Lines,
}

/// What came of a request, which is given back if it was not sent.
type Sent = Result<Response<Incoming>, TrySendError<Request<Outgoing>>>;

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
        let sender = match self.unused(host) {
            Some(sender) => sender,
            None => self.connect(target).await?,
        };
        Ok(Line { sender, host: host.clone(), lines: self.clone() })
    }

    fn unused(&self, host: &HeaderValue) -> Option<SendRequest<Outgoing>> {
        let now = Instant::now();
        let mut unused = self.0.unused();
        let resting = unused.lines.get_mut(host)?;
        while let Some(Resting { sender, since }) = resting.pop() {
            if now >= since + self.0.idle {
                // Those before it are older.
                resting.clear();
            } else if sender.is_ready() {
                return Some(sender);
            }
        }
        None
    }

    async fn connect(&self, target: &Target) -> Result<SendRequest<Outgoing>, Cause> {
        let connecting = timeout(self.0.connect, self.0.guarded.connect(target.uri())).await;
        let stream = connecting.unwrap_or_else(|_| Err(Cause::new(Trouble::ConnectTooLate, "")))?;
        let begun = self.0.builder.handshake(TokioIo::new(stream)).await;
        let (sender, connection) = begun.map_err(|error| Cause::from_error(Trouble::Unconnected, &error))?;
        // How it ended is told to whoever waits for an answer.
        tokio::spawn(async { drop(connection.await) });
        Ok(sender)
    }

    /// Keeps an unused connection for whoever needs one.
    fn keep(&self, host: HeaderValue, sender: SendRequest<Outgoing>) {
        let mut unused = self.0.unused();
        let resting = unused.lines.entry(host).or_default();
        if resting.len() >= IDLE_MAX {
            return;
        }
        resting.push(Resting { sender, since: Instant::now() });
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
            resting.retain(|it| now < it.since + self.idle && !it.sender.is_closed());
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
    /// Sends a request, once.
    pub(super) fn send(&mut self, request: Request<Outgoing>) -> impl Future<Output = Sent> + use<> {
        self.sender.try_send_request(request)
    }

    /// Its answer was read to its end.
    pub(super) fn give_back(self) {
        let Self { mut sender, host, lines } = self;
        if sender.is_ready() {
            return lines.keep(host, sender);
        }
        // The target answered before it had read everything, or closes the connection: which one, will be seen.
        tokio::spawn(async move {
            if sender.ready().await.is_ok() {
                lines.keep(host, sender);
            }
        });
    }
}
