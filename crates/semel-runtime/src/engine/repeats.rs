//! How often events came again.
//!
//! 1. Duplicates are counted in memory, and written to their executions every [`EVERY`], together.
//! 2. An execution in progress is left alone: writing would supersede its holder. Its count waits.
//! 3. Whoever asks this node is told of both, what is written and what is not yet.
//! 4. What is counted is bounded: of more than [`IDS_MAX`] executions at once, the rest goes uncounted.
//!
//! A node that crashes forgets what it had not written: the numbers are for people, and nothing is decided by them.

use super::shared::{Engine, Stage, locked};
use semel_core::{
    execution::{ExecutionId, Input, Repeats, step},
    queue::{BATCH_MAX, Change, Fenced},
    record::Status,
    retry::{Jitter, RetryPolicy},
    time::Timestamp,
};
use std::{collections::BTreeMap, mem, sync::Arc, time::Duration};

/// How often counts are written.
pub(crate) const EVERY: Duration = Duration::from_secs(1);
/// Most executions whose duplicates are counted at once.
pub(crate) const IDS_MAX: usize = 4_096;

/// Duplicates that were not written yet.
#[derive(Debug, Default)]
pub(crate) struct Repeated {
    counts: BTreeMap<ExecutionId, Repeats>,
}

impl Repeated {
    /// One more came.
    pub(crate) fn note(&mut self, now: Timestamp, id: ExecutionId, is_same: bool) {
        let one = Repeats { same: u32::from(is_same), other: u32::from(!is_same), last_at: Some(now) };
        self.add(id, one);
    }

    fn add(&mut self, id: ExecutionId, more: Repeats) {
        if let Some(counted) = self.counts.get_mut(&id) {
            *counted = counted.plus(more);
        } else if self.counts.len() < IDS_MAX {
            self.counts.insert(id, more);
        }
    }

    /// Of this execution.
    pub(crate) fn of(&self, id: &ExecutionId) -> Repeats {
        self.counts.get(id).copied().unwrap_or_default()
    }

    fn take(&mut self) -> BTreeMap<ExecutionId, Repeats> {
        mem::take(&mut self.counts)
    }
}

/// Writes counts, until the runtime stops.
pub(crate) async fn write_repeats(engine: Arc<Engine>) {
    while engine.stage() == Stage::Running {
        engine.clock.sleep(EVERY).await;
        write_now(&engine).await;
    }
}

async fn write_now(engine: &Engine) {
    let counts: Vec<_> = locked(&engine.repeated).take().into_iter().collect();
    for batch in counts.chunks(BATCH_MAX / 2) {
        let ids: Vec<_> = batch.iter().map(|(id, _)| *id).collect();
        // What cannot be read or written now is forgotten: nothing is decided by it.
        let Ok(found) = engine.queue.get(&ids).await else { return };
        let now = engine.clock.now();
        let mut changes = Vec::new();
        for ((id, more), found) in batch.iter().zip(found) {
            match found {
                Some(found) if found.value.status() == Status::InProgress => {
                    locked(&engine.repeated).add(*id, *more);
                }
                Some(found) => changes.extend(repeated(now, &found, *more)),
                None => {}
            }
        }
        if !changes.is_empty() {
            let _forgotten = engine.queue.write(&changes).await;
        }
    }
}

fn repeated(
    now: Timestamp,
    found: &Fenced<semel_core::execution::Execution>,
    more: Repeats,
) -> Option<Change> {
    // The policy has no say in a repeat.
    let after = step(now, &found.value, Input::Repeat(more), &RetryPolicy::default(), Jitter::LEAST).ok()?;
    Some(Change { expected: found.fence, after, causes: Vec::new() })
}
