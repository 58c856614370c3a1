//! How a lease ends: what the holder has to say is written, once.
//!
//! 1. Finishing consumes the lease. What is written names the fence of its last write.
//! 2. It is repeated until the lease is over; then the outcome is unconfirmed, which is neither success nor
//!    failure.
//! 3. An effect that is in doubt puts its call in doubt, which then names it.
//!
//! It does not look at what is stored: the fence decides.

use crate::{
    codec::{self, Encoded, Keeping},
    driver::{Write, Written},
    effect::doubt,
    error::{Error, ErrorKind},
    handler_error::{Class, HandlerError},
    lease::Lease,
    observe::End,
};
use semel_core::{
    call::{self, Terms},
    key::Key,
    record::{Body, Reason, Record, State, Stored},
    sabotage,
    time::Timestamp,
};
use serde::Serialize;
use std::{fmt, time::Duration};

impl Lease {
    /// The call took effect, with this result.
    // Not an `async fn`: the result is encoded at once, so the future does not borrow it.
    pub fn complete<T: Serialize + ?Sized>(
        self,
        result: &T,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<T> {
        let (now, since) = self.both();
        let body = codec::body_of(result, &self.keeping(now));
        self.complete_with(now, since, body)
    }

    /// The call took effect, with these bytes as its result.
    pub async fn complete_bytes(self, result: &[u8]) -> Result<(), Error> {
        self.complete_encoded(codec::encoded(result)).await
    }

    /// As [`Lease::complete_bytes`], with a result that has the room in front which its codec needs.
    pub(crate) fn complete_encoded(self, result: Encoded) -> impl Future<Output = Result<(), Error>> + Send {
        let (now, since) = self.both();
        let body = result.into_body(&self.keeping(now));
        self.complete_with(now, since, body)
    }

    fn complete_with(
        self,
        now: Timestamp,
        since: Duration,
        body: Body,
    ) -> impl Future<Output = Result<(), Error>> + Send {
        let is_rerun = sabotage::is_on("oversized_result_reruns") && matches!(body, Body::NotKept { .. });
        self.finish(since, move |held, terms| {
            if is_rerun { call::release(now, held, None) } else { call::complete(now, held, body, terms) }
        })
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
        let said = self.said(error);
        let (now, since) = self.both();
        self.finish(since, move |held, terms| call::fail(now, held, reason, said, terms)).await
    }

    /// The attempt ended without an effect: the call may be run again.
    pub async fn release(self, error: impl fmt::Display) -> Result<(), Error> {
        self.release_for(error.to_string()).await
    }

    async fn release_for(self, error: String) -> Result<(), Error> {
        let said = self.said(error);
        let (now, since) = self.both();
        self.finish(since, move |held, _| call::release(now, held, Some(said))).await
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

    fn keeping(&self, now: Timestamp) -> Keeping<'_> {
        let granted = &self.inner.granted;
        granted.keeping(&granted.key, now + granted.terms.body_retention)
    }

    /// What the handler said, as it is kept.
    fn said(&self, error: String) -> String {
        self.inner.granted.once.driver.seal.close_text(self.key(), error)
    }

    fn both(&self) -> (Timestamp, Duration) {
        self.inner.granted.once.driver.clock.both()
    }

    /// Writes the outcome, which was ready at `since`, on the monotonic clock: the record that follows on the one it holds.
    fn finish<F>(
        mut self,
        since: Duration,
        follow: F,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<F>
    where
        F: FnOnce(&Record, &Terms) -> Record,
    {
        let (record, fence, lease_since, in_doubt) = {
            let mut held = self.state();
            let record = follow(&held.record, &self.inner.granted.terms);
            (record, held.fence, held.since, held.in_doubt.take())
        };
        async move {
            let driver = &self.inner.granted.once.driver;
            if !self.is_protected() {
                self.finished_at(end_of(&record), since, since);
                return Ok(());
            }
            let write = Write {
                key: self.key(),
                expected: Some(fence),
                record: &record,
                in_doubt: in_doubt.as_ref().map(|it| &it.record),
                until: self.write_until_from(lease_since, since),
            };
            match driver.write_since(since, write).await {
                (Written::Won(fence), at) => {
                    self.finished_at(end_of(&record), since, at);
                    self.inner.granted.once.driver.waits.tell(self.key(), || Stored { fence, record });
                    Ok(())
                }
                (Written::Superseded, _) => Err(self.lost()),
                (Written::Unconfirmed(error), at) => {
                    self.finished_at(End::Unconfirmed, since, at);
                    Err(Error::new(ErrorKind::Unconfirmed, self.key().clone()).because(error))
                }
            }
        }
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
