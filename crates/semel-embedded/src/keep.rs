//! From the journal, and from files of which little is alive, into files of those that wait.
//!
//! 1. Where few wait, they are appended to the journal again ([`RELOGGED_PART`] of a file of it at most, so that
//!    the journal gets shorter each time). A file for each handful would be more files than anybody wants.
//! 2. What changes while its file is made is dead there from the beginning.
//! 3. The dead are written down before the journal's files go that tell of their death.

use crate::{
    engine::{Engine, State},
    error::disk as disk_error,
    flush::Moving,
    frame::Kind,
    hot::{Entry, SHARDS},
    kept::{Builder, Died, Kept, is_kept, next_number},
    lock,
    owner::Owner,
};
use semel_core::{sabotage, store::StoreError};
use std::sync::Arc;

/// What is less than one part in so many of a file of the journal is appended to it again.
const RELOGGED_PART: u32 = 8;
/// How many files there may be before small ones are made into one.
const FILES_MAX: usize = 32;
/// How many bytes of living values are moved between files at once, at most.
const REMADE_BYTES_MAX: u64 = 256 << 20;
/// How large a file becomes, at most: what is left is appended to the journal again. Places in it are 32 bits.
const FILE_BYTES_MAX: u64 = 2 << 30;
const KEEPING: &str = "make a file of those that wait";

/// Values on their way into a file.
pub(crate) struct Keeping<N> {
    /// The file's number, and each value with where it stood and where it stands now.
    moved: Option<(u32, Vec<Move<N>>)>,
    /// The files that are not needed any more.
    replaced: Vec<u32>,
}

struct Move<N> {
    half: u128,
    from: Entry<N>,
    offset: u32,
    length: u32,
}

impl<O: Owner> Engine<O> {
    /// Makes a file of what waits in the segments that are being moved, and in files of which little is alive.
    pub(crate) fn keep(&self, moving: &mut Moving) -> Result<Keeping<O::Note>, StoreError> {
        let state = lock(&self.state);
        let replaced = to_remake(&mut state.kept.values());
        for number in &replaced {
            moving.segments.insert(*number, Arc::clone(&state.kept[number].segment));
        }
        let number = next_number(state.kept.keys());
        drop(state);
        let entries = self.waiting(moving, &replaced);
        let bytes: u64 = entries.iter().map(|it| u64::from(it.1.length)).sum();
        let is_little = bytes <= u64::from(self.options.segment_bytes / RELOGGED_PART);
        if entries.is_empty() || (replaced.is_empty() && is_little) {
            return Ok(Keeping { moved: None, replaced });
        }
        let failed = || disk_error(KEEPING);
        let mut builder =
            Builder::new(&*self.disk, number, moving.upto, &replaced, moving.now).map_err(failed())?;
        let mut moved = Vec::with_capacity(entries.len());
        let mut bytes = 0;
        for (half, from) in entries {
            bytes += u64::from(from.length);
            if bytes > FILE_BYTES_MAX {
                break;
            }
            let (identity, mut payload) = self.value_of(moving, half, &from);
            O::copied(&mut payload);
            let front = O::front(&payload);
            let (offset, length) =
                builder.push(identity, from.fence, from.floor, &payload, front).map_err(failed())?;
            moved.push(Move { half, from, offset, length });
            self.breathe();
        }
        let (kept, grave) = builder.finish().map_err(failed())?;
        lock(&self.graves).insert(number, grave);
        lock(&self.state).kept.insert(number, kept);
        Ok(Keeping { moved: Some((number, moved)), replaced })
    }

    /// Removes the file again, to which nothing points yet.
    pub(crate) fn unkeep(&self, keeping: &Keeping<O::Note>) {
        let Some((number, _)) = &keeping.moved else { return };
        lock(&self.state).kept.remove(number);
        if let Some(grave) = lock(&self.graves).remove(number) {
            // A start removes what is left.
            let _ = grave.remove(&*self.disk);
        }
    }

    /// What is to go into a file, in the order it was written.
    fn waiting(&self, moving: &Moving, replaced: &[u32]) -> Vec<(u128, Entry<O::Note>)> {
        let is_mine = |it: &Entry<O::Note>| {
            it.kind == Kind::Waiting && (it.segment <= moving.upto || replaced.contains(&it.segment))
        };
        let mut entries = Vec::new();
        for shard in 0..SHARDS {
            entries.extend(lock(&self.state).hot.select(shard, is_mine));
        }
        entries.sort_unstable_by_key(|it| (!is_kept(it.1.segment), it.1.segment, it.1.offset));
        entries
    }

    /// Points the map to where the values stand now; a few at a time, to let others in.
    pub(crate) fn point_to_kept(&self, keeping: &Keeping<O::Note>) {
        const AT_A_TIME: usize = 256;
        let Some((number, moved)) = &keeping.moved else { return };
        for some in moved.chunks(AT_A_TIME) {
            let mut state = lock(&self.state);
            for Move { half, from, offset, length } in some {
                let to = Entry { segment: *number, offset: *offset, length: *length, ..*from };
                if !state.hot.move_to(*half, from, to) {
                    // Where its death is told. The file that is filled now may be a later one, and then the one that tells
                    // of it would go before the dead are written down. What is not there at all was removed meanwhile.
                    let told = state.hot.get_half(*half).map(|it| it.segment);
                    let is_late = sabotage::is_on("embedded_death_told_late");
                    let by = told.filter(|_| !is_late).unwrap_or(state.tail.segment.number);
                    state.died(Died { segment: *number, offset: *offset, length: *length, by });
                }
            }
            drop(state);
            self.breathe();
        }
    }

    /// Writes down, durably, who died by what stands in the segments that are being moved.
    pub(crate) fn bury(&self, moving: &Moving) -> Result<(), StoreError> {
        if sabotage::is_on("embedded_dead_not_written") {
            return Ok(());
        }
        let mut graves = lock(&self.graves);
        let mut state = lock(&self.state);
        let is_over = |it: &mut Died| it.by <= moving.upto;
        let died: Vec<Died> = state.dead.extract_if(.., is_over).collect();
        drop(state);
        for it in died {
            if let Some(grave) = graves.get_mut(&it.segment) {
                grave.bury(it.offset);
            }
        }
        let mut must_sync = false;
        for grave in graves.values_mut() {
            must_sync |= grave.write(&*self.disk).map_err(disk_error("write down who waits no more"))?;
        }
        if must_sync {
            self.disk.sync_directory().map_err(disk_error("write down who waits no more"))?;
        }
        Ok(())
    }

    /// Removes the files whose living values are elsewhere.
    pub(crate) fn drop_replaced(&self, keeping: &Keeping<O::Note>) -> Result<(), StoreError> {
        for number in &keeping.replaced {
            let mut state = lock(&self.state);
            state.kept.remove(number);
            state.dead.retain(|it| it.segment != *number);
            drop(state);
            let grave = lock(&self.graves).remove(number);
            if let Some(grave) = grave {
                grave.remove(&*self.disk).map_err(disk_error("remove a file of those that wait"))?;
            }
        }
        Ok(())
    }
}

impl<O: Owner> State<O> {
    /// Notes that a value in a file of those that wait was replaced.
    pub(crate) fn died(&mut self, died: Died) {
        if let Some(kept) = self.kept.get_mut(&died.segment) {
            kept.live_bytes -= u64::from(died.length);
        }
        self.dead.push(died);
    }
}

/// The files to make anew: those of which less than half is alive, and, where there are too many, the smallest.
fn to_remake(files: &mut dyn Iterator<Item = &Kept>) -> Vec<u32> {
    let mut files: Vec<_> = files.map(|it| (it.live_bytes, it.bytes, it.segment.number)).collect();
    files.sort_unstable();
    let too_many = files.len().saturating_sub(FILES_MAX / 2);
    let is_crowded = files.len() > FILES_MAX;
    let mut bytes = 0;
    let mut remade = Vec::new();
    for (place, (live, whole, number)) in files.into_iter().enumerate() {
        let is_due = live < whole / 2 || (is_crowded && place < too_many);
        if is_due && (bytes + live <= REMADE_BYTES_MAX || bytes == 0) {
            bytes += live;
            remade.push(number);
        }
    }
    remade
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::Segment;

    fn file(number: u32, live_bytes: u64, bytes: u64) -> Kept {
        let directory = tempfile::tempdir().unwrap();
        let disk = crate::disk::OsDisk::new(directory.path());
        let file = crate::disk::Disk::create(&disk, "file").unwrap();
        Kept { segment: Arc::new(Segment { number, salt: 0, file }), bytes, live_bytes }
    }

    fn check(files: &[Kept], expected: &[u32]) {
        assert_eq!(to_remake(&mut files.iter()), expected);
    }

    #[test]
    fn files_of_which_less_than_half_is_alive_are_made_anew() {
        check(&[file(1, 50, 100), file(2, 49, 100), file(3, 0, 100)], &[3, 2]);
    }

    #[test]
    fn no_more_is_moved_at_once_than_the_limit() {
        let half = REMADE_BYTES_MAX / 2 + 1;
        check(&[file(1, half, half * 3), file(2, half, half * 3)], &[1]);
        check(&[file(1, half * 3, half * 9)], &[1]);
    }

    #[test]
    fn where_there_are_too_many_files_the_smallest_become_one() {
        let files: Vec<_> = (0..=FILES_MAX as u32).map(|it| file(it, u64::from(it) + 80, 100)).collect();
        let remade = to_remake(&mut files.iter());
        assert_eq!(remade.len(), files.len() - FILES_MAX / 2);
        assert!(remade.contains(&0) && !remade.contains(&(FILES_MAX as u32)));
    }
}
