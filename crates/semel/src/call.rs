//! One call, from its key to its outcome.
//!
//! 1. A bad key or payload is reported when the call is begun; nothing runs, and the store is not touched.
//! 2. The handler runs under a lease that is renewed while it works. What it returns is written before the
//!    caller sees it.
//! 3. A retryable error leaves the call to be run again, a fatal one is kept and replayed; neither is deleted.
//! 4. A dropped future and a panic are crashes, not failures: nothing is written, and the lease lapses.
//! 5. A result that cannot be kept completes the call all the same. It is never run again for that.
//!
//! It does not retry the handler: whoever delivers the event does.

use crate::{
    begin::{Begin, How, Outcome},
    driver::Claim,
    error::{Error, ErrorKind},
    handler_error::{HandlerError, IsFatal},
    lease::{Granted, Lease},
    observe::{Answer, Scope},
    once::{self, Once},
    race::boxed,
};
use semel_core::{
    call::{self, Decision, Terms},
    fingerprint::Fingerprint,
    key::{Key, KeyError},
    record::{Holder, OnLapse, Place, Record, Stored},
    sabotage,
    time::Timestamp,
};
use serde::{Serialize, de::DeserializeOwned};
use std::{error::Error as StdError, fmt, sync::Arc, time::Duration};

/// What a call does that another holder runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnBusy {
    /// Waits for the other holder's outcome.
    Wait {
        /// At most so long.
        max: Duration,
    },
    /// Is told so at once.
    Reject,
}

/// One call, being described. [`Call::run`] runs a handler under it; [`Call::begin`] is for those who drive
/// the lease by hand.
///
/// ```
/// use semel::{ErrorKind, Once};
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let once = Once::memory();
/// let call = |amount: u32| once.call("pay", "order-7").payload(&amount);
/// call(10).run(async |_| Ok("paid".to_owned())).await?;
/// let error = call(11).run(async |_| Ok("paid".to_owned())).await.unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Mismatch);
/// # Ok::<(), semel::Error>(()) }).unwrap();
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use = "a call does nothing until it is run or begun"]
pub struct Call {
    once: Once,
    key: Result<Key, KeyError>,
    fingerprint: Result<Fingerprint, String>,
    terms: Terms,
    /// Whether somebody said how long the result is kept; otherwise, what is said of the call holds for it.
    is_body_retention_said: bool,
    on_busy: OnBusy,
    on_lapse: OnLapse,
    place: Place,
    holder: Option<Holder>,
    is_fatal: Option<IsFatal>,
    body_bytes_max: usize,
    fails_open: bool,
    has_deadline: bool,
}

impl Call {
    pub(crate) fn new(once: Once, key: Result<Key, KeyError>) -> Self {
        let defaults = once.driver.defaults.clone();
        Self {
            once,
            key,
            fingerprint: Ok(Fingerprint::EMPTY),
            terms: defaults.terms,
            is_body_retention_said: defaults.is_body_retention_said,
            on_busy: defaults.on_busy,
            on_lapse: OnLapse::Rerun,
            place: Place::Here,
            holder: None,
            is_fatal: None,
            body_bytes_max: defaults.body_bytes_max,
            fails_open: false,
            has_deadline: false,
        }
    }

    /// What the call is made with: the same key with another payload is a mismatch. Compared as canonical
    /// JSON, so the order of members does not matter.
    pub fn payload<T: Serialize + ?Sized>(self, payload: &T) -> Self {
        match serde_json::to_vec(payload) {
            Ok(json) => self.payload_json(&json),
            Err(error) => Self { fingerprint: Err(error.to_string()), ..self },
        }
    }

    /// A payload that is JSON text already.
    pub fn payload_json(self, json: &[u8]) -> Self {
        Self { fingerprint: Fingerprint::of_json(json).map_err(|error| error.to_string()), ..self }
    }

    /// A payload that is compared byte for byte.
    pub fn payload_bytes(self, bytes: &[u8]) -> Self {
        self.fingerprint(Fingerprint::of_bytes(bytes))
    }

    /// A payload that was fingerprinted before.
    pub fn fingerprint(self, fingerprint: Fingerprint) -> Self {
        Self { fingerprint: Ok(fingerprint), ..self }
    }

    /// How long the holder may work undisturbed between renewals.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.terms.lease = lease;
        self
    }

    /// The process is ended from outside after so long, whatever the handler does: the lease is that long, the
    /// handler may use all of it, and nothing is renewed.
    #[cfg(feature = "lambda")]
    pub(crate) fn deadline(mut self, left: Duration) -> Self {
        self.terms.lease = left;
        self.has_deadline = true;
        self
    }

    /// How long the finished call is remembered, and its result kept, unless [`Call::body_retention`] is set, too.
    ///
    /// ```
    /// use semel::Once;
    /// use semel_testkit::ManualClock;
    /// use std::time::Duration;
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let clock = ManualClock::new();
    /// let once = Once::new(semel::MemoryStore::with_clock(clock.arc()));
    /// let pay = || once.call("pay", 1).retention(Duration::from_hours(30 * 24));
    /// pay().run(async |_| Ok("paid".to_owned())).await?;
    /// clock.advance(Duration::from_hours(29 * 24));
    /// assert_eq!(pay().run(async |_| Ok("paid again".to_owned())).await?, "paid");
    /// # Ok::<(), semel::Error>(()) }).unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn retention(mut self, retention: Duration) -> Self {
        once::set_retention(&mut self.terms, retention, self.is_body_retention_said);
        self
    }

    /// How long the result is kept, if not for as long as the call is remembered, which it never is for longer. After
    /// that, a duplicate is told that the call took effect: [`ErrorKind::Expired`].
    pub fn body_retention(mut self, retention: Duration) -> Self {
        self.terms.body_retention = retention;
        self.is_body_retention_said = true;
        self
    }

    /// Largest encoded result that is kept.
    pub fn body_bytes_max(self, bytes: usize) -> Self {
        Self { body_bytes_max: bytes, ..self }
    }

    /// What to do if another holder runs the call.
    pub fn on_busy(self, on_busy: OnBusy) -> Self {
        Self { on_busy, ..self }
    }

    /// What whoever finds this call lapsed must do: run it again, which is what happens unless this is set,
    /// or report its outcome as unknown.
    pub fn on_lapse(self, on_lapse: OnLapse) -> Self {
        Self { on_lapse, ..self }
    }

    /// The work is done outside of this process, and may go on when this process dies. Its lease then stands
    /// until it lapses, also across a restart.
    pub fn elsewhere(self) -> Self {
        Self { place: Place::Elsewhere, ..self }
    }

    /// Who calls. A call with the same holder re-enters its own lease, so that a runtime can go on with an
    /// execution that it had begun; without this, every call is a holder of its own. At most one at a time may
    /// use a holder.
    pub fn holder(self, holder: Holder) -> Self {
        Self { holder: Some(holder), ..self }
    }

    /// Tells which of the handler's plain errors are fatal. What the handler says itself goes first.
    ///
    /// ```
    /// use semel::Once;
    /// use std::num::ParseIntError;
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let once = Once::memory();
    /// let call = once.call("parse", 1).is_fatal(|error| error.is::<ParseIntError>());
    /// let error = call.run(async |_| Ok("x".parse::<u32>()?)).await.unwrap_err();
    /// assert!(!error.is_transient());
    /// # Ok::<(), semel::Error>(()) }).unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn is_fatal(
        self,
        is_fatal: impl Fn(&(dyn StdError + 'static)) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { is_fatal: Some(Arc::new(is_fatal)), ..self }
    }

    /// Declares that the handler is naturally idempotent, so that running it twice does no harm, and that it
    /// shall run **unprotected** when the store cannot be reached. Such runs are counted.
    ///
    /// Without this a call whose claim cannot be stored is refused.
    ///
    /// ```
    /// use semel::{How, Once};
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let once = Once::memory();
    /// let cached = once.call("warm-cache", 1).fail_open().run_outcome(async |_| Ok(())).await?;
    /// assert_eq!(cached.how, How::Fresh, "the store was there, so it was protected");
    /// # Ok::<(), semel::Error>(()) }).unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn fail_open(self) -> Self {
        Self { fails_open: true, ..self }
    }

    /// Runs the handler, or gives the stored outcome of whoever ran it before.
    ///
    /// ```
    /// use semel::{ErrorKind, HandlerError, Once};
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let once = Once::memory();
    /// let pay = async |card: &str| {
    ///     once.call("pay", "order-7").run(async |_| match card {
    ///         "declined" => Err(HandlerError::fatal("card declined")),
    ///         _ => Ok("paid".to_owned()),
    ///     }).await
    /// };
    /// assert_eq!(pay("declined").await.unwrap_err().kind(), ErrorKind::Handler);
    /// let again = pay("good").await.unwrap_err();
    /// assert!(matches!(again.kind(), ErrorKind::FailedBefore { .. }), "it is over, and this is why");
    /// assert_eq!(again.detail(), Some("card declined"));
    /// # Ok::<(), semel::Error>(()) }).unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub async fn run<T, F>(self, handler: F) -> Result<T, Error>
    where
        T: Serialize + DeserializeOwned,
        F: AsyncFnOnce(&Lease) -> Result<T, HandlerError>,
    {
        Ok(self.run_outcome(handler).await?.value)
    }

    /// As [`Call::run`], and tells how the result came about.
    ///
    /// ```
    /// use semel::{How, Once};
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let once = Once::memory();
    /// assert_eq!(once.call("add", 1).run_outcome(async |_| Ok(2)).await?.how, How::Fresh);
    /// assert_eq!(once.call("add", 1).run_outcome(async |_| Ok(2)).await?.how, How::Replayed);
    /// # Ok::<(), semel::Error>(()) }).unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub async fn run_outcome<T, F>(self, handler: F) -> Result<Outcome<T>, Error>
    where
        T: Serialize + DeserializeOwned,
        F: AsyncFnOnce(&Lease) -> Result<T, HandlerError>,
    {
        match self.begin().await? {
            Begin::Run(lease) => {
                let (how, waited) = (lease.how(), lease.waited());
                let (attempt, fence) = (lease.attempt(), lease.fence());
                let value = run_under(lease, handler).await?;
                Ok(Outcome { value, how, waited, attempt, fence })
            }
            Begin::Replay(replay) => {
                let (waited, attempt, fence) = (replay.waited(), replay.attempts(), replay.fence());
                Ok(Outcome { value: replay.value()?, how: How::Replayed, waited, attempt, fence })
            }
            Begin::Failed(failure) => Err(failure.into_error()),
            Begin::Busy { key, until } => Err(Error::new(ErrorKind::InProgress { until }, key)),
            Begin::Mismatch { key } => Err(Error::new(ErrorKind::Mismatch, key)),
        }
    }

    /// Claims the call, for those who drive the lease by hand.
    ///
    /// ```
    /// use semel::{Begin, Once};
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let once = Once::memory();
    /// let Begin::Run(lease) = once.call("greet", 1).begin().await? else { panic!("it is fresh") };
    /// lease.complete("hello").await?;
    /// let Begin::Replay(replay) = once.call("greet", 1).begin().await? else { panic!("it is done") };
    /// assert_eq!(replay.value::<String>()?, "hello");
    /// # Ok::<(), semel::Error>(()) }).unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    // That it is `Send` is promised here, so that users' compilers need not find out.
    #[expect(clippy::manual_async_fn, reason = "an `async fn` has room for its arguments twice")]
    pub fn begin(self) -> impl Future<Output = Result<Begin, Error>> + Send {
        async move {
            let (key, call) = self.facts()?;
            let driver = &self.once.driver;
            let scope = driver.store.scope(key);
            let (now, since) = driver.clock.both();
            let mut written = None;
            match self.claim(key, &call, (now, since), &mut written).await {
                Ok(claimed) => {
                    let took = claimed.at.saturating_sub(since);
                    Ok(self.begun(claimed, &mut written, scope, took))
                }
                Err(error) => self.not_begun(&call, error, scope, since),
            }
        }
    }

    /// Refuses the call, or runs it unprotected if that was asked for.
    fn not_begun(
        self,
        call: &call::Call,
        error: Error,
        scope: Scope,
        since: Duration,
    ) -> Result<Begin, Error> {
        let took = self.once.driver.clock.monotonic().saturating_sub(since);
        let is_store = error.kind() == ErrorKind::Store;
        let is_run = is_store && self.fails_open();
        let key = described(self.key.as_ref());
        if is_run {
            self.once.driver.store.answered(scope, key, Answer::Run(How::Unprotected), false, took);
            return Ok(Begin::Run(self.unprotected(call, scope)));
        }
        let answer = if is_store { Answer::Store } else { Answer::Contended };
        self.once.driver.store.answered(scope, key, answer, false, took);
        Err(error)
    }

    /// Claims, and waits where that is the policy; also tells whether it waited.
    #[expect(clippy::manual_async_fn, reason = "an `async fn` has room for its arguments twice")]
    fn claim<'a>(
        &'a self,
        key: &'a Key,
        call: &'a call::Call,
        at: (Timestamp, Duration),
        written: &'a mut Option<Record>,
    ) -> impl Future<Output = Result<Claimed, Error>> + Send + use<'a> {
        async move {
            let driver = &self.once.driver;
            let (claim, at) = driver.claim(key, call, &self.terms, at, written).await?;
            let (Claim::Busy { until }, OnBusy::Wait { max }) = (&claim, self.on_busy) else {
                return Ok(Claimed { claim, waited: false, at });
            };
            let claim = boxed(self.wait(key, call, *until, at + max, written)).await?;
            Ok(Claimed { claim, waited: true, at: driver.clock.monotonic() })
        }
    }

    async fn wait(
        &self,
        key: &Key,
        call: &call::Call,
        mut busy_until: Timestamp,
        give_up_at: Duration,
        written: &mut Option<Record>,
    ) -> Result<Claim, Error> {
        let driver = &self.once.driver;
        let Some(mut waiter) = driver.waits.join(key) else { return Ok(Claim::Busy { until: busy_until }) };
        let is_busy = |found: &Option<Stored>| {
            let decision = call::begin(driver.clock.now(), found.as_ref(), call, &self.terms);
            matches!(decision, Decision::Busy { .. })
        };
        let look = || driver.look(key, give_up_at.max(driver.clock.monotonic() + self.terms.lease / 3));
        loop {
            let news = waiter.news(&*driver.clock, give_up_at, look, is_busy).await?;
            let Some(found) = news else { return Ok(Claim::Busy { until: busy_until }) };
            let (found, since) = (found.map(Box::new), driver.clock.monotonic());
            match driver.claim_over(key, call, &self.terms, since, found, written).await? {
                (Claim::Busy { until }, _) => busy_until = until,
                (claim, _) => return Ok(claim),
            }
        }
    }
}

/// What became of a claim, and of waiting for another holder.
struct Claimed {
    claim: Claim,
    waited: bool,
    /// When that was known, on the monotonic clock.
    at: Duration,
}

/// Runs the handler under its lease, and writes what came of it.
async fn run_under<T, F>(lease: Lease, handler: F) -> Result<T, Error>
where
    T: Serialize,
    F: AsyncFnOnce(&Lease) -> Result<T, HandlerError>,
{
    match lease.hold_in_span(handler(&lease)).await? {
        Ok(value) => {
            lease.complete(&value).await?;
            Ok(value)
        }
        Err(error) => Err(boxed(lease.end_with(error)).await),
    }
}

impl Call {
    /// What came of a claim that took so long, and wrote this; counted.
    fn begun(self, claimed: Claimed, written: &mut Option<Record>, scope: Scope, took: Duration) -> Begin {
        let Claimed { claim, waited, at } = claimed;
        let driver = &self.once.driver;
        let begin = match claim {
            Claim::Won(won) => {
                let record = written.take().expect("what was won was written");
                let lease = Lease::won(self.granted(scope), won, record, waited, at);
                let (store, answer) = (&lease.inner.granted.once.driver.store, Answer::Run(lease.how()));
                store.answered(scope, lease.key(), answer, waited, took);
                return Begin::Run(lease);
            }
            Claim::Replay { stored, now } => {
                Begin::of_finished(described(self.key), stored, now, waited, &driver.seal)
            }
            Claim::Busy { until } => Begin::Busy { key: described(self.key), until },
            Claim::Mismatch => Begin::Mismatch { key: described(self.key) },
        };
        driver.store.answered(scope, begin.key(), begin.answer(), waited, took);
        begin
    }

    /// What was described, if it is a call.
    pub(crate) fn described(&self) -> Result<(Key, call::Call), Error> {
        self.facts().map(|(key, call)| (key.clone(), call))
    }

    fn facts(&self) -> Result<(&Key, call::Call), Error> {
        let key = self.key.as_ref().map_err(|error| Error::bad_key(*error))?;
        let invalid =
            |detail: &String| Error::new(ErrorKind::InvalidPayload, key.clone()).with_detail(detail.as_str());
        let fingerprint = *self.fingerprint.as_ref().map_err(invalid)?;
        let holder = self.holder.unwrap_or_else(crate::nonce::holder);
        Ok((key, call::Call { fingerprint, holder, place: self.place, on_lapse: self.on_lapse }))
    }

    /// On what terms it is run in a transaction.
    pub(crate) fn granted_for(self, key: &Key) -> Granted {
        let scope = self.once.driver.store.scope(key);
        self.granted(scope)
    }

    fn fails_open(&self) -> bool {
        self.fails_open || sabotage::is_on("unreachable_store_fails_open")
    }

    /// A lease on nothing, for whoever asked by name to run without a key: no store is asked.
    #[cfg(feature = "lambda")]
    pub(crate) fn begin_unprotected(self) -> Result<Lease, Error> {
        let (key, call) = self.facts()?;
        let scope = self.once.driver.store.scope(key);
        Ok(self.unprotected(&call, scope))
    }

    fn unprotected(self, call: &call::Call, scope: Scope) -> Lease {
        Lease::unprotected(self.granted(scope), call)
    }

    fn granted(self, scope: Scope) -> Granted {
        Granted {
            once: self.once,
            key: described(self.key),
            terms: self.terms,
            is_fatal: self.is_fatal,
            body_bytes_max: self.body_bytes_max,
            has_deadline: self.has_deadline,
            scope,
        }
    }
}

/// The key of a call that was described.
fn described<K, E: fmt::Debug>(key: Result<K, E>) -> K {
    key.expect("a call with a bad key is not begun")
}
