//! What becomes of what a queue has, after it forgot what it had acknowledged.
//!
//! 1. Nothing is delivered until somebody decides: what is there may have taken effect already, and what came later is gone.
//! 2. To replay is to deliver what is there. Whatever took effect before does so again, unless the functions notice.
//! 3. To skip is to cancel what is there and unfinished, in the background; deliveries go on when that is done. What was
//!    cancelled is listed, and can be redriven.
//! 4. The decision is in the audit log before it takes effect. From then on its node takes new events and delivers them,
//!    because to write one thing is to write any.

use super::{Action, BulkOptions, Job, bulk::Course};
use crate::engine::Runtime;
use semel_core::{
    queue::{Filter, GoOn},
    record::Status,
    sabotage::is_on,
    store::StoreError,
};

/// What became of a decision.
#[derive(Debug)]
#[must_use = "there may have been nothing to decide"]
pub enum Decided<T> {
    /// It takes effect.
    Done(T),
    /// The queue forgot nothing.
    Nothing,
    /// Too many jobs run already.
    Busy,
}

impl Runtime {
    /// Delivers what the queue has, after it [went back](semel_core::queue::Queue::went_back). Says what had been found.
    pub async fn replay_past(&self, who: &str) -> Result<Decided<String>, StoreError> {
        let Some(found) = self.began_to_decide(who, "replay the past").await? else {
            return Ok(Decided::Nothing);
        };
        self.queue().go_on(GoOn::Wholly).await?;
        Ok(Decided::Done(found))
    }

    /// Cancels what the queue has and did not finish, after it [went back](semel_core::queue::Queue::went_back), and then
    /// goes on. If the job ends before that, nothing of what was there is delivered, and it can be decided again.
    pub async fn skip_past(&self, who: &str) -> Result<Decided<Job>, StoreError> {
        let before = self.queue().clock().now();
        if self.began_to_decide(who, "skip the past").await?.is_none() {
            return Ok(Decided::Nothing);
        }
        let filter =
            |status| Filter { status: Some(status), accepted_before: Some(before), ..Filter::default() };
        let mut filters: Vec<_> = [Status::Pending, Status::InProgress].map(filter).into();
        if is_on("postgres_past_is_not_skipped") {
            filters.clear();
        }
        let (how, course) = (BulkOptions::default(), Course::ThenGoOn(GoOn::Wholly));
        let job = self.bulk_then(filters, Action::Cancel, how, who, course).await?;
        Ok(job.map_or(Decided::Busy, Decided::Done))
    }

    /// Writes down who decided what. What had been found, if anything.
    async fn began_to_decide(&self, who: &str, what: &str) -> Result<Option<String>, StoreError> {
        let Some(found) = self.queue().went_back() else { return Ok(None) };
        self.queue().go_on(GoOn::WithoutClaims).await?;
        self.note_change(who, what, "queue", &found).await?;
        Ok(Some(found))
    }
}
