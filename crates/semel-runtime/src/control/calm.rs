//! Stopping what fails with one error, until that holds.
//!
//! 1. What is in progress cannot be parked, and nobody knows what its attempt will find; so every [`LOOK`] the job parks what
//!    has failed that way, and it is done when it found nothing twice, and nothing of the functions that fail that way was in
//!    progress.
//! 2. What fails on its own node meanwhile is parked [as it fails](super::stops).
//! 3. Where there is always something in progress, it goes on for [`STOP_MAX`], which is longer than any attempt that ran when
//!    it began.

use super::{
    bulk::{Bulk, Pace},
    jobs::JobState,
    stops::{Stop, Stopping},
};
use crate::engine::{LEASE_SLACK, locked};
use semel_core::{
    queue::{Filter, PAGE_MAX},
    record::Status,
    retry::TIMEOUT_MAX,
    store::StoreError,
};
use std::{sync::Arc, time::Duration};

/// How often a job that stops what fails looks again.
const LOOK: Duration = Duration::from_secs(1);
/// How often in a row it finds nothing before it is done. Between two questions to the queue, what was in progress may wait
/// again, and be in progress by the next.
const CALM_LOOKS: u32 = 2;
/// How long it goes on at most.
const STOP_MAX: Duration = Duration::from_mins(65);
const _: () = assert!(STOP_MAX.as_secs() > TIMEOUT_MAX.as_secs() + LEASE_SLACK.as_secs());

impl Bulk {
    /// Goes through everything again and again, until there is nothing left that may match.
    pub(super) async fn act_until_calm(&self, began: Duration) -> Result<JobState, StoreError> {
        let for_whom = || Stop { who: self.who.as_str().into(), job: self.number, tell: self.tell.clone() };
        let stopping = |it: &Filter| it.error.map(|it| Stopping::new(&self.engine, it, for_whom()));
        let _until_it_is_over: Vec<_> = self.filters.iter().filter_map(stopping).collect();
        let mut calm = 0;
        while calm < CALM_LOOKS && self.engine.clock.monotonic() < began + STOP_MAX {
            self.wait(LOOK).await;
            let matched = self.tell.borrow().matched;
            let mut is_busy = false;
            for filter in &self.filters {
                is_busy |= self.is_busy(filter).await?;
                if let Some(state) = self.act_on_all(filter, &mut Pace { began, canary: None }).await? {
                    return Ok(state);
                }
            }
            let found_nothing = self.tell.borrow().matched == matched;
            calm = if found_nothing && !is_busy { calm + 1 } else { 0 };
        }
        Ok(JobState::Finished)
    }

    /// Whether anything is in progress that has matched before, or is of a function of which something has.
    async fn is_busy(&self, filter: &Filter) -> Result<bool, StoreError> {
        let running = Filter { status: Some(Status::InProgress), ..filter.clone() };
        if self.has_any(&running).await? {
            return Ok(true);
        }
        let functions = locked(&self.functions).clone();
        for function in functions {
            let running =
                Filter { function: Some(function), status: Some(Status::InProgress), ..Filter::default() };
            if self.has_any(&running).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether anything matches. A page may be empty though there are more.
    async fn has_any(&self, filter: &Filter) -> Result<bool, StoreError> {
        let mut from = None;
        loop {
            let page = self.engine.queue.list(filter, from.as_ref(), PAGE_MAX).await?;
            locked(&self.functions).extend(page.items.iter().map(|it| Arc::clone(&it.value.function)));
            from = page.next;
            if !page.items.is_empty() || from.is_none() {
                return Ok(!page.items.is_empty());
            }
        }
    }
}
