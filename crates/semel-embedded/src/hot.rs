//! Where the journal holds the newest value of each key that has not moved into SQLite.
//!
//! 1. The map holds places, not values: its size depends on the number of keys alone.
//! 2. It is cut into shards by the front of the identity, so that the flusher can go through it in order,
//!    holding the lock for one shard at a time, and growing one does not stall the rest.
//! 3. It is keyed by half of the identity; the frame it points to holds the whole.

use crate::frame::Kind;
use semel_core::{
    fence::Fence,
    key::{ByIdentity, Identity},
    time::Timestamp,
};
use std::collections::hash_map::Entry as Slot;

pub(crate) const SHARDS: usize = 64;

pub(crate) struct Hot<N> {
    shards: Vec<Shard<N>>,
}

type Shard<N> = ByIdentity<u128, Entry<N>>;

/// Where a value stands, and what is needed of it to decide without reading it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry<N> {
    pub(crate) fence: Fence,
    pub(crate) expires_at: Timestamp,
    /// See [`crate::frame::Put::floor`].
    pub(crate) floor: Timestamp,
    pub(crate) segment: u32,
    pub(crate) offset: u32,
    pub(crate) length: u32,
    pub(crate) kind: Kind,
    /// The [owner's](crate::owner::Owner::Note).
    pub(crate) note: N,
}

/// The half of an identity that it is found by.
pub(crate) fn half(identity: &Identity) -> u128 {
    u128::from_be_bytes(*identity.as_bytes().first_chunk().expect("an identity has 32 bytes"))
}

/// An identity that is found by this half, and is nobody's.
pub(crate) fn from_half(half: u128) -> Identity {
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(&half.to_be_bytes());
    Identity::from_bytes(bytes)
}

fn shard_of(half: u128) -> usize {
    (half >> (128 - SHARDS.ilog2())) as usize
}

impl<N: Copy> Hot<N> {
    pub(crate) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Shard::default()).collect() }
    }

    /// Makes room for so many more.
    pub(crate) fn reserve(&mut self, entries: usize) {
        for shard in &mut self.shards {
            shard.reserve(entries / SHARDS);
        }
    }

    pub(crate) fn get(&self, identity: &Identity) -> Option<&Entry<N>> {
        self.get_half(half(identity))
    }

    pub(crate) fn get_half(&self, half: u128) -> Option<&Entry<N>> {
        self.shards[shard_of(half)].get(&half)
    }

    pub(crate) fn insert(&mut self, identity: &Identity, entry: Entry<N>) -> Option<Entry<N>> {
        let half = half(identity);
        self.shards[shard_of(half)].insert(half, entry)
    }

    /// Where the entry of a key stands, or would.
    pub(crate) fn slot(&mut self, identity: &Identity) -> Slot<'_, u128, Entry<N>> {
        let half = half(identity);
        self.shards[shard_of(half)].entry(half)
    }

    /// Inserts what was read from the journal, unless a newer value of the key is known.
    pub(crate) fn recover(&mut self, identity: &Identity, entry: Entry<N>) {
        let known = self.slot(identity).or_insert(entry);
        if known.fence < entry.fence {
            *known = entry;
        }
    }

    /// Removes the entry if it still is this one.
    pub(crate) fn remove(&mut self, half: u128, fence: Fence) -> Option<Entry<N>> {
        let shard = &mut self.shards[shard_of(half)];
        shard.get(&half).filter(|it| it.fence == fence)?;
        shard.remove(&half)
    }

    /// Points from this entry, if it still is that, to another; says whether it was.
    pub(crate) fn move_to(&mut self, half: u128, from: &Entry<N>, to: Entry<N>) -> bool
    where
        N: PartialEq,
    {
        match self.shards[shard_of(half)].get_mut(&half) {
            Some(it) if it == from => {
                *it = to;
                true
            }
            Some(_) | None => false,
        }
    }

    /// Forgets everything that does not pass.
    pub(crate) fn retain(&mut self, pass: impl Fn(&Entry<N>) -> bool) {
        self.shards.iter_mut().for_each(|it| it.retain(|_, entry| pass(entry)));
    }

    /// All of them, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u128, &Entry<N>)> {
        self.shards.iter().flatten().map(|(half, entry)| (*half, entry))
    }

    /// The entries of one shard that pass, in no order.
    pub(crate) fn select(&self, shard: usize, pass: impl Fn(&Entry<N>) -> bool) -> Vec<(u128, Entry<N>)> {
        self.shards[shard].iter().filter(|(_, it)| pass(it)).map(|(half, it)| (*half, *it)).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(Shard::len).sum()
    }
}
