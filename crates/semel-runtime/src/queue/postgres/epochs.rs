//! What a node was told of the database's epochs.
//!
//! 1. Every write adds one to the epoch of its connection's slot, in the same transaction: so if a write is
//!    forgotten, by a failover to a standby that lagged or by a backup that was restored, its epoch is, too.
//! 2. A node remembers the epochs that it was told. One that is not beyond what was known when the statement was
//!    sent has gone back.
//! 3. After an alarm the node writes nothing more until somebody has decided, and says so.
//!
//! What nodes cannot remember, because they were started later, and how they tell each other, is [`super::past`]'s.

use super::{past::WentBack, schema::SLOTS};
use semel::store::postgres::shared::STORE;
use semel_core::{
    sabotage::is_on,
    store::{StoreError, StoreErrorKind},
};
use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicI64, Ordering},
};

/// What is remembered, of each slot.
pub(super) type Remembered = [i64; SLOTS];

#[derive(Default)]
pub(super) struct Epochs {
    seen: [AtomicI64; SLOTS],
    alarm: Mutex<Option<Alarm>>,
}

struct Alarm {
    found: WentBack,
    /// Whether what is there may be changed all the same.
    may_write: bool,
}

impl Epochs {
    /// What is known before a statement is sent.
    pub(super) fn remembered(&self) -> Remembered {
        self.seen.each_ref().map(|it| it.load(Ordering::Acquire))
    }

    /// A statement that was sent when this was known says that its slot has this epoch.
    pub(super) fn told(&self, before: &Remembered, slot: i16, epoch: i64) -> Result<(), WentBack> {
        if let Some(found) = lost(before, slot, epoch, epoch - 1) {
            return Err(found);
        }
        if let Some(seen) = usize::try_from(slot).ok().and_then(|it| self.seen.get(it)) {
            seen.fetch_max(epoch, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Refuses after an alarm.
    pub(super) fn calm(&self, hands_out: bool) -> Result<(), StoreError> {
        match &*self.lock() {
            Some(alarm) if hands_out || !alarm.may_write => {
                Err(StoreError::new(StoreErrorKind::Corrupt, STORE, REMEDY).because(alarm.found.clone()))
            }
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn alarm(&self) -> Option<WentBack> {
        self.lock().as_ref().map(|it| it.found.clone())
    }

    pub(super) fn raise(&self, found: WentBack) {
        self.lock().get_or_insert(Alarm { found, may_write: false });
    }

    /// What is there may be changed, although there is an alarm.
    pub(super) fn let_write(&self) {
        self.forget_seen();
        if let Some(alarm) = &mut *self.lock() {
            alarm.may_write = true;
        }
    }

    /// Somebody has decided: what is there now counts.
    pub(super) fn forget(&self) {
        self.forget_seen();
        *self.lock() = None;
    }

    fn forget_seen(&self) {
        for it in &self.seen {
            it.store(0, Ordering::Release);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Alarm>> {
        // Nothing that is done under the lock panics.
        self.alarm.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was found, if a slot that had been known to be further has only come to `last`.
pub(super) fn lost(before: &Remembered, slot: i16, found: i64, last: i64) -> Option<WentBack> {
    let remembered = *before.get(usize::try_from(slot).ok()?)?;
    let is_lost = last < remembered && !is_on("postgres_queue_ignores_epochs");
    is_lost.then_some(WentBack::Forgot { remembered, found })
}

const REMEDY: &str = "the database forgot what it had acknowledged, after a failover or from a backup; look what is \
                      missing, then decide what becomes of what is there: `semel past replay` or `semel past skip`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_that_grow_are_fine_in_whatever_sequence_their_answers_come() {
        let epochs = Epochs::default();
        let before = epochs.remembered();
        for epoch in [7, 9, 8] {
            epochs.told(&before, 3, epoch).unwrap();
        }
        assert_eq!(epochs.remembered()[3], 9);
        epochs.told(&epochs.remembered(), 4, 1).unwrap();
        epochs.told(&epochs.remembered(), 3, 10).unwrap();
    }

    #[test]
    fn after_an_epoch_that_went_back_nothing_is_written_until_somebody_decides() {
        for found in [9, 1] {
            let epochs = Epochs::default();
            epochs.told(&epochs.remembered(), 3, 9).unwrap();
            let alarm = epochs.told(&epochs.remembered(), 3, found).unwrap_err();
            assert_eq!(alarm, WentBack::Forgot { remembered: 9, found });
            epochs.raise(alarm.clone());
            assert_eq!(epochs.alarm(), Some(alarm));
            assert_eq!(epochs.calm(false).unwrap_err().kind(), StoreErrorKind::Corrupt);
            epochs.let_write();
            epochs.told(&epochs.remembered(), 3, found).unwrap();
            epochs.calm(false).unwrap();
            assert!(epochs.calm(true).is_err(), "but nothing is handed out");
            epochs.forget();
            epochs.calm(true).unwrap();
            epochs.told(&epochs.remembered(), 3, found + 1).unwrap();
        }
    }
}
