//! The bounds of a walk, and the words for what happens on it.

use semel_core::{
    call::{Call, Terms},
    fingerprint::Fingerprint,
    record::{Holder, OnLapse, Place},
};
use std::{fmt, time::Duration};

/// The bounds of a walk.
pub(super) struct Setup {
    /// Callers, three at most.
    pub(super) callers: usize,
    pub(super) on_lapse: OnLapse,
    pub(super) guard: Guard,
    pub(super) operator: Option<Operator>,
    pub(super) lease: u64,
    pub(super) retention: u64,
    /// When the clock stops.
    pub(super) time_max: u8,
    /// Replies that are lost.
    pub(super) losses: u8,
    /// Renewals of a lease.
    pub(super) renewals: u8,
    /// Attempts that end with a retryable error.
    pub(super) failures: u8,
}

impl Setup {
    pub(super) fn terms(&self) -> Terms {
        Terms {
            lease: Duration::from_millis(self.lease),
            margin: Duration::ZERO,
            retention: Duration::from_millis(self.retention),
            body_retention: Duration::from_millis(self.retention),
        }
    }

    pub(super) fn call(&self, who: usize) -> Call {
        Call {
            fingerprint: Fingerprint::EMPTY,
            holder: Holder(who as u128),
            place: Place::Here,
            on_lapse: self.on_lapse,
        }
    }
}

/// What a store compares before it writes, and what it forgets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Guard {
    /// The fence. The only right one.
    Fence,
    /// Nothing.
    Nothing,
    /// `UPDATE … WHERE id`: only a claim is compared.
    KeyOnly,
    /// `UPDATE … WHERE id AND status = 'IN_PROGRESS'`: only a claim is compared.
    StillRunning,
    /// The fence, but the counter goes with the record when it is purged.
    ReusedFence,
    /// The fence, but the end of a lease is a time to live.
    LeaseByExpiry,
}

/// Who resolves doubts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    /// Finds out first.
    Truthful,
    /// Does not.
    Guessing,
}

/// A promise that was not kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Broken {
    TwoHolders,
    StaleOutcome,
    OutcomeChanged,
    SupersededByNobody,
    SecondEffect,
    Mismatch,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TwoHolders => "two callers hold a lease at once",
            Self::StaleOutcome => "the outcome of a superseded caller was kept",
            Self::OutcomeChanged => "an outcome was undone or changed",
            Self::SupersededByNobody => "a caller was superseded though nobody had taken over",
            Self::SecondEffect => "the effect happened twice",
            Self::Mismatch => "the same payload was called another",
        })
    }
}

/// What happened between two worlds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Start,
    Tick,
    Purge,
    Resolve,
    Decide(usize),
    Swap(usize),
    LoseReply(usize),
    Renew(usize),
    Fail(usize),
    Effect(usize),
    Complete(usize),
    Crash(usize),
    Land(usize),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, who) = match self {
            Self::Start => return f.write_str("start"),
            Self::Tick => return f.write_str("the clock ticks"),
            Self::Purge => return f.write_str("the store purges"),
            Self::Resolve => return f.write_str("the operator resolves"),
            Self::Decide(it) => ("decides", it),
            Self::Swap(it) => ("swaps", it),
            Self::LoseReply(it) => ("swaps and gets no reply", it),
            Self::Renew(it) => ("renews", it),
            Self::Fail(it) => ("releases", it),
            Self::Effect(it) => ("takes effect", it),
            Self::Complete(it) => ("completes", it),
            Self::Crash(it) => ("crashes", it),
            Self::Land(it) => ("'s last write lands", it),
        };
        write!(f, "{} {what}", ["A", "B", "C"][*who])
    }
}
