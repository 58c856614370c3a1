//! Accepting connections, as many as there may be.

use super::{Arrived, Limits, Stop, connection};
use crate::config::Network;
use bytes::Bytes;
use http::Response;
use http_body::Body;
use hyper::{
    server::conn::{http1, http2},
    service::Service,
};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use semel::http::ProblemBase;
use std::{
    collections::HashMap,
    error::Error as StdError,
    io,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    net::TcpListener,
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
};
use tracing::warn;

type BoxError = Box<dyn StdError + Send + Sync>;

/// How long accepting pauses when there is nothing left to accept with.
const PAUSE: Duration = Duration::from_millis(100);
/// What HTTP/2 peers may have on the way: to one request, and to all of a connection.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;
/// What is read of a connection of HTTP/1 at once, and written to it; a head must fit.
const BUFFER_BYTES: usize = 64 * 1024;
/// How often an HTTP/2 peer that says nothing is asked whether it is there, and how long it may take.
const PING: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(20));
/// Most streams that a peer may open and take back before they are looked at, and most that it may break.
const RESETS_MAX: usize = 32;

/// What stands behind a listener: the service, and who may come in.
pub struct Door<S> {
    pub(super) service: S,
    pub(super) limits: Arc<Limits>,
    pub(super) http1: http1::Builder,
    pub(super) http2: http2::Builder<TokioExecutor>,
    /// Many clients stand behind each of these: they have no limit of their own.
    exempt: Vec<Network>,
    pub(super) problems: ProblemBase,
    slots: Arc<Semaphore>,
    slots_max: u32,
    by_address: Arc<ByAddress>,
}

impl<S> Door<S> {
    /// For this service. Connections from these networks are not counted by their address.
    pub fn new(service: S, limits: Limits, exempt: Vec<Network>, problems: ProblemBase) -> Self {
        let slots_max =
            u32::try_from(limits.connections_max).unwrap_or(u32::MAX).min(Semaphore::MAX_PERMITS as u32);
        Self {
            service,
            http1: http1_builder(&limits),
            http2: http2_builder(&limits),
            limits: Arc::new(limits),
            exempt,
            problems,
            slots: Arc::new(Semaphore::new(slots_max as usize)),
            slots_max,
            by_address: Arc::default(),
        }
    }

    /// Waits until every connection has ended, those that were upgraded included.
    async fn emptied(&self) {
        // It is never closed.
        let _ = self.slots.acquire_many(self.slots_max).await;
    }
}

impl<S> std::fmt::Debug for Door<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Door").field("limits", &self.limits).finish_non_exhaustive()
    }
}

fn http1_builder(limits: &Limits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    // Heads were inspected and timed before.
    builder.header_read_timeout(None).max_buf_size(BUFFER_BYTES.max(2 * limits.head_bytes_max));
    if limits.headers_max > 100 {
        builder.max_headers(limits.headers_max);
    }
    builder
}

fn http2_builder(limits: &Limits) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams_max as u32)
        .max_header_list_size(limits.head_bytes_max as u32)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(BUFFER_BYTES)
        .max_pending_accept_reset_streams(RESETS_MAX)
        .max_local_error_reset_streams(RESETS_MAX)
        .keep_alive_interval(PING.0)
        .keep_alive_timeout(PING.1);
    builder
}

/// Serves everybody who comes, until it is told to stop and everybody has gone, or `patience` is over.
///
/// Gives `false` if some had to be cut off.
pub async fn serve<S, B>(
    listener: TcpListener,
    door: Arc<Door<S>>,
    mut stop: Stop,
    patience: Duration,
) -> bool
where
    S: Service<Arrived, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &door) => accepted,
            () = stop.requested() => break,
        };
        while connections.try_join_next().is_some() {}
        let Some((stream, peer, held)) = accepted else { continue };
        connections.spawn(connection::run(stream, peer, held, Arc::clone(&door), stop.clone()));
    }
    drop(listener);
    // What is left when patience is over ends with the set.
    tokio::time::timeout(patience, door.emptied()).await.is_ok()
}

type Accepted = (tokio::net::TcpStream, std::net::SocketAddr, Arc<dyn Send + Sync>);

/// The next connection, if there is a place for it.
async fn accept<S>(listener: &TcpListener, door: &Door<S>) -> Option<Accepted> {
    let slot = Arc::clone(&door.slots).acquire_owned().await.expect("it is never closed");
    match listener.accept().await {
        Ok((stream, peer)) => {
            let is_exempt = door.exempt.iter().any(|it| it.contains(peer.ip()));
            let most = if is_exempt { usize::MAX } else { door.limits.connections_per_ip_max };
            let place = ByAddress::enter(&door.by_address, peer.ip(), most)?;
            // Answers are written whole; waiting for more of them gains nothing.
            let _ = stream.set_nodelay(true);
            Some((stream, peer, Arc::new(Held { _slot: slot, _place: place })))
        }
        Err(error) => {
            if !is_of_one_connection(&error) {
                warn!(error = %error, "cannot accept connections; trying again");
                tokio::time::sleep(PAUSE).await;
            }
            None
        }
    }
}

/// Whether only the connection that was to be accepted is broken.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

/// A place among the connections.
struct Held {
    _slot: OwnedSemaphorePermit,
    _place: Place,
}

/// How many connections each address has.
#[derive(Default)]
struct ByAddress(Mutex<HashMap<IpAddr, usize>>);

/// A place among the connections of an address.
struct Place {
    all: Arc<ByAddress>,
    address: IpAddr,
}

impl ByAddress {
    fn enter(all: &Arc<Self>, address: IpAddr, most: usize) -> Option<Place> {
        let address = network(address);
        let mut counts = all.0.lock().expect("no code panics while it holds the lock");
        let count = counts.entry(address).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Place { all: Arc::clone(all), address })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.all.0.lock().expect("no code panics while it holds the lock");
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

/// An address of IPv4, or the network that one customer of IPv6 has.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_so_many_places_and_gets_them_back() {
        let all = Arc::new(ByAddress::default());
        let enter = |address: &str| ByAddress::enter(&all, address.parse().unwrap(), 2);
        let (one, two) = (enter("10.0.0.1").unwrap(), enter("::ffff:10.0.0.1").unwrap());
        assert!(enter("10.0.0.1").is_none());
        assert!(enter("10.0.0.2").is_some());
        drop(one);
        let three = enter("10.0.0.1").unwrap();
        assert!(enter("10.0.0.1").is_none());
        drop((two, three));
        assert!(all.0.lock().unwrap().is_empty(), "nothing is remembered of those who left");
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        assert_eq!(
            network("2001:db8:1:2:3::4".parse().unwrap()),
            network("2001:db8:1:2:ffff::1".parse().unwrap())
        );
        assert_ne!(network("2001:db8:1:2::1".parse().unwrap()), network("2001:db8:1:3::1".parse().unwrap()));
    }

    #[test]
    fn running_out_of_descriptors_is_no_fault_of_one_connection() {
        assert!(is_of_one_connection(&io::ErrorKind::ConnectionAborted.into()));
        // EMFILE and ENFILE have no kind of their own.
        assert!(!is_of_one_connection(&io::Error::from_raw_os_error(24)));
        assert!(!is_of_one_connection(&io::Error::from_raw_os_error(23)));
    }
}
