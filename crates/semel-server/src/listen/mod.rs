//! Listening: connections in, requests out.
//!
//! 1. A connection must say something within [`Limits::first_byte`], and a whole request head within [`Limits::head`];
//!    one that has nothing to do ends after [`Limits::idle`], and one whose peer does not read after [`Limits::write`].
//! 2. HTTP/1.1, and HTTP/2 by prior knowledge, on one port: the first bytes tell.
//! 3. Heads of HTTP/1 are inspected before anything else reads them: what two programs could read differently (a bare
//!    line feed, two lengths, a length and an encoding, an encoding that nobody knows, a folded line) is refused, and
//!    the connection closed. So are heads that are too large or too many; in HTTP/2 only the request is refused.
//! 4. There is a limit to all connections, and to those of one address. At the first, nobody is accepted until one ends;
//!    at the second, the new one is closed. Running out of file descriptors pauses the accepting, and ends nothing; there are
//!    as many as the system allows.
//! 5. When it is told to stop, it accepts no more, lets what is under way finish, and ends.
//! 6. Whatever is refused before a request can be read is told as a problem document, and the connection then closed in
//!    a way that lets the client read it. The log has an event of it.
//! 7. Whoever reads bodies takes memory for them here, of which no address has all.
//!
//! It does not encrypt: TLS ends before it, in a load balancer or a sidecar. It does not read bodies: whoever takes the
//! request does, and limits them.

mod accept;
mod connection;
pub(crate) mod descriptors;
pub(crate) mod fuzz;
mod head;
mod inspect;
mod io;
mod memory;
mod preface;
mod stop;
mod watch;

pub(crate) use accept::network;
pub use accept::{Door, serve};
pub use connection::{Arrived, Tracked};
pub use head::HEADERS_MAX;
pub use memory::SHARES;
pub(crate) use memory::{Memory, Room};
pub use stop::{Stop, Stopper, stop};
#[cfg(test)]
pub(crate) use watch::name_of;
pub use watch::{Connection, InFlight};

use std::time::Duration;

/// How long a connection may take, how large its heads may be, and how many there are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Until the first byte.
    pub first_byte: Duration,
    /// From the first byte of a head to its end.
    pub head: Duration,
    /// Between two requests.
    pub idle: Duration,
    /// For how long the peer need not read.
    pub write: Duration,
    /// Largest head, in bytes.
    pub head_bytes_max: usize,
    /// Most headers in a head; [`HEADERS_MAX`] at most.
    pub headers_max: usize,
    /// Longest request target, in bytes.
    pub uri_bytes_max: usize,
    /// Most connections.
    pub connections_max: usize,
    /// Most connections of one address; of one network of 64 bits, in IPv6.
    pub connections_per_ip_max: usize,
    /// Most requests at once on one connection of HTTP/2.
    pub streams_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            first_byte: Duration::from_secs(5),
            head: Duration::from_secs(10),
            idle: Duration::from_secs(75),
            write: Duration::from_mins(1),
            head_bytes_max: 64 * 1024,
            headers_max: 100,
            uri_bytes_max: 8 * 1024,
            connections_max: 10_000,
            connections_per_ip_max: 1_024,
            streams_max: 128,
        }
    }
}
