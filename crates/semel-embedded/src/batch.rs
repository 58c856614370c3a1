//! Several keys, decided under one lock.
//!
//! 1. Whatever is not in the journal's map is looked up in the archive first, without the lock; if the archive
//!    changes meanwhile, again.
//! 2. Puts of one group are written into one file of the journal, one after the other, and count together.
//! 3. Whoever waits for the disk lets everybody else go first for one turn, and then asks for the sync that serves all.

use crate::{
    archive::Archived,
    commit::settled,
    engine::{Engine, MOVES_MAX, State},
    error::{corrupt, refused},
    frame::{self, Frame, Put},
    hot::Entry,
    kept::{Died, is_kept},
    lock,
    owner::Owner,
    spares::Purpose,
};
use semel_core::{
    fence::Fence,
    key::{ByIdentity, Identity},
    store::StoreError,
};
use tokio::sync::oneshot;

/// What the archive knows of keys that were not in the map.
pub(crate) struct Looked {
    version: u64,
    archived: ByIdentity<Identity, Archived>,
}

impl Looked {
    /// What the archive knows of a key that is not in the map.
    pub(crate) fn get(&self, identity: &Identity) -> Option<&Archived> {
        self.archived.get(identity)
    }
}

/// What was written, and is not durable yet.
pub(crate) struct Undurable {
    told: oneshot::Receiver<Result<(), StoreError>>,
    /// How many syncs there had been when it was written.
    syncs: u64,
}

/// What is not durable yet, if anything.
pub(crate) type Durable = Option<Undurable>;

/// What a decision leaves behind: whether somebody must wait for the disk.
pub(crate) struct Decided<T> {
    pub(crate) value: T,
    pub(crate) must_sync: bool,
}

impl<O: Owner> Engine<O> {
    /// Decides about these keys under the lock.
    pub(crate) fn decide<T>(
        &self,
        identities: &[Identity],
        mut decision: impl FnMut(&mut State<O>, &Looked) -> Result<Decided<T>, StoreError>,
    ) -> Result<(T, Durable), StoreError> {
        for _ in 0..MOVES_MAX {
            let looked = self.look_up(identities)?;
            let mut state = lock(&self.state);
            state.check()?;
            let is_current = looked.archived.is_empty() || looked.version == self.archive.version();
            let is_known = |it: &Identity| state.hot.get(it).is_some() || looked.archived.contains_key(it);
            if !is_current || !identities.iter().all(is_known) {
                continue;
            }
            let decided = decision(&mut state, &looked)?;
            let mut durable = None;
            if decided.must_sync {
                let (waiter, waiting) = oneshot::channel();
                state.waiters.push(waiter);
                durable = Some(Undurable { told: waiting, syncs: state.syncs });
            }
            return Ok((decided.value, durable));
        }
        Err(corrupt("decide about executions: they moved without end"))
    }

    /// Waits until what was written is on disk. Whoever is ready goes first, and who has sent something is heard: one sync
    /// serves them all, and the busier this process is the more of them there are.
    pub(crate) async fn until_durable(&self, durable: Durable) -> Result<(), StoreError> {
        let Some(Undurable { told, syncs }) = durable else { return Ok(()) };
        tokio::task::yield_now().await;
        self.ask_to_sync(syncs);
        settled(told).await
    }

    fn look_up(&self, identities: &[Identity]) -> Result<Looked, StoreError> {
        let version = self.archive.version();
        let state = lock(&self.state);
        let cold: Vec<_> = identities.iter().filter(|it| state.hot.get(it).is_none()).copied().collect();
        drop(state);
        let mut archived = ByIdentity::default();
        archived.reserve(cold.len());
        for identity in cold {
            archived.insert(identity, self.archive.find(&identity)?);
        }
        Ok(Looked { version, archived })
    }

    /// Makes sure that puts with payloads of these lengths go into one file.
    pub(crate) fn make_room(
        &self,
        state: &mut State<O>,
        payloads: impl Iterator<Item = usize>,
        purpose: Purpose,
    ) -> Result<(), StoreError> {
        let length: usize = payloads.map(frame::put_length).sum();
        let has_room = |state: &State<O>| state.tail.end() as usize + length <= state.tail.limit as usize;
        if !has_room(state) {
            self.roll(state, purpose)?;
        }
        // A file of full length may be outgrown by what is larger than any file; one whose room is counted may not.
        if !has_room(state) && state.tail.limit < self.options.segment_bytes {
            return Err(refused("has no room for something so large: free some space on the disk"));
        }
        Ok(())
    }
}

impl<O: Owner> State<O> {
    /// Appends a put where there is room for it, and points the map to it; gives what it pointed to before.
    pub(crate) fn place(&mut self, put: &Put<'_>, note: O::Note) -> (Entry<O::Note>, Option<Entry<O::Note>>) {
        let entry = Entry {
            fence: put.fence,
            expires_at: put.expires_at,
            floor: put.floor,
            segment: self.tail.segment.number,
            offset: self.tail.end(),
            length: frame::put_length(put.payload.len()) as u32,
            kind: put.kind,
            note,
        };
        self.push(&Frame::Put(*put));
        let before = self.hot.insert(&put.identity, entry);
        if let Some(Entry { segment, offset, length, .. }) = before.filter(|it| is_kept(it.segment)) {
            self.died(Died { segment, offset, length, by: entry.segment });
        }
        (entry, before)
    }

    /// A fence above all that were issued.
    pub(crate) fn next_fence(&mut self, now: semel_core::time::Timestamp) -> Fence {
        let fence = Fence::next(self.last_fence, now);
        self.last_fence = Some(fence);
        fence
    }
}
