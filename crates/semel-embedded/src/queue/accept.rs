//! Taking executions in. Where only the reserve is left, the runtime's own are taken in alone ([`is_own`]).

use super::{EmbeddedQueue, standing::New};
use crate::{batch::Decided, error::misconfigured, spares::Purpose};
use semel_core::{
    execution::Execution,
    fence::Fence,
    key::Identity,
    queue::{Accepted, EVENT_BYTES_MAX},
    record::Status,
    sabotage,
    store::StoreError,
};

/// How often a duplicate may turn out to have been removed meanwhile.
const REMOVED_MAX: usize = 4;

impl EmbeddedQueue {
    pub(super) async fn accept_now(&self, new: &[Execution]) -> Result<Vec<Accepted>, StoreError> {
        new.iter().try_for_each(check)?;
        if new.is_empty() {
            return Ok(Vec::new());
        }
        if !new.iter().all(is_own) {
            self.wait_for_room().await?;
        }
        let mut answers: Vec<Option<Accepted>> = new.iter().map(|_| None).collect();
        let mut left: Vec<usize> = (0..new.len()).collect();
        let mut must_sync = false;
        for _ in 0..REMOVED_MAX {
            let fences = self.insert(new, &left).await?;
            for (at, fence) in left.iter().zip(fences) {
                answers[*at] = match fence {
                    Some(fence) => Some(Accepted::New(fence)),
                    None => self.duplicate(&new[*at], &mut must_sync)?,
                };
            }
            left.retain(|at| answers[*at].is_none());
            if left.is_empty() {
                if must_sync && !sabotage::is_on("queue_duplicate_unsynced") {
                    self.engine.settle().await?;
                }
                return Ok(answers.into_iter().flatten().collect());
            }
        }
        Err(misconfigured("accept executions: they are removed as fast as they come"))
    }

    /// Inserts those of these that are not there, durably, and gives their fences.
    async fn insert(&self, new: &[Execution], these: &[usize]) -> Result<Vec<Option<Fence>>, StoreError> {
        let mut items: Vec<New<'_>> = these.iter().map(|at| New::of(&new[*at])).collect::<Result<_, _>>()?;
        let identities: Vec<Identity> = items.iter().map(|it| it.identity).collect();
        let now = self.engine.clock.now();
        let (fences, durable) = self.engine.decide(&identities, |state, looked| {
            let mut must_sync = false;
            let mut fences = Vec::with_capacity(items.len());
            for item in &mut items {
                let (standing, floor) = state.standing(&item.identity, looked)?;
                let is_there = standing.as_ref().is_some_and(|it| it.expires_at > now);
                if is_there {
                    must_sync |= standing.is_some_and(|it| !it.is_durable);
                    fences.push(None);
                    continue;
                }
                let purpose = if is_own(item.execution) { Purpose::Known } else { Purpose::New };
                if purpose == Purpose::New {
                    self.engine.admit(state)?;
                }
                self.engine.make_room(state, [item.payload.len()].into_iter(), purpose)?;
                fences.push(Some(state.accept(item, standing.as_ref(), floor, now)));
                must_sync = true;
            }
            let must_sync = must_sync && !sabotage::is_on("queue_accepts_before_sync");
            Ok(Decided { value: fences, must_sync })
        })?;
        self.engine.until_durable(durable).await?;
        Ok(fences)
    }

    /// What the execution is a duplicate of, unless that was removed meanwhile. It may have changed since it was found to be
    /// there, and whoever tells of it must sync first.
    fn duplicate(&self, new: &Execution, must_sync: &mut bool) -> Result<Option<Accepted>, StoreError> {
        let identity = new.key.identity();
        let Some(value) = self.engine.load(identity)? else { return Ok(None) };
        *must_sync |= !value.is_durable;
        Ok(Some(Accepted::Duplicate(Box::new(Self::shown(identity, &value)?))))
    }
}

/// Whether it is of the runtime's own books, which have functions that nobody else can name: who has changed what, what is
/// paused, which jobs run. They are kept where nothing new is taken, as outcomes are: it is then that operators have to act.
fn is_own(new: &Execution) -> bool {
    new.function.starts_with('$') && !sabotage::is_on("queue_keeps_no_books_when_full")
}

fn check(new: &Execution) -> Result<(), StoreError> {
    if new.order.is_some() && new.status() == Status::InProgress {
        return Err(misconfigured(
            "an execution with an order was accepted claimed: only the queue may claim it",
        ));
    }
    if new.event.as_ref().is_some_and(|it| it.len() > EVENT_BYTES_MAX) {
        return Err(misconfigured(format!("an event is larger than {EVENT_BYTES_MAX} bytes")));
    }
    Ok(())
}
