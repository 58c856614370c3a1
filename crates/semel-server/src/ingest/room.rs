//! The memory that requests share.
//!
//! 1. A request takes room for its body before any of it is read, and gives it back when it is answered.
//! 2. Where there is none soon, the sender is told to come again.

use std::{sync::Arc, time::Duration};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long a request waits for memory.
pub(crate) const ROOM_WAIT: Duration = Duration::from_secs(5);
/// What memory is counted in, in bytes.
const UNIT_BYTES: u64 = 1024;

/// The memory that requests share.
#[derive(Debug)]
pub(crate) struct Rooms {
    units: Arc<Semaphore>,
    units_max: u32,
}

impl Rooms {
    /// So many bytes.
    pub(crate) fn new(bytes: u64) -> Self {
        let most = u64::from(u32::MAX).min(Semaphore::MAX_PERMITS as u64);
        let units_max = (bytes / UNIT_BYTES).clamp(1, most) as u32;
        Self { units: Arc::new(Semaphore::new(units_max as usize)), units_max }
    }

    /// Room for so many bytes, if there is any soon.
    pub(crate) async fn take(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX).clamp(1, self.units_max);
        if let Ok(room) = Arc::clone(&self.units).try_acquire_many_owned(units) {
            return Some(room);
        }
        let taking = Arc::clone(&self.units).acquire_many_owned(units);
        tokio::time::timeout(ROOM_WAIT, taking).await.ok()?.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_finds_no_room_is_told_so_and_room_comes_back() {
        let rooms = Rooms::new(4 * UNIT_BYTES);
        let most = rooms.take(u64::MAX).await.unwrap();
        assert!(rooms.take(1).await.is_none());
        drop(most);
        let (_one, _two) =
            (rooms.take(2 * UNIT_BYTES).await.unwrap(), rooms.take(2 * UNIT_BYTES).await.unwrap());
        assert!(rooms.take(0).await.is_none(), "nothing is free, and be it for a byte");
    }
}
