//! Where a page of a list ended: behind this execution, in the order that lists have.

use semel_core::{
    execution::{Execution, ExecutionId},
    key::Identity,
    queue::Cursor,
    store::{StoreError, StoreErrorKind},
    time::Timestamp,
};

const VERSION: u8 = 1;

/// The place of an execution in a list: by acceptance, then by id, so that no two share one and none moves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Place {
    pub(super) accepted_at: Timestamp,
    pub(super) id: ExecutionId,
}

impl Place {
    pub(super) const fn of(execution: &Execution) -> Self {
        Self { accepted_at: execution.accepted_at, id: execution.id() }
    }

    pub(super) fn cursor(self) -> Cursor {
        let mut bytes = vec![VERSION];
        bytes.extend(self.accepted_at.as_millis().to_be_bytes());
        bytes.extend(self.id.identity().as_bytes());
        Cursor(bytes)
    }

    /// Reads what [`Place::cursor`] gave; anything else is refused.
    pub(super) fn read(queue: &'static str, cursor: &Cursor) -> Result<Self, StoreError> {
        Self::parsed(&cursor.0).ok_or_else(|| {
            let context = "the cursor is not one that this queue gave: begin the list anew";
            StoreError::new(StoreErrorKind::Refused, queue, context)
        })
    }

    fn parsed(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.strip_prefix(&[VERSION])?;
        let (millis, id) = bytes.split_first_chunk()?;
        let millis = u64::from_be_bytes(*millis);
        let accepted_at = Timestamp::from_millis(millis);
        let id = ExecutionId::from_identity(Identity::from_bytes(id.try_into().ok()?));
        (accepted_at.as_millis() == millis).then_some(Self { accepted_at, id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_core::{key::Key, queue::CURSOR_BYTES_MAX};

    fn place(millis: u64) -> Place {
        let key = Key::new("orders", "evt-1").expect("this is a key");
        Place { accepted_at: Timestamp::from_millis(millis), id: ExecutionId::of(&key) }
    }

    #[test]
    fn a_place_reads_back_from_its_cursor() {
        for millis in [0, 1, 1_800_000_000_000, Timestamp::NEVER.as_millis()] {
            let cursor = place(millis).cursor();
            assert!(cursor.0.len() <= CURSOR_BYTES_MAX);
            assert_eq!(Place::read("memory", &cursor).expect("its own cursor"), place(millis));
        }
    }

    #[test]
    fn what_is_no_cursor_is_refused() {
        let good = place(7).cursor().0;
        let mut longer = good.clone();
        longer.push(0);
        let mut of_tomorrow = good.clone();
        of_tomorrow[0] = 2;
        let mut after_never = good.clone();
        after_never[1] = 0xff;
        for bytes in [Vec::new(), good[..good.len() - 1].to_vec(), longer, of_tomorrow, after_never] {
            let error = Place::read("memory", &Cursor(bytes)).expect_err("this is no cursor");
            assert!(!error.is_transient());
        }
    }
}
