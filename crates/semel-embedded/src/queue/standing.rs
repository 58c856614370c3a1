//! What stands under an id when a batch is decided, and what is put in its place.

use super::{
    card::{self, Card, Code, Was},
    index::{Index, Note},
};
use crate::{
    batch::Looked,
    engine::State,
    error::corrupt,
    frame::{Kind, Put},
    hot::{Entry, half},
};
use semel_core::{
    execution::Execution, fence::Fence, key::Identity, sabotage, store::StoreError, time::Timestamp,
};

/// What stands under an id.
pub(super) struct Standing {
    pub(super) fence: Fence,
    pub(super) expires_at: Timestamp,
    pub(super) is_durable: bool,
    code: Code,
    sequence: u64,
}

/// An execution that is to be put somewhere.
pub(super) struct New<'a> {
    pub(super) identity: Identity,
    pub(super) execution: &'a Execution,
    pub(super) payload: Vec<u8>,
    /// Whether it stands or falls with the one that is put next.
    pub(super) is_continued: bool,
}

impl<'a> New<'a> {
    pub(super) fn of(execution: &'a Execution) -> Result<Self, StoreError> {
        let payload = card::encode(execution)?;
        Ok(Self { identity: *execution.key.identity(), execution, payload, is_continued: false })
    }
}

/// What the journal does with an execution: one that may expire moves into SQLite.
fn kind(execution: &Execution) -> Kind {
    if execution.expires_at == Timestamp::NEVER { Kind::Waiting } else { Kind::Settled }
}

impl State<Index> {
    /// What stands under this id, and what a value that takes its place must outlive.
    pub(super) fn standing(
        &self,
        identity: &Identity,
        looked: &Looked,
    ) -> Result<(Option<Standing>, Timestamp), StoreError> {
        if let Some(entry) = self.hot.get(identity) {
            let Entry { fence, expires_at, note, .. } = *entry;
            let Note { code, sequence, .. } = note;
            let is_durable = self.is_durable(entry);
            return Ok((
                Some(Standing { fence, expires_at, is_durable, code, sequence }),
                self.floor_under(entry),
            ));
        }
        let archived = looked.get(identity).expect("what is not in the map was looked up");
        let Some(found) = &archived.newest else { return Ok((None, archived.floor)) };
        let (card, _) = Card::split(&found.payload)
            .ok_or_else(|| corrupt(format!("the execution {identity} is damaged")))?;
        let (code, sequence) = (card.code, card.sequence);
        let (fence, expires_at) = (found.fence, found.expires_at);
        Ok((Some(Standing { fence, expires_at, is_durable: true, code, sequence }), archived.floor))
    }

    /// Puts an execution that is accepted, in place of what may have expired there.
    pub(super) fn accept(
        &mut self,
        new: &mut New<'_>,
        expired: Option<&Standing>,
        floor: Timestamp,
        now: Timestamp,
    ) -> Fence {
        let was = expired.map_or(Was::Absent, |it| Was::Expired(it.code));
        self.put(new, was, expired, floor, now)
    }

    /// Puts what an execution became.
    pub(super) fn change(
        &mut self,
        new: &mut New<'_>,
        before: &Standing,
        floor: Timestamp,
        now: Timestamp,
    ) -> Fence {
        self.put(new, Was::Changed(before.code), Some(before), floor, now)
    }

    fn put(
        &mut self,
        new: &mut New<'_>,
        was: Was,
        before: Option<&Standing>,
        floor: Timestamp,
        now: Timestamp,
    ) -> Fence {
        let fence = self.next_fence(now);
        if new.execution.order.is_some() {
            let sequence = before.filter(|_| matches!(was, Was::Changed(_))).map(|it| it.sequence);
            // Fences only grow, so they are places in every order.
            card::set_sequence(&mut new.payload, sequence.unwrap_or(fence.get()));
        }
        card::set_was(&mut new.payload, was);
        let (card, _) = Card::split(&new.payload).expect("an encoded execution has a card");
        let note = self.owner.note(&card);
        self.owner.count(note.function, was, card.code);
        let put = Put {
            identity: new.identity,
            fence,
            expires_at: new.execution.expires_at,
            floor,
            kind: kind(new.execution),
            is_continued: new.is_continued && !sabotage::is_on("queue_causes_apart"),
            payload: &new.payload,
        };
        let (entry, replaced) = self.place(&put, note);
        if let (None, Some(before)) = (&replaced, before) {
            self.purging.overtook(before.expires_at);
        }
        self.owner.replace(&self.hot, half(&new.identity), replaced.as_ref(), &entry);
        fence
    }
}
