//! Calls and outcomes that commit with the user's own rows.
//!
//! 1. [`Call::run_in`] does a whole call in the user's transaction: the claim, the work and the outcome are there
//!    if the user's rows are, and none of them otherwise. There is no lease, no heartbeat, and nothing in between.
//! 2. A duplicate that comes while the first one's transaction is open waits for its end: the database's own lock
//!    on the record is what it waits for. Then it gets the stored result, or runs.
//! 3. [`Lease::complete_in`] is for work that has effects elsewhere, and so needs a lease, and ends with rows: the
//!    outcome commits with them. The fence is checked inside the transaction.
//! 4. The user commits. An error means: roll back. Whatever was rolled back did not happen, and may run again.
//! 5. The type says which guarantee one has: [`InTransaction`] is atomic, a [`Lease`] stands until it lapses.
//!
//! It keeps no failure: that would commit with rows that are to be rolled back. A handler's error, a fatal one too,
//! leaves the call as it was.

use crate::{
    begin::{Failure, How, Outcome, Replay},
    call::Call,
    codec,
    effect::Transaction,
    error::{Error, ErrorKind},
    finish::told,
    handler_error::HandlerError,
    lease::{Granted, Lease},
    observe::{Answer, End},
    once::Once,
    seal::Seal,
};
use semel_core::{
    call::{self, Decision, Entry},
    fence::Fence,
    key::{IntoParts, Key},
    record::{Reason, Record, Stored},
    sabotage,
    store::Swap,
    time::Timestamp,
};
use serde::{Serialize, de::DeserializeOwned};
use std::{fmt, sync::Arc, time::Duration};

/// Most swaps that one claim tries before it gives up on a key that keeps changing hands.
const SWAPS_MAX: usize = 8;

/// What a caller may do in its transaction.
#[must_use = "a claim in a transaction is to be completed, or rolled back"]
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is matched on at once, and most of them are run")]
pub enum BeginIn<'a, X: Transaction> {
    /// Do the work in the transaction, then complete it, then commit.
    Run(InTransaction<'a, X>),
    /// It took effect before: here is its result, if it was kept.
    Replay(Replay),
    /// It failed for good before, or its outcome is unknown.
    Failed(Failure),
    /// Another holder runs it, under a lease.
    Busy {
        /// Of the call.
        key: Key,
        /// When the other holder's lease lapses unless it is renewed.
        until: Timestamp,
    },
    /// It was claimed with another payload.
    Mismatch {
        /// Of the call.
        key: Key,
    },
}

/// The right to do a call's work inside a transaction: claim, rows and outcome commit together, or not at all.
#[must_use = "a claim in a transaction is to be completed, or rolled back"]
pub struct InTransaction<'a, X: Transaction> {
    transaction: &'a mut X,
    granted: Granted,
    how: How,
    fence: Fence,
    record: Record,
    /// When the work could begin, on the monotonic clock.
    begun_at: Duration,
    is_finished: bool,
}

impl Once {
    /// Claims a call inside this transaction, for those who complete it by hand. As [`Call::begin_in`].
    pub async fn begin_in<'a, X: Transaction>(
        &self,
        transaction: &'a mut X,
        scope: impl IntoParts,
        id: impl IntoParts,
    ) -> Result<BeginIn<'a, X>, Error> {
        self.call(scope, id).begin_in(transaction).await
    }
}

impl Call {
    /// Does the whole call inside this transaction: runs the work and writes its result there, or gives the result
    /// that was committed before. Then commit. An error means: roll back.
    ///
    /// The work's effects must all be in the transaction. Those elsewhere need a lease: [`Call::run`].
    ///
    #[cfg_attr(
        feature = "sqlite",
        doc = r#"
```
use semel::{Once, store::sqlite::SqliteStore};
# let directory = tempfile::tempdir()?;
# let path = directory.path().join("app.db");
# tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
let store = SqliteStore::builder().create().connect(&path).await?;
sqlx::query("CREATE TABLE views (count INTEGER NOT NULL)").execute(store.pool()).await?;
sqlx::query("INSERT INTO views VALUES (0)").execute(store.pool()).await?;
let once = Once::new(store.clone());
for _delivery in 0..3 {
    let mut tx = store.begin().await?;
    let count: i64 = once
        .call("count-view", "evt-1")
        .run_in(&mut tx, async |tx| {
            let add = "UPDATE views SET count = count + 1 RETURNING count";
            Ok(sqlx::query_scalar(add).fetch_one(&mut **tx).await?)
        })
        .await?;
    tx.commit().await?;
    assert_eq!(count, 1, "three deliveries, one view");
}
# Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
# Ok::<(), std::io::Error>(())
```
"#
    )]
    pub async fn run_in<X, T, F>(self, transaction: &mut X, work: F) -> Result<T, Error>
    where
        X: Transaction,
        T: Serialize + DeserializeOwned,
        F: AsyncFnOnce(&mut X) -> Result<T, HandlerError>,
    {
        Ok(self.run_outcome_in(transaction, work).await?.value)
    }

    /// As [`Call::run_in`], and tells how the result came about.
    pub async fn run_outcome_in<X, T, F>(self, transaction: &mut X, work: F) -> Result<Outcome<T>, Error>
    where
        X: Transaction,
        T: Serialize + DeserializeOwned,
        F: AsyncFnOnce(&mut X) -> Result<T, HandlerError>,
    {
        match self.begin_in(transaction).await? {
            BeginIn::Run(mut claimed) => {
                let (how, attempt, fence) = (claimed.how, claimed.record.attempts, claimed.fence);
                match work(claimed.transaction()).await {
                    Ok(value) => {
                        claimed.complete(&value).await?;
                        Ok(Outcome { value, how, waited: false, attempt, fence })
                    }
                    Err(error) => Err(claimed.refused(error)),
                }
            }
            BeginIn::Replay(replay) => {
                let (attempt, fence) = (replay.attempts(), replay.fence());
                Ok(Outcome { value: replay.value()?, how: How::Replayed, waited: false, attempt, fence })
            }
            BeginIn::Failed(failure) => Err(failure.into_error()),
            BeginIn::Busy { key, until } => Err(Error::new(ErrorKind::InProgress { until }, key)),
            BeginIn::Mismatch { key } => Err(Error::new(ErrorKind::Mismatch, key)),
        }
    }

    /// Claims the call inside this transaction, for those who complete it by hand.
    ///
    /// It does not wait for a holder with a lease: a transaction should not be open for that long.
    pub async fn begin_in<X: Transaction>(self, transaction: &mut X) -> Result<BeginIn<'_, X>, Error> {
        let (key, call) = self.described()?;
        let granted = self.granted_for(&key);
        let driver = Arc::clone(&granted.once.driver);
        let since = driver.clock.monotonic();
        let scope = granted.scope;
        let begin = claim(transaction, granted, &call).await;
        let answer = begin.as_ref().map_or_else(answer_to, BeginIn::answer);
        let took = driver.clock.monotonic().saturating_sub(since);
        driver.store.answered(scope, &key, answer, false, took);
        begin
    }
}

fn answer_to(error: &Error) -> Answer {
    if error.kind() == ErrorKind::Store { Answer::Store } else { Answer::Contended }
}

/// Decides, swaps in the transaction, and decides again on what is really there.
async fn claim<'a, X: Transaction>(
    transaction: &'a mut X,
    granted: Granted,
    call: &call::Call,
) -> Result<BeginIn<'a, X>, Error> {
    let clock = Arc::clone(&granted.once.driver.clock);
    let mut found = None;
    for _ in 0..SWAPS_MAX {
        let key = granted.key.clone();
        match call::begin(clock.now(), found.as_ref(), call, &granted.terms) {
            Decision::Run { expected, record, entry } => {
                let swap = transaction.swap(&key, expected, &record).await;
                match swap.map_err(|error| Error::store(Some(key), error))? {
                    Swap::Won(fence) => {
                        return Ok(BeginIn::Run(InTransaction {
                            transaction,
                            granted,
                            how: how(entry),
                            fence,
                            record,
                            begun_at: clock.monotonic(),
                            is_finished: false,
                        }));
                    }
                    Swap::Lost(current) => found = current,
                }
            }
            // Not written: it would be rolled back with the rest, and is found the same next time.
            Decision::Report { .. } => {
                return Ok(BeginIn::Failed(Failure::new(
                    key,
                    Reason::OutcomeUnknown,
                    call::LAPSED.to_owned(),
                )));
            }
            Decision::Replay(_) => {
                let stored = found.expect("what is replayed was found");
                return Ok(BeginIn::of_finished(key, stored, clock.now(), &granted.once.driver.seal));
            }
            Decision::Busy { until } => return Ok(BeginIn::Busy { key, until }),
            Decision::Mismatch => return Ok(BeginIn::Mismatch { key }),
        }
    }
    Err(Error::new(ErrorKind::Contended, granted.key))
}

fn how(entry: Entry) -> How {
    match entry {
        Entry::Fresh => How::Fresh,
        Entry::Retried => How::Retried,
        Entry::TakenOver => How::TakenOver,
        Entry::Reentered => How::Reentered,
    }
}

impl<X: Transaction> BeginIn<'_, X> {
    fn of_finished(key: Key, stored: Stored, now: Timestamp, seal: &Seal) -> Self {
        match crate::begin::Begin::of_finished(key, Box::new(stored), now, false, seal) {
            crate::begin::Begin::Replay(replay) => Self::Replay(replay),
            crate::begin::Begin::Failed(failure) => Self::Failed(failure),
            crate::begin::Begin::Run(_)
            | crate::begin::Begin::Busy { .. }
            | crate::begin::Begin::Mismatch { .. } => unreachable!("a finished record is replayed"),
        }
    }

    /// As it is counted.
    fn answer(&self) -> Answer {
        match self {
            Self::Run(claimed) => Answer::Run(claimed.how),
            Self::Replay(replay) => Answer::Replayed { age: replay.age() },
            Self::Failed(failure) if failure.reason() == Reason::OutcomeUnknown => Answer::Unknown,
            Self::Failed(_) => Answer::FailedBefore,
            Self::Busy { .. } => Answer::Rejected,
            Self::Mismatch { .. } => Answer::Mismatch,
        }
    }
}

impl<X: Transaction> InTransaction<'_, X> {
    /// Of the call.
    pub fn key(&self) -> &Key {
        &self.granted.key
    }

    /// Which attempt this is, counted from 1. Attempts that were rolled back do not count.
    pub fn attempt(&self) -> u32 {
        self.record.attempts
    }

    /// How the caller came to run the call.
    pub fn how(&self) -> How {
        self.how
    }

    /// The transaction, to work in.
    pub fn transaction(&mut self) -> &mut X {
        self.transaction
    }

    /// The call took effect, with this result, if the transaction commits.
    pub async fn complete<T: Serialize + ?Sized>(mut self, result: &T) -> Result<(), Error> {
        let Granted { key, terms, once, .. } = &self.granted;
        let (now, since) = (once.driver.clock.now(), once.driver.clock.monotonic());
        let body = codec::body_of(result, &self.granted.keeping(key, now + terms.body_retention));
        let record = call::complete(now, &self.record, body, terms);
        let swap = self.transaction.swap(&self.granted.key, Some(self.fence), &record).await;
        match swap.map_err(|error| Error::store(Some(self.granted.key.clone()), error))? {
            Swap::Won(_) => {
                self.ended(End::Completed, since);
                Ok(())
            }
            Swap::Lost(_) => {
                self.ended(End::Superseded, since);
                Err(Error::new(ErrorKind::Superseded, self.granted.key.clone()))
            }
        }
    }

    /// The error that the caller sees when the work returned this one.
    fn refused(mut self, error: HandlerError) -> Error {
        self.ended(End::Released, self.granted.once.driver.clock.monotonic());
        let class = error.class(&self.granted.key, self.granted.is_fatal.as_ref());
        told(&self.granted.key, &self.granted.key, error, class)
    }

    fn ended(&mut self, end: End, since: Duration) {
        self.is_finished = true;
        let driver = &self.granted.once.driver;
        let wrote = driver.clock.monotonic().saturating_sub(since);
        let worked = since.saturating_sub(self.begun_at);
        driver.store.ended(self.granted.scope, &self.granted.key, end, worked, wrote);
    }
}

impl<X: Transaction> Drop for InTransaction<'_, X> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.ended(End::Dropped, self.granted.once.driver.clock.monotonic());
        }
    }
}

impl<X: Transaction> fmt::Debug for InTransaction<'_, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InTransaction")
            .field("key", self.key())
            .field("attempt", &self.record.attempts)
            .finish_non_exhaustive()
    }
}

impl Lease {
    /// The call took effect, with this result, if the transaction commits: the outcome is there if the user's own
    /// rows are. An error means: roll back.
    ///
    /// The store that granted the lease must be the one whose records are in the transaction. If the transaction is
    /// rolled back, the lease stands until it lapses, as after a crash.
    ///
    #[cfg_attr(
        feature = "sqlite",
        doc = r#"
```
use semel::{Begin, Once, store::sqlite::SqliteStore};
# let directory = tempfile::tempdir()?;
# let path = directory.path().join("app.db");
# tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
let store = SqliteStore::builder().create().connect(&path).await?;
sqlx::query("CREATE TABLE orders (id TEXT PRIMARY KEY)").execute(store.pool()).await?;
let once = Once::new(store.clone());
let Begin::Run(lease) = once.call("order", "evt-1").begin().await? else { panic!("it is fresh") };
let charge = lease.hold(async { "ch_1" }).await?; // work elsewhere, while the lease is kept alive
let mut tx = store.begin().await?;
sqlx::query("INSERT INTO orders VALUES ('evt-1')").execute(&mut *tx).await?;
lease.complete_in(&mut tx, charge).await?;
tx.commit().await?;
# Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
# Ok::<(), std::io::Error>(())
```
"#
    )]
    pub async fn complete_in<X: Transaction, T: Serialize + ?Sized>(
        mut self,
        transaction: &mut X,
        result: &T,
    ) -> Result<(), Error> {
        let clock = Arc::clone(&self.inner.granted.once.driver.clock);
        let (now, since) = (clock.now(), clock.monotonic());
        if !self.is_protected() || sabotage::is_on("transactional_outcome_skipped") {
            self.finished(End::Completed, since);
            return Ok(());
        }
        let Granted { key, terms, .. } = &self.inner.granted;
        let body = codec::body_of(result, &self.inner.granted.keeping(key, now + terms.body_retention));
        let record = call::complete(now, &self.state().record, body, terms);
        self.write_in(transaction, &record).await?;
        self.finished(End::Completed, since);
        Ok(())
    }

    /// Writes an outcome as a part of the transaction.
    async fn write_in<X: Transaction>(&self, transaction: &mut X, record: &Record) -> Result<(), Error> {
        let before = self.state().clone();
        let mut swap = transaction.swap(self.key(), Some(before.fence), record).await;
        // A renewal whose reply was lost, or has not come yet, may have landed: then the stored record is ours.
        if let Ok(Swap::Lost(Some(it))) = &swap
            && (self.wrote(&before, it) || sabotage::is_on("superseded_holder_commits"))
        {
            swap = transaction.swap(self.key(), Some(it.fence), record).await;
        }
        match swap {
            Ok(Swap::Won(_)) => Ok(()),
            Ok(Swap::Lost(_)) => Err(self.lost()),
            Err(error) => Err(Error::store(Some(self.key().clone()), error)),
        }
    }
}

/// For a lease that is lent: whoever has it writes in a transaction of its own, and whoever lent it finishes it.
#[cfg(feature = "http")]
impl Lease {
    /// The call took effect, with these bytes as its result, if the transaction commits. [`Lease::settle`] finds out.
    pub(crate) async fn complete_bytes_in<X: Transaction>(
        &self,
        transaction: &mut X,
        result: &[u8],
    ) -> Result<(), Error> {
        if !self.is_protected() {
            return Ok(());
        }
        let Granted { key, terms, once, .. } = &self.inner.granted;
        let now = once.driver.clock.now();
        let keeping = self.inner.granted.keeping(key, now + terms.body_retention);
        let body = codec::encoded(result).into_body(&keeping);
        let record = call::complete(now, &self.state().record, body, terms);
        // Noted first: a renewal that finds this record must not take it for somebody else's.
        let before = self.in_transaction().replace(Box::new(record.clone()));
        let written = self.write_in(transaction, &record).await;
        if written.is_err() {
            *self.in_transaction() = before;
        }
        written
    }

    /// Finishes the lease if what was written in a transaction was committed; otherwise it stands as before.
    pub(crate) async fn settle(mut self) -> Result<Settled, Error> {
        let Some(record) = self.in_transaction().take() else { return Ok(Settled::Open(self)) };
        let driver = Arc::clone(&self.inner.granted.once.driver);
        let since = driver.clock.monotonic();
        let until = self.write_until(&self.state());
        match driver.look(self.key(), until).await {
            Ok(Some(found)) if found.record == *record || sabotage::is_on("commit_not_verified") => {
                self.finished(End::Completed, since);
                driver.waits.tell(self.key(), || found.clone());
                let (key, now) = (self.key().clone(), driver.clock.now());
                Ok(Settled::Committed(Replay::new(key, found, now, false, &driver.seal)))
            }
            Ok(_) => Ok(Settled::Open(self)),
            Err(error) => {
                self.finished(End::Unconfirmed, since);
                Err(Error::new(ErrorKind::Unconfirmed, self.key().clone()).because(error))
            }
        }
    }
}

/// What became of a lease that was lent.
#[cfg(feature = "http")]
pub(crate) enum Settled {
    /// It was finished by a transaction: this was committed.
    Committed(Replay),
    /// It is still to be finished.
    Open(Lease),
}
