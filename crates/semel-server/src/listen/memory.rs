//! The memory that the bodies of requests share.
//!
//! 1. Room is taken before anything is read: for what was announced, else for the most that may come. What did not come can be
//!    given back before the rest is.
//! 2. One address has at most one part in [`SHARES`] of it, however many connections it has: those who send slowly keep their
//!    room for long, and must not keep all others out. Proxies that are trusted have no share of their own, because many
//!    clients stand behind each.
//! 3. Who finds no room waits, for a limited time: also those who have some and want more, so that they do not wait for each
//!    other for ever. Nobody asks for more than there is.
//!
//! It does not limit how slowly a body comes: whoever reads it does.

use super::network;
use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// One address has at most one part in so many.
pub const SHARES: u32 = 2;
/// What memory is counted in, in bytes.
const UNIT_BYTES: u64 = 1024;

/// The memory that requests share.
pub(crate) struct Memory {
    room: Arc<Semaphore>,
    units: u32,
    shares: Arc<Shares>,
    wait: Duration,
}

/// What a request has of it; given back when it is dropped.
pub(crate) struct Room {
    room: OwnedSemaphorePermit,
    share: Option<(OwnedSemaphorePermit, Share)>,
}

impl Room {
    /// Gives back what is more than so many bytes need.
    pub(crate) fn keep(&mut self, bytes: u64) {
        let units = units_of(bytes);
        keep(&mut self.room, units);
        if let Some((share, _)) = &mut self.share {
            keep(share, units);
        }
    }
}

fn keep(held: &mut OwnedSemaphorePermit, units: u32) {
    let more = held.num_permits().saturating_sub(units as usize);
    drop(held.split(more));
}

impl Memory {
    /// So many bytes, for which a request waits for so long.
    pub(crate) fn new(bytes: u64, wait: Duration) -> Self {
        let most = u64::from(u32::MAX).min(Semaphore::MAX_PERMITS as u64);
        let units = (bytes / UNIT_BYTES).clamp(1, most) as u32;
        let shares = Shares { units: (units / SHARES).max(1), by_address: Mutex::default() };
        Self { room: Arc::new(Semaphore::new(units as usize)), units, shares: Arc::new(shares), wait }
    }

    /// Room for so many bytes, if there is any now. An address counts, unless there is none.
    pub(crate) fn try_take(&self, bytes: u64, address: Option<IpAddr>) -> Option<Room> {
        let units = units_of(bytes).min(self.units);
        let share = match address {
            Some(address) => {
                let (share, own) = Shares::of(&self.shares, address);
                Some((own.try_acquire_many_owned(units.min(self.shares.units)).ok()?, share))
            }
            None => None,
        };
        let room = Arc::clone(&self.room).try_acquire_many_owned(units).ok()?;
        Some(Room { room, share })
    }

    /// Room for so many bytes, if there is any soon.
    pub(crate) async fn take(&self, bytes: u64, address: Option<IpAddr>) -> Option<Room> {
        tokio::time::timeout(self.wait, self.wait_for(bytes, address)).await.ok()?
    }

    async fn wait_for(&self, bytes: u64, address: Option<IpAddr>) -> Option<Room> {
        let units = units_of(bytes).min(self.units);
        // One's own share first: who waits for that keeps nobody else waiting.
        let share = match address {
            Some(address) => {
                let (share, own) = Shares::of(&self.shares, address);
                Some((own.acquire_many_owned(units.min(self.shares.units)).await.ok()?, share))
            }
            None => None,
        };
        let room = Arc::clone(&self.room).acquire_many_owned(units).await.ok()?;
        Some(Room { room, share })
    }

    /// The same room, for so many bytes more, if there is any soon. Else all of it is given back.
    pub(crate) async fn take_more(&self, mut room: Room, bytes: u64) -> Option<Room> {
        let grown = tokio::time::timeout(self.wait, self.wait_for_more(&mut room, bytes)).await;
        grown.ok()?.map(|()| room)
    }

    async fn wait_for_more(&self, room: &mut Room, bytes: u64) -> Option<()> {
        let units = units_of(bytes);
        if let Some((share, _)) = &mut room.share {
            more(share, units, self.shares.units).await?;
        }
        more(&mut room.room, units, self.units).await
    }
}

/// So many units more, and no more than so many in all.
async fn more(held: &mut OwnedSemaphorePermit, units: u32, most: u32) -> Option<()> {
    let left = most.saturating_sub(held.num_permits() as u32);
    held.merge(Arc::clone(held.semaphore()).acquire_many_owned(units.min(left)).await.ok()?);
    Some(())
}

/// What so many bytes take; something, whatever they are.
fn units_of(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX).max(1)
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

    const WAIT: Duration = Duration::from_secs(5);
    const ANN: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)));
    const BOB: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2)));

    #[test]
    fn one_address_has_half_and_leaves_the_rest_to_others() {
        let memory = Memory::new(8 * UNIT_BYTES, WAIT);
        let of_ann: Vec<_> = (0..9).map_while(|_| memory.try_take(UNIT_BYTES, ANN)).collect();
        assert_eq!(of_ann.len(), 4);
        let of_bob: Vec<_> = (0..9).map_while(|_| memory.try_take(1, BOB)).collect();
        assert_eq!(of_bob.len(), 4);
        assert!(memory.try_take(1, None).is_none(), "all of it is taken");
        drop(of_bob);
        let of_many: Vec<_> = (0..9).map_while(|_| memory.try_take(UNIT_BYTES, None)).collect();
        assert_eq!(of_many.len(), 4, "many clients behind one proxy have all that is left");
        drop((of_ann, of_many));
        assert!(memory.shares.lock().is_empty(), "nothing is remembered of those who left");
        assert_eq!(memory.room.available_permits(), 8);
    }

    #[test]
    fn what_is_larger_than_all_of_it_fits_when_nobody_else_is_there() {
        let memory = Memory::new(4 * UNIT_BYTES, WAIT);
        let large = memory.try_take(u64::MAX, ANN);
        assert!(large.is_some());
        assert!(memory.try_take(1, BOB).is_none());
        drop(large);
        assert!(memory.try_take(1, BOB).is_some());
    }

    #[tokio::test]
    async fn who_waits_for_its_own_share_keeps_nobody_else_waiting() {
        let memory = Arc::new(Memory::new(8 * UNIT_BYTES, WAIT));
        let held = memory.try_take(4 * UNIT_BYTES, ANN).unwrap();
        let waiting = tokio::spawn({
            let memory = Arc::clone(&memory);
            async move { memory.take(4 * UNIT_BYTES, ANN).await.is_some() }
        });
        tokio::task::yield_now().await;
        assert!(memory.try_take(4 * UNIT_BYTES, BOB).is_some());
        assert!(!waiting.is_finished());
        drop(held);
        assert!(waiting.await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn who_finds_no_room_is_told_so_and_room_comes_back() {
        let memory = Memory::new(4 * UNIT_BYTES, WAIT);
        let most = memory.take(u64::MAX, None).await.unwrap();
        assert!(memory.take(1, None).await.is_none());
        drop(most);
        let (_one, _two) = (
            memory.take(2 * UNIT_BYTES, None).await.unwrap(),
            memory.take(2 * UNIT_BYTES, None).await.unwrap(),
        );
        assert!(memory.take(0, None).await.is_none(), "nothing is free, and be it for a byte");
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_body_did_not_need_is_given_back_at_once() {
        let memory = Memory::new(4 * UNIT_BYTES, WAIT);
        let mut most = memory.take(4 * UNIT_BYTES, None).await.unwrap();
        most.keep(UNIT_BYTES + 1);
        let rest = memory.take(2 * UNIT_BYTES, None).await.unwrap();
        assert!(memory.take(1, None).await.is_none(), "what it needs, it has");
        most.keep(u64::MAX);
        most.keep(0);
        let _more = memory.take(UNIT_BYTES, None).await.unwrap();
        assert!(memory.take(1, None).await.is_none(), "whoever is here has some, and be it for nothing");
        drop((most, rest));
        assert!(memory.take(3 * UNIT_BYTES, None).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_hold_some_and_want_more_do_not_wait_for_each_other_for_ever() {
        let memory = Memory::new(4 * UNIT_BYTES, WAIT);
        let (one, two) = (
            memory.take(2 * UNIT_BYTES, None).await.unwrap(),
            memory.take(2 * UNIT_BYTES, None).await.unwrap(),
        );
        let (one, two) = tokio::join!(memory.take_more(one, UNIT_BYTES), memory.take_more(two, UNIT_BYTES));
        assert!(one.is_none() || two.is_none(), "there is not enough for both");
        drop((one, two));
        let all = memory.take(3 * UNIT_BYTES, None).await.unwrap();
        let all = memory.take_more(all, u64::MAX).await.unwrap();
        assert!(memory.take(1, None).await.is_none(), "all of it is as much as there is");
        drop(all);
        assert!(memory.take(4 * UNIT_BYTES, None).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn what_an_address_gives_back_and_takes_more_of_is_of_its_share() {
        let memory = Memory::new(8 * UNIT_BYTES, WAIT);
        let mut of_ann = memory.try_take(4 * UNIT_BYTES, ANN).unwrap();
        of_ann.keep(UNIT_BYTES);
        let other_of_ann = memory.try_take(2 * UNIT_BYTES, ANN).unwrap();
        let of_ann = memory.take_more(of_ann, UNIT_BYTES).await.unwrap();
        assert!(memory.take_more(of_ann, UNIT_BYTES).await.is_none(), "half of it is hers, and no more");
        assert!(memory.try_take(2 * UNIT_BYTES, ANN).is_some(), "what she held is given back");
        drop(other_of_ann);
        let of_ann = memory.try_take(4 * UNIT_BYTES, ANN).unwrap();
        let of_ann = memory.take_more(of_ann, UNIT_BYTES).await.unwrap();
        drop(of_ann);
        assert!(memory.shares.lock().is_empty());
        assert_eq!(memory.room.available_permits(), 8);
    }
}
