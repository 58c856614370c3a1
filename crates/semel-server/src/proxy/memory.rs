//! The memory that the bodies of requests with keys share.
//!
//! 1. Room is taken before anything is read: for what was announced, else for the most that may come.
//! 2. One address has at most one part in [`SHARES`] of it, however many connections it has: those who send slowly keep their
//!    room for long, and must not keep all others out. Proxies that are trusted have no share of their own, because many
//!    clients stand behind each.
//! 3. Who finds no room waits, for [`ROOM_WAIT`] at most.
//!
//! It does not limit how slowly a body comes: see [`super::body`].

use crate::listen::network;
use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long a request with a key waits for memory.
pub(super) const ROOM_WAIT: Duration = Duration::from_secs(15);
/// One address has at most one part in so many.
pub const SHARES: u32 = 2;
/// What memory is counted in.
const ROOM_UNIT: u64 = 1024;

/// The memory that requests with keys share.
pub(super) struct Memory {
    room: Arc<Semaphore>,
    units: u32,
    shares: Arc<Shares>,
}

/// Memory that a request with a key has; in its extensions, and given back when it was sent.
#[derive(Clone)]
pub(super) struct Room {
    _held: Arc<Held>,
}

struct Held {
    _room: OwnedSemaphorePermit,
    _share: Option<(OwnedSemaphorePermit, Share)>,
}

impl Memory {
    pub(super) fn new(bytes: u64) -> Self {
        let most = u64::from(u32::MAX).min(Semaphore::MAX_PERMITS as u64);
        let units = (bytes / ROOM_UNIT).clamp(1, most) as u32;
        let shares = Shares { units: (units / SHARES).max(1), by_address: Mutex::default() };
        Self { room: Arc::new(Semaphore::new(units as usize)), units, shares: Arc::new(shares) }
    }

    /// Room for so many bytes, if there is any now. An address counts, unless there is none.
    pub(super) fn try_take(&self, bytes: u64, address: Option<IpAddr>) -> Option<Room> {
        let units = self.units_of(bytes);
        let share = match address {
            Some(address) => {
                let (share, own) = Shares::of(&self.shares, address);
                Some((own.try_acquire_many_owned(units.min(self.shares.units)).ok()?, share))
            }
            None => None,
        };
        let room = Arc::clone(&self.room).try_acquire_many_owned(units).ok()?;
        Some(Room { _held: Arc::new(Held { _room: room, _share: share }) })
    }

    /// Room for so many bytes, if there is any soon.
    pub(super) async fn take(&self, bytes: u64, address: Option<IpAddr>) -> Option<Room> {
        tokio::time::timeout(ROOM_WAIT, self.wait(bytes, address)).await.ok()?
    }

    async fn wait(&self, bytes: u64, address: Option<IpAddr>) -> Option<Room> {
        let units = self.units_of(bytes);
        // One's own share first: who waits for that keeps nobody else waiting.
        let share = match address {
            Some(address) => {
                let (share, own) = Shares::of(&self.shares, address);
                Some((own.acquire_many_owned(units.min(self.shares.units)).await.ok()?, share))
            }
            None => None,
        };
        let room = Arc::clone(&self.room).acquire_many_owned(units).await.ok()?;
        Some(Room { _held: Arc::new(Held { _room: room, _share: share }) })
    }

    fn units_of(&self, bytes: u64) -> u32 {
        u32::try_from(bytes.div_ceil(ROOM_UNIT)).unwrap_or(u32::MAX).clamp(1, self.units)
    }
}

/// What each address has.
struct Shares {
    /// Of each.
    units: u32,
    /// What is left of it, and how many hold of it or wait.
    by_address: Mutex<HashMap<IpAddr, (Arc<Semaphore>, usize)>>,
}

/// One who holds of an address's share, or waits for it.
struct Share {
    all: Arc<Shares>,
    address: IpAddr,
}

impl Shares {
    fn of(all: &Arc<Self>, address: IpAddr) -> (Share, Arc<Semaphore>) {
        let address = network(address);
        let mut shares = all.lock();
        let whole = || (Arc::new(Semaphore::new(all.units as usize)), 0);
        let (left, count) = shares.entry(address).or_insert_with(whole);
        *count += 1;
        let left = Arc::clone(left);
        drop(shares);
        (Share { all: Arc::clone(all), address }, left)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, (Arc<Semaphore>, usize)>> {
        self.by_address.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut shares = self.all.lock();
        if let Some((_, count)) = shares.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                shares.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)));
    const BOB: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2)));

    #[test]
    fn one_address_has_half_and_leaves_the_rest_to_others() {
        let memory = Memory::new(8 * ROOM_UNIT);
        let of_ann: Vec<_> = (0..9).map_while(|_| memory.try_take(ROOM_UNIT, ANN)).collect();
        assert_eq!(of_ann.len(), 4);
        let of_bob: Vec<_> = (0..9).map_while(|_| memory.try_take(1, BOB)).collect();
        assert_eq!(of_bob.len(), 4);
        assert!(memory.try_take(1, None).is_none(), "all of it is taken");
        drop(of_bob);
        let of_many: Vec<_> = (0..9).map_while(|_| memory.try_take(ROOM_UNIT, None)).collect();
        assert_eq!(of_many.len(), 4, "many clients behind one proxy have all that is left");
        drop((of_ann, of_many));
        assert!(memory.shares.lock().is_empty(), "nothing is remembered of those who left");
        assert_eq!(memory.room.available_permits(), 8);
    }

    #[test]
    fn what_is_larger_than_all_of_it_fits_when_nobody_else_is_there() {
        let memory = Memory::new(4 * ROOM_UNIT);
        let large = memory.try_take(u64::MAX, ANN);
        assert!(large.is_some());
        assert!(memory.try_take(1, BOB).is_none());
        drop(large);
        assert!(memory.try_take(1, BOB).is_some());
    }

    #[tokio::test]
    async fn who_waits_for_its_own_share_keeps_nobody_else_waiting() {
        let memory = Arc::new(Memory::new(8 * ROOM_UNIT));
        let held = memory.try_take(4 * ROOM_UNIT, ANN).unwrap();
        let waiting = tokio::spawn({
            let memory = Arc::clone(&memory);
            async move { memory.take(4 * ROOM_UNIT, ANN).await.is_some() }
        });
        tokio::task::yield_now().await;
        assert!(memory.try_take(4 * ROOM_UNIT, BOB).is_some());
        assert!(!waiting.is_finished());
        drop(held);
        assert!(waiting.await.unwrap());
    }
}
