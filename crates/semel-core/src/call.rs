//! The library's machine: what a call does next, given what is stored and what time it is.
//!
//! 1. [`begin`] decides what a caller may do with a key. Where it says to write, the driver swaps; where the
//!    swap is lost, it asks again on what is really there.
//! 2. The holder's own changes ([`renew`], [`complete`], [`fail`], [`release`]) start from the record it wrote
//!    and are fenced by the driver, so they need not look at what is stored.
//! 3. A lapsed lease is taken over under a higher fence, or reported, as its holder had asked when it began.
//! 4. An expired record counts as absent, but its fence is named, so that fences go on growing.
//! 5. A doubt does not go away by waiting: a record of unknown outcome is kept until somebody resolves it.
//!
//! It does not retry, wait or wake: that is the driver's.

use crate::{
    fence::Fence,
    fingerprint::Fingerprint,
    record::{Body, Holder, NotKept, OnLapse, Place, Reason, Record, State, Status, Stored, bounded_error},
    sabotage::is_on,
    time::Timestamp,
};
use std::time::Duration;

/// Who calls, with what, and on which terms.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// Of the payload.
    pub fingerprint: Fingerprint,
    /// This caller's nonce. A claim with the same holder re-enters its own lease.
    pub holder: Holder,
    /// Where the work will be done.
    pub place: Place,
    /// What whoever finds this call lapsed must do.
    pub on_lapse: OnLapse,
}

/// The durations that govern a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Terms {
    /// How long a holder may work undisturbed between renewals.
    pub lease: Duration,
    /// How long past its end a lease is still left alone: the clocks' disagreement.
    pub margin: Duration,
    /// How long a finished record is remembered.
    pub retention: Duration,
    /// How long a completed call's result is kept; never longer than the record.
    pub body_retention: Duration,
}

impl Default for Terms {
    fn default() -> Self {
        const DAY: Duration = Duration::from_hours(24);
        Self {
            lease: Duration::from_mins(1),
            margin: Duration::ZERO,
            retention: DAY * 7,
            body_retention: DAY,
        }
    }
}

/// What a caller may do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Write this; if the swap is won, run the handler under the fence it gives.
    Run {
        /// The fence the swap must find.
        expected: Option<Fence>,
        /// What to write.
        record: Record,
        /// How the caller came to run it.
        entry: Entry,
    },
    /// Write this; if the swap is won, the outcome is unknown.
    Report {
        /// The fence the swap must find.
        expected: Fence,
        /// What to write.
        record: Record,
    },
    /// It is finished, like this: what was found is what came of it.
    Replay(Status),
    /// Another holder runs it.
    Busy {
        /// When its lease lapses unless it is renewed.
        until: Timestamp,
    },
    /// The key was claimed with another payload.
    Mismatch,
}

/// How a caller came to run a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Entry {
    /// Nobody had, within the retention.
    Fresh,
    /// An earlier attempt had ended with a retryable error.
    Retried,
    /// An earlier holder's lease had lapsed.
    TakenOver,
    /// It holds the lease already: the same holder came again.
    Reentered,
}

/// Decides what this call may do, given what was found under its key.
pub fn begin(now: Timestamp, found: Option<&Stored>, call: &Call, terms: &Terms) -> Decision {
    let run = |expected, entry, attempts, created_at| Decision::Run {
        expected,
        record: in_progress(now, call, terms, attempts, created_at),
        entry,
    };
    let Some(Stored { fence, record }) = found else { return run(None, Entry::Fresh, 1, now) };
    if record.is_expired(now) && !is_on("expired_counts_as_present") {
        return run(Some(*fence), Entry::Fresh, 1, now);
    }
    if record.fingerprint != call.fingerprint && !is_on("fingerprint_ignored") {
        return Decision::Mismatch;
    }
    let again = |entry, attempts| run(Some(*fence), entry, attempts, record.created_at);
    let next = record.attempts.saturating_add(1);
    let margin = if is_on("margin_ignored") { Duration::ZERO } else { terms.margin };
    match &record.state {
        State::Completed(_) | State::Failed { .. } => Decision::Replay(record.status()),
        State::Pending { .. } => again(Entry::Retried, next),
        // Not if it must be reported: a restarted holder cannot tell whether its effect happened, either.
        State::InProgress { holder, on_lapse: OnLapse::Rerun, .. } if *holder == call.holder => {
            again(Entry::Reentered, record.attempts)
        }
        State::InProgress { lease_until, .. } if now < *lease_until + margin && !is_on("lease_ignored") => {
            Decision::Busy { until: *lease_until + margin }
        }
        State::InProgress { on_lapse: OnLapse::Rerun, .. } => again(Entry::TakenOver, next),
        State::InProgress { on_lapse: OnLapse::Report, .. } if is_on("unknown_outcome_rerun") => {
            again(Entry::TakenOver, next)
        }
        State::InProgress { on_lapse: OnLapse::Report, .. } => Decision::Report {
            expected: *fence,
            record: fail(now, record, Reason::OutcomeUnknown, LAPSED.to_owned(), terms),
        },
    }
}

/// The error of a call whose holder vanished.
pub const LAPSED: &str = "the lease lapsed while the call was in progress";

fn in_progress(now: Timestamp, call: &Call, terms: &Terms, attempts: u32, created_at: Timestamp) -> Record {
    Record {
        fingerprint: call.fingerprint,
        state: State::InProgress {
            holder: call.holder,
            lease_until: now + terms.lease,
            place: call.place,
            on_lapse: call.on_lapse,
        },
        attempts,
        created_at,
        updated_at: now,
        expires_at: if is_on("lease_end_is_expiry") { now + terms.lease } else { Timestamp::NEVER },
    }
}

/// The holder goes on: the same record with a later end of lease. A finished record stays as it is.
#[must_use]
pub fn renew(now: Timestamp, held: &Record, terms: &Terms) -> Record {
    let mut record = Record { updated_at: now, ..held.clone() };
    if let State::InProgress { lease_until, .. } = &mut record.state {
        *lease_until = now + terms.lease;
    }
    record
}

/// The call took effect, with this result.
#[must_use]
pub fn complete(now: Timestamp, held: &Record, body: Body, terms: &Terms) -> Record {
    let expires_at = now + terms.retention;
    let body = match body {
        Body::Kept { bytes, until } => Body::Kept { bytes, until: until.min(expires_at) },
        Body::NotKept { .. } => body,
    };
    followed(held, State::Completed(body), now, expires_at)
}

/// The call ended without an effect, or nobody knows, and will not be tried again.
#[must_use]
pub fn fail(now: Timestamp, held: &Record, reason: Reason, error: String, terms: &Terms) -> Record {
    let expires_at = match reason {
        Reason::OutcomeUnknown if is_on("unknown_outcome_expires") => now + terms.retention,
        Reason::OutcomeUnknown => Timestamp::NEVER,
        Reason::Fatal
        | Reason::Exhausted
        | Reason::Window
        | Reason::TooOld
        | Reason::Cancelled
        | Reason::Dropped => now + terms.retention,
    };
    let state = State::Failed { reason, error: bounded_error(error) };
    followed(held, state, now, expires_at)
}

/// The attempt ended and may be tried again: attempts and fingerprint are kept.
#[must_use]
pub fn release(now: Timestamp, held: &Record, error: Option<String>) -> Record {
    let state = State::Pending { due_at: now, error: error.map(bounded_error) };
    followed(held, state, now, Timestamp::NEVER)
}

/// The record that comes after this one, in another state.
fn followed(held: &Record, state: State, now: Timestamp, expires_at: Timestamp) -> Record {
    let Record { fingerprint, attempts, created_at, .. } = *held;
    Record { fingerprint, state, attempts, created_at, updated_at: now, expires_at }
}

/// What an operator found out about a call of unknown outcome.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Resolution {
    /// The effect happened: the call is completed, with this encoded result if somebody has it.
    Happened(Option<Vec<u8>>),
    /// It did not: the call may be run again.
    DidNot,
}

/// An operator's change that the record's status does not allow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a call that is {status} cannot be {change}")]
pub struct Refused {
    /// Where the call stands.
    pub status: Status,
    /// What was asked.
    pub change: &'static str,
}

/// Ends a doubt. Only a call of unknown outcome can be resolved; one that lapsed must be reported first, which
/// supersedes its holder, who may only be late.
pub fn resolve(
    now: Timestamp,
    found: &Record,
    resolution: Resolution,
    terms: &Terms,
) -> Result<Record, Refused> {
    let is_unknown = matches!(found.state, State::Failed { reason: Reason::OutcomeUnknown, .. });
    if !is_unknown && !is_on("anything_is_resolved") {
        return Err(Refused { status: found.status(), change: "resolved" });
    }
    Ok(match resolution {
        Resolution::Happened(Some(bytes)) => {
            complete(now, found, Body::Kept { bytes, until: now + terms.body_retention }, terms)
        }
        Resolution::Happened(None) => {
            let body = Body::NotKept { cause: NotKept::Resolved, size: 0, digest: [0; 32] };
            complete(now, found, body, terms)
        }
        Resolution::DidNot => release(now, found, None),
    })
}

/// Forgets a call that is not being run: what is written counts as absent at once, and the fence goes on.
pub fn forget(now: Timestamp, found: &Record, terms: &Terms) -> Result<Record, Refused> {
    match &found.state {
        State::InProgress { lease_until, .. } if now < *lease_until + terms.margin => {
            Err(Refused { status: Status::InProgress, change: "forgotten" })
        }
        State::Pending { .. } | State::InProgress { .. } | State::Completed(_) | State::Failed { .. } => {
            let state = State::Failed { reason: Reason::Cancelled, error: "forgotten".to_owned() };
            Ok(Record { state, updated_at: now, expires_at: now, ..found.clone() })
        }
    }
}
