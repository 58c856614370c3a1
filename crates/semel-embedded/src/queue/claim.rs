//! Handing out what is due.
//!
//! 1. Under the lock, the due ones are taken out of the index, so that nobody else finds them; without it, they
//!    are read; under it again, each that did not change meanwhile is written, claimed.
//! 2. They are handed out when that is on disk: an attempt that nobody remembers would be made again for ever.
//! 3. One that cannot be read is left alone.
//! 4. When half of what was reserved for a full disk is used up, nothing is handed out: the rest is for what was, whose end
//!    must be written.

use super::{EmbeddedQueue, card, index::Index, standing::New};
use crate::{
    batch::{Decided, Durable},
    engine::{Engine, State},
    hot::Entry,
    lock,
    spares::Purpose,
};
use semel_core::{
    execution::{Execution, claimed},
    fence::Fence,
    key::Identity,
    queue::{Demand, Fenced},
    sabotage,
    store::StoreError,
    time::Timestamp,
};

/// How many bytes one demand is handed at most, if these are more than one execution.
const CLAIM_BYTES_MAX: u64 = 64 << 20;

/// An execution that was taken out of the index.
struct Taken {
    half: u128,
    fence: Fence,
    lease: std::time::Duration,
}

/// An execution that was read, and what it becomes.
struct Ready {
    taken: Taken,
    identity: Identity,
    after: Execution,
    payload: Vec<u8>,
}

impl EmbeddedQueue {
    pub(super) async fn claim_now(&self, demand: &Demand) -> Result<Vec<Fenced<Execution>>, StoreError> {
        let now = self.engine.clock.now();
        let taken = self.take(demand, now)?;
        if taken.is_empty() {
            return Ok(Vec::new());
        }
        let mut ready = Vec::with_capacity(taken.len());
        for taken in taken {
            ready.extend(self.read(taken, demand, now));
        }
        match self.hand_out(&mut ready, now) {
            Ok((claimed, durable)) => {
                self.engine.until_durable(durable).await?;
                Ok(claimed)
            }
            Err(error) => {
                let mut state = lock(&self.engine.state);
                for it in &ready {
                    give_back(&mut state, &it.taken);
                }
                Err(error)
            }
        }
    }

    /// Takes out of the index what is demanded, unless what is left of the disk is for what was handed out.
    fn take(&self, demand: &Demand, now: Timestamp) -> Result<Vec<Taken>, StoreError> {
        let mut state = lock(&self.engine.state);
        if self.engine.is_saving(&state) { Ok(Vec::new()) } else { take(&mut state, demand, now) }
    }

    /// Writes those that have not changed meanwhile, claimed.
    fn hand_out(
        &self,
        ready: &mut [Ready],
        now: Timestamp,
    ) -> Result<(Vec<Fenced<Execution>>, Durable), StoreError> {
        let identities: Vec<Identity> = ready.iter().map(|it| it.identity).collect();
        self.engine.decide(&identities, |state, looked| {
            let mut claimed = Vec::new();
            for Ready { taken, identity, after, payload } in ready.iter_mut() {
                let (standing, floor) = state.standing(identity, looked)?;
                let Some(before) = standing.filter(|before| before.fence == taken.fence) else { continue };
                self.engine.make_room(state, [payload.len()].into_iter(), Purpose::Known)?;
                let (identity, payload) = (*identity, std::mem::take(payload));
                let mut new = New { identity, execution: after, payload, is_continued: false };
                let fence = state.change(&mut new, &before, floor, now);
                claimed.push(Fenced { fence, value: after.clone() });
            }
            let must_sync = !claimed.is_empty() && !sabotage::is_on("queue_claim_unsynced");
            Ok(Decided { value: claimed, must_sync })
        })
    }

    /// Reads what was taken; sets it aside if that fails.
    fn read(&self, taken: Taken, demand: &Demand, now: Timestamp) -> Option<Ready> {
        let read = self.engine.load_half(taken.half).and_then(|found| {
            let Some((identity, value)) = found.filter(|it| it.1.fence == taken.fence) else {
                return Ok(None);
            };
            Ok(Some((identity, card::decode(&identity, &value.payload)?)))
        });
        let made = read.and_then(|found| {
            let Some((identity, before)) = found else { return Ok(None) };
            let after = claimed(now, &before, demand.holder, now + taken.lease);
            after.map(|after| Ok((identity, card::encode(&after)?, after))).transpose()
        });
        match made {
            Ok(Some((identity, payload, after))) => Some(Ready { taken, identity, after, payload }),
            Ok(None) => {
                give_back(&mut lock(&self.engine.state), &taken);
                None
            }
            Err(cause) => {
                self.engine.set_aside(taken.half, &cause);
                None
            }
        }
    }
}

impl Engine<Index> {
    /// Leaves an execution alone that cannot be read.
    pub(super) fn set_aside(&self, half: u128, cause: &StoreError) {
        lock(&self.state).owner.damaged.insert(half, cause.to_string());
    }
}

/// Takes out of the index what is demanded.
fn take(state: &mut State<Index>, demand: &Demand, now: Timestamp) -> Result<Vec<Taken>, StoreError> {
    state.check()?;
    let mut taken = Vec::new();
    let mut bytes = 0;
    for want in &demand.wants {
        let Some(function) = state.owner.known(&want.function) else { continue };
        for half in state.owner.take_due(function, now, want.limit as usize) {
            let Some(Entry { fence, length, .. }) = state.hot.get_half(half).copied() else { continue };
            let it = Taken { half, fence, lease: want.lease };
            if bytes > 0 && bytes + u64::from(length) > CLAIM_BYTES_MAX {
                give_back(state, &it);
                continue;
            }
            bytes += u64::from(length);
            taken.push(it);
        }
    }
    Ok(taken)
}

/// Puts back what was taken and has not changed.
fn give_back(state: &mut State<Index>, taken: &Taken) {
    if let Some(entry) = state.hot.get_half(taken.half).filter(|it| it.fence == taken.fence) {
        state.owner.give_back(taken.half, entry);
    }
}
