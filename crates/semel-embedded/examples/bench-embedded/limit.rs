//! The limit: every record in memory, every write in a log, one `fdatasync` for all who wait.
//!
//! It pays nothing for moving records out of memory, so it is what the store is measured against; it is simple
//! rather than tuned, and with many callers the store can be ahead of it. The log is written into a file of zeros,
//! which makes syncing it twice as fast as appending to it.

use crate::load::Clocked;
use semel_core::{
    BoxFuture,
    fence::Fence,
    key::{Identity, Key},
    record::{Record, State, Stored},
    store::{Store, StoreError, Swap},
    time::{Clock, Timestamp},
    wire,
};
use std::{
    collections::HashMap,
    fs::File,
    hash::{BuildHasherDefault, Hasher},
    mem,
    os::unix::fs::FileExt,
    path::Path,
    sync::{Arc, Condvar, Mutex},
    thread,
};
use tokio::sync::oneshot;

const FILE_BYTES: usize = 1 << 30;

pub(crate) struct Log {
    shared: Arc<Shared>,
    clock: Arc<dyn Clock>,
}

struct Shared {
    state: Mutex<Held>,
    wanted: Condvar,
    file: File,
    /// Where the next bytes go, and the buffer of the last; held while they do.
    end: Mutex<(u64, Vec<u8>)>,
}

#[derive(Default)]
struct Held {
    records: HashMap<Identity, (Fence, Vec<u8>), BuildHasherDefault<First>>,
    last: Option<Fence>,
    pending: Vec<u8>,
    waiters: Vec<oneshot::Sender<()>>,
    is_closed: bool,
}

/// The first eight bytes of an identity are as random as a hash.
#[derive(Default)]
struct First(u64);

impl Hasher for First {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk() {
            self.0 = u64::from_le_bytes(*first);
        }
    }
}

impl Log {
    pub(crate) fn create(path: &Path) -> Self {
        let file = File::create(path).expect("the log can be made");
        let zeros = vec![0; 1 << 20];
        for offset in (0..FILE_BYTES).step_by(zeros.len()) {
            file.write_all_at(&zeros, offset as u64).expect("the log can be filled");
        }
        file.sync_all().expect("the log can be synced");
        let shared =
            Arc::new(Shared { state: Mutex::default(), wanted: Condvar::new(), file, end: Mutex::default() });
        let syncer = Arc::clone(&shared);
        thread::spawn(move || syncer.sync_loop());
        Self { shared, clock: Clocked::new().arc() }
    }
}

impl Log {
    fn append(
        &self,
        key: &Key,
        expected: Option<Fence>,
        record: &Record,
        waiter: Option<oneshot::Sender<()>>,
    ) -> Fence {
        let payload = wire::encode(key, record);
        let now = self.clock.now();
        let mut state = self.shared.state.lock().expect("nobody panicked");
        assert_eq!(state.records.get(key.identity()).map(|it| it.0), expected, "callers do not collide here");
        let fence = Fence::next(state.last, now);
        state.last = Some(fence);
        state.pending.extend(key.identity().as_bytes());
        state.pending.extend(fence.get().to_le_bytes());
        state.pending.extend(crc32fast::hash(&payload).to_le_bytes());
        state.pending.extend(&payload);
        state.records.insert(*key.identity(), (fence, payload));
        if let Some(waiter) = waiter {
            state.waiters.push(waiter);
            self.shared.wanted.notify_one();
        }
        fence
    }
}

impl Log {
    /// Appends values as they are, and waits until they are on disk.
    pub(crate) async fn append_bytes(&self, values: &[Vec<u8>]) {
        let (waiter, durable) = oneshot::channel();
        {
            let mut state = self.shared.state.lock().expect("nobody panicked");
            for value in values {
                state.pending.extend(crc32fast::hash(value).to_le_bytes());
                state.pending.extend(value);
            }
            state.waiters.push(waiter);
        }
        self.shared.wanted.notify_one();
        durable.await.expect("the syncer answers");
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.shared.state.lock().expect("nobody panicked").is_closed = true;
        self.shared.wanted.notify_all();
    }
}

impl Shared {
    fn sync_loop(&self) {
        loop {
            let mut state = self.state.lock().expect("nobody panicked");
            while state.waiters.is_empty() {
                if state.is_closed {
                    return;
                }
                state = self.wanted.wait(state).expect("nobody panicked");
            }
            drop(state);
            let waiters = self.write_out(true);
            self.file.sync_data().expect("the log can be synced");
            for waiter in waiters {
                let _ = waiter.send(());
            }
        }
    }

    fn write_out_if_pending(&self) {
        if !self.state.lock().expect("nobody panicked").pending.is_empty() {
            self.write_out(false);
        }
    }

    fn write_out(&self, with_waiters: bool) -> Vec<oneshot::Sender<()>> {
        let mut end = self.end.lock().expect("nobody panicked");
        let mut state = self.state.lock().expect("nobody panicked");
        let mut bytes = mem::replace(&mut state.pending, mem::take(&mut end.1));
        let waiters = if with_waiters { mem::take(&mut state.waiters) } else { Vec::new() };
        drop(state);
        // It is a limit, not a store: where the file is full it begins again.
        if end.0 as usize + bytes.len() > FILE_BYTES {
            end.0 = 0;
        }
        self.file.write_all_at(&bytes, end.0).expect("the log can be written");
        end.0 += bytes.len() as u64;
        bytes.clear();
        end.1 = bytes;
        waiters
    }
}

impl Store for Log {
    fn load<'a>(&'a self, _: &'a Key) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        unreachable!("the limit is only written to")
    }

    fn swap<'a>(
        &'a self,
        key: &'a Key,
        expected: Option<Fence>,
        record: &'a Record,
    ) -> BoxFuture<'a, Result<Swap, StoreError>> {
        Box::pin(async move {
            let is_claim = matches!(record.state, State::InProgress { .. });
            let (waiter, durable) = oneshot::channel();
            let fence = self.append(key, expected, record, (!is_claim).then_some(waiter));
            if is_claim {
                tokio::task::yield_now().await;
                self.shared.write_out_if_pending();
            } else {
                durable.await.expect("the syncer answers");
            }
            Ok(Swap::Won(fence))
        })
    }

    fn purge(&self, _: Timestamp, _: u32) -> BoxFuture<'_, Result<u32, StoreError>> {
        unreachable!("the limit is only written to")
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }
}
