//! What a connection is doing, and whether it takes too long.
//!
//! 1. The moments are noted by whoever reads and writes; whoever drives the connection asks when to look again.
//! 2. A connection with a request under way is in no hurry: bodies and answers have limits of their own.
//! 3. HTTP/2 is not read here, so that nobody sees its heads begin. Its first request must have come in the time that a head
//!    has, from the first byte of the connection; after that only its silence counts.

use super::{Limits, inspect::Phase};
use http::HeaderValue;
use semel_core::sabotage;
use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

/// One connection, as its requests know it.
#[derive(Clone)]
pub struct Connection {
    peer: Arc<Peer>,
    pub(super) watch: Arc<Watch>,
    /// Its place among all connections; whoever has one of these keeps it.
    _held: Arc<dyn Send + Sync>,
}

/// Whom a connection is with.
struct Peer {
    address: SocketAddr,
    /// Written once, and not for each request.
    name: HeaderValue,
}

impl Connection {
    pub(super) fn new(peer: SocketAddr, watch: Arc<Watch>, held: Arc<dyn Send + Sync>) -> Self {
        let name = name_of(peer.ip());
        Self { peer: Arc::new(Peer { address: peer, name }), watch, _held: held }
    }

    /// Whom it is with.
    pub fn peer(&self) -> SocketAddr {
        self.peer.address
    }

    /// Its address without a port, as headers tell it.
    pub fn peer_name(&self) -> &HeaderValue {
        &self.peer.name
    }

    /// From here on the bytes are no HTTP: it was upgraded to something else.
    pub fn upgrade(&self) {
        self.watch.is_raw.store(true, Ordering::Release);
    }

    /// A request begins; it ends when what is given is dropped.
    pub fn begin(&self) -> InFlight {
        let mut state = self.watch.state();
        state.in_flight += 1;
        state.awaits_first = false;
        drop(state);
        InFlight(Arc::clone(&self.watch))
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connection")
    }
}

/// An address as headers tell it.
pub(crate) fn name_of(address: IpAddr) -> HeaderValue {
    let name = HeaderValue::try_from(address.to_canonical().to_string());
    name.expect("an address is written in digits and signs")
}

/// A request that is under way.
pub struct InFlight(Arc<Watch>);

impl InFlight {
    /// Whether its body has not come to its end.
    pub(super) fn is_in_body(&self) -> bool {
        self.0.is_in_body()
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.in_flight -= 1;
        state.idle_since = Instant::now();
    }
}

impl fmt::Debug for InFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InFlight")
    }
}

/// What a connection is doing.
pub(super) struct Watch {
    limits: Arc<Limits>,
    state: Mutex<State>,
    is_raw: AtomicBool,
    is_blocked: AtomicBool,
}

struct State {
    phase: Phase,
    /// When the head began that is being read.
    head_since: Instant,
    /// When the last request ended, or the connection began.
    idle_since: Instant,
    /// Whether its first request is to come in the time of a head, whatever else is read.
    awaits_first: bool,
    /// How many requests are under way.
    in_flight: usize,
    /// Since when the peer has not read.
    blocked_since: Option<Instant>,
}

/// What takes too long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Overdue {
    /// A head has begun, and does not end.
    Head,
    /// Nothing is said.
    Idle,
    /// Nothing is read.
    Write,
}

impl Watch {
    pub(super) fn new(limits: Arc<Limits>, now: Instant) -> Self {
        let state = State {
            phase: Phase::Between,
            head_since: now,
            idle_since: now,
            awaits_first: false,
            in_flight: 0,
            blocked_since: None,
        };
        Self {
            limits,
            state: Mutex::new(state),
            is_raw: AtomicBool::new(false),
            is_blocked: AtomicBool::new(false),
        }
    }

    /// The first request is to come in the time of a head: of a connection whose heads nobody sees begin.
    pub(super) fn await_first(&self) {
        self.state().awaits_first = true;
    }

    /// Bytes were read, and brought the connection here.
    pub(super) fn read(&self, phase: Phase) {
        let mut state = self.state();
        // Of a head that comes in pieces, the first one counts.
        if phase == Phase::Head && state.phase != Phase::Head {
            state.head_since = Instant::now();
        }
        state.phase = phase;
    }

    /// Whether bytes could be written.
    pub(super) fn wrote(&self, is_blocked: bool) {
        // Only one task writes: what it was is what it left.
        if self.is_blocked.swap(is_blocked, Ordering::Relaxed) != is_blocked {
            self.state().blocked_since = is_blocked.then(Instant::now);
        }
    }

    /// Whether what is read is no HTTP any more.
    pub(super) fn is_raw(&self) -> bool {
        self.is_raw.load(Ordering::Acquire)
    }

    /// Whether nothing is under way, so that something can be said out of turn.
    pub(super) fn is_idle(&self) -> bool {
        self.state().in_flight == 0
    }

    /// Whether a body was not read to its end.
    pub(super) fn is_in_body(&self) -> bool {
        self.state().phase == Phase::Body
    }

    /// When to look again, unless something takes too long.
    pub(super) fn look(&self, now: Instant) -> Result<Instant, Overdue> {
        let Limits { head, idle, write, .. } = *self.limits;
        let state = self.state();
        let waiting = match (state.phase, state.in_flight) {
            (_, 0) if state.awaits_first => Some((state.head_since + head, Overdue::Head)),
            (Phase::Head, 0) => Some((state.head_since + head, Overdue::Head)),
            // The rest of a body that nobody wants is as good as nothing.
            (Phase::Between | Phase::Body, 0) => Some((state.idle_since + idle, Overdue::Idle)),
            (Phase::Head | Phase::Between | Phase::Body, _) => None,
        };
        let waiting = waiting.filter(|_| !sabotage::is_on("listen_waits_for_heads"));
        let blocked = state.blocked_since.map(|since| (since + write, Overdue::Write));
        match [waiting, blocked].into_iter().flatten().min_by_key(|it| it.0) {
            Some((at, overdue)) if at <= now => Err(overdue),
            Some((at, _)) => Ok(at),
            None => Ok(now + idle.min(write)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while it holds the lock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_connection_with_a_request_under_way_is_in_no_hurry() {
        let now = Instant::now();
        let watch = Arc::new(Watch::new(Arc::new(Limits::default()), now));
        let connection = Connection::new(([127, 0, 0, 1], 1).into(), Arc::clone(&watch), Arc::new(()));
        let hour = Duration::from_hours(1);
        assert_eq!(watch.look(now + hour), Err(Overdue::Idle));
        watch.read(Phase::Head);
        assert_eq!(watch.look(now + hour), Err(Overdue::Head));
        let under_way = connection.begin();
        assert!(watch.look(now + hour).is_ok());
        watch.wrote(true);
        assert_eq!(watch.look(now + hour), Err(Overdue::Write));
        watch.wrote(false);
        drop(under_way);
        assert_eq!(watch.look(now + hour), Err(Overdue::Head));
        assert!(watch.look(now).is_ok());
    }

    #[test]
    fn a_connection_whose_heads_are_not_seen_has_the_time_of_one_until_its_first_request() {
        let now = Instant::now();
        let watch = Arc::new(Watch::new(Arc::new(Limits::default()), now));
        let connection = Connection::new(([127, 0, 0, 1], 1).into(), Arc::clone(&watch), Arc::new(()));
        watch.await_first();
        assert_eq!(watch.look(now), Ok(now + Limits::default().head));
        assert_eq!(watch.look(now + Limits::default().head), Err(Overdue::Head));
        drop(connection.begin());
        assert!(watch.look(now + Limits::default().head).is_ok(), "between two requests it may be silent");
        assert_eq!(watch.look(now + Duration::from_hours(1)), Err(Overdue::Idle));
    }

    #[test]
    fn a_head_is_timed_from_its_first_byte() {
        let limits = Arc::new(Limits::default());
        let watch = Watch::new(Arc::clone(&limits), Instant::now());
        watch.read(Phase::Head);
        let first = watch.look(Instant::now());
        watch.read(Phase::Head);
        assert_eq!(watch.look(Instant::now()), first);
    }
}
