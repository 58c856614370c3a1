//! Which events were processed: the simple form that everybody knows.
//!
//! 1. [`ProcessedEvents::process_once`] runs a function for an event once. Two deliveries at the same time have
//!    one winner; the other waits for it. If the function fails, the event counts as not processed. If the process
//!    dies, the next delivery runs the function when the lease has lapsed.
//! 2. [`ProcessedEvents::exists`] followed by [`ProcessedEvents::mark_processed`] is **racy**: two deliveries can
//!    both ask, both hear no, and both do the work; and a crash between the work and the mark repeats the work.
//!    Nothing that is called before and after the work can close that gap. Use them to look, and to import what
//!    another system has processed.
//! 3. A consumer has a name, so that each consumer of one event processes it once.
//! 4. An event is remembered for 30 days unless said otherwise: longer than event sources redeliver unless they are
//!    told otherwise (EventBridge for a day, SQS for four, Pub/Sub for seven).
//!
//! It keeps no results: [`Once::call`] does. It does not see inside the function: if that has several effects, give
//! each a record of its own with [`Lease::effect`](crate::Lease::effect).
//!
//! ```
//! use semel::{Once, processed::ProcessedEvents};
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! let events = ProcessedEvents::new(Once::memory(), "billing"); // remembers for 30 days
//! let mut invoices = 0;
//! for _delivery in 0..3 {
//!     events.process_once("evt-1", async || { invoices += 1; Ok(()) }).await?;
//! }
//! assert_eq!(invoices, 1);
//! assert!(events.exists("evt-1").await?);
//! # Ok::<(), semel::Error>(()) }).unwrap();
//! # Ok::<(), std::io::Error>(())
//! ```

use crate::{begin::How, call::Call, error::Error, handler_error::HandlerError, once::Once};
use semel_core::{key::IntoParts, record::Status};
use std::time::Duration;

/// How long an event is remembered, unless said otherwise: 30 days.
pub const RETENTION: Duration = Duration::from_hours(30 * 24);

/// The events that a consumer has processed, in any store. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ProcessedEvents {
    once: Once,
    consumer: String,
    retention: Duration,
}

impl ProcessedEvents {
    /// The events of this consumer: the name of the function or service that processes them.
    pub fn new(once: Once, consumer: impl Into<String>) -> Self {
        Self { once, consumer: consumer.into(), retention: RETENTION }
    }

    /// How long events are remembered that [`ProcessedEvents::process_once`] ran; 30 days unless set.
    #[must_use]
    pub fn retention(self, retention: Duration) -> Self {
        Self { retention, ..self }
    }

    /// Whether the event was processed. One that is being processed, or failed, was not.
    ///
    /// The answer is old when it arrives: do not decide by it whether to do the work.
    pub async fn exists(&self, event_id: impl IntoParts) -> Result<bool, Error> {
        let found = self.once.get(self.consumer.as_str(), event_id).await?;
        Ok(found.is_some_and(|it| it.status() == Status::Completed))
    }

    /// Notes that the event was processed, and remembers it for so long; `false` if that was known before, and
    /// is remembered for as long as was said then.
    ///
    /// It is an error to mark what somebody else is processing at this moment.
    ///
    /// ```
    /// use semel::{Once, processed::{ProcessedEvents, RETENTION}};
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let events = ProcessedEvents::new(Once::memory(), "billing");
    /// assert!(events.mark_processed("evt-1", RETENTION).await?);
    /// assert!(!events.mark_processed("evt-1", RETENTION).await?);
    /// # Ok::<(), semel::Error>(()) }).unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub async fn mark_processed(&self, event_id: impl IntoParts, ttl: Duration) -> Result<bool, Error> {
        let call = self.call(event_id, ttl);
        Ok(call.run_outcome(async |_| Ok(())).await?.how != How::Replayed)
    }

    /// Runs the function, unless the event was processed before; then there is nothing.
    ///
    /// ```
    /// use semel::{Once, processed::ProcessedEvents};
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let events = ProcessedEvents::new(Once::memory(), "billing");
    /// assert_eq!(events.process_once("evt-1", async || Ok("invoice 1")).await?, Some("invoice 1"));
    /// assert_eq!(events.process_once("evt-1", async || Ok("invoice 2")).await?, None);
    /// # Ok::<(), semel::Error>(()) }).unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub async fn process_once<T, F>(&self, event_id: impl IntoParts, process: F) -> Result<Option<T>, Error>
    where
        F: AsyncFnOnce() -> Result<T, HandlerError>,
    {
        let mut output = None;
        let call = self.call(event_id, self.retention);
        call.run(async |_| {
            output = Some(process().await?);
            Ok(())
        })
        .await?;
        Ok(output)
    }

    fn call(&self, event_id: impl IntoParts, retention: Duration) -> Call {
        // The result is nothing, and must be there for as long as the fact is, whatever was said of others.
        self.once.call(self.consumer.as_str(), event_id).retention(retention).body_retention(retention)
    }
}
