//! The classes of effects, each with what it runs.

use super::{
    Effect,
    decide::Class,
    ledger::{Ledger, Next},
};
use crate::{
    error::{Error, ErrorKind},
    handler_error::HandlerError,
    provider::{IdempotencyKey, Provider},
    race::boxed,
};
use semel_core::store::{StoreError, StoreErrorKind};
use serde::{Serialize, de::DeserializeOwned};

/// An effect that is sent with a key which its provider remembers.
#[must_use = "an effect does nothing until it is run"]
pub struct Keyed<'a> {
    pub(super) effect: Effect<'a>,
    pub(super) provider: Provider,
}

impl Keyed<'_> {
    /// Sends it with its key, or gives its stored result.
    ///
    /// The request must be the same on every attempt: build it from the event, not from the time of day.
    ///
    /// ```
    /// use semel::{HandlerError, Once, Provider};
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let once = Once::memory();
    /// let header = once.call("pay", 1).run(async |lease| {
    ///     let charge = lease.effect("charge").keyed(Provider::STRIPE);
    ///     Ok(charge.run(async |key| Ok::<_, HandlerError>(format!("{}: {key}", key.header_name()))).await?)
    /// }).await?;
    /// assert!(header.starts_with("Idempotency-Key: "));
    /// # Ok::<(), semel::Error>(()) }).unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub async fn run<T, E, F>(self, send: F) -> Result<T, Error>
    where
        T: Serialize + DeserializeOwned,
        E: Into<HandlerError>,
        F: AsyncFnOnce(IdempotencyKey) -> Result<T, E>,
    {
        let provider = self.provider;
        let unprotected = !self.effect.lease.is_protected();
        let mut ledger = Ledger::of(self.effect, Class::Keyed { retention: provider.retention() })?;
        let key = provider.key_for(ledger.key.identity());
        if unprotected {
            return ledger.bare(send(key)).await;
        }
        match boxed(ledger.open()).await? {
            Next::Go(intent) => ledger.dispatch(intent, send(key)).await,
            Next::Finished(replay) => replay.value(),
            Next::Ask(_) => unreachable!("only a reconciled effect asks"),
        }
    }
}

/// An effect that is never run again after an interruption.
#[must_use = "an effect does nothing until it is run"]
pub struct AtMostOnce<'a> {
    pub(super) effect: Effect<'a>,
}

impl AtMostOnce<'_> {
    /// Runs it, or gives its stored result. If an earlier attempt was interrupted, its outcome is unknown.
    ///
    /// An error that `work` returns is its word that nothing happened, and allows another attempt. Where that
    /// is not sure, say [`HandlerError::unknown`].
    ///
    /// ```
    /// use semel::{Classify, ErrorKind, HandlerError, Once};
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let once = Once::memory();
    /// let error = once.call("greet", 1).run(async |lease| {
    ///     let timeout = Err::<(), _>("the connection broke after the letter was sent");
    ///     lease.effect("letter").at_most_once().run(async || timeout.unknown()).await?;
    ///     Ok(())
    /// }).await.unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    /// # Ok::<(), semel::Error>(()) }).unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub async fn run<T, E, F>(self, work: F) -> Result<T, Error>
    where
        T: Serialize + DeserializeOwned,
        E: Into<HandlerError>,
        F: AsyncFnOnce() -> Result<T, E>,
    {
        let unprotected = !self.effect.lease.is_protected();
        let mut ledger = Ledger::of(self.effect, Class::AtMostOnce)?;
        if unprotected {
            let context = "an at-most-once effect needs a record, and the call runs unprotected";
            let missing = StoreError::new(StoreErrorKind::Unavailable, "any", context);
            return Err(Error::store(Some(ledger.key), missing));
        }
        match boxed(ledger.open()).await? {
            Next::Go(intent) => ledger.dispatch(intent, work()).await,
            Next::Finished(replay) => replay.value(),
            Next::Ask(_) => unreachable!("only a reconciled effect asks"),
        }
    }
}

/// An effect that is run again after an interruption.
#[must_use = "an effect does nothing until it is run"]
pub struct AtLeastOnce<'a> {
    pub(super) effect: Effect<'a>,
}

impl AtLeastOnce<'_> {
    /// Runs it, or gives its stored result.
    ///
    /// ```
    /// use semel::{HandlerError, Once};
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let once = Once::memory();
    /// let size: u32 = once.call("report", 1).run(async |lease| {
    ///     let render = lease.effect("render").at_least_once();
    ///     Ok(render.run(async || Ok::<_, HandlerError>(1_024)).await?)
    /// }).await?;
    /// assert_eq!(size, 1_024);
    /// # Ok::<(), semel::Error>(()) }).unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub async fn run<T, E, F>(self, work: F) -> Result<T, Error>
    where
        T: Serialize + DeserializeOwned,
        E: Into<HandlerError>,
        F: AsyncFnOnce() -> Result<T, E>,
    {
        let unprotected = !self.effect.lease.is_protected();
        let mut ledger = Ledger::of(self.effect, Class::AtLeastOnce)?;
        if unprotected {
            return ledger.bare(work()).await;
        }
        match boxed(ledger.open()).await? {
            Next::Go(intent) => ledger.dispatch(intent, work()).await,
            Next::Finished(replay) => replay.value(),
            Next::Ask(_) => unreachable!("only a reconciled effect asks"),
        }
    }
}

/// An effect of which the outside world can tell whether it happened.
#[must_use = "an effect does nothing until it is run"]
pub struct Reconcile<'a, Q> {
    pub(super) effect: Effect<'a>,
    pub(super) query: Q,
}

impl<Q> Reconcile<'_, Q> {
    /// Runs it, or gives its stored result, or what the outside world says of an attempt that was interrupted.
    ///
    /// ```
    /// use semel::{HandlerError, Once};
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let once = Once::memory();
    /// let shipment: String = once.call("ship", "order-7").run(async |lease| {
    ///     let find = async || Ok::<_, HandlerError>(None::<String>); // asks the carrier
    ///     let book = async || Ok::<_, HandlerError>("shipment-1".to_owned());
    ///     Ok(lease.effect("book").reconcile(find).run(book).await?)
    /// }).await?;
    /// assert_eq!(shipment, "shipment-1");
    /// # Ok::<(), semel::Error>(()) }).unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub async fn run<T, E, F, G>(self, work: F) -> Result<T, Error>
    where
        T: Serialize + DeserializeOwned,
        E: Into<HandlerError>,
        G: Into<HandlerError>,
        F: AsyncFnOnce() -> Result<T, E>,
        Q: AsyncFnOnce() -> Result<Option<T>, G>,
    {
        let unprotected = !self.effect.lease.is_protected();
        let mut ledger = Ledger::of(self.effect, Class::Reconcile)?;
        if unprotected {
            return match (self.query)().await {
                Ok(Some(value)) => Ok(value),
                Ok(None) => ledger.bare(work()).await,
                Err(error) => Err(ledger.unasked(error.into())),
            };
        }
        let intent = match boxed(ledger.open()).await? {
            Next::Go(intent) => return ledger.dispatch(intent, work()).await,
            Next::Finished(replay) => return replay.value(),
            Next::Ask(intent) => intent,
        };
        match (self.query)().await {
            Ok(Some(value)) => return ledger.completed(&intent, value).await,
            Ok(None) => {}
            Err(error) => return Err(ledger.unasked(error.into())),
        }
        match boxed(ledger.intend(intent)).await? {
            Next::Go(intent) => ledger.dispatch(intent, work()).await,
            Next::Finished(replay) => replay.value(),
            // Somebody else changed it since the question was asked; the answer is no longer good.
            Next::Ask(_) => Err(Error::new(ErrorKind::Contended, ledger.key)),
        }
    }
}
