//! What was promised, kept outside of the engine.

use super::{key, options};
use crate::{
    disk::OsDisk,
    engine::{Applied, Change, Engine, Value},
    frame::Kind,
    store::Records,
};
use semel_core::{
    fence::Fence,
    time::{Clock, Timestamp},
};
use semel_testkit::ManualClock;
use std::{collections::HashMap, path::Path, sync::Arc, time::Duration};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) fence: Fence,
    pub(crate) payload: Vec<u8>,
    pub(crate) expires_at: Timestamp,
}

#[derive(Default)]
pub(crate) struct Oracle {
    /// Every write of a key since the last that was acknowledged, and that one.
    writes: HashMap<u64, History>,
    highest: Option<Fence>,
}

#[derive(Default)]
struct History {
    acknowledged: Option<Write>,
    later: Vec<Write>,
}

impl Oracle {
    pub(crate) fn was_written(&mut self, number: u64, write: Write) {
        assert!(Some(write.fence) > self.highest, "fences only grow");
        self.highest = Some(write.fence);
        self.writes.entry(number).or_default().later.push(write);
    }

    pub(crate) fn was_synced(&mut self) {
        for history in self.writes.values_mut() {
            if let Some(last) = history.later.drain(..).next_back() {
                history.acknowledged = Some(last);
            }
        }
    }

    /// A new process found this, and may show it to anybody.
    pub(crate) fn was_shown(&mut self, number: u64, value: Option<&Value>, now: Timestamp) {
        let Some(history) = self.writes.get_mut(&number) else { return assert_eq!(value, None) };
        let shown = history.find(number, value, now).cloned();
        history.later.clear();
        history.acknowledged = shown;
    }

    /// Opens what a power cut left, and compares.
    pub(crate) fn check(&self, directory: &Path, clock: &ManualClock) {
        let clock = ManualClock::at(clock.now() + Duration::from_secs(1));
        let now = clock.now();
        let disk = Arc::new(OsDisk::new(directory));
        let engine = match Engine::<Records>::open(disk, clock.arc(), options()) {
            Ok(it) => it,
            Err(error) => panic!("a power cut left a store that does not open: {error}"),
        };
        for (number, history) in &self.writes {
            let value = engine.load(key(*number).identity()).expect("what a power cut leaves answers");
            history.find(*number, value.as_ref(), now);
        }
        let key = key(u64::MAX);
        let change = Change {
            identity: key.identity(),
            expected: None,
            expires_at: Timestamp::NEVER,
            kind: Kind::Settled,
            payload: b"after",
        };
        let Ok(Applied::Won { fence, .. }) = engine.apply(&change, |_| None) else {
            panic!("what a power cut leaves can be written")
        };
        assert!(Some(fence) > self.highest, "a fence was issued again");
    }
}

impl History {
    /// Which write this value is; panics if it is none that may be there.
    fn find(&self, number: u64, value: Option<&Value>, now: Timestamp) -> Option<&Write> {
        let Some(value) = value else {
            let gone = self.acknowledged.iter().chain(&self.later).any(|it| it.expires_at <= now);
            assert!(self.acknowledged.is_none() || gone, "key {number} was acknowledged, and is lost");
            return None;
        };
        let known = self.acknowledged.iter().chain(&self.later).find(|it| it.fence == value.fence);
        let Some(known) = known else {
            let fences: Vec<_> = self.acknowledged.iter().chain(&self.later).map(|it| it.fence).collect();
            panic!("key {number} is back at {}, of {fences:?} at {now:?}", value.fence)
        };
        assert_eq!(known.payload, value.payload, "key {number} has another payload than was written");
        Some(known)
    }
}
