//! What must never happen, checked when it would.
//!
//! 1. No start after complete, unless somebody redrove it.
//! 2. One claim is at most one start: no fence is seen twice.
//! 3. Attempts are counted before the call: the n-th start of a generation is at least its n-th attempt.
//! 4. Fences of one execution only grow.
//! 5. Of executions under one order, none is handed out while one before it is unfinished.
//! 6. Nothing is started of a function that was said to be drained, until somebody resumes it.
//! 7. No node calls a function by more at once than its concurrency says, but for one probe.
//! 8. Nothing is handed out before it is due or its lease has lapsed, by the queue's clock, and nothing that is parked or over
//!    is handed out at all. A node that starts what its sender waits for goes by what it takes for that clock.
//! 9. What failed is due again after the policy's backoff: no sooner than its shortest delay, no later than its longest. What
//!    was interrupted may still be at work: it is not due again before its lease would have lapsed, and may be due just then.
//! 10. What finished is remembered for its retention: its event is a duplicate until then.
//!
//! When the queue's clock jumps forwards, leases lapse that should not, and what was claimed before may be started while
//! another node has completed it: for as long as a start may come after its claim, and no longer. Nodes' own clocks excuse
//! nothing.

use super::{
    functions::{BACKOFF_MAX, BACKOFF_MIN},
    node::LEARNED_WRONG_MS,
};
use semel_core::{
    execution::{Due, Execution, ExecutionId, Phase},
    fence::Fence,
    queue::{Change, Fenced},
    record::Status,
    time::Timestamp,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// How long after its claim was asked for an attempt is started at most.
const START_MAX: Duration = Duration::from_secs(5);
/// How early a node may be that goes by what it takes for the queue's clock.
const EARLY_MAX: Duration = Duration::from_millis(LEARNED_WRONG_MS as u64);

#[derive(Debug, Default)]
pub(super) struct Oracle {
    stories: BTreeMap<String, Story>,
    /// Unfinished executions that were handed out, by function and order, with their sequences.
    lines: BTreeMap<(Arc<str>, Arc<str>), BTreeMap<u64, ExecutionId>>,
    /// Acknowledged to their senders.
    pub(super) acknowledged: BTreeSet<ExecutionId>,
    /// What must never happen, and did: the first of it. A panic would be caught by the engine.
    pub(super) violation: Option<String>,
    /// What is started until then may have been claimed before the queue's clock jumped forwards, by the clock that never jumps.
    excused_until: Duration,
    /// The latest moment that the queue's clock showed when it jumped: what had expired by then may be gone.
    latest: Timestamp,
    /// Functions of which nothing is to be started.
    drained: BTreeSet<&'static str>,
    /// How often somebody resumed each function.
    resumed: BTreeMap<&'static str, u32>,
    pub(super) starts: u64,
    pub(super) completions: u64,
}

#[derive(Debug, Default)]
struct Story {
    /// What stands, as far as it is known.
    stands: Option<Stands>,
    /// How often its key was accepted anew after it had expired.
    life: u32,
    /// The fence under which it was completed, in this generation.
    completed: Option<u64>,
    generation: u32,
    /// The fence under which this generation began.
    generation_from: u64,
    starts_in_generation: u32,
    attempt_max: u32,
    fences_started: BTreeSet<u64>,
    fence_seen: u64,
    /// How often its function said that it took effect.
    effects: u32,
}

/// What stands of an execution.
#[derive(Debug)]
struct Stands {
    due_at: Option<Timestamp>,
    expires_at: Timestamp,
    attempts: u32,
    is_running: bool,
}

impl Stands {
    fn of(execution: &Execution) -> Self {
        Self {
            due_at: execution.due_at(),
            expires_at: execution.expires_at,
            attempts: execution.attempts,
            is_running: execution.status() == Status::InProgress,
        }
    }
}

impl Oracle {
    fn story(&mut self, id: &str) -> &mut Story {
        self.stories.entry(id.to_owned()).or_default()
    }

    /// Something happened that must never happen, unless this holds.
    pub(super) fn check(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds && self.violation.is_none() {
            self.violation = Some(what());
        }
    }

    /// The queue took this as new. Whether something of its key had expired before.
    pub(super) fn accepted(&mut self, now: Timestamp, fence: Fence, new: &Execution) -> bool {
        let (id, fence) = (new.id().to_string(), fence.get());
        let story = self.story(&id);
        let seen = std::mem::replace(&mut story.fence_seen, fence);
        let before = story.stands.replace(Stands::of(new));
        let is_reborn = before.is_some();
        if is_reborn {
            *story = Story {
                stands: story.stands.take(),
                life: story.life + 1,
                generation_from: seen,
                fence_seen: fence,
                fences_started: std::mem::take(&mut story.fences_started),
                ..Story::default()
            };
        }
        self.check(seen < fence, || format!("{id}: fence {fence} after {seen}"));
        if let Some(Stands { expires_at, .. }) = before {
            // Who purges goes by what it takes for the queue's clock.
            let has_expired = expires_at <= now.max(self.latest) + EARLY_MAX;
            self.check(has_expired, || {
                format!("{id} was forgotten at {now:?}, and expires at {expires_at:?}")
            });
        }
        is_reborn
    }

    /// How often a key was accepted anew.
    pub(super) fn life(&mut self, id: ExecutionId) -> u32 {
        self.story(&id.to_string()).life
    }

    /// Whether an execution may be gone by now.
    pub(super) fn may_be_gone(&mut self, now: Timestamp, id: ExecutionId) -> bool {
        let latest = now.max(self.latest) + EARLY_MAX;
        self.story(&id.to_string()).stands.as_ref().is_some_and(|it| it.expires_at <= latest)
    }

    /// The queue handed this out.
    pub(super) fn claimed(&mut self, now: Timestamp, held: &Fenced<Execution>) {
        let (id, fence) = (held.value.id(), held.fence.get());
        let story = self.story(&id.to_string());
        let before = story.stands.replace(Stands::of(&held.value));
        let seen = std::mem::replace(&mut story.fence_seen, fence);
        self.check(seen < fence, || format!("{id}: fence {fence} after {seen}"));
        if let Some(before) = before {
            let is_due = before.due_at.is_some_and(|it| it <= now);
            self.check(is_due, || format!("{id} is handed out at {now:?}, and was {before:?}"));
        }
        let Some(order) = &held.value.order else { return };
        let line = self.lines.entry((Arc::clone(&held.value.function), Arc::clone(&order.key))).or_default();
        let is_first = line.first_key_value().is_none_or(|(first, _)| order.sequence <= *first);
        line.insert(order.sequence, id);
        self.check(is_first, || format!("{id} overtakes what is unfinished under {}", order.key));
    }

    /// The queue wrote this. Whether somebody restarted it who waits for it.
    pub(super) fn written(&mut self, now: Timestamp, fence: Fence, change: &Change) -> bool {
        let after = &change.after;
        for cause in &change.causes {
            self.story(&cause.id().to_string()).stands.get_or_insert_with(|| Stands::of(cause));
        }
        let (id, fence) = (after.id().to_string(), fence.get());
        let story = self.story(&id);
        let before = story.stands.replace(Stands::of(after));
        if let Some(before) = before.filter(|_| after.generation == story.generation) {
            self.check_due(now, &before, after);
        }
        let story = self.story(&id);
        let seen = std::mem::replace(&mut story.fence_seen, fence);
        let is_restart = after.generation > story.generation && after.status() == Status::InProgress;
        if after.generation > story.generation {
            let (fences_started, effects) = (std::mem::take(&mut story.fences_started), story.effects);
            let generation = after.generation;
            *story = Story {
                stands: story.stands.take(),
                life: story.life,
                generation,
                generation_from: fence,
                fence_seen: fence,
                fences_started,
                effects,
                ..Story::default()
            };
        }
        let (before, effects) = (story.completed, story.effects);
        if after.status() == Status::Completed {
            story.completed = Some(fence);
            self.completions += u64::from(before.is_none());
            let is_repeat = after.repeats.last_at.is_some();
            self.check(before.is_none() || is_repeat, || format!("{id} was completed twice"));
            self.check(effects > 0, || format!("{id} was completed without its function"));
        } else {
            self.check(before.is_none(), || format!("{id} was completed, and is {}", after.phase.as_str()));
        }
        self.check(seen < fence, || format!("{id}: fence {fence} after {seen}"));
        if after.status().is_terminal()
            && let Some(order) = &after.order
            && let Some(line) = self.lines.get_mut(&(Arc::clone(&after.function), Arc::clone(&order.key)))
        {
            line.remove(&order.sequence);
        }
        is_restart
    }

    /// What is started early, or is due too early or too late.
    fn check_due(&mut self, now: Timestamp, before: &Stands, after: &Execution) {
        let is_claimed = after.status() == Status::InProgress && after.attempts > before.attempts;
        let is_due = before.due_at.is_some_and(|it| it <= now + EARLY_MAX);
        self.check(!is_claimed || is_due, || format!("{} is started at {now:?}: {before:?}", after.id()));
        // What was handed back counts no attempt, and is due when whoever hands it back says so.
        if let Phase::Pending(Due::At(due_at)) = after.phase
            && before.is_running
            && after.attempts == before.attempts
        {
            let delay = due_at.since(after.updated_at);
            let in_band = (BACKOFF_MIN..=BACKOFF_MAX).contains(&delay);
            let is_interrupted = after.last_error.as_deref().is_some_and(|it| it.starts_with("interrupted"));
            let is_law = match before.due_at {
                Some(lease_until) if is_interrupted => {
                    lease_until == due_at || lease_until < due_at && in_band
                }
                Some(_) | None => in_band,
            };
            self.check(is_law, || format!("{} is due again after {delay:?}", after.id()));
        }
    }

    /// How often somebody resumed a function.
    pub(super) fn resumed(&self, function: &'static str) -> u32 {
        self.resumed.get(function).copied().unwrap_or_default()
    }

    /// Somebody is about to resume a function.
    pub(super) fn resumes(&mut self, function: &'static str) {
        *self.resumed.entry(function).or_default() += 1;
        self.drained.remove(function);
    }

    /// A function was said to be drained; it had been resumed so often before. Whether that counts.
    pub(super) fn drained(&mut self, function: &'static str, resumed: u32) -> bool {
        let counts = self.resumed(function) == resumed;
        if counts {
            self.drained.insert(function);
        }
        counts
    }

    /// A function is called.
    pub(super) fn started(&mut self, at: Duration, function: &str, id: &str, fence: u64, attempt: u32) {
        self.starts += 1;
        let is_drained = self.drained.contains(function);
        self.check(!is_drained, || format!("{id} is started, and {function} was said to be drained"));
        let is_excused = at <= self.excused_until;
        let story = self.story(id);
        let is_new = story.fences_started.insert(fence);
        let is_of_generation = fence > story.generation_from;
        let completed = story.completed.filter(|_| is_of_generation);
        story.starts_in_generation += u32::from(is_of_generation);
        story.attempt_max = story.attempt_max.max(attempt);
        let (starts, attempts) = (story.starts_in_generation, story.attempt_max);
        self.check(is_new, || format!("{id}: two starts under fence {fence}"));
        self.check(completed.is_none() || is_excused, || {
            format!("{id} is started under fence {fence} after it was completed under {completed:?}")
        });
        self.check(starts <= attempts, || format!("{id}: {starts} starts and {attempts} attempts"));
    }

    /// A function says that the event took effect.
    pub(super) fn took_effect(&mut self, id: &str) {
        self.story(id).effects += 1;
    }

    /// The queue's clock jumps at this moment. If it does so forwards, leases lapse that should not.
    pub(super) fn jumps(&mut self, now: Timestamp, monotonic: Duration, is_forwards: bool) {
        self.latest = self.latest.max(now);
        if is_forwards {
            self.excused_until = monotonic + START_MAX;
        }
    }
}
