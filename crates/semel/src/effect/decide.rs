//! What an effect does next, given what is stored, what it is, and what time it is. Pure.

use semel_core::{
    call::{self, Terms},
    fence::Fence,
    fingerprint::Fingerprint,
    record::{Holder, OnLapse, Place, Reason, Record, State, Stored},
    sabotage,
    time::Timestamp,
};
use std::time::Duration;

/// What an interruption means for an effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    AtLeastOnce,
    AtMostOnce,
    Reconcile,
    Keyed {
        /// How long the provider remembers the key.
        retention: Duration,
    },
}

/// The call that an effect belongs to, as far as it matters.
pub(crate) struct Parent {
    pub(crate) fingerprint: Fingerprint,
    /// When the call was first claimed.
    pub(crate) created_at: Timestamp,
    /// Whether this attempt is the first one ever: then nothing can have been forgotten.
    pub(crate) is_fresh: bool,
    pub(crate) place: Place,
    /// This intent's nonce.
    pub(crate) holder: Holder,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Decision {
    /// Write this intent, then dispatch.
    Dispatch { expected: Option<Fence>, intent: Record },
    /// Ask the outside world; if it did not happen, write this intent and dispatch.
    Ask { expected: Option<Fence>, intent: Record },
    /// It took effect: give its result.
    Replay(Stored),
    /// It failed for good.
    Failed { reason: Reason, error: String },
    /// Write this: nobody knows whether it happened.
    Doubt { expected: Option<Fence>, record: Record, why: &'static str },
    /// It was begun under another payload of its call.
    Mismatch,
}

pub(crate) const INTERRUPTED: &str = "it was interrupted after it was begun";
pub(crate) const FORGOTTEN: &str =
    "its call is older than the retention of its record, which may have expired";
pub(crate) const PAST_RETENTION: &str =
    "the provider no longer remembers its key, so it cannot be sent again";

pub(crate) fn decide(
    now: Timestamp,
    found: Option<&Stored>,
    class: Class,
    parent: &Parent,
    terms: &Terms,
) -> Decision {
    let effect = Step { now, class, parent, terms };
    let Some(Stored { fence, record }) = found else { return effect.without_record(None) };
    if record.is_expired(now) {
        return match &record.state {
            // Somebody made it fresh again: it did not run out of memory by itself.
            State::Failed { reason: Reason::Cancelled, .. } => effect.dispatch(Some(*fence), 0, now),
            State::Failed { .. } | State::Pending { .. } | State::InProgress { .. } | State::Completed(_) => {
                effect.without_record(Some(*fence))
            }
        };
    }
    if record.fingerprint != parent.fingerprint {
        return Decision::Mismatch;
    }
    match &record.state {
        State::Completed(_) => Decision::Replay(Stored { fence: *fence, record: record.clone() }),
        State::Failed { reason, error } => Decision::Failed { reason: *reason, error: error.clone() },
        // Only an operator releases without an error: it did not happen, so it begins anew.
        State::Pending { error: None, .. } => effect.dispatch(Some(*fence), record.attempts, now),
        State::Pending { error: Some(_), .. } => effect.again(*fence, record, AfterWhat::Error),
        State::InProgress { .. } => effect.again(*fence, record, AfterWhat::Interruption),
    }
}

struct Step<'a> {
    now: Timestamp,
    class: Class,
    parent: &'a Parent,
    terms: &'a Terms,
}

#[derive(Clone, Copy)]
enum AfterWhat {
    Error,
    Interruption,
}

impl Step<'_> {
    /// Nothing is stored, or what is has expired.
    fn without_record(&self, expected: Option<Fence>) -> Decision {
        let age = self.now.since(self.parent.created_at);
        let is_old = age >= self.terms.retention && !sabotage::is_on("forgotten_effect_runs_blindly");
        let may_be_forgotten = !self.parent.is_fresh && is_old;
        match self.class {
            Class::AtLeastOnce => self.dispatch(expected, 0, self.now),
            _ if !may_be_forgotten => self.dispatch(expected, 0, self.now),
            Class::Reconcile => Decision::Ask { expected, intent: self.intent(0, self.now) },
            Class::AtMostOnce | Class::Keyed { .. } => {
                self.doubt(expected, &self.intent(0, self.now), FORGOTTEN)
            }
        }
    }

    /// An attempt was made before, and left no outcome.
    fn again(&self, fence: Fence, record: &Record, after: AfterWhat) -> Decision {
        let (attempts, first) = (record.attempts, record.created_at);
        match (self.class, after) {
            (Class::AtLeastOnce, _) | (Class::AtMostOnce, AfterWhat::Error) => {
                self.dispatch(Some(fence), attempts, first)
            }
            (Class::AtMostOnce, AfterWhat::Interruption) => self.doubt(Some(fence), record, INTERRUPTED),
            (Class::Reconcile, _) => {
                Decision::Ask { expected: Some(fence), intent: self.intent(attempts, first) }
            }
            (Class::Keyed { retention }, _) if self.is_remembered(first, retention) => {
                self.dispatch(Some(fence), attempts, first)
            }
            (Class::Keyed { .. }, _) => self.doubt(Some(fence), record, PAST_RETENTION),
        }
    }

    fn is_remembered(&self, first: Timestamp, retention: Duration) -> bool {
        self.now.since(first) < retention || sabotage::is_on("keyed_effect_ignores_retention")
    }

    fn dispatch(&self, expected: Option<Fence>, attempts: u32, first: Timestamp) -> Decision {
        Decision::Dispatch { expected, intent: self.intent(attempts, first) }
    }

    fn doubt(&self, expected: Option<Fence>, record: &Record, why: &'static str) -> Decision {
        let record = call::fail(self.now, record, Reason::OutcomeUnknown, why.to_owned(), self.terms);
        Decision::Doubt { expected, record, why }
    }

    fn intent(&self, attempts: u32, first: Timestamp) -> Record {
        let on_lapse = match self.class {
            // Only what may simply be run again can do without its intent after a power cut.
            Class::AtLeastOnce => OnLapse::Rerun,
            Class::AtMostOnce | Class::Reconcile | Class::Keyed { .. } => OnLapse::Report,
        };
        Record {
            fingerprint: self.parent.fingerprint,
            state: State::InProgress {
                holder: self.parent.holder,
                lease_until: self.now + self.terms.lease,
                place: self.parent.place,
                on_lapse,
            },
            attempts: attempts.saturating_add(1),
            created_at: first,
            updated_at: self.now,
            expires_at: Timestamp::NEVER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_core::record::{Body, NotKept};
    use std::fmt::Write as _;

    const HOUR: Duration = Duration::from_hours(1);
    const NOW: Timestamp = Timestamp::from_millis(1_767_225_600_000);

    /// What is stored, by name.
    fn found(state: State, expires_at: Timestamp, first: Timestamp) -> Stored {
        let record = Record {
            fingerprint: Fingerprint::EMPTY,
            state,
            attempts: 1,
            created_at: first,
            updated_at: first,
            expires_at,
        };
        Stored { fence: Fence::new(7).unwrap(), record }
    }

    fn states() -> Vec<(&'static str, Option<Stored>)> {
        let never = Timestamp::NEVER;
        let held = State::InProgress {
            holder: Holder(1),
            lease_until: NOW,
            place: Place::Here,
            on_lapse: OnLapse::Report,
        };
        let pending = |error: Option<&str>| State::Pending { due_at: NOW, error: error.map(str::to_owned) };
        let failed = |reason| State::Failed { reason, error: "no".to_owned() };
        let done = State::Completed(Body::NotKept { cause: NotKept::TooLarge, size: 0, digest: [0; 32] });
        vec![
            ("absent", None),
            ("expired", Some(found(done.clone(), NOW, NOW - HOUR))),
            ("forgotten (operator)", Some(found(failed(Reason::Cancelled), NOW, NOW - HOUR))),
            ("interrupted, an hour ago", Some(found(held.clone(), never, NOW - HOUR))),
            ("interrupted, a day ago", Some(found(held, never, NOW - HOUR * 24))),
            ("erred, an hour ago", Some(found(pending(Some("busy")), never, NOW - HOUR))),
            ("erred, a day ago", Some(found(pending(Some("busy")), never, NOW - HOUR * 24))),
            ("did not happen (operator)", Some(found(pending(None), never, NOW - HOUR * 24))),
            ("completed", Some(found(done, NOW + HOUR, NOW - HOUR))),
            ("failed", Some(found(failed(Reason::Fatal), NOW + HOUR, NOW - HOUR))),
            ("in doubt", Some(found(failed(Reason::OutcomeUnknown), never, NOW - HOUR))),
        ]
    }

    fn said(decision: &Decision) -> &'static str {
        match decision {
            Decision::Dispatch { intent, .. } if intent.created_at == NOW => "run",
            Decision::Dispatch { .. } => "run again",
            Decision::Ask { .. } => "ask",
            Decision::Replay(_) => "replay",
            Decision::Failed { reason: Reason::OutcomeUnknown, .. } | Decision::Doubt { .. } => "unknown",
            Decision::Failed { .. } => "failed",
            Decision::Mismatch => "mismatch",
        }
    }

    /// The whole table, to be reviewed: what is stored, against the class, for calls of every history.
    #[test]
    fn what_an_effect_does_in_every_situation() {
        let keyed = Class::Keyed { retention: HOUR * 24 };
        let classes = [keyed, Class::Reconcile, Class::AtMostOnce, Class::AtLeastOnce];
        let mut table = String::new();
        for (call, is_fresh, age) in
            [("fresh", true, 0), ("tried before", false, 1), ("tried before, 8 days old", false, 8)]
        {
            writeln!(
                table,
                "{call:<34}{:<11}{:<11}{:<14}at least once",
                "keyed", "reconcile", "at most once"
            )
            .unwrap();
            for (name, stored) in states() {
                write!(table, "  {name:<32}").unwrap();
                for (class, width) in classes.into_iter().zip([11, 11, 14, 0]) {
                    let parent = Parent {
                        fingerprint: Fingerprint::EMPTY,
                        created_at: NOW - HOUR * 24 * age,
                        is_fresh,
                        place: Place::Here,
                        holder: Holder(2),
                    };
                    let decision = decide(NOW, stored.as_ref(), class, &parent, &Terms::default());
                    write!(table, "{:<width$}", said(&decision)).unwrap();
                }
                table.truncate(table.trim_end().len());
                table.push('\n');
            }
        }
        insta::assert_snapshot!(table);
    }

    #[test]
    fn another_payload_of_the_call_is_a_mismatch() {
        let parent = Parent {
            fingerprint: Fingerprint::of_bytes(b"other"),
            created_at: NOW,
            is_fresh: false,
            place: Place::Here,
            holder: Holder(2),
        };
        for (name, stored) in states()
            .into_iter()
            .filter(|(name, _)| !["absent", "expired", "forgotten (operator)"].contains(name))
        {
            let decision = decide(NOW, stored.as_ref(), Class::AtLeastOnce, &parent, &Terms::default());
            assert_eq!(decision, Decision::Mismatch, "{name}");
        }
    }
}
