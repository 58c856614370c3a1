//! The runtime's machine: an event on its way through a function.
//!
//! 1. An execution's id is its key's identity, so inserting it twice *is* deduplication.
//! 2. [`claimed`] is the one change that a queue makes itself: lease it, count the attempt. It knows no
//!    policy, and it counts before the function is called, so that a crash uses up an attempt.
//! 3. [`step`] is every other change: one total function of what stands, what happened, what time it is and
//!    the function's policy. What makes no sense is refused, by phase and input.
//! 4. [`Execution::due_at`] is the one index: when to start it, or when its lease lapses. Schedule, retry
//!    and rescue are one query.
//! 5. What is unfinished never expires, and neither does a doubt. Retention begins when an execution ends.
//! 6. A dead letter is a FAILED execution whose event is kept. Only `dropped` ones lose it; they stay, without
//!    it, as long as duplicates must be recognised.
//! 7. A redrive keeps the id and raises the generation: it changes what is stored, so no deduplication can
//!    swallow it. Its attempts and its window begin anew, and the event's age no longer counts: whoever
//!    redrives has judged that.
//! 8. Being parked is nobody's fault: that time does not count towards the window.
//! 9. Where executions have an [`Order`], only the first unfinished one under it is to be handed out.
//! 10. An execution remembers its latest attempts and how often its event came again: "why" has an answer.
//!
//! It does not choose what to run next, call anything, or judge an answer: it is told that an attempt failed.

mod error_print;
mod history;
mod origin;
mod phase;
mod step;

pub use error_print::{ErrorPrint, NoErrorPrint};
pub use history::{Attempt, HISTORY_ATTEMPTS_MAX, HISTORY_ERROR_BYTES_MAX, Repeats};
pub use origin::{Order, Origin};
pub use phase::{Due, Phase};
pub use step::{DELAY_MAX, Input, Refused, step};

use self::history::with_attempt;
use crate::{
    call::LAPSED,
    fingerprint::Fingerprint,
    key::{Identity, Key},
    record::{Holder, Reason, Status},
    retry::{Progress, RetryPolicy},
    sabotage::is_on,
    time::Timestamp,
};
use std::{fmt, sync::Arc};

/// Names an execution: the identity of its key, which is made of the function and the event's source and id,
/// or of the function and the value of its key expression.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExecutionId(Identity);

impl ExecutionId {
    /// The id of the execution with this key.
    pub const fn of(key: &Key) -> Self {
        Self(*key.identity())
    }

    /// An id read back from a queue.
    pub const fn from_identity(identity: Identity) -> Self {
        Self(identity)
    }

    /// The identity of the key.
    pub const fn identity(&self) -> &Identity {
        &self.0
    }
}

impl fmt::Display for ExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for ExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExecutionId({self})")
    }
}

/// An event on its way through a function. Cheap to clone: what is large is shared.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Execution {
    /// What deduplication goes by, readable. Set when accepted, never changed; the id is its hash.
    pub key: Key,
    /// The function to call: what claims, filters and counters go by. Set when accepted, never changed.
    pub function: Arc<str>,
    /// What the event says of itself. Set when accepted, never changed.
    pub origin: Origin,
    /// What it stands behind. The key is set when accepted, the sequence given by the queue; never changed.
    pub order: Option<Order>,
    /// Of the event as it was accepted, so that a duplicate with another payload is noticed. Never changed,
    /// not even by a redrive with an edited event.
    pub fingerprint: Fingerprint,
    /// The event, as the runtime encodes it; nothing here looks inside. `None` once the execution was
    /// dropped. Changed by a redrive that edits it.
    pub event: Option<Arc<[u8]>>,
    /// When the event happened, if it says: its age is measured from here. Set when accepted.
    pub event_time: Option<Timestamp>,
    /// When the event says that it is of no more use (`expirytime`). Set when accepted.
    pub event_expires_at: Option<Timestamp>,
    /// Where it stands. Changed by [`claimed`] and [`step`], and by nothing else.
    pub phase: Phase,
    /// Attempts begun in this generation, the running one included. Raised by [`claimed`], taken back when
    /// the attempt was not made after all, reset by a redrive.
    pub attempts: u32,
    /// How often it was redriven, so that old and new attempts can be told apart. Raised by a redrive.
    pub generation: u32,
    /// When it was accepted: what it is listed by, and the event's age if it has no time. Never changed.
    pub accepted_at: Timestamp,
    /// When the first attempt of this generation began: the window is measured from here. Set by [`claimed`],
    /// moved by the time that it was parked, unset by a redrive.
    pub first_attempt_at: Option<Timestamp>,
    /// When it last changed. Changed by [`claimed`] and [`step`]; not when its event came again.
    pub updated_at: Timestamp,
    /// Why the last attempt before this phase ended, for whoever looks at it. Changed by [`claimed`], after a
    /// lapse, and by [`step`].
    pub last_error: Option<String>,
    /// The latest attempts that are over, the oldest first. Changed by [`claimed`], after a lapse, and by [`step`].
    pub history: Vec<Attempt>,
    /// How often its event came again. Changed by [`step`].
    pub repeats: Repeats,
    /// When it stops being remembered; [`Timestamp::NEVER`] until it ends, and while there is a doubt.
    /// Changed by [`step`].
    pub expires_at: Timestamp,
}

/// What is known of an event when it is accepted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Function and event id, or function and the value of its key expression.
    pub key: Key,
    /// The function to call.
    pub function: Arc<str>,
    /// What the event says of itself.
    pub origin: Origin,
    /// What it must not overtake, if anything: executions of the function under the same order.
    pub order: Option<Arc<str>>,
    /// Of the event's payload.
    pub fingerprint: Fingerprint,
    /// The event, as the runtime encodes it.
    pub event: Arc<[u8]>,
    /// When the event happened, if it says.
    pub event_time: Option<Timestamp>,
    /// When the event says that it is of no more use.
    pub event_expires_at: Option<Timestamp>,
}

impl Execution {
    /// A new execution, due at this moment.
    pub fn accepted(now: Timestamp, arrival: Arrival, due_at: Timestamp) -> Self {
        let Arrival { key, function, origin, order, fingerprint, event, event_time, event_expires_at } =
            arrival;
        Self {
            key,
            function,
            origin,
            order: order.map(|key| Order { key, sequence: 0 }),
            fingerprint,
            event: Some(event),
            event_time,
            event_expires_at,
            phase: Phase::Pending(Due::At(due_at.min(now + DELAY_MAX))),
            attempts: 0,
            generation: 0,
            accepted_at: now,
            first_attempt_at: None,
            updated_at: now,
            last_error: None,
            history: Vec::new(),
            repeats: Repeats::default(),
            expires_at: Timestamp::NEVER,
        }
    }

    /// Its name.
    pub const fn id(&self) -> ExecutionId {
        ExecutionId::of(&self.key)
    }

    /// Where it stands, without the details.
    pub const fn status(&self) -> Status {
        self.phase.status()
    }

    /// When somebody must act next: start it, or take it over. `None` once it ended, and while it is parked.
    pub const fn due_at(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Pending(Due::At(at)) => Some(at),
            Phase::InProgress { lease_until, .. } => Some(lease_until),
            Phase::Pending(Due::Parked { .. }) | Phase::Completed(_) | Phase::Failed { .. } => None,
        }
    }

    /// What went wrong last, if anything did.
    pub fn error(&self) -> Option<&str> {
        match &self.phase {
            Phase::Failed { error, .. } => Some(error),
            Phase::Pending(_) | Phase::InProgress { .. } | Phase::Completed(_) => self.last_error.as_deref(),
        }
    }

    /// Whether it is to be treated as absent, even if it is still stored.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at <= now
    }

    /// Whether it failed by itself, for good, and can be redriven as it is. What an operator ended is none, nor is a doubt.
    pub const fn is_dead_letter(&self) -> bool {
        let Phase::Failed { reason, .. } = self.phase else { return false };
        let is_dead = match reason {
            Reason::Fatal | Reason::Exhausted | Reason::Window | Reason::TooOld => true,
            Reason::Cancelled | Reason::Dropped | Reason::OutcomeUnknown => false,
        };
        is_dead && self.event.is_some()
    }

    /// Whether the attempt before the running one ended without a word: its holder is gone, and nobody knows what it did.
    pub fn is_after_lapse(&self) -> bool {
        let before = self.history.last();
        before.is_some_and(|it| {
            it.generation == self.generation
                && it.number.saturating_add(1) == self.attempts
                && it.error.as_deref() == Some(LAPSED)
        })
    }

    /// Why it must not be dispatched though it was claimed: no attempt was left, or it waited too long. Whoever
    /// claims asks this first, and steps with [`Input::Lapse`] if there is a reason.
    pub fn refusal(&self, now: Timestamp, policy: &RetryPolicy) -> Option<Reason> {
        policy.refusal(now, &self.progress(now))
    }

    /// The running attempt, ended like this.
    fn attempt(&self, began_at: Timestamp, ended_at: Timestamp, error: Option<&str>) -> Attempt {
        Attempt {
            generation: self.generation,
            number: self.attempts,
            began_at,
            ended_at,
            error: error.map(str::to_owned),
        }
    }

    fn progress(&self, now: Timestamp) -> Progress {
        let first_attempt_at = self.first_attempt_at.unwrap_or(now);
        let redriven = self.generation > 0;
        Progress {
            attempts: self.attempts,
            first_attempt_at,
            event_at: if redriven { first_attempt_at } else { self.event_time.unwrap_or(self.accepted_at) },
            event_expires_at: self.event_expires_at.filter(|_| !redriven),
            busy_until: None,
        }
    }
}

/// What a queue makes of an execution that it hands out: leased, and the attempt counted. `None` if it is not
/// due, so that no queue can hand out what nobody may run.
pub fn claimed(
    now: Timestamp,
    before: &Execution,
    holder: Holder,
    lease_until: Timestamp,
) -> Option<Execution> {
    before.due_at().filter(|due_at| *due_at <= now)?;
    let lapsed = match before.phase {
        Phase::InProgress { lease_until, since, .. } => {
            Some(before.attempt(since, lease_until, Some(LAPSED)))
        }
        Phase::Pending(_) | Phase::Completed(_) | Phase::Failed { .. } => None,
    };
    let attempts = if lapsed.is_some() && is_on("lapsed_attempt_not_counted") {
        before.attempts
    } else {
        before.attempts.saturating_add(1)
    };
    Some(Execution {
        phase: Phase::InProgress { holder, lease_until, since: now },
        attempts,
        first_attempt_at: before.first_attempt_at.or(Some(now)),
        updated_at: now,
        last_error: lapsed.as_ref().map_or_else(|| before.last_error.clone(), |it| it.error.clone()),
        history: lapsed.map_or_else(|| before.history.clone(), |it| with_attempt(&before.history, it)),
        ..before.clone()
    })
}
