//! Writing what executions became.

use super::{EmbeddedQueue, standing::New};
use crate::batch::{Decided, Looked};
use crate::{engine::State, spares::Purpose};
use semel_core::{
    key::Identity,
    queue::{Change, Written},
    sabotage,
    store::StoreError,
    time::Timestamp,
};

/// A change as it is to be written, and what it causes.
struct Item<'a> {
    change: &'a Change,
    after: New<'a>,
    causes: Vec<New<'a>>,
}

impl<'a> Item<'a> {
    fn of(change: &'a Change) -> Result<Self, StoreError> {
        let causes = change.causes.iter().map(New::of).collect::<Result<_, _>>()?;
        Ok(Self { change, after: New::of(&change.after)?, causes })
    }

    fn identities(&self) -> impl Iterator<Item = Identity> {
        [self.after.identity].into_iter().chain(self.causes.iter().map(|it| it.identity))
    }
}

impl EmbeddedQueue {
    pub(super) async fn write_now(&self, changes: &[Change]) -> Result<Vec<Written>, StoreError> {
        let mut items: Vec<Item<'_>> = changes.iter().map(Item::of).collect::<Result<_, _>>()?;
        let identities: Vec<Identity> = items.iter().flat_map(Item::identities).collect();
        let now = self.engine.clock.now();
        let (written, durable) = self.engine.decide(&identities, |state, looked| {
            let written: Result<Vec<_>, _> =
                items.iter_mut().map(|it| self.write_one(state, looked, it, now)).collect();
            let written = written?;
            let must_sync = written.iter().any(|it| matches!(it, Written::Won(_)));
            Ok(Decided { value: written, must_sync })
        })?;
        self.engine.until_durable(durable).await?;
        Ok(written)
    }

    fn write_one(
        &self,
        state: &mut State<super::Index>,
        looked: &Looked,
        item: &mut Item<'_>,
        now: Timestamp,
    ) -> Result<Written, StoreError> {
        let (before, floor) = state.standing(&item.after.identity, looked)?;
        let is_expected = |fence| fence == item.change.expected || sabotage::is_on("queue_write_unfenced");
        let Some(before) = before.filter(|it| is_expected(it.fence)) else { return Ok(Written::Lost) };
        let mut causes = Vec::new();
        for cause in &mut item.causes {
            let (standing, floor) = state.standing(&cause.identity, looked)?;
            if standing.as_ref().is_none_or(|it| it.expires_at <= now) {
                causes.push((cause, standing, floor));
            }
        }
        let lengths = causes.iter().map(|it| it.0.payload.len());
        self.engine.make_room(state, lengths.chain([item.after.payload.len()]), Purpose::Known)?;
        for (cause, expired, floor) in causes {
            // Two causes of one id: the second is a duplicate of the first.
            if state.standing(&cause.identity, looked)?.0.map(|it| it.fence)
                == expired.as_ref().map(|it| it.fence)
            {
                cause.is_continued = true;
                state.accept(cause, expired.as_ref(), floor, now);
            }
        }
        Ok(Written::Won(state.change(&mut item.after, &before, floor, now)))
    }
}
