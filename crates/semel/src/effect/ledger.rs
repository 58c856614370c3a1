//! One effect's way through the store: decide, write the intent, dispatch, write the outcome.

use super::{
    Effect,
    decide::{Class, Decision, Parent, decide},
};
use crate::{
    begin::{Failure, How, Replay},
    codec,
    driver::{Write, Written},
    error::{Error, ErrorKind},
    finish::told,
    handler_error::{self, HandlerError},
    lease::Lease,
    nonce,
    race::boxed,
    seal::Seal,
};
use semel_core::{
    call::{self, Terms},
    fence::Fence,
    key::{Identity, Key},
    record::{Body, Place, Reason, Record, State, Stored},
    sabotage,
    store::Swap,
};
use serde::Serialize;

/// Most swaps that one intent tries before it gives up on a record that keeps changing.
const SWAPS_MAX: usize = 8;

/// An effect on its way.
pub(super) struct Ledger<'a> {
    lease: &'a Lease,
    pub(super) key: Key,
    terms: Terms,
    class: Class,
    used: Use<'a>,
}

/// What there is to do.
pub(super) enum Next {
    /// The intent stands: dispatch.
    Go(Intent),
    /// Ask whether it happened, before this intent may be written.
    Ask(Intent),
    /// It was finished before: this is what came of it.
    Finished(Replay),
}

/// An intent, and the fence that the next write must find.
pub(super) struct Intent {
    expected: Option<Fence>,
    record: Record,
}

impl<'a> Ledger<'a> {
    pub(super) fn of(effect: Effect<'a>, class: Class) -> Result<Self, Error> {
        let Effect { lease, key } = effect;
        let key = key.map_err(|error| Error::bad_key(error).about(lease.key()))?;
        let used = Use::new(lease, &key)?;
        // The result is needed for as long as the call may be tried again.
        let terms = Terms {
            body_retention: lease.inner.granted.terms.retention,
            ..lease.inner.granted.terms.clone()
        };
        Ok(Self { lease, key, terms, class, used })
    }

    /// Finds out what there is to do, and writes the intent if that is to dispatch.
    pub(super) async fn open(&mut self) -> Result<Next, Error> {
        // Nobody was here before a fresh call, so its effects need not be looked up.
        let is_fresh = self.lease.how() == How::Fresh;
        let found = if is_fresh { None } else { self.lease.look(&self.key).await? };
        match self.decide(found).await? {
            Next::Go(intent) => self.intend(intent).await,
            next @ (Next::Ask(_) | Next::Finished(_)) => Ok(next),
        }
    }

    /// Writes the intent. Where something else is found, it is decided again.
    pub(super) async fn intend(&mut self, mut intent: Intent) -> Result<Next, Error> {
        for _ in 0..SWAPS_MAX {
            if sabotage::is_on("effect_intent_after_dispatch") {
                return Ok(Next::Go(intent));
            }
            if self.lease.is_cancelled() {
                return Err(self.lease.lapsed());
            }
            match self.swap(intent.expected, &intent.record).await? {
                Swap::Won(fence) => {
                    return Ok(Next::Go(Intent { expected: Some(fence), record: intent.record }));
                }
                Swap::Lost(found) => match self.decide(found).await? {
                    Next::Go(next) => intent = next,
                    next @ (Next::Ask(_) | Next::Finished(_)) => return Ok(next),
                },
            }
        }
        Err(Error::new(ErrorKind::Contended, self.key.clone()))
    }

    async fn decide(&mut self, found: Option<Stored>) -> Result<Next, Error> {
        let is_intent = |it: &Stored| matches!(it.record.state, State::InProgress { .. });
        if found.as_ref().is_some_and(is_intent) {
            // It may be a newer holder's, if this one was superseded and does not know.
            self.lease.verify().await?;
        }
        let now = self.lease.inner.granted.once.driver.clock.now();
        match decide(now, found.as_ref(), self.class, &self.parent(), &self.terms) {
            Decision::Dispatch { expected, intent } => Ok(Next::Go(Intent { expected, record: intent })),
            Decision::Ask { expected, intent } => Ok(Next::Ask(Intent { expected, record: intent })),
            Decision::Replay(stored) => {
                self.used.keep();
                Ok(Next::Finished(Replay::new(self.key.clone(), stored, now, false, self.seal())))
            }
            Decision::Failed { reason, error } => {
                self.used.keep();
                let error = self.seal().open_text(&self.key, error);
                Err(Failure::new(self.key.clone(), reason, error).into_error())
            }
            Decision::Doubt { expected, record, why } => {
                self.used.keep();
                match self.swap(expected, &record).await? {
                    Swap::Won(_) => {
                        Err(Error::new(ErrorKind::OutcomeUnknown, self.key.clone()).with_detail(why))
                    }
                    Swap::Lost(_) => Err(Error::new(ErrorKind::Contended, self.key.clone())),
                }
            }
            Decision::Mismatch => Err(Error::new(ErrorKind::Mismatch, self.key.clone())),
        }
    }

    /// Dispatches, unless the lease was lost while the intent was written, and writes what came of it.
    pub(super) async fn dispatch<T: Serialize, E: Into<HandlerError>>(
        mut self,
        intent: Intent,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Error> {
        if self.lease.is_cancelled() {
            return Err(self.lease.lapsed());
        }
        match work.await {
            Ok(value) => self.completed(&intent, value).await,
            Err(error) => Err(boxed(self.erred(&intent, error.into())).await),
        }
    }

    /// Runs it without a record, for a call that fails open.
    pub(super) async fn bare<T, E: Into<HandlerError>>(
        mut self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Error> {
        let value = work.await.map_err(|error| self.unasked(error.into()))?;
        self.used.keep();
        Ok(value)
    }

    /// The error of work that left no trace.
    pub(super) fn unasked(&self, error: HandlerError) -> Error {
        let class = error.class(self.lease.key(), self.lease.inner.granted.is_fatal.as_ref());
        told(self.lease.key(), &self.key, error, class)
    }

    /// Writes the result, wherever it came from.
    pub(super) async fn completed<T: Serialize>(mut self, intent: &Intent, value: T) -> Result<T, Error> {
        let until = self.lease.inner.granted.once.driver.clock.now() + self.terms.body_retention;
        let body = codec::body_of(&value, &self.lease.inner.granted.keeping(&self.key, until));
        boxed(self.complete(intent, body)).await?;
        Ok(value)
    }

    async fn complete(&mut self, intent: &Intent, body: Body) -> Result<(), Error> {
        self.used.keep();
        let now = self.lease.inner.granted.once.driver.clock.now();
        let record = call::complete(now, &intent.record, body, &self.terms);
        match self.write(intent.expected, &record).await {
            Written::Won(_) => Ok(()),
            Written::Superseded => Err(self.lease.lost()),
            Written::Unconfirmed(error) => {
                Err(Error::new(ErrorKind::Unconfirmed, self.key.clone()).because(error))
            }
        }
    }

    /// Writes what the effect's error means, and gives the error that the handler sees.
    async fn erred(&mut self, intent: &Intent, error: HandlerError) -> Error {
        let class = error.class(self.lease.key(), self.lease.inner.granted.is_fatal.as_ref());
        let now = self.lease.inner.granted.once.driver.clock.now();
        let text = self.seal().close_text(&self.key, Error::chain(&*error.source));
        let record = match class {
            handler_error::Class::Retryable => call::release(now, &intent.record, Some(text)),
            handler_error::Class::Fatal => call::fail(now, &intent.record, Reason::Fatal, text, &self.terms),
            handler_error::Class::Unknown => {
                call::fail(now, &intent.record, Reason::OutcomeUnknown, text, &self.terms)
            }
            handler_error::Class::NotOurs => return self.unasked(error),
        };
        if class != handler_error::Class::Retryable {
            self.used.keep();
        }
        match self.write(intent.expected, &record).await {
            Written::Superseded => self.lease.lost(),
            // If it was not kept, the intent stands, and the next attempt takes it for interrupted.
            Written::Won(_) | Written::Unconfirmed(_) => self.unasked(error),
        }
    }

    fn seal(&self) -> &Seal {
        &self.lease.inner.granted.once.driver.seal
    }

    fn parent(&self) -> Parent {
        let held = self.lease.state();
        let place = match held.record.state {
            State::InProgress { place, .. } => place,
            State::Pending { .. } | State::Completed(_) | State::Failed { .. } => Place::Here,
        };
        Parent {
            fingerprint: held.record.fingerprint,
            created_at: held.record.created_at,
            is_fresh: self.lease.how() == How::Fresh,
            place,
            holder: nonce::holder(),
        }
    }

    async fn swap(&self, expected: Option<Fence>, record: &Record) -> Result<Swap, Error> {
        let driver = &self.lease.inner.granted.once.driver;
        let until = driver.clock.monotonic() + self.terms.lease / 3;
        driver.swap_or_refuse(&self.key, expected, record, until).await
    }

    async fn write(&self, expected: Option<Fence>, record: &Record) -> Written {
        let held = self.lease.state().clone();
        let until = self.lease.write_until(&held);
        let write = Write { key: &self.key, expected, record, in_doubt: None, until };
        self.lease.inner.granted.once.driver.write(write).await
    }
}

/// Notes that an effect is used in this attempt, and forgets it unless it is kept.
struct Use<'a> {
    lease: &'a Lease,
    identity: Identity,
    is_kept: bool,
}

impl<'a> Use<'a> {
    fn new(lease: &'a Lease, key: &Key) -> Result<Self, Error> {
        let mut used = lease.inner.used.lock().expect("no code panics while it holds the lock");
        if !used.insert(*key.identity()) {
            return Err(Error::new(ErrorKind::EffectReused, key.clone()));
        }
        Ok(Self { lease, identity: *key.identity(), is_kept: false })
    }

    fn keep(&mut self) {
        self.is_kept = true;
    }
}

impl Drop for Use<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            let mut used = self.lease.inner.used.lock().expect("no code panics while it holds the lock");
            used.remove(&self.identity);
        }
    }
}
