//! Whether the database forgot something.
//!
//! 1. Every write adds one to the epoch of its connection's slot, in the same transaction: so if a write is
//!    forgotten, by a failover to a standby that lagged or by a backup that was restored, its epoch is, too.
//! 2. A node remembers the epochs that it was told. One that is not beyond what was known when the statement was
//!    sent has gone back, and that is an alarm.
//! 3. After an alarm the node writes nothing more until somebody has looked, and says so.
//!
//! A node that was started after the database went back knows nothing of it.

use super::schema::SLOTS;
use semel::store::postgres::shared::STORE;
use semel_core::{
    sabotage::is_on,
    store::{StoreError, StoreErrorKind},
};
use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicI64, Ordering},
};

/// The database went back in time: what it had acknowledged is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("epoch {remembered} was acknowledged, and then epoch {found} was given out anew")]
#[non_exhaustive]
pub struct WentBack {
    /// What the node had been told.
    pub remembered: i64,
    /// What it found.
    pub found: i64,
}

/// What is remembered, of each slot.
pub(super) type Remembered = [i64; SLOTS];

#[derive(Default)]
pub(super) struct Epochs {
    seen: [AtomicI64; SLOTS],
    alarm: Mutex<Option<WentBack>>,
}

impl Epochs {
    /// What is known before a statement is sent.
    pub(super) fn remembered(&self) -> Remembered {
        self.seen.each_ref().map(|it| it.load(Ordering::Acquire))
    }

    /// A statement that was sent when this was known says that its slot has this epoch.
    pub(super) fn told(&self, before: &Remembered, slot: i16, epoch: i64) -> Result<(), StoreError> {
        let Some(index) = usize::try_from(slot).ok().filter(|it| *it < SLOTS) else { return Ok(()) };
        let remembered = before[index];
        if epoch <= remembered && !is_on("postgres_queue_ignores_epochs") {
            *self.lock() = Some(WentBack { remembered, found: epoch });
            return self.calm();
        }
        self.seen[index].fetch_max(epoch, Ordering::AcqRel);
        Ok(())
    }

    /// Refuses after an alarm.
    pub(super) fn calm(&self) -> Result<(), StoreError> {
        match self.alarm() {
            None => Ok(()),
            Some(alarm) => Err(StoreError::new(StoreErrorKind::Corrupt, STORE, REMEDY).because(alarm)),
        }
    }

    pub(super) fn alarm(&self) -> Option<WentBack> {
        *self.lock()
    }

    /// Somebody has looked: what is there now counts.
    pub(super) fn forget(&self) {
        for it in &self.seen {
            it.store(0, Ordering::Release);
        }
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<WentBack>> {
        // Nothing that is done under the lock panics.
        self.alarm.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const REMEDY: &str = "the database forgot what it had acknowledged, after a failover or from a backup; look what is \
                      missing, then restart the node, or call `PostgresQueue::accept_the_past`";

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
    fn an_epoch_that_went_back_is_an_alarm_until_somebody_looked() {
        for found in [9, 1] {
            let epochs = Epochs::default();
            epochs.told(&epochs.remembered(), 3, 9).unwrap();
            let error = epochs.told(&epochs.remembered(), 3, found).unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Corrupt);
            assert_eq!(epochs.alarm(), Some(WentBack { remembered: 9, found }));
            assert!(epochs.calm().is_err());
            epochs.forget();
            epochs.calm().unwrap();
            epochs.told(&epochs.remembered(), 3, found + 1).unwrap();
        }
    }
}
