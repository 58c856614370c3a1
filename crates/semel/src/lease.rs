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
    codec,
    driver::{Won, Write, Written},
    effect::doubt,
    error::{Error, ErrorKind},
    handler_error::{Class, HandlerError, IsFatal},
    observe::{End, Observed, Scope},
    once::Once,
};
use semel_core::{
    call::{self, Entry, Terms},
    fence::Fence,
    key::{Identity, Key},
    record::{Body, OnLapse, Place, Reason, Record, State, Stored},
    sabotage,
    time::Timestamp,
};
use serde::Serialize;
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

/// The right to run a call, until it lapses. Finish it with [`Lease::complete`], [`Lease::fail`] or
/// [`Lease::release`].
#[must_use = "a lease that is dropped stands until it lapses"]
pub struct Lease {
    /// Boxed, because a lease is moved through many futures.
    pub(crate) inner: Box<Inner>,
}

pub(crate) struct Inner {
    pub(crate) granted: Granted,
    how: How,
    waited: bool,
    attempt: u32,
    held: Mutex<Held>,
    /// Taken by whoever renews: two renewals at once would supersede each other.
    pub(crate) renewing: tokio::sync::Mutex<()>,
    cancellation: Cancellation,
    /// The effects that were used in this attempt.
    pub(crate) used: Mutex<Vec<Identity>>,
    /// When the handler could begin, on the monotonic clock.
    begun_at: Duration,
    is_finished: bool,
}

/// On what terms a lease was granted.
pub(crate) struct Granted {
    pub(crate) once: Once,
    pub(crate) key: Key,
    pub(crate) terms: Terms,
    pub(crate) is_fatal: Option<IsFatal>,
    pub(crate) body_bytes_max: usize,
    /// As it is counted under.
    pub(crate) scope: Scope,
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
    pub(crate) in_doubt: Option<Renewal>,
}

/// A renewal that was sent.
#[derive(Clone)]
pub(crate) struct Renewal {
    pub(crate) record: Record,
    /// When it was first sent, on the monotonic clock.
    pub(crate) since: Duration,
}

impl Lease {
    pub(crate) fn won(granted: Granted, won: Won, waited: bool) -> Self {
        let how = match won.entry {
            Entry::Fresh => How::Fresh,
            Entry::Retried => How::Retried,
            Entry::TakenOver => How::TakenOver,
            Entry::Reentered => How::Reentered,
        };
        let attempt = won.record.attempts;
        let held = Held { fence: won.fence, record: won.record, in_doubt: None, since: won.at };
        Self::held(granted, how, waited, attempt, held)
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
        Self::held(granted, How::Unprotected, false, 1, Held { fence, record, in_doubt: None, since })
    }

    fn held(granted: Granted, how: How, waited: bool, attempt: u32, held: Held) -> Self {
        let begun_at = granted.once.driver.clock.monotonic();
        let inner = Inner {
            granted,
            how,
            waited,
            attempt,
            begun_at,
            held: Mutex::new(held),
            renewing: tokio::sync::Mutex::default(),
            cancellation: Cancellation::default(),
            used: Mutex::default(),
            is_finished: false,
        };
        Self { inner: Box::new(inner) }
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
        self.inner.cancellation.is_cancelled() || self.is_over()
    }

    /// Resolves when the lease is lost.
    pub async fn cancelled(&self) {
        self.inner.cancellation.cancelled().await;
    }

    /// A token for tasks that outlive the handler: it fires when the lease is lost.
    pub fn cancellation(&self) -> Cancellation {
        self.inner.cancellation.clone()
    }

    /// The call took effect, with this result.
    // Not an `async fn`: the result is encoded at once, so the future does not borrow it.
    pub fn complete<T: Serialize + ?Sized>(
        self,
        result: &T,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<T> {
        let body = codec::body_of(result, self.inner.granted.body_bytes_max, self.body_until());
        self.complete_with(body)
    }

    /// The call took effect, with these bytes as its result.
    pub async fn complete_bytes(self, result: &[u8]) -> Result<(), Error> {
        let body = codec::body_of_bytes(result, self.inner.granted.body_bytes_max, self.body_until());
        self.complete_with(body).await
    }

    async fn complete_with(self, body: Body) -> Result<(), Error> {
        let (now, held) = self.now_and_held();
        if sabotage::is_on("oversized_result_reruns") && matches!(body, Body::NotKept { .. }) {
            return self.finish(call::release(now, &held, None)).await;
        }
        let record = call::complete(now, &held, body, &self.inner.granted.terms);
        self.finish(record).await
    }

    /// The call failed for good: duplicates get this error.
    pub async fn fail(self, error: impl fmt::Display) -> Result<(), Error> {
        self.fail_for(Reason::Fatal, error.to_string()).await
    }

    /// Nobody knows whether the call took effect: it is not run again until somebody resolves it.
    pub async fn fail_unknown(self, error: impl fmt::Display) -> Result<(), Error> {
        self.fail_for(Reason::OutcomeUnknown, error.to_string()).await
    }

    async fn fail_for(self, reason: Reason, error: String) -> Result<(), Error> {
        let (now, held) = self.now_and_held();
        let record = call::fail(now, &held, reason, error, &self.inner.granted.terms);
        self.finish(record).await
    }

    /// The attempt ended without an effect: the call may be run again.
    pub async fn release(self, error: impl fmt::Display) -> Result<(), Error> {
        self.release_for(error.to_string()).await
    }

    async fn release_for(self, error: String) -> Result<(), Error> {
        let (now, held) = self.now_and_held();
        self.finish(call::release(now, &held, Some(error))).await
    }

    /// Writes what a handler's error means, and gives the error that its caller sees.
    pub(crate) async fn end_with(self, error: HandlerError) -> Error {
        let class = error.class(self.key(), self.inner.granted.is_fatal.as_ref());
        let key = self.key().clone();
        let text = match error.own(&key) {
            Some(own) if class == Class::Unknown => in_doubt(own),
            Some(_) | None => Error::chain(&*error.source),
        };
        let written = match class {
            Class::Retryable if sabotage::is_on("handler_error_completes") => self.complete(&()).await,
            Class::Retryable => self.release_for(text).await,
            Class::Fatal => self.fail_for(Reason::Fatal, text).await,
            Class::Unknown => self.fail_for(Reason::OutcomeUnknown, text).await,
            Class::NotOurs => Ok(()),
        };
        match written {
            Err(lost) if lost.kind() == ErrorKind::Superseded => lost,
            // Whether the failure was kept or not, this is what the handler said; if not, the lease lapses.
            Ok(()) | Err(_) => told(&key, &key, error, class),
        }
    }

    fn now_and_held(&self) -> (Timestamp, Record) {
        (self.inner.granted.once.driver.clock.now(), self.state().record.clone())
    }

    async fn finish(mut self, record: Record) -> Result<(), Error> {
        let driver = Arc::clone(&self.inner.granted.once.driver);
        let held = self.state().clone();
        let since = driver.clock.monotonic();
        if !self.is_protected() {
            self.finished(end_of(&record), since);
            return Ok(());
        }
        let write = Write {
            key: self.key(),
            expected: Some(held.fence),
            record: &record,
            in_doubt: held.in_doubt.as_ref().map(|it| &it.record),
            until: self.write_until(&held),
        };
        match driver.write(write).await {
            Written::Won(fence) => {
                self.finished(end_of(&record), since);
                driver.waits.tell(self.key(), || Stored { fence, record });
                Ok(())
            }
            Written::Superseded => Err(self.lost()),
            Written::Unconfirmed(error) => {
                self.finished(End::Unconfirmed, since);
                Err(Error::new(ErrorKind::Unconfirmed, self.key().clone()).because(error))
            }
        }
    }

    /// Notes that dropping the lease is no crash any more.
    fn finished(&mut self, end: End, since: Duration) {
        self.inner.is_finished = true;
        self.ended(end, since);
    }

    /// Counts the end of this attempt, whose outcome was ready at `since`.
    fn ended(&self, end: End, since: Duration) {
        let driver = &self.inner.granted.once.driver;
        let worked = since.saturating_sub(self.inner.begun_at);
        let wrote = driver.clock.monotonic().saturating_sub(since);
        Observed::ended(&self.inner.granted.scope, self.key(), end, worked, wrote);
    }

    /// Fires the cancellation, and counts the loss once.
    fn cancel(&self, end: End) {
        if self.inner.cancellation.cancel() {
            self.ended(end, self.inner.granted.once.driver.clock.monotonic());
        }
    }

    /// Until when a write is repeated: the end of the lease, and a fifth of it at least, since a late outcome
    /// is accepted if nobody took over.
    pub(crate) fn write_until(&self, held: &Held) -> Duration {
        let lease = self.inner.granted.terms.lease;
        (held.since + lease).max(self.inner.granted.once.driver.clock.monotonic() + lease / 5)
    }

    fn body_until(&self) -> Timestamp {
        self.inner.granted.once.driver.clock.now() + self.inner.granted.terms.body_retention
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
        let after = self.state().clone();
        // The lease may have been renewed while the store was asked: every fence in between was ours.
        let is_ours = |it: &Stored| {
            let is_between = before.fence <= it.fence && it.fence <= after.fence;
            let in_doubt = [&before.in_doubt, &after.in_doubt].into_iter().flatten();
            is_between || in_doubt.into_iter().any(|renewal| renewal.record == it.record)
        };
        let is_trusted = sabotage::is_on("superseded_touches_effects");
        if is_trusted || found.as_ref().is_some_and(is_ours) { Ok(()) } else { Err(self.lost()) }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, Held> {
        self.inner.held.lock().expect("no code panics while it holds the lock")
    }
}

/// How an attempt ended that wrote this.
fn end_of(record: &Record) -> End {
    match &record.state {
        State::Completed(_) => End::Completed,
        State::Failed { reason: Reason::OutcomeUnknown, .. } => End::Unknown,
        State::Failed { .. } => End::Failed,
        State::Pending { .. } | State::InProgress { .. } => End::Released,
    }
}

/// What a call's record says when one of its effects is in doubt.
fn in_doubt(own: &Error) -> String {
    let detail = own.detail().unwrap_or_default();
    own.key().map_or_else(|| detail.to_owned(), |key| doubt::blame(key, detail))
}

/// The error that the caller sees: that of an effect as it is, and the handler's as the source of one.
pub(crate) fn told(call: &Key, about: &Key, error: HandlerError, class: Class) -> Error {
    let is_own = error.source.is::<Error>() && error.own(call).is_some();
    let source = match (is_own, error.source.downcast::<Error>()) {
        (true, Ok(own)) if own.kind() == ErrorKind::Handler => {
            return own.transient(class == Class::Retryable);
        }
        (true, Ok(own)) => return *own,
        (false, Ok(foreign)) => foreign,
        (_, Err(source)) => source,
    };
    let kind = match class {
        Class::Unknown => ErrorKind::OutcomeUnknown,
        Class::NotOurs => ErrorKind::Superseded,
        Class::Retryable | Class::Fatal => ErrorKind::Handler,
    };
    let told = Error::new(kind, about.clone());
    match class {
        Class::Unknown => told.with_detail(Error::chain(&*source)),
        Class::NotOurs => told,
        Class::Retryable | Class::Fatal => told.transient(class == Class::Retryable),
    }
    .because(source)
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.inner.is_finished {
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
