//! Rows that cannot be read: remembered, so that somebody looks at them.

use semel_core::{execution::ExecutionId, key::Identity};
use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Most damaged rows that are remembered.
const DAMAGED_MAX: usize = 64;

/// The ids of rows that could not be read.
#[derive(Default)]
pub(super) struct Damaged(Mutex<BTreeSet<ExecutionId>>);

impl Damaged {
    /// A row with this id could not be read.
    pub(super) fn note(&self, id: &[u8]) {
        let Ok(identity) = id.try_into() else { return };
        let mut ids = self.lock();
        if ids.len() < DAMAGED_MAX {
            ids.insert(ExecutionId::from_identity(Identity::from_bytes(identity)));
        }
    }

    pub(super) fn ids(&self) -> Vec<ExecutionId> {
        self.lock().iter().copied().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<ExecutionId>> {
        // Nothing that is done under the lock panics.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_the_limit_are_remembered() {
        let damaged = Damaged::default();
        for number in 0..=DAMAGED_MAX as u8 {
            damaged.note(&[number; 32]);
        }
        damaged.note(b"no id");
        assert_eq!(damaged.ids().len(), DAMAGED_MAX);
    }
}
