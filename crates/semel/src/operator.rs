//! What an operator can see and do.
//!
//! 1. [`Once::get`] shows a record; an expired one is not there.
//! 2. [`Once::resolve`] ends a doubt: it happened, or it did not. A call that failed because one of its effects
//!    is in doubt becomes runnable again when that effect is resolved, either way: its next attempt is given
//!    the effect's result, or runs it.
//! 3. [`Once::forget`] makes a call fresh again. It does not forget the call's effects: what was charged stays
//!    charged. Each effect can be forgotten by its own key.
//! 4. Every change names the fence it was decided on, says who made it and why, and gives a receipt.
//!
//! It does not list: stores find records by key.

use crate::{
    begin::Replay,
    codec,
    driver::Driver,
    effect::doubt,
    error::{Error, ErrorKind},
    observe::Observed,
    once::Once,
    seal::Seal,
};
use semel_core::{
    call::{self, Refused, Terms},
    fence::Fence,
    key::{IntoParts, Key},
    record::{Body, NotKept, Reason, Record, State, Status, Stored},
    store::Swap,
    time::Timestamp,
};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt;

/// Most swaps that one change tries before it gives up on a record that keeps changing.
const SWAPS_MAX: usize = 8;

/// A record, to look at.
#[derive(Clone, Debug)]
pub struct Snapshot {
    key: Key,
    stored: Stored,
    now: Timestamp,
    seal: Seal,
}

impl Snapshot {
    /// Of the call or effect.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Where it stands.
    pub fn status(&self) -> Status {
        self.stored.record.status()
    }

    /// How many attempts were begun.
    pub fn attempts(&self) -> u32 {
        self.stored.record.attempts
    }

    /// Why it failed, if it did. [`Reason::OutcomeUnknown`] waits for [`Once::resolve`].
    pub fn reason(&self) -> Option<Reason> {
        match &self.stored.record.state {
            State::Failed { reason, .. } => Some(*reason),
            State::Pending { .. } | State::InProgress { .. } | State::Completed(_) => None,
        }
    }

    /// What the last attempt said when it ended without success. It names the effect that is in doubt, if one
    /// is.
    pub fn error(&self) -> Option<&str> {
        match &self.stored.record.state {
            State::Failed { error, .. } => Some(error),
            State::Pending { error, .. } => error.as_deref(),
            State::InProgress { .. } | State::Completed(_) => None,
        }
    }

    /// Until when somebody may run it undisturbed, if somebody does.
    pub fn lease_until(&self) -> Option<Timestamp> {
        match &self.stored.record.state {
            State::InProgress { lease_until, .. } => Some(*lease_until),
            State::Pending { .. } | State::Completed(_) | State::Failed { .. } => None,
        }
    }

    /// When it was first claimed in this retention.
    pub fn created_at(&self) -> Timestamp {
        self.stored.record.created_at
    }

    /// When it was last written.
    pub fn updated_at(&self) -> Timestamp {
        self.stored.record.updated_at
    }

    /// When it will be forgotten; [`Timestamp::NEVER`] while it is unfinished or in doubt.
    pub fn expires_at(&self) -> Timestamp {
        self.stored.record.expires_at
    }

    /// Of the last write.
    pub fn fence(&self) -> Fence {
        self.stored.fence
    }

    /// Its result, if it is completed.
    pub fn value<T: DeserializeOwned>(&self) -> Option<Result<T, Error>> {
        match self.status() {
            Status::Completed => {
                let stored = self.stored.clone();
                Some(Replay::new(self.key.clone(), stored, self.now, false, &self.seal).value())
            }
            Status::Pending | Status::InProgress | Status::Failed => None,
        }
    }
}

impl Snapshot {
    /// Its result as bytes, if it is completed: what the handler gave, or the JSON of a typed result.
    pub fn bytes(&self) -> Option<Result<Vec<u8>, Error>> {
        match self.status() {
            Status::Completed => {
                let stored = self.stored.clone();
                Some(Replay::new(self.key.clone(), stored, self.now, false, &self.seal).bytes())
            }
            Status::Pending | Status::InProgress | Status::Failed => None,
        }
    }

    /// How large a result was that is too large to be kept, and its SHA-256: of the whole of it as it would have been stored, which
    /// is compressed, and sealed where results are.
    pub fn too_large(&self) -> Option<(u64, [u8; 32])> {
        match &self.stored.record.state {
            State::Completed(Body::NotKept { cause: NotKept::TooLarge, size, digest }) => {
                Some((*size, *digest))
            }
            State::Completed(_) | State::Pending { .. } | State::InProgress { .. } | State::Failed { .. } => {
                None
            }
        }
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}, attempts {}", self.key, self.status(), self.attempts())?;
        self.reason().map_or(Ok(()), |reason| write!(f, ", {reason}"))?;
        self.error().map_or(Ok(()), |error| write!(f, ": {error}"))
    }
}

/// What an operator found out about a call or effect of unknown outcome.
///
/// ```
/// use semel::Resolution;
/// let charged = Resolution::happened_with(&"ch_123")?;
/// let mailed = Resolution::happened();
/// let lost = Resolution::did_not_happen();
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resolution(call::Resolution);

impl Resolution {
    /// It happened, and there is no result to give: it replays as `()` or `None`.
    pub fn happened() -> Self {
        Self(call::Resolution::Happened(None))
    }

    /// It happened, with this result.
    pub fn happened_with<T: Serialize + ?Sized>(result: &T) -> Result<Self, serde_json::Error> {
        Ok(Self(call::Resolution::Happened(Some(codec::encode(result)?))))
    }

    /// It did not happen: it may be run.
    pub fn did_not_happen() -> Self {
        Self(call::Resolution::DidNot)
    }
}

/// Proof of an operator's change.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Receipt {
    /// What was changed.
    pub key: Key,
    /// What was done: `forgotten` or `resolved`.
    pub change: &'static str,
    /// Who did it.
    pub by: String,
    /// Why.
    pub why: String,
    /// When.
    pub at: Timestamp,
    /// Where it stood before.
    pub before: Status,
    /// Where it stands now; none if it counts as absent.
    pub after: Option<Status>,
    /// Of the write.
    pub fence: Fence,
    /// The call that became runnable again, because this effect was all it waited for.
    pub released: Option<Key>,
}

impl Once {
    /// What is known about a call.
    ///
    /// ```
    /// use semel::{Once, Status};
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let once = Once::memory();
    /// assert!(once.get("greet", 1).await?.is_none());
    /// once.call("greet", 1).run(async |_| Ok("hello".to_owned())).await?;
    /// let snapshot = once.get("greet", 1).await?.unwrap();
    /// assert_eq!(snapshot.status(), Status::Completed);
    /// assert_eq!(snapshot.value::<String>().unwrap()?, "hello");
    /// # Ok::<(), semel::Error>(()) }).unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub async fn get(&self, scope: impl IntoParts, id: impl IntoParts) -> Result<Option<Snapshot>, Error> {
        self.get_key(&Key::new(scope, id).map_err(Error::bad_key)?).await
    }

    /// What is known about the call or effect under this key.
    pub async fn get_key(&self, key: &Key) -> Result<Option<Snapshot>, Error> {
        let now = self.driver.clock.now();
        let found = self.found(key).await?.filter(|it| !it.record.is_expired(now));
        let seal = &self.driver.seal;
        Ok(found.map(|Stored { fence, record }| {
            let stored = Stored { fence, record: seal.readable(key, record) };
            Snapshot { key: key.clone(), stored, now, seal: seal.clone() }
        }))
    }

    /// Makes a call, or an effect, fresh again: the next claim runs it. Refused while somebody runs it.
    ///
    /// ```
    /// use semel::{Key, Once};
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let once = Once::memory();
    /// once.call("add", 1).run(async |_| Ok(2)).await?;
    /// let key = Key::new("add", 1).expect("a key");
    /// once.forget(&key, "ann", "it was added wrongly").await?;
    /// assert_eq!(once.call("add", 1).run(async |_| Ok(3)).await?, 3);
    /// # Ok::<(), semel::Error>(()) }).unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub async fn forget(&self, key: &Key, by: &str, why: &str) -> Result<Receipt, Error> {
        let terms = &self.driver.defaults.terms;
        let change = |now, found: &Record| call::forget(now, found, terms);
        let (before, stored) = self.change(key, change).await??;
        Ok(self.audited(key, "forgotten", by, why, before, &stored, None))
    }

    /// Ends a doubt about a call or an effect. Refused unless its outcome is unknown.
    ///
    /// An effect is named by its key: `Key::new("process-order", id)?.effect("email")?`.
    ///
    /// ```
    /// use semel::{HandlerError, Key, Once, Resolution};
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let once = Once::memory();
    /// let doubtful = once.call("pay", 1).run(async |_| Err::<String, _>(HandlerError::unknown("cut off")));
    /// doubtful.await.unwrap_err();
    /// let key = Key::new("pay", 1).expect("a key");
    /// let charged = Resolution::happened_with("ch_123").expect("a text serialises");
    /// once.resolve(&key, charged, "ann", "found it at the provider").await?;
    /// assert_eq!(once.call("pay", 1).run(async |_| Ok(String::new())).await?, "ch_123");
    /// # Ok::<(), semel::Error>(()) }).unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub async fn resolve(
        &self,
        key: &Key,
        resolution: Resolution,
        by: &str,
        why: &str,
    ) -> Result<Receipt, Error> {
        let terms = self.terms_of(key);
        let resolution = self.sealed(key, resolution.0);
        let change = |now, found: &Record| call::resolve(now, found, resolution.clone(), &terms);
        let resolved = self.change(key, change).await?;
        let released = match key.parent() {
            Some(parent) => self.release(parent, key).await?,
            None => None,
        };
        match (resolved, &released) {
            (Ok((before, stored)), _) => {
                Ok(self.audited(key, "resolved", by, why, before, &stored, released))
            }
            // An earlier resolution ended after the effect's record and before the call's.
            (Err(_), Some(_)) => {
                let stored = self.found(key).await?.ok_or_else(|| absent(key))?;
                Ok(self.audited(key, "resolved", by, why, stored.record.status(), &stored, released))
            }
            (Err(refused), None) => Err(refused),
        }
    }

    /// What an operator found out, as it is stored.
    fn sealed(&self, key: &Key, resolution: call::Resolution) -> call::Resolution {
        match resolution {
            call::Resolution::Happened(Some(encoded)) => {
                call::Resolution::Happened(Some(self.driver.seal.close(key, encoded)))
            }
            call::Resolution::Happened(None) | call::Resolution::DidNot => resolution,
        }
    }

    /// An effect's result is needed for as long as its call may be tried again.
    fn terms_of(&self, key: &Key) -> Terms {
        let terms = self.driver.defaults.terms.clone();
        let is_effect = key.parent().is_some();
        if is_effect { Terms { body_retention: terms.retention, ..terms } } else { terms }
    }

    /// Lets a call run again that failed because this effect was in doubt.
    async fn release(&self, parent: Key, effect: &Key) -> Result<Option<Key>, Error> {
        let change = |now, found: &Record| {
            let refused = Refused { status: found.status(), change: "released" };
            let said = self.driver.seal.readable(&parent, found.clone());
            if doubt::is_about(&said, effect) { Ok(call::release(now, found, None)) } else { Err(refused) }
        };
        match self.change(&parent, change).await {
            Ok(Ok(_)) => Ok(Some(parent)),
            Ok(Err(_)) => Ok(None),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Decides, swaps, and decides again on what is really there. What the record's status does not allow is
    /// the inner error.
    async fn change(
        &self,
        key: &Key,
        change: impl Fn(Timestamp, &Record) -> Result<Record, Refused>,
    ) -> Result<Result<(Status, Stored), Error>, Error> {
        let driver: &Driver = &self.driver;
        let mut found = self.found(key).await?;
        for _ in 0..SWAPS_MAX {
            let now = driver.clock.now();
            let Some(stored) = found.filter(|it| !it.record.is_expired(now)) else { return Err(absent(key)) };
            let record = match change(now, &stored.record) {
                Ok(record) => record,
                Err(refused) => {
                    let refused =
                        Error::new(ErrorKind::Refused, key.clone()).with_detail(refused.to_string());
                    return Ok(Err(refused));
                }
            };
            let until = driver.clock.monotonic() + driver.defaults.terms.lease / 3;
            match driver.swap_or_refuse(key, Some(stored.fence), &record, until).await? {
                Swap::Won(fence) => {
                    let after = Stored { fence, record };
                    driver.waits.tell(key, || after.clone());
                    return Ok(Ok((stored.record.status(), after)));
                }
                Swap::Lost(current) => found = current,
            }
        }
        Err(Error::new(ErrorKind::Contended, key.clone()))
    }

    async fn found(&self, key: &Key) -> Result<Option<Stored>, Error> {
        let driver = &self.driver;
        driver.look(key, driver.clock.monotonic() + driver.defaults.terms.lease / 3).await
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of a receipt, which this builds")]
    fn audited(
        &self,
        key: &Key,
        change: &'static str,
        by: &str,
        why: &str,
        before: Status,
        stored: &Stored,
        released: Option<Key>,
    ) -> Receipt {
        let at = self.driver.clock.now();
        let receipt = Receipt {
            key: key.clone(),
            change,
            by: by.to_owned(),
            why: why.to_owned(),
            at,
            before,
            after: (!stored.record.is_expired(at)).then(|| stored.record.status()),
            fence: stored.fence,
            released,
        };
        Observed::audit(&receipt);
        receipt
    }
}

fn absent(key: &Key) -> Error {
    Error::new(ErrorKind::NotFound, key.clone())
}
