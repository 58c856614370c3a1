//! What happened to an execution, as far as it is remembered.
//!
//! 1. The latest attempts are kept, so that whoever asks "why" gets an answer from the execution itself.
//! 2. Deliveries after the first are counted, those with another payload apart.
//!
//! It does not decide anything: nothing here changes what becomes of an execution.

use crate::time::Timestamp;

/// Most attempts that an execution remembers: the latest.
pub const HISTORY_ATTEMPTS_MAX: usize = 10;
/// Longest error of a remembered attempt, in bytes.
pub const HISTORY_ERROR_BYTES_MAX: usize = 256;

/// An attempt that is over.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Attempt {
    /// Of which generation.
    pub generation: u32,
    /// Which one of its generation, from 1.
    pub number: u32,
    /// When it was claimed.
    pub began_at: Timestamp,
    /// When its end was written, or its lease ran out.
    pub ended_at: Timestamp,
    /// What went wrong; `None` if it took effect.
    pub error: Option<String>,
}

/// Deliveries of an event that was there already.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Repeats {
    /// With the same payload.
    pub same: u32,
    /// With another one.
    pub other: u32,
    /// When the last of them came.
    pub last_at: Option<Timestamp>,
}

impl Repeats {
    /// These and those.
    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        Self {
            same: self.same.saturating_add(more.same),
            other: self.other.saturating_add(more.other),
            last_at: self.last_at.max(more.last_at),
        }
    }
}

/// The attempts with one more, the oldest forgotten if there are too many.
pub(super) fn with_attempt(before: &[Attempt], mut attempt: Attempt) -> Vec<Attempt> {
    if let Some(error) = &mut attempt.error {
        error.truncate(error.floor_char_boundary(HISTORY_ERROR_BYTES_MAX));
    }
    let forgotten = (before.len() + 1).saturating_sub(HISTORY_ATTEMPTS_MAX);
    let mut after = before[forgotten..].to_vec();
    after.push(attempt);
    after
}
