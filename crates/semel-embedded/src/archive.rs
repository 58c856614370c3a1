//! The finished records that have left the journal: a list of [`Bucket`]s.
//!
//! 1. Every change of the list raises its version, before anything that moved into it leaves the journal. So
//!    whoever finds a key in neither, with the version unchanged in between, knows that it is in neither.
//! 2. A key may stand in several buckets; the highest fence is the truth.
//! 3. A newer value never stands in a bucket that ends earlier than that of an older one (its *floor*), so
//!    that removing a bucket cannot bring an older value back.

use crate::{
    bloom::Probe,
    bucket::{Bucket, Found},
    disk::Disk,
    lock,
};
use semel_core::{fence::Fence, key::Identity, store::StoreError, time::Timestamp};
use std::{
    io, mem,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

/// How much of a file is given back at once.
const SLICE_BYTES: u64 = 4 << 20;
/// The narrowest bucket.
const WIDTH_MIN: Duration = Duration::from_mins(1);

pub(crate) struct Archive {
    buckets: RwLock<Arc<Buckets>>,
    serial: AtomicU32,
    /// Buckets that were taken out of the list, whose files are still to be removed.
    trash: Mutex<Vec<Trash>>,
}

struct Trash {
    bucket: Arc<Bucket>,
    /// What its file is called now.
    name: String,
}

#[derive(Clone, Default)]
pub(crate) struct Buckets {
    pub(crate) version: u64,
    pub(crate) list: Vec<Arc<Bucket>>,
}

/// What the archive knows of a key.
pub(crate) struct Archived {
    /// Of the list that was searched.
    pub(crate) version: u64,
    pub(crate) newest: Option<Found>,
    /// The latest end of a bucket that holds the key.
    pub(crate) floor: Timestamp,
}

impl Archived {
    pub(crate) fn fence(&self) -> Option<Fence> {
        self.newest.as_ref().map(|it| it.fence)
    }
}

impl Archive {
    pub(crate) fn new(list: Vec<Arc<Bucket>>) -> Self {
        let serial = list.iter().map(|it| it.serial()).max().unwrap_or(0);
        Self {
            buckets: RwLock::new(Arc::new(Buckets { version: 1, list })),
            serial: AtomicU32::new(serial),
            trash: Mutex::default(),
        }
    }

    pub(crate) fn buckets(&self) -> Arc<Buckets> {
        Arc::clone(&self.buckets.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn version(&self) -> u64 {
        self.buckets.read().unwrap_or_else(PoisonError::into_inner).version
    }

    pub(crate) fn next_serial(&self) -> u32 {
        self.serial.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn find(&self, identity: &Identity) -> Result<Archived, StoreError> {
        let buckets = self.buckets();
        let probe = Probe::new(identity);
        let mut archived = Archived { version: buckets.version, newest: None, floor: Timestamp::EPOCH };
        for bucket in &buckets.list {
            if let Some(found) = bucket.find(identity, &probe)? {
                archived.floor = archived.floor.max(bucket.end);
                if Some(found.fence) > archived.fence() {
                    archived.newest = Some(found);
                }
            }
        }
        Ok(archived)
    }

    /// Whether a bucket other than these holds the key.
    pub(crate) fn holds_beside(
        &self,
        identity: &Identity,
        these: &[Arc<Bucket>],
    ) -> Result<bool, StoreError> {
        let probe = Probe::new(identity);
        for bucket in &self.buckets().list {
            if !these.iter().any(|it| it.name == bucket.name) && bucket.find(identity, &probe)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Puts these in, and takes those out, in one step.
    pub(crate) fn replace(&self, new: Vec<Arc<Bucket>>, old: &[Arc<Bucket>]) {
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        let mut next = Buckets { version: buckets.version + 1, list: buckets.list.clone() };
        next.list.retain(|it| !old.iter().any(|gone| gone.name == it.name));
        next.list.extend(new);
        *buckets = Arc::new(next);
    }

    /// The buckets of which every record has expired, the older first.
    pub(crate) fn expired(&self, expired_at: Timestamp) -> Vec<Arc<Bucket>> {
        let mut expired: Vec<_> =
            self.buckets().list.iter().filter(|it| it.end <= expired_at).map(Arc::clone).collect();
        expired.sort_unstable_by_key(|it| it.serial());
        expired
    }

    /// Whether a bucket other than this one holds a newer value of the key.
    pub(crate) fn holds_newer(
        &self,
        identity: &Identity,
        fence: Fence,
        than: &Bucket,
    ) -> Result<bool, StoreError> {
        let probe = Probe::new(identity);
        for bucket in &self.buckets().list {
            if bucket.name != than.name && bucket.find(identity, &probe)?.is_some_and(|it| it.fence > fence) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes away the names of files whose buckets are not in the list any more, in this order: a crash in between must not
    /// uncover older values.
    pub(crate) fn discard(&self, disk: &dyn Disk, buckets: &[Arc<Bucket>]) -> io::Result<()> {
        for bucket in buckets {
            let name = format!("gone-{:08}.tmp", bucket.serial());
            disk.rename(&bucket.name, &name)?;
            lock(&self.trash).push(Trash { bucket: Arc::clone(bucket), name });
        }
        disk.sync_directory()
    }

    /// Removes the files of discarded buckets that nobody reads any more, a slice at a time: a file system may
    /// hold up everybody's syncs while it gives back a large file at once.
    pub(crate) fn empty_trash(&self, disk: &dyn Disk, pause: impl Fn()) -> io::Result<()> {
        let trash = mem::take(&mut *lock(&self.trash));
        for Trash { bucket, name } in trash {
            // A reader of an older list may be in the middle of it.
            if let Err(bucket) = Arc::try_unwrap(bucket) {
                lock(&self.trash).push(Trash { bucket, name });
                continue;
            }
            let file = disk.open(&name)?;
            let mut length = file.length()?;
            while length > SLICE_BYTES {
                length -= SLICE_BYTES;
                file.shrink(length)?;
                pause();
            }
            disk.remove(&name)?;
        }
        Ok(())
    }
}

/// The end of the bucket for a record that expires then and must outlive this floor: a bucket is about a
/// tenth as wide as what is left of the retention, in powers of two, so that records of like retention meet.
pub(crate) fn bucket_end(now: Timestamp, expires_at: Timestamp, floor: Timestamp) -> Timestamp {
    if expires_at.max(floor) == Timestamp::NEVER {
        return Timestamp::NEVER;
    }
    let tenth = expires_at.since(now).max(WIDTH_MIN * 10) / 10;
    let width = (tenth.as_millis() as u64).next_power_of_two();
    Timestamp::from_millis(expires_at.as_millis().next_multiple_of(width)).max(floor)
}
