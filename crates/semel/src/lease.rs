//! The right to run a call, until a time.
//!
//! 1. A lease is finished once, by consuming it: the types allow no second completion.
//! 2. Dropping it is a crash: nothing is written, its cancellation fires, and it stands until it lapses.
//! 3. Everything it writes names the fence of its last write. Who was superseded is told so, and nothing that
//!    it did is reported as success.
//! 4. A renewal in flight does not race with the outcome: whichever comes second finds the first one's record,
//!    recognises it, and goes on from its fence.
//!
//! It does not renew itself: [`Lease::hold`] does that while a future runs.

use crate::{
    begin::How,
    cancel::Cancellation,
    codec::Keeping,
    driver::Won,
    error::{Error, ErrorKind},
    handler_error::IsFatal,
    observe::{End, Scope},
    once::Once,
    service::GivenBack,
};
use semel_core::{
    call::{self, Entry, Terms},
    fence::Fence,
    key::{Identity, IdentityHasher, Key},
    record::{OnLapse, Place, Record, State, Stored},
    sabotage,
    time::Timestamp,
};
use std::{
    collections::HashSet,
    fmt,
    hash::BuildHasherDefault,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// The right to run a call, until it lapses. Finish it with [`Lease::complete`], [`Lease::fail`] or
/// [`Lease::release`].
#[must_use = "a lease that is dropped stands until it lapses"]
pub struct Lease {
    /// Shared with those it is lent to; and behind a pointer, because a lease is moved through many futures.
    pub(crate) inner: Arc<Inner>,
    /// Whether it is somebody else's, who finishes it.
    is_lent: bool,
}

pub(crate) struct Inner {
    pub(crate) granted: Granted,
    how: How,
    waited: bool,
    attempt: u32,
    held: Mutex<Held>,
    /// Taken by whoever renews: two renewals at once would supersede each other.
    pub(crate) renewing: tokio::sync::Mutex<()>,
    /// Made when somebody asks for it: most leases are finished before.
    cancellation: OnceLock<Cancellation>,
    /// The effects that were used in this attempt.
    pub(crate) used: Mutex<HashSet<Identity, BuildHasherDefault<IdentityHasher>>>,
    /// What was written in a user's transaction, which may not be committed yet: from then on nothing is renewed.
    pub(crate) in_transaction: Mutex<Option<Box<Record>>>,
    /// When the lease began, on the monotonic clock, and when the handler could begin.
    pub(crate) since: Duration,
    pub(crate) begun_at: Duration,
    is_finished: AtomicBool,
    /// For who lends it.
    pub(crate) given_back: GivenBack,
}

impl Inner {
    fn cancellation(&self) -> &Cancellation {
        self.cancellation.get_or_init(Cancellation::default)
    }
}

/// On what terms a lease was granted.
pub(crate) struct Granted {
    pub(crate) once: Once,
    pub(crate) key: Key,
    pub(crate) terms: Terms,
    pub(crate) is_fatal: Option<IsFatal>,
    pub(crate) body_bytes_max: usize,
    /// Whether the process is ended from outside before the lease is: nothing is renewed then.
    pub(crate) has_deadline: bool,
    /// As it is counted under.
    pub(crate) scope: Scope,
}

impl Granted {
    /// How the call's own result is kept, or that of one of its effects.
    pub(crate) fn keeping<'a>(&'a self, key: &'a Key, until: Timestamp) -> Keeping<'a> {
        Keeping { key, seal: &self.once.driver.seal, bytes_max: self.body_bytes_max, until }
    }
}

/// What the holder knows of its own record.
#[derive(Clone)]
pub(crate) struct Held {
    /// Of the last write that was confirmed.
    pub(crate) fence: Fence,
    /// As it was then written.
    pub(crate) record: Record,
    /// When that lease began, on the monotonic clock.
    pub(crate) since: Duration,
    /// A renewal whose reply has not come: it may be what is stored.
    pub(crate) in_doubt: Option<Box<Renewal>>,
}

/// A renewal that was sent.
#[derive(Clone)]
pub(crate) struct Renewal {
    pub(crate) record: Record,
    /// When it was first sent, on the monotonic clock.
    pub(crate) since: Duration,
}

impl Lease {
    /// The lease that a claim won, which was known at `begun_at`, on the monotonic clock.
    pub(crate) fn won(granted: Granted, won: Won, record: Record, waited: bool, begun_at: Duration) -> Self {
        let how = match won.entry {
            Entry::Fresh => How::Fresh,
            Entry::Retried => How::Retried,
            Entry::TakenOver => How::TakenOver,
            Entry::Reentered => How::Reentered,
        };
        let held = Held { fence: won.fence, record, in_doubt: None, since: won.at };
        Self::held(granted, how, waited, held, begun_at)
    }

    /// A lease on nothing: the store was not there to grant one.
    pub(crate) fn unprotected(granted: Granted, call: &call::Call) -> Self {
        let clock = &granted.once.driver.clock;
        let (now, since) = (clock.now(), clock.monotonic());
        let state = State::InProgress {
            holder: call.holder,
            lease_until: now,
            place: Place::Here,
            on_lapse: OnLapse::Rerun,
        };
        let record = Record {
            fingerprint: call.fingerprint,
            state,
            attempts: 1,
            created_at: now,
            updated_at: now,
            expires_at: Timestamp::NEVER,
        };
        let fence = Fence::new(1).expect("1 is not 0");
        Self::held(granted, How::Unprotected, false, Held { fence, record, in_doubt: None, since }, since)
    }

    // Inlined, so that what it is made of is put where it stays.
    #[inline]
    fn held(granted: Granted, how: How, waited: bool, held: Held, begun_at: Duration) -> Self {
        let inner = Inner {
            granted,
            how,
            waited,
            attempt: held.record.attempts,
            since: held.since,
            begun_at,
            held: Mutex::new(held),
            renewing: tokio::sync::Mutex::default(),
            cancellation: OnceLock::new(),
            used: Mutex::default(),
            in_transaction: Mutex::default(),
            is_finished: AtomicBool::new(false),
            given_back: GivenBack::default(),
        };
        Self { inner: Arc::new(inner), is_lent: false }
    }

    /// The same lease, for somebody who does not finish it.
    pub(crate) fn lent(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), is_lent: true }
    }

    /// Of the call.
    pub fn key(&self) -> &Key {
        &self.inner.granted.key
    }

    /// Which attempt this is, counted from 1.
    pub fn attempt(&self) -> u32 {
        self.inner.attempt
    }

    /// The number to hand to whoever can refuse an older one. It grows with every renewal and takeover. An
    /// unprotected lease has 1, which is older than every other.
    pub fn fence(&self) -> Fence {
        self.state().fence
    }

    /// How the caller came to run the call.
    pub fn how(&self) -> How {
        self.inner.how
    }

    /// Whether the caller waited for another holder first.
    pub fn waited(&self) -> bool {
        self.inner.waited
    }

    /// Whether there is a record behind it: not if the store could not be reached and the call fails open.
    pub fn is_protected(&self) -> bool {
        self.inner.how != How::Unprotected
    }

    /// Whether the lease is lost: superseded, or not renewed in time.
    pub fn is_cancelled(&self) -> bool {
        self.inner.cancellation.get().is_some_and(Cancellation::is_cancelled) || self.is_over()
    }

    /// Resolves when the lease is lost.
    pub async fn cancelled(&self) {
        self.inner.cancellation().cancelled().await;
    }

    /// A token for tasks that outlive the handler: it fires when the lease is lost.
    pub fn cancellation(&self) -> Cancellation {
        self.inner.cancellation().clone()
    }

    /// Notes that dropping the lease is no crash any more.
    pub(crate) fn finished(&mut self, end: End, since: Duration) {
        let at = self.inner.granted.once.driver.clock.monotonic();
        self.finished_at(end, since, at);
    }

    /// As [`Lease::finished`], at this moment of the monotonic clock.
    pub(crate) fn finished_at(&mut self, end: End, since: Duration, at: Duration) {
        self.inner.is_finished.store(true, Ordering::Relaxed);
        self.ended(end, since, at);
    }

    /// Counts the end of this attempt, whose outcome was ready at `since`, and written at `at`.
    fn ended(&self, end: End, since: Duration, at: Duration) {
        let worked = since.saturating_sub(self.inner.begun_at);
        let wrote = at.saturating_sub(since);
        let granted = &self.inner.granted;
        granted.once.driver.store.ended(granted.scope, &granted.key, end, worked, wrote);
    }

    /// Fires the cancellation, and counts the loss once.
    fn cancel(&self, end: End) {
        if self.inner.cancellation().cancel() {
            let now = self.inner.granted.once.driver.clock.monotonic();
            self.ended(end, now, now);
        }
    }

    /// Until when a write is repeated: the end of the lease, and a fifth of it at least, since a late outcome
    /// is accepted if nobody took over.
    pub(crate) fn write_until(&self, held: &Held) -> Duration {
        self.write_until_from(held.since, self.inner.granted.once.driver.clock.monotonic())
    }

    /// As [`Lease::write_until`], of a lease that began at `since`, at this moment.
    pub(crate) fn write_until_from(&self, since: Duration, at: Duration) -> Duration {
        let lease = self.inner.granted.terms.lease;
        (since + lease).max(at + lease / 5)
    }

    /// Fires the cancellation, and says why.
    pub(crate) fn lost(&self) -> Error {
        self.cancel(End::Superseded);
        Error::new(ErrorKind::Superseded, self.key().clone())
    }

    /// Fires the cancellation, because the lease could not be renewed in time.
    pub(crate) fn lapsed(&self) -> Error {
        self.cancel(End::Lapsed);
        Error::new(ErrorKind::Lapsed, self.key().clone())
    }

    /// What stands under an effect's key.
    pub(crate) async fn look(&self, key: &Key) -> Result<Option<Stored>, Error> {
        let driver = &self.inner.granted.once.driver;
        driver.look(key, driver.clock.monotonic() + self.inner.granted.terms.lease / 3).await
    }

    /// Makes sure that this is still the holder: a superseded one must not touch an effect of its successor.
    pub(crate) async fn verify(&self) -> Result<(), Error> {
        let before = self.state().clone();
        let found = self.look(self.key()).await?;
        let is_trusted = sabotage::is_on("superseded_touches_effects");
        if is_trusted || found.as_ref().is_some_and(|it| self.wrote(&before, it)) {
            Ok(())
        } else {
            Err(self.lost())
        }
    }

    /// Whether this holder wrote what was found since it knew `before`: it may have been renewed meanwhile, and every
    /// fence in between was its own.
    pub(crate) fn wrote(&self, before: &Held, found: &Stored) -> bool {
        let after = self.state().clone();
        let is_between = before.fence <= found.fence && found.fence <= after.fence;
        let in_doubt = [&before.in_doubt, &after.in_doubt].into_iter().flatten();
        is_between || in_doubt.into_iter().any(|renewal| renewal.record == found.record)
    }

    /// Whether an outcome was written in a transaction.
    pub(crate) fn is_in_transaction(&self) -> bool {
        self.in_transaction().is_some() && !sabotage::is_on("renewed_in_transaction")
    }

    pub(crate) fn in_transaction(&self) -> MutexGuard<'_, Option<Box<Record>>> {
        self.inner.in_transaction.lock().expect("no code panics while it holds the lock")
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, Held> {
        self.inner.held.lock().expect("no code panics while it holds the lock")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.is_lent && !self.inner.is_finished.load(Ordering::Relaxed) {
            self.cancel(End::Dropped);
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("key", self.key())
            .field("attempt", &self.inner.attempt)
            .field("fence", &self.fence())
            .finish_non_exhaustive()
    }
}
