//! Trouble on the line between a store and its server.
//!
//! 1. A [`FaultProxy`] listens on loopback and passes on what it reads, in both directions, until told otherwise.
//! 2. A standing fault ([`FaultProxy::set`]) holds for everything from then on; a strike
//!    ([`FaultProxy::strike`]) hits one message and the connection that it came on.
//! 3. A message is what one read from the client gives. Clients of request and reply write each of their
//!    requests at once, so striking the first, the second, the third … sweeps every point where a line can break.
//! 4. After [`Fault::CutReply`] the server has carried out what it was sent: its reply is awaited, and dropped.
//! 5. Everything is counted: a test asserts that it met the trouble it was written for.
//!
//! It does not understand any protocol, and changes no bytes.

mod line;

use std::{
    fmt,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    net::TcpListener,
    sync::watch,
    task::{JoinHandle, JoinSet},
};

/// What happens to a message, or to everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Fault {
    /// It is passed on.
    #[default]
    Pass,
    /// The connection is closed in good order, and new ones are closed as soon as they are made.
    Refuse,
    /// The connection is reset, and new ones are.
    Reset,
    /// It is passed on after so long.
    Delay(Duration),
    /// It vanishes, and the connection stays open and silent for good.
    BlackHole,
    /// It is passed on; when the server replies, the reply is dropped and the connection closed.
    CutReply,
}

/// How much went through a [`FaultProxy`], and how much did not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Traffic {
    /// Connections that clients made.
    pub connections: u64,
    /// Messages from clients, whatever became of them.
    pub requests: u64,
    /// Messages from the server that were passed on.
    pub replies: u64,
    /// Messages and connections that met with another fault than [`Fault::Pass`].
    pub troubled: u64,
}

/// A proxy between a client and its server that makes trouble when it is told to. Dropping it closes every
/// connection through it.
///
/// ```
/// use semel_testkit::{Fault, FaultProxy};
/// use tokio::{io::{AsyncReadExt, AsyncWriteExt}, net::{TcpListener, TcpStream}};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let server = TcpListener::bind("127.0.0.1:0").await?;
/// let proxy = FaultProxy::before(&format!("redis://{}/0", server.local_addr()?)).await;
/// assert!(proxy.url().starts_with("redis://127.0.0.1:") && proxy.url().ends_with("/0"));
///
/// proxy.set(Fault::Refuse);
/// let mut client = TcpStream::connect(proxy.address()).await?;
/// assert_eq!(client.read(&mut [0; 8]).await?, 0, "closed as soon as it was made");
/// assert_eq!(proxy.traffic().troubled, 1);
/// # Ok::<(), std::io::Error>(()) })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct FaultProxy {
    address: SocketAddr,
    url: String,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

impl FaultProxy {
    /// A proxy in front of the server that this URL, or this `host:port`, names.
    ///
    /// # Panics
    ///
    /// If the URL names no port, or no port is left to listen on.
    pub async fn before(url: &str) -> Self {
        let server = authority(url);
        assert!(server.contains(':'), "`{url}` names no port");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port on loopback");
        let address = listener.local_addr().expect("a listener has an address");
        let shared = Arc::new(Shared::before(server));
        let accepting = tokio::spawn(accept(listener, shared.clone()));
        Self { address, url: url.replacen(server, &address.to_string(), 1), shared, accepting }
    }

    /// Where the proxy listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL that the proxy was made for, with itself in the server's place.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// From now on this happens to every message and every new connection. [`Fault::Refuse`] and
    /// [`Fault::Reset`] end the connections that there are, too.
    pub fn set(&self, fault: Fault) {
        self.shared.standing.send_replace(fault);
    }

    /// This happens to the `nth` message from now on, counted from 1 over all connections, and to nothing else.
    /// A strike that has not happened yet is replaced.
    pub fn strike(&self, nth: u64, fault: Fault) {
        assert!(nth > 0, "messages are counted from 1");
        *self.shared.strike() = Some(Strike { after: nth - 1, fault });
    }

    /// Ends the trouble: no standing fault, and no strike. Says whether the strike was still to come.
    pub fn heal(&self) -> bool {
        self.set(Fault::Pass);
        self.shared.strike().take().is_some()
    }

    /// What went through so far.
    pub fn traffic(&self) -> Traffic {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let shared = &*self.shared;
        Traffic {
            connections: read(&shared.connections),
            requests: read(&shared.requests),
            replies: read(&shared.replies),
            troubled: read(&shared.troubled),
        }
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl fmt::Debug for FaultProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultProxy")
            .field("url", &self.url)
            .field("traffic", &self.traffic())
            .finish_non_exhaustive()
    }
}

/// What a proxy's connections share.
struct Shared {
    server: String,
    standing: watch::Sender<Fault>,
    strike: Mutex<Option<Strike>>,
    connections: AtomicU64,
    requests: AtomicU64,
    replies: AtomicU64,
    troubled: AtomicU64,
}

struct Strike {
    /// How many messages go before it.
    after: u64,
    fault: Fault,
}

impl Shared {
    fn before(server: &str) -> Self {
        Self {
            server: server.to_owned(),
            standing: watch::Sender::new(Fault::Pass),
            strike: Mutex::default(),
            connections: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            replies: AtomicU64::new(0),
            troubled: AtomicU64::new(0),
        }
    }

    /// Counts a message, and says what is to happen to it.
    fn meets(&self) -> Fault {
        count(&self.requests);
        let fault = self.struck().unwrap_or(*self.standing.borrow());
        if fault != Fault::Pass {
            count(&self.troubled);
        }
        fault
    }

    fn struck(&self) -> Option<Fault> {
        let mut strike = self.strike();
        match &mut *strike {
            Some(Strike { after: 0, .. }) => strike.take().map(|it| it.fault),
            Some(Strike { after, .. }) => {
                *after -= 1;
                None
            }
            None => None,
        }
    }

    fn strike(&self) -> MutexGuard<'_, Option<Strike>> {
        self.strike.lock().expect("no code panics while it holds the lock")
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Takes connections until it is aborted, and they with it.
async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut lines = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        count(&shared.connections);
        lines.spawn(line::run(client, shared.clone()));
        // Those that ended need no place any more.
        while lines.try_join_next().is_some() {}
    }
}

/// The `host:port` of a URL, or of itself.
fn authority(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let rest = rest.split(['/', '?']).next().unwrap_or(rest);
    rest.rsplit_once('@').map_or(rest, |(_, host)| host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_found_in_any_url() {
        for (url, server) in [
            ("127.0.0.1:4222", "127.0.0.1:4222"),
            ("nats://127.0.0.1:4222", "127.0.0.1:4222"),
            ("postgres://postgres:a@b@127.0.0.1:5432/db?sslmode=disable", "127.0.0.1:5432"),
            ("redis://127.0.0.1:6379/0", "127.0.0.1:6379"),
        ] {
            assert_eq!(authority(url), server);
        }
    }
}
