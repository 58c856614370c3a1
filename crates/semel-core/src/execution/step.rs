//! What an execution becomes.

use super::{Due, Execution, Phase, Repeats, history::with_attempt};
use crate::{
    call::{LAPSED, Resolution},
    record::{Body, NotKept, Reason, bounded_error},
    retry::{Jitter, Next, Progress, RetryPolicy},
    sabotage::is_on,
    time::Timestamp,
};
use std::{sync::Arc, time::Duration};

/// Furthest into the future that an execution can be put off, when it is accepted or handed back.
pub const DELAY_MAX: Duration = Duration::from_hours(30 * 24);

/// What happened to an execution.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// The function took effect.
    Complete(Body),
    /// The function said that it never will.
    Reject {
        /// In its words.
        error: String,
    },
    /// The attempt failed, and may be made again.
    Fail {
        /// In the function's words, or those of whoever called it.
        error: String,
        /// How long the function asked to be left alone.
        retry_after: Option<Duration>,
    },
    /// Whoever called stopped listening: the attempt failed, and may still be at work. It is not made again before its
    /// lease would have lapsed.
    Interrupt {
        /// In the words of whoever called.
        error: String,
    },
    /// Nobody can tell whether it took effect.
    Doubt {
        /// What was seen.
        error: String,
        /// Whether this attempt was made. If not, the doubt is about the one before it, which lapsed, and this one does not
        /// count.
        was_made: bool,
    },
    /// The attempt was not made: somebody else is at it, or there was no room. It does not count.
    HandBack {
        /// How long to wait.
        delay: Duration,
    },
    /// The holder goes on.
    Renew {
        /// Until when undisturbed; never earlier than before.
        lease_until: Timestamp,
    },
    /// It was claimed, but there is a [refusal](Execution::refusal).
    Lapse,
    /// An operator ended it.
    Cancel,
    /// An operator wants it to wait.
    Park,
    /// An operator lets it go on.
    Unpark,
    /// An operator starts it again.
    Redrive {
        /// With this event instead of its own.
        event: Option<Arc<[u8]>>,
    },
    /// An operator found out what became of it.
    Resolve(Resolution),
    /// Its event came again. Refused while it is in progress: the write would supersede its holder.
    Repeat(Repeats),
}

impl Input {
    /// As written in messages.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Complete(_) => "complete",
            Self::Reject { .. } => "reject",
            Self::Fail { .. } => "fail",
            Self::Interrupt { .. } => "interrupt",
            Self::Doubt { .. } => "doubt",
            Self::HandBack { .. } => "hand back",
            Self::Renew { .. } => "renew",
            Self::Lapse => "lapse",
            Self::Cancel => "cancel",
            Self::Park => "park",
            Self::Unpark => "unpark",
            Self::Redrive { .. } => "redrive",
            Self::Resolve(_) => "resolve",
            Self::Repeat(_) => "repeat",
        }
    }
}

/// An input that makes no sense in the execution's phase.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[error("an execution that is {phase} does not take `{input}`")]
pub struct Refused {
    /// Where the execution stands.
    pub phase: &'static str,
    /// What was asked.
    pub input: &'static str,
}

/// What an execution becomes when this happens to it.
///
/// ```
/// use semel_core::{
///     execution::{Arrival, Execution, Input, Origin, claimed, step},
///     fingerprint::Fingerprint,
///     key::Key,
///     record::{Holder, Status},
///     retry::{Jitter, RetryPolicy},
///     time::Timestamp,
/// };
/// let now = Timestamp::from_millis(1_800_000_000_000);
/// let arrival = Arrival {
///     key: Key::new("process-order", ("/shop", "evt-1"))?,
///     function: "process-order".into(),
///     origin: Origin { source: "/shop".into(), id: "evt-1".into(), kind: "order.created".into() },
///     order: None,
///     fingerprint: Fingerprint::of_bytes(b"{}"),
///     event: b"{}".as_slice().into(),
///     event_time: None,
///     event_expires_at: None,
/// };
/// let policy = RetryPolicy::gen2();
/// let accepted = Execution::accepted(now, arrival, now);
/// let running = claimed(now, &accepted, Holder(7), now + policy.timeout()).expect("it is due");
/// let fail = Input::Fail { error: "503".to_owned(), retry_after: None };
/// let waiting = step(now, &running, fail, &policy, Jitter::LEAST)?;
/// assert_eq!((waiting.status(), waiting.attempts), (Status::Pending, 1));
/// assert_eq!(waiting.due_at(), Some(now + std::time::Duration::from_secs(10)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn step(
    now: Timestamp,
    before: &Execution,
    input: Input,
    policy: &RetryPolicy,
    jitter: Jitter,
) -> Result<Execution, Refused> {
    let refused = Refused { phase: before.phase.as_str(), input: input.as_str() };
    let moment = Moment { now, before, policy };
    let after = match &before.phase {
        Phase::Pending(Due::At(due_at)) => moment.while_waiting(*due_at, &input),
        Phase::Pending(Due::Parked { since, due_at }) => moment.while_parked(*since, *due_at, &input),
        Phase::InProgress { lease_until, since, .. } => {
            moment.while_running(*lease_until, *since, input, jitter)
        }
        Phase::Completed(_) => moment.once_completed(&input),
        Phase::Failed { reason, error } => moment.once_failed(*reason, error, input),
    };
    after.ok_or(refused)
}

/// What every input is judged by.
struct Moment<'a> {
    now: Timestamp,
    before: &'a Execution,
    policy: &'a RetryPolicy,
}

impl Moment<'_> {
    fn while_waiting(&self, due_at: Timestamp, input: &Input) -> Option<Execution> {
        match input {
            Input::Cancel => Some(self.cancelled()),
            Input::Park => Some(self.unfinished(Phase::Pending(Due::Parked { since: self.now, due_at }))),
            Input::Repeat(more) => Some(self.repeated(*more)),
            Input::Complete(_)
            | Input::Reject { .. }
            | Input::Fail { .. }
            | Input::Interrupt { .. }
            | Input::Doubt { .. }
            | Input::HandBack { .. }
            | Input::Renew { .. }
            | Input::Lapse
            | Input::Unpark
            | Input::Redrive { .. }
            | Input::Resolve(_) => None,
        }
    }

    fn while_parked(&self, since: Timestamp, due_at: Timestamp, input: &Input) -> Option<Execution> {
        match input {
            Input::Cancel => Some(self.cancelled()),
            Input::Unpark => {
                let parked = self.now.since(since);
                let first_attempt_at = self.before.first_attempt_at.map(|it| it + parked);
                Some(Execution { first_attempt_at, ..self.unfinished(Phase::Pending(Due::At(due_at))) })
            }
            Input::Repeat(more) => Some(self.repeated(*more)),
            Input::Complete(_)
            | Input::Reject { .. }
            | Input::Fail { .. }
            | Input::Interrupt { .. }
            | Input::Doubt { .. }
            | Input::HandBack { .. }
            | Input::Renew { .. }
            | Input::Lapse
            | Input::Park
            | Input::Redrive { .. }
            | Input::Resolve(_) => None,
        }
    }

    fn while_running(
        &self,
        lease_until: Timestamp,
        since: Timestamp,
        input: Input,
        jitter: Jitter,
    ) -> Option<Execution> {
        let ended = |after: Execution, error: Option<&str>| {
            let attempt = self.before.attempt(since, self.now, error);
            Some(Execution { history: with_attempt(&self.before.history, attempt), ..after })
        };
        match input {
            Input::Complete(body) => ended(self.completed(body), None),
            Input::Reject { error } => ended(self.failed(Reason::Fatal, error.clone()), Some(&error)),
            Input::Fail { error, retry_after } => {
                ended(self.attempt_failed(error.clone(), retry_after, None, jitter), Some(&error))
            }
            Input::Interrupt { error } => {
                ended(self.attempt_failed(error.clone(), None, Some(lease_until), jitter), Some(&error))
            }
            Input::Doubt { error, was_made: true } => {
                ended(self.failed(Reason::OutcomeUnknown, error.clone()), Some(&error))
            }
            Input::Doubt { error, was_made: false } => {
                Some(self.without_attempt(self.failed(Reason::OutcomeUnknown, error)))
            }
            Input::Cancel => ended(self.cancelled(), Some(CANCELLED)),
            Input::HandBack { delay } => Some(self.handed_back(delay)),
            Input::Renew { lease_until: asked } => Some(self.renewed(lease_until.max(asked))),
            Input::Lapse => self.lapsed(),
            Input::Park | Input::Unpark | Input::Redrive { .. } | Input::Resolve(_) | Input::Repeat(_) => {
                None
            }
        }
    }

    fn once_completed(&self, input: &Input) -> Option<Execution> {
        match input {
            Input::Repeat(more) => Some(self.repeated(*more)),
            Input::Complete(_)
            | Input::Reject { .. }
            | Input::Fail { .. }
            | Input::Interrupt { .. }
            | Input::Doubt { .. }
            | Input::HandBack { .. }
            | Input::Renew { .. }
            | Input::Lapse
            | Input::Cancel
            | Input::Park
            | Input::Unpark
            | Input::Redrive { .. }
            | Input::Resolve(_) => None,
        }
    }

    fn once_failed(&self, reason: Reason, error: &str, input: Input) -> Option<Execution> {
        match input {
            // A doubt is resolved first: a redrive could make the effect happen twice.
            Input::Redrive { event } if reason != Reason::OutcomeUnknown => {
                event.or_else(|| self.before.event.clone()).map(|event| self.restarted(event, error))
            }
            Input::Resolve(resolution) if reason == Reason::OutcomeUnknown => {
                self.resolved(resolution, error)
            }
            Input::Repeat(more) => Some(self.repeated(more)),
            Input::Redrive { .. }
            | Input::Resolve(_)
            | Input::Complete(_)
            | Input::Reject { .. }
            | Input::Fail { .. }
            | Input::Interrupt { .. }
            | Input::Doubt { .. }
            | Input::HandBack { .. }
            | Input::Renew { .. }
            | Input::Lapse
            | Input::Cancel
            | Input::Park
            | Input::Unpark => None,
        }
    }

    /// The same execution, of an event that came again. Its retention is what it was, and so is when it last changed: who looks
    /// at what failed wants to know when it did.
    fn repeated(&self, more: Repeats) -> Execution {
        Execution { repeats: self.before.repeats.plus(more), ..self.before.clone() }
    }

    /// The same execution in another phase that is not its last.
    fn unfinished(&self, phase: Phase) -> Execution {
        Execution { phase, updated_at: self.now, expires_at: Timestamp::NEVER, ..self.before.clone() }
    }

    fn completed(&self, body: Body) -> Execution {
        let expires_at = self.now + self.policy.retention();
        let body = match body {
            Body::Kept { bytes, until } => Body::Kept { bytes, until: until.min(expires_at) },
            Body::NotKept { .. } => body,
        };
        Execution { expires_at, ..self.unfinished(Phase::Completed(body)) }
    }

    fn failed(&self, reason: Reason, error: String) -> Execution {
        let (expires_at, event) = match reason {
            Reason::OutcomeUnknown => (Timestamp::NEVER, self.before.event.clone()),
            Reason::Dropped => (self.now + self.policy.retention(), None),
            Reason::Exhausted if is_on("dead_letter_loses_event") => {
                (self.now + self.policy.retention(), None)
            }
            Reason::Fatal | Reason::Exhausted | Reason::Window | Reason::TooOld | Reason::Cancelled => {
                (self.now + self.policy.retention(), self.before.event.clone())
            }
        };
        let phase = Phase::Failed { reason, error: bounded_error(error) };
        Execution { event, expires_at, ..self.unfinished(phase) }
    }

    fn cancelled(&self) -> Execution {
        self.failed(Reason::Cancelled, CANCELLED.to_owned())
    }

    fn attempt_failed(
        &self,
        error: String,
        retry_after: Option<Duration>,
        busy_until: Option<Timestamp>,
        jitter: Jitter,
    ) -> Execution {
        let progress = Progress { busy_until, ..self.before.progress(self.now) };
        match self.policy.next(self.now, &progress, retry_after, jitter) {
            Next::Dead(reason) => self.failed(reason, error),
            Next::Retry(at) => Execution {
                last_error: Some(bounded_error(error)),
                ..self.unfinished(Phase::Pending(Due::At(at)))
            },
        }
    }

    fn handed_back(&self, delay: Duration) -> Execution {
        let due = Due::At(self.now + delay.min(DELAY_MAX));
        self.without_attempt(self.unfinished(Phase::Pending(due)))
    }

    fn renewed(&self, until: Timestamp) -> Execution {
        let mut after = self.unfinished(self.before.phase.clone());
        if let Phase::InProgress { lease_until, .. } = &mut after.phase {
            *lease_until = until;
        }
        after
    }

    /// Only with a reason: an execution that can be tried is to be tried.
    fn lapsed(&self) -> Option<Execution> {
        let reason = self.before.refusal(self.now, self.policy)?;
        let error = self.before.last_error.clone().unwrap_or_else(|| match reason {
            Reason::TooOld => TOO_OLD.to_owned(),
            Reason::Fatal
            | Reason::Exhausted
            | Reason::Window
            | Reason::Cancelled
            | Reason::Dropped
            | Reason::OutcomeUnknown => LAPSED.to_owned(),
        });
        Some(self.without_attempt(self.failed(reason, error)))
    }

    /// Takes back the attempt that was counted by the claim but never made.
    fn without_attempt(&self, after: Execution) -> Execution {
        let attempts = self.before.attempts.saturating_sub(1);
        let first_attempt_at = self.before.first_attempt_at.filter(|_| attempts > 0);
        Execution { attempts, first_attempt_at, ..after }
    }

    fn restarted(&self, event: Arc<[u8]>, error: &str) -> Execution {
        Execution {
            event: Some(event),
            attempts: 0,
            generation: self.before.generation.saturating_add(u32::from(!is_on("redrive_keeps_generation"))),
            first_attempt_at: None,
            last_error: Some(error.to_owned()),
            ..self.unfinished(Phase::Pending(Due::At(self.now)))
        }
    }

    fn resolved(&self, resolution: Resolution, error: &str) -> Option<Execution> {
        match resolution {
            Resolution::Happened(Some(bytes)) => {
                Some(self.completed(Body::Kept { bytes, until: Timestamp::NEVER }))
            }
            Resolution::Happened(None) => {
                let body = Body::NotKept { cause: NotKept::Resolved, size: 0, digest: [0; 32] };
                Some(self.completed(body))
            }
            Resolution::DidNot => self.before.event.clone().map(|event| self.restarted(event, error)),
        }
    }
}

/// The error of an execution that an operator ended.
const CANCELLED: &str = "an operator cancelled the execution";
/// The error of an execution that waited until its event was of no more use.
const TOO_OLD: &str = "the event was too old when its turn came";
