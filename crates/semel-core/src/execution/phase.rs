//! Where an execution stands.

use crate::{
    record::{Body, Holder, Reason, Status},
    time::Timestamp,
};

/// Where an execution stands.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Phase {
    /// It waits.
    Pending(Due),
    /// It was handed to somebody, who runs it, or did until it crashed.
    InProgress {
        /// Who.
        holder: Holder,
        /// Until when undisturbed; then it is due again.
        lease_until: Timestamp,
        /// Since when: renewing does not change it.
        since: Timestamp,
    },
    /// It took effect.
    Completed(Body),
    /// It will not be tried again unless somebody intervenes.
    Failed {
        /// Why.
        reason: Reason,
        /// In the function's words, or the runtime's.
        error: String,
    },
}

/// What a pending execution waits for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Due {
    /// This moment.
    At(Timestamp),
    /// Somebody to resume it.
    Parked {
        /// When it was parked.
        since: Timestamp,
        /// When it would have been due.
        due_at: Timestamp,
    },
}

impl Phase {
    /// Which of the four statuses this is.
    pub const fn status(&self) -> Status {
        match self {
            Self::Pending(_) => Status::Pending,
            Self::InProgress { .. } => Status::InProgress,
            Self::Completed(_) => Status::Completed,
            Self::Failed { .. } => Status::Failed,
        }
    }

    /// Why it failed, if it did.
    pub const fn reason(&self) -> Option<Reason> {
        match self {
            Self::Failed { reason, .. } => Some(*reason),
            Self::Pending(_) | Self::InProgress { .. } | Self::Completed(_) => None,
        }
    }

    /// Who it was handed to, while it is in progress.
    pub const fn holder(&self) -> Option<Holder> {
        match self {
            Self::InProgress { holder, .. } => Some(*holder),
            Self::Pending(_) | Self::Completed(_) | Self::Failed { .. } => None,
        }
    }

    /// As written in messages: the status, and what tells apart the phases that share one.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Pending(Due::Parked { .. }) => "PENDING (parked)",
            Self::Failed { reason: Reason::Dropped, .. } => "FAILED (dropped)",
            Self::Failed { reason: Reason::OutcomeUnknown, .. } => "FAILED (outcome_unknown)",
            Self::Pending(Due::At(_))
            | Self::InProgress { .. }
            | Self::Completed(_)
            | Self::Failed {
                reason:
                    Reason::Fatal | Reason::Exhausted | Reason::Window | Reason::TooOld | Reason::Cancelled,
                ..
            } => self.status().as_str(),
        }
    }
}
