//! The memory that the bodies of requests with keys share: see [`crate::listen`].

use crate::listen;
pub use crate::listen::SHARES;
use std::{net::IpAddr, sync::Arc, time::Duration};

/// How long a request with a key waits for memory.
pub(super) const ROOM_WAIT: Duration = Duration::from_secs(15);

/// The memory that requests with keys share.
pub(super) struct Memory(listen::Memory);

/// Memory that a request with a key has; in its extensions, and given back when it was sent.
#[derive(Clone)]
pub(super) struct Room {
    _held: Arc<listen::Room>,
}

impl Memory {
    pub(super) fn new(bytes: u64) -> Self {
        Self(listen::Memory::new(bytes, ROOM_WAIT))
    }

    /// Room for so many bytes, if there is any now. An address counts, unless there is none.
    pub(super) fn try_take(&self, bytes: u64, address: Option<IpAddr>) -> Option<Room> {
        self.0.try_take(bytes, address).map(shared)
    }

    /// Room for so many bytes, if there is any soon.
    pub(super) async fn take(&self, bytes: u64, address: Option<IpAddr>) -> Option<Room> {
        self.0.take(bytes, address).await.map(shared)
    }
}

fn shared(room: listen::Room) -> Room {
    Room { _held: Arc::new(room) }
}
