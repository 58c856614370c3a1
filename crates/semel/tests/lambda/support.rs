//! Invocations without a platform: a function is a service.

use lambda_runtime::{Config, Context, Diagnostic, LambdaEvent};
use semel::{
    BoxFuture, Clock, Fence, Key, MemoryStore, OnBusy, Once, Record, Store, StoreError, Stored, Swap,
    Timestamp,
};
use semel_testkit::ManualClock;
use serde_json::value::RawValue;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tower::{Service, ServiceExt};

/// Counts how often something happened.
#[derive(Clone, Default)]
pub(crate) struct Count(Arc<AtomicU32>);

impl Count {
    /// Once more; gives the count.
    pub(crate) fn add(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn get(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A store that counts what it is asked.
pub(crate) struct Watched {
    inner: MemoryStore,
    pub(crate) swaps: Count,
}

impl Store for Watched {
    fn load<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        self.inner.load(key)
    }

    fn swap<'a>(
        &'a self,
        key: &'a Key,
        expected: Option<Fence>,
        record: &'a Record,
    ) -> BoxFuture<'a, Result<Swap, StoreError>> {
        self.swaps.add();
        self.inner.swap(key, expected, record)
    }

    fn purge(&self, expired_at: Timestamp, limit: u32) -> BoxFuture<'_, Result<u32, StoreError>> {
        self.inner.purge(expired_at, limit)
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.inner.clock()
    }
}

/// A clock by hand, and a `Once` on it that does not wait.
pub(crate) struct World {
    pub(crate) clock: ManualClock,
    pub(crate) store: Arc<Watched>,
    pub(crate) once: Once,
}

pub(crate) fn world() -> World {
    let clock = ManualClock::new();
    let inner = MemoryStore::with_clock(clock.arc());
    let store = Arc::new(Watched { inner, swaps: Count::default() });
    let once = Once::builder().on_busy(OnBusy::Reject).from_store(store.clone());
    World { clock, store, once }
}

/// The context of an invocation of this function, which has this much time.
pub(crate) fn context(function: &str, timeout: Duration) -> Context {
    let deadline = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + timeout;
    let mut context = Context::default();
    context.deadline = u64::try_from(deadline.as_millis()).unwrap();
    context.env_config = Arc::new(Config { function_name: function.to_owned(), ..Config::default() });
    context
}

pub(crate) fn json(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

/// What a function answers to an invocation: its JSON, or its error.
pub(crate) async fn invoke_with<S>(function: &S, event: &str, context: Context) -> Result<String, Diagnostic>
where
    S: Service<LambdaEvent<Box<RawValue>>, Response = Box<RawValue>, Error = Diagnostic> + Clone,
{
    let answer = function.clone().oneshot(LambdaEvent::new(json(event), context)).await;
    answer.map(|it| it.get().to_owned())
}

/// What a function that is called `orders` and has a minute answers.
pub(crate) async fn invoke<S>(function: &S, event: &str) -> Result<String, Diagnostic>
where
    S: Service<LambdaEvent<Box<RawValue>>, Response = Box<RawValue>, Error = Diagnostic> + Clone,
{
    invoke_with(function, event, context("orders", Duration::from_mins(1))).await
}

/// The type of an error that must be one.
#[track_caller]
pub(crate) fn error_type(answer: Result<String, Diagnostic>) -> String {
    answer.expect_err("it should have failed").error_type
}

/// Lets every task on this thread run until all of them wait.
pub(crate) async fn settle() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}
