//! Effects that commit with the user's own rows.
//!
//! 1. The record is read and written inside the user's transaction. There is no intent: until the commit
//!    nothing happened, and after it everything did.
//! 2. Whoever commits first wins; the other one's swap is lost, and its transaction must be rolled back.
//! 3. The user commits. An error of the effect means: roll back.
//!
//! It does not know a database: adapters implement [`Transaction`] over theirs. And it cannot tell a record
//! that has expired from one that never was: keep records for longer than calls are tried again.

use super::Effect;
use crate::{
    begin::{Failure, Replay},
    codec,
    error::{Error, ErrorKind},
    finish::told,
    handler_error::HandlerError,
    seal::Seal,
};
use semel_core::{
    BoxFuture, call,
    call::Terms,
    fence::Fence,
    key::Key,
    record::{Record, State, Stored},
    store::{StoreError, Swap},
    time::Timestamp,
};
use serde::{Serialize, de::DeserializeOwned};

/// A user's transaction, in which records can be read and swapped. What it writes is there if the user's rows
/// are.
pub trait Transaction: Send {
    /// What stands under the key, as this transaction sees it.
    fn load<'a>(&'a mut self, key: &'a Key) -> BoxFuture<'a, Result<Option<Stored>, StoreError>>;

    /// Writes the record if the stored fence is the expected one, as part of this transaction.
    fn swap<'a>(
        &'a mut self,
        key: &'a Key,
        expected: Option<Fence>,
        record: &'a Record,
    ) -> BoxFuture<'a, Result<Swap, StoreError>>;
}

/// An effect that commits with the user's own rows.
#[must_use = "an effect does nothing until it is run"]
pub struct Transactional<'a, X> {
    pub(super) effect: Effect<'a>,
    pub(super) transaction: &'a mut X,
}

impl<X: Transaction> Transactional<'_, X> {
    /// Runs it inside the transaction, or gives the result that an earlier transaction committed.
    pub async fn run<T, E, F>(self, work: F) -> Result<T, Error>
    where
        T: Serialize + DeserializeOwned,
        E: Into<HandlerError>,
        F: AsyncFnOnce(&mut X) -> Result<T, E>,
    {
        let Effect { lease, key } = self.effect;
        let key = key.map_err(|error| Error::bad_key(error).about(lease.key()))?;
        let granted = &lease.inner.granted;
        let clock = &granted.once.driver.clock;
        let terms = Terms { body_retention: granted.terms.retention, ..granted.terms.clone() };
        let held = lease.state().record.clone();
        let found =
            self.transaction.load(&key).await.map_err(|error| Error::store(Some(key.clone()), error))?;
        // An expired record counts as absent, but its fence is named.
        let expected = found.as_ref().map(|it| it.fence);
        let found = found.filter(|it| !it.record.is_expired(clock.now()));
        if let Some(finished) = finished(&key, found, &held, clock.now(), &granted.once.driver.seal) {
            return finished?.value();
        }
        if lease.is_cancelled() {
            return Err(lease.lapsed());
        }
        let value = work(&mut *self.transaction).await.map_err(|error| {
            let error = error.into();
            let class = error.class(lease.key(), granted.is_fatal.as_ref());
            told(lease.key(), &key, error, class)
        })?;
        let now = clock.now();
        let body = codec::body_of(&value, &granted.keeping(&key, now + terms.body_retention));
        let record = call::complete(now, &Record { created_at: now, ..held }, body, &terms);
        match self.transaction.swap(&key, expected, &record).await {
            Ok(Swap::Won(_)) => Ok(value),
            Ok(Swap::Lost(_)) => Err(lease.lost()),
            Err(error) => Err(Error::store(Some(key), error)),
        }
    }
}

/// What is to be told of an effect that an earlier transaction finished.
fn finished(
    key: &Key,
    found: Option<Stored>,
    held: &Record,
    now: Timestamp,
    seal: &Seal,
) -> Option<Result<Replay, Error>> {
    let found = found?;
    if found.record.fingerprint != held.fingerprint {
        return Some(Err(Error::new(ErrorKind::Mismatch, key.clone())));
    }
    match &found.record.state {
        State::Completed(_) => Some(Ok(Replay::new(key.clone(), found, now, false, seal))),
        State::Failed { reason, error } => {
            let error = seal.open_text(key, error.clone());
            Some(Err(Failure::new(key.clone(), *reason, error).into_error()))
        }
        State::Pending { .. } | State::InProgress { .. } => None,
    }
}
