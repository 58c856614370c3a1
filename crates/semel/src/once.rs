//! The door to the library.

use crate::{
    call::{Call, OnBusy},
    driver::Driver,
    error::Error,
    observe::Observed,
    seal::Seal,
    store::MemoryStore,
    wait::Waits,
};
use semel_core::{
    call::Terms,
    key::{IntoParts, Key},
    sabotage,
    store::Store,
};
use std::{sync::Arc, time::Duration};

/// Largest encoded result that is kept with its record, unless a call says otherwise.
pub const BODY_BYTES_MAX: usize = 64 * 1024;
/// How long a call waits for another holder, unless it says otherwise.
pub const WAIT_MAX: Duration = Duration::from_secs(2);

/// Runs calls so that each takes effect once. Cheap to clone; all clones share one store.
///
/// ```
/// use semel::Once;
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let once = Once::memory();
/// let mut greeted = 0;
/// for _delivery in 0..3 {
///     once.call("greet", "evt-1").run(async |_| { greeted += 1; Ok(()) }).await?;
/// }
/// assert_eq!(greeted, 1);
/// # Ok::<(), semel::Error>(()) }).unwrap();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Once {
    pub(crate) driver: Arc<Driver>,
}

/// What a call does unless it says otherwise.
#[derive(Clone, Debug)]
pub(crate) struct Defaults {
    pub(crate) terms: Terms,
    /// Whether somebody said how long results are kept.
    pub(crate) is_body_retention_said: bool,
    pub(crate) on_busy: OnBusy,
    pub(crate) body_bytes_max: usize,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            terms: Terms::default(),
            is_body_retention_said: false,
            on_busy: OnBusy::Wait { max: WAIT_MAX },
            body_bytes_max: BODY_BYTES_MAX,
        }
    }
}

/// What is said of a call holds for its result, unless something was said of that, too.
pub(crate) fn set_retention(terms: &mut Terms, retention: Duration, is_body_retention_said: bool) {
    terms.retention = retention;
    if !is_body_retention_said && !sabotage::is_on("result_forgotten_before_its_call") {
        terms.body_retention = retention;
    }
}

impl Once {
    /// Records in this directory, which is made if it is not there: durable, for one process at a time.
    ///
    /// ```
    /// use semel::Once;
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("semel-data");
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let once = Once::open(&path).await?;
    /// let first: u32 = once.call("answer", 1).run(async |_| Ok(42)).await?;
    /// drop(once); // and another life begins
    /// let once = Once::open(&path).await?;
    /// let again: u32 = once.call("answer", 1).run(async |_| Ok(43)).await?;
    /// assert_eq!((first, again), (42, 42));
    /// # Ok::<(), semel::Error>(()) }).unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[cfg(feature = "embedded")]
    pub async fn open(directory: impl AsRef<std::path::Path>) -> Result<Self, Error> {
        Self::builder().open(directory).await
    }

    /// Records in this store.
    pub fn new(store: impl Store) -> Self {
        Self::builder().store(store)
    }

    /// Records in this store, which others may hold too.
    pub fn from_store(store: Arc<dyn Store>) -> Self {
        Self::builder().from_store(store)
    }

    /// Records in the memory of this process: not durable.
    pub fn memory() -> Self {
        Self::new(MemoryStore::new())
    }

    /// Sets what calls do unless they say otherwise.
    pub fn builder() -> OnceBuilder {
        OnceBuilder::default()
    }

    /// One operation: a scope (a function, or service + route + caller) and an id (an event's, a natural
    /// business key, a client's `Idempotency-Key`). Each is one value or a tuple of them.
    ///
    /// A missing or malformed key is reported when the call is run.
    pub fn call(&self, scope: impl IntoParts, id: impl IntoParts) -> Call {
        Call::new(self.clone(), Key::new(scope, id))
    }

    /// One operation under a key that was made before.
    pub fn call_key(&self, key: Key) -> Call {
        Call::new(self.clone(), Ok(key))
    }

    /// Removes at most so many records that have expired, and says how many. Expired records count as absent
    /// whether they are removed or not: this only frees their space.
    pub async fn purge(&self, limit: u32) -> Result<u32, Error> {
        let driver = &self.driver;
        driver.store.purge(driver.clock.now(), limit).await.map_err(|error| Error::store(None, error))
    }
}

impl std::fmt::Debug for Once {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Once").field("defaults", &self.driver.defaults).finish_non_exhaustive()
    }
}

/// What calls do unless they say otherwise.
///
/// ```
/// use semel::{MemoryStore, OnBusy, Once};
/// use std::time::Duration;
/// let once = Once::builder()
///     .lease(Duration::from_secs(30))
///     .retention(Duration::from_secs(3 * 24 * 60 * 60))
///     .on_busy(OnBusy::Reject)
///     .store(MemoryStore::new());
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder builds nothing until it is given a store"]
pub struct OnceBuilder {
    defaults: Defaults,
    seal: Seal,
}

impl OnceBuilder {
    /// How long a holder may work undisturbed between renewals; 60 s unless set.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.defaults.terms.lease = lease;
        self
    }

    /// How long past its end a lease is still left alone, for clocks that disagree; as long as the store's clock asks for
    /// unless more is set, which is nothing where a server tells its time, and two seconds on DynamoDB.
    pub fn margin(mut self, margin: Duration) -> Self {
        self.defaults.terms.margin = margin;
        self
    }

    /// How long a finished call is remembered, and its result kept, unless [`OnceBuilder::body_retention`] is set, too;
    /// 7 days, and 24 hours for the result, unless set.
    pub fn retention(mut self, retention: Duration) -> Self {
        let Defaults { terms, is_body_retention_said, .. } = &mut self.defaults;
        set_retention(terms, retention, *is_body_retention_said);
        self
    }

    /// How long a completed call's result is kept, if not for as long as the call is remembered; 24 hours unless this
    /// or [`OnceBuilder::retention`] is set.
    pub fn body_retention(mut self, retention: Duration) -> Self {
        self.defaults.terms.body_retention = retention;
        self.defaults.is_body_retention_said = true;
        self
    }

    /// Largest encoded result that is kept; 64 KiB unless set.
    pub fn body_bytes_max(mut self, bytes: usize) -> Self {
        self.defaults.body_bytes_max = bytes;
        self
    }

    /// What a call does that another holder runs; waits 2 s unless set.
    pub fn on_busy(mut self, on_busy: OnBusy) -> Self {
        self.defaults.on_busy = on_busy;
        self
    }

    /// Results are encrypted before they reach the store: see [`seal`](crate::seal). Plain unless set.
    #[cfg(feature = "seal")]
    pub fn sealed_with(self, keyring: crate::seal::Keyring) -> Self {
        Self { seal: Seal::with(keyring), ..self }
    }

    /// With records in this store.
    pub fn store(self, store: impl Store) -> Once {
        self.from_store(Arc::new(store))
    }

    /// With records in this store, which others may hold too.
    pub fn from_store(self, store: Arc<dyn Store>) -> Once {
        let clock = store.clock();
        let store = Observed::new(store);
        let Self { mut defaults, seal } = self;
        defaults.terms.margin = defaults.terms.margin.max(clock.margin());
        let driver = Driver { store, clock, defaults, seal, waits: Waits::default() };
        Once { driver: Arc::new(driver) }
    }

    /// With records in this directory, which is made if it is not there.
    #[cfg(feature = "embedded")]
    pub async fn open(self, directory: impl AsRef<std::path::Path>) -> Result<Once, Error> {
        let directory = directory.as_ref().to_owned();
        let clock = Arc::new(crate::clock::SystemClock::new());
        let opening = move || semel_embedded::EmbeddedStore::open(directory, clock);
        let opened = tokio::task::spawn_blocking(opening).await.expect("opening a store does not panic");
        Ok(self.store(opened.map_err(|error| Error::store(None, error))?))
    }
}
