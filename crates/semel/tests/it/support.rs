//! A world in which time stands still and the store fails on command.

use semel::{
    BoxFuture, Call, Clock, Fence, Key, MemoryStore, Once, Record, Store, StoreError, StoreErrorKind, Stored,
    Swap, Timestamp,
};
use semel_testkit::ManualClock;
use std::{
    collections::VecDeque,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Waker},
    time::Duration,
};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_mins(1);
pub(crate) const HOUR: Duration = Duration::from_hours(1);
pub(crate) const DAY: Duration = Duration::from_hours(24);

/// What happens to one swap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// It goes through.
    None,
    /// It fails, and nothing is written.
    Before,
    /// The store will not, as a read-only standby will not, and nothing is written.
    Refused,
    /// It is carried out, and the reply is lost.
    After,
    /// It is carried out, and the reply never comes.
    Hang,
}

/// A store that fails on command.
pub(crate) struct ScriptedStore {
    inner: MemoryStore,
    script: Mutex<VecDeque<Fault>>,
    /// What happens when the script is at its end.
    then: Mutex<Fault>,
    /// Every swap that was asked for, by the key and the status it would write.
    pub(crate) swaps: Mutex<Vec<String>>,
    /// How often it was looked into.
    pub(crate) loads: AtomicUsize,
}

impl ScriptedStore {
    pub(crate) fn script(&self, faults: impl IntoIterator<Item = Fault>) {
        *self.script.lock().unwrap() = faults.into_iter().collect();
    }

    pub(crate) fn always(&self, fault: Fault) {
        *self.then.lock().unwrap() = fault;
    }

    fn next(&self) -> Fault {
        self.script.lock().unwrap().pop_front().unwrap_or(*self.then.lock().unwrap())
    }
}

fn unavailable() -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, "scripted", "swap a record")
}

fn refused() -> StoreError {
    StoreError::new(StoreErrorKind::Refused, "scripted", "the server is read-only")
}

impl Store for ScriptedStore {
    fn load<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        self.loads.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            match *self.then.lock().unwrap() {
                Fault::Before | Fault::Hang => return Err(unavailable()),
                Fault::None | Fault::Refused | Fault::After => {}
            }
            self.inner.load(key).await
        })
    }

    fn swap<'a>(
        &'a self,
        key: &'a Key,
        expected: Option<Fence>,
        record: &'a Record,
    ) -> BoxFuture<'a, Result<Swap, StoreError>> {
        self.swaps.lock().unwrap().push(format!("{key} {}", record.status()));
        let fault = self.next();
        Box::pin(async move {
            match fault {
                Fault::Before => return Err(unavailable()),
                Fault::Refused => return Err(refused()),
                Fault::None | Fault::After | Fault::Hang => {}
            }
            let swapped = self.inner.swap(key, expected, record).await;
            match fault {
                Fault::None => swapped,
                Fault::After | Fault::Before | Fault::Refused => Err(unavailable()),
                Fault::Hang => std::future::pending().await,
            }
        })
    }

    fn purge(&self, expired_at: Timestamp, limit: u32) -> BoxFuture<'_, Result<u32, StoreError>> {
        self.inner.purge(expired_at, limit)
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.inner.clock()
    }
}

/// A clock, a store on it, and a `Once` over that.
pub(crate) struct World {
    pub(crate) clock: ManualClock,
    pub(crate) store: Arc<ScriptedStore>,
    pub(crate) once: Once,
}

impl World {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::new();
        let store = Arc::new(ScriptedStore {
            inner: MemoryStore::with_clock(clock.arc()),
            script: Mutex::default(),
            then: Mutex::new(Fault::None),
            swaps: Mutex::default(),
            loads: AtomicUsize::new(0),
        });
        let once = Once::from_store(store.clone());
        Self { clock, store, once }
    }

    /// The call that most tests are about.
    pub(crate) fn call(&self) -> Call {
        self.once.call("pay", "evt-1")
    }

    pub(crate) fn key(&self) -> Key {
        Key::new("pay", "evt-1").unwrap()
    }

    /// Lets a lease lapse.
    pub(crate) fn lapse(&self) {
        self.clock.advance(MINUTE);
    }
}

/// Lets every task on this thread run until all of them wait.
pub(crate) async fn settle() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}

/// Runs a future until it waits, and drops it there: a crash.
pub(crate) fn crash<F: Future>(future: F) {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..64 {
        assert!(future.as_mut().poll(&mut context).is_pending(), "it should have crashed before it ended");
    }
}

/// Waits for ever: where a handler crashes.
pub(crate) async fn never<T>() -> T {
    std::future::pending().await
}

/// As [`crash`], for stores whose answers come from another thread: crashes where the handler says `now`.
#[cfg(feature = "embedded")]
pub(crate) async fn crash_at<F: Future>(now: &tokio::sync::Notify, future: F) {
    tokio::select! {
        _ = future => panic!("it should have crashed before it ended"),
        () = now.notified() => {}
    }
}
