//! Who did what, and when.

use semel_core::{
    execution::{Arrival, Execution, Input, Origin, claimed, step},
    fingerprint::Fingerprint,
    key::Key,
    queue::{Cursor, Fenced, Filter, Page},
    record::Body,
    retry::{Jitter, RetryPolicy},
    store::StoreError,
    time::Timestamp,
};
use std::{sync::Arc, time::Duration};

use crate::engine::{Engine, Runtime, locked};

/// How long entries are remembered.
pub const AUDIT_RETENTION: Duration = Duration::from_hours(90 * 24);
/// The function that entries are executions of.
const FUNCTION: &str = "$audit";

/// Furthest that the times of entries are ahead of the clock.
const AHEAD_MAX: Duration = Duration::from_secs(1);

/// Something that somebody changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditEntry {
    /// Who.
    pub who: Arc<str>,
    /// What: `pause`, `redrive` and the like.
    pub what: Arc<str>,
    /// What of: the name of a function, or the id of an execution.
    pub subject: Arc<str>,
    /// More about it, in a line.
    pub detail: String,
    /// When.
    pub at: Timestamp,
}

/// Something that somebody is about to change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Auditing<'a> {
    /// Who.
    pub who: &'a str,
    /// What: `pause`, `redrive` and the like.
    pub what: &'a str,
    /// What of: the name of a function, or the id of an execution.
    pub subject: &'a str,
    /// More about it, in a line.
    pub detail: &'a str,
}

impl Auditing<'_> {
    /// The entry, as it is accepted: ended, under a name that nobody else has.
    pub(crate) fn execution(&self, engine: &Engine) -> Execution {
        let now = {
            let mut last = locked(&engine.audited_at);
            *last = after(*last, engine.clock.now());
            *last
        };
        let holder = engine.chance.holder();
        let what = if self.what.is_empty() { "change" } else { self.what };
        let arrival = Arrival {
            key: Key::new(FUNCTION, format!("{:032x}", holder.0)).expect("digits are a key"),
            function: FUNCTION.into(),
            origin: Origin { source: self.who.into(), id: self.subject.into(), kind: what.into() },
            order: None,
            fingerprint: Fingerprint::of_bytes(self.detail.as_bytes()),
            event: self.detail.as_bytes().into(),
            event_time: None,
            event_expires_at: None,
        };
        let policy = RetryPolicy::default().with_retention(AUDIT_RETENTION).expect("it is in range");
        let accepted = Execution::accepted(now, arrival, now);
        let running = claimed(now, &accepted, holder, now).expect("it is due at once");
        let nothing = Body::Kept { bytes: Vec::new(), until: now };
        step(now, &running, Input::Complete(nothing), &policy, Jitter::LEAST)
            .expect("what runs can be completed")
    }
}

/// When an entry is written: now, or so little later that it follows the last one. A clock that was set back is believed.
fn after(last: Timestamp, now: Timestamp) -> Timestamp {
    if last.since(now) < AHEAD_MAX { now.max(last + Duration::from_millis(1)) } else { now }
}

impl AuditEntry {
    fn of(stored: &Fenced<Execution>) -> Self {
        let Execution { origin, event, accepted_at, .. } = &stored.value;
        Self {
            who: Arc::clone(&origin.source),
            what: Arc::clone(&origin.kind),
            subject: Arc::clone(&origin.id),
            detail: String::from_utf8_lossy(event.as_deref().unwrap_or_default()).into_owned(),
            at: *accepted_at,
        }
    }
}

impl Runtime {
    /// What was changed, the latest first, of this subject or of all.
    pub async fn audit(
        &self,
        subject: Option<&str>,
        from: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<AuditEntry>, StoreError> {
        let filter =
            Filter { function: Some(FUNCTION.into()), name: subject.map(Into::into), ..Filter::default() };
        let page = self.queue().list(&filter, from, limit).await?;
        Ok(Page { items: page.items.iter().map(AuditEntry::of).collect(), next: page.next })
    }

    /// Writes an entry about something that was changed elsewhere.
    pub async fn note_change(
        &self,
        who: &str,
        what: &str,
        subject: &str,
        detail: &str,
    ) -> Result<(), StoreError> {
        let entry = Auditing { who, what, subject, detail };
        let engine = self.engine();
        let execution = entry.execution(engine);
        let _new = engine.queue.accept(&[execution]).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_follow_each_other_and_a_clock_that_was_set_back() {
        let at = Timestamp::from_millis;
        assert_eq!(after(at(0), at(5_000)), at(5_000));
        assert_eq!(after(at(5_000), at(5_000)), at(5_001));
        assert_eq!(after(at(5_999), at(5_000)), at(6_000), "{AHEAD_MAX:?} ahead, and no further");
        assert_eq!(after(at(6_000), at(5_000)), at(5_000));
    }
}
