//! Everything known about one key.

use crate::{fence::Fence, fingerprint::Fingerprint, time::Timestamp};
use std::fmt;

/// Longest error message kept with a record, in bytes; a longer one is cut at a character.
pub const ERROR_BYTES_MAX: usize = 4 * 1024;

/// What a store keeps under a key.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Record {
    /// Of the payload that claimed the key; a claim with another one is a mismatch, in every status.
    pub fingerprint: Fingerprint,
    /// Where the call stands. Changed by the functions of [`crate::call`] and by nothing else.
    pub state: State,
    /// How many attempts were begun, the running one included. Counted before the handler runs.
    pub attempts: u32,
    /// When the key was first claimed in this retention: the age of a duplicate is measured from here.
    pub created_at: Timestamp,
    /// When the record was last written.
    pub updated_at: Timestamp,
    /// When it stops being remembered; [`Timestamp::NEVER`] until it is finished.
    pub expires_at: Timestamp,
}

/// Where a call stands.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum State {
    /// The last attempt ended without an outcome; whoever comes may run it.
    Pending {
        /// Not to be run before this.
        due_at: Timestamp,
        /// Why the last attempt ended, if it said so.
        error: Option<String>,
    },
    /// Someone runs it, or did until it crashed.
    InProgress {
        /// Who.
        holder: Holder,
        /// Until when undisturbed.
        lease_until: Timestamp,
        /// Where the work is done: decides what a restart of this process means for it.
        place: Place,
        /// What whoever finds it lapsed must do.
        on_lapse: OnLapse,
    },
    /// It took effect.
    Completed(Body),
    /// It will not be tried again.
    Failed {
        /// Why.
        reason: Reason,
        /// In the handler's words.
        error: String,
    },
}

/// What became of a completed call's result.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Body {
    /// Here it is, until that moment.
    Kept {
        /// The encoded result.
        bytes: Vec<u8>,
        /// After this only the fact of completion is known.
        until: Timestamp,
    },
    /// The call took effect, but its result was not kept.
    NotKept {
        /// Why not.
        cause: NotKept,
        /// How large the result was, encoded; 0 if it could not be encoded. If it is too large and has no digest, nobody read
        /// it to its end: it was larger than this.
        size: u64,
        /// SHA-256 of the encoded result; zeros if nobody had the whole of it, or it could not be encoded.
        digest: [u8; 32],
    },
}

/// Why a completed call's result was not kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NotKept {
    /// Larger than the limit.
    TooLarge,
    /// Its type refused to be serialised.
    Unserializable,
    /// Nobody had it: an operator said that the effect happened.
    Resolved,
}

/// Random, one per call: a stored record with one's own holder is proof of authorship.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Holder(pub u128);

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Holder({:032x})", self.0)
    }
}

/// Where the work under a lease is done.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Place {
    /// In the process that holds the lease: when that process is known to be dead, so is the work.
    Here,
    /// Somewhere else (an HTTP function, a proxy's upstream), which may go on when the holder dies.
    Elsewhere,
}

/// What to do with a call whose holder vanished: its effect may or may not have happened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OnLapse {
    /// Run it again under a higher fence.
    Rerun,
    /// Do not; report the outcome as unknown, for somebody to resolve.
    Report,
}

/// Why a call failed for good.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reason {
    /// The handler said that trying again is pointless.
    Fatal,
    /// No attempts were left.
    Exhausted,
    /// The retry window was over.
    Window,
    /// The event was too old.
    TooOld,
    /// An operator ended it.
    Cancelled,
    /// Retry is off.
    Dropped,
    /// The holder vanished, and whether its effect happened cannot be told.
    OutcomeUnknown,
}

impl Reason {
    /// All of them, in the order of their declaration.
    pub const ALL: [Self; 7] = [
        Self::Fatal,
        Self::Exhausted,
        Self::Window,
        Self::TooOld,
        Self::Cancelled,
        Self::Dropped,
        Self::OutcomeUnknown,
    ];

    /// As written in answers and labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fatal => "fatal",
            Self::Exhausted => "exhausted",
            Self::Window => "window",
            Self::TooOld => "too_old",
            Self::Cancelled => "cancelled",
            Self::Dropped => "dropped",
            Self::OutcomeUnknown => "outcome_unknown",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The four statuses a record can have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Status {
    /// Waiting to be run again.
    Pending,
    /// Being run.
    InProgress,
    /// Took effect.
    Completed,
    /// Ended without.
    Failed,
}

impl Status {
    /// All of them, in the order of a lifecycle.
    pub const ALL: [Self; 4] = [Self::Pending, Self::InProgress, Self::Completed, Self::Failed];

    /// Whether it stays so unless somebody intervenes.
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Pending | Self::InProgress => false,
            Self::Completed | Self::Failed => true,
        }
    }

    /// As written in answers and labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::InProgress => "IN_PROGRESS",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Record {
    /// Where the call stands, without the details.
    pub const fn status(&self) -> Status {
        match self.state {
            State::Pending { .. } => Status::Pending,
            State::InProgress { .. } => Status::InProgress,
            State::Completed(_) => Status::Completed,
            State::Failed { .. } => Status::Failed,
        }
    }

    /// Whether it is to be treated as absent, even if it is still stored.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at <= now
    }
}

/// A record as it stands in a store.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Stored {
    /// Of the write that put it there.
    pub fence: Fence,
    /// What was written.
    pub record: Record,
}

/// An error message cut to [`ERROR_BYTES_MAX`], at a character.
pub fn bounded_error(mut message: String) -> String {
    message.truncate(message.floor_char_boundary(ERROR_BYTES_MAX));
    message
}
