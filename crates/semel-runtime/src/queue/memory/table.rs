//! The executions and their indexes, as they stand at one moment.
//!
//! 1. [`Table::replace`] is the only way in and out: it keeps the indexes and the counters true.
//! 2. An order's line holds its unfinished executions by sequence. Whenever a line changes, its head is looked
//!    at anew.

use super::super::cursor::Place;
use semel_core::{
    execution::{Execution, ExecutionId, claimed},
    fence::Fence,
    queue::{Accepted, Change, Counts, Fenced, Filter, Page, Want, Written},
    record::Holder,
    time::Timestamp,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

#[derive(Default)]
pub(super) struct Table {
    rows: BTreeMap<ExecutionId, Fenced<Execution>>,
    /// What can be handed out, by function, the longest due first.
    due: BTreeMap<Arc<str>, BTreeMap<(Timestamp, Fence), ExecutionId>>,
    /// The unfinished executions of each function and order, by sequence.
    lines: BTreeMap<Line, BTreeMap<u64, ExecutionId>>,
    listed: BTreeSet<Place>,
    /// What will expire, the earliest first.
    expiring: BTreeSet<(Timestamp, ExecutionId)>,
    counts: BTreeMap<Arc<str>, Counts>,
    /// The last fence issued, to whichever execution.
    last: Option<Fence>,
    /// The last sequence given, under whichever order.
    sequence: u64,
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn get(&self, id: &ExecutionId) -> Option<&Fenced<Execution>> {
        self.rows.get(id)
    }

    pub(super) fn accept(&mut self, now: Timestamp, new: &Execution) -> Accepted {
        let id = new.id();
        match self.rows.get(&id) {
            Some(found) if !found.value.is_expired(now) => Accepted::Duplicate(Box::new(found.clone())),
            found => {
                if found.is_some() {
                    self.purge_one(&id);
                }
                Accepted::New(self.insert(now, new))
            }
        }
    }

    fn insert(&mut self, now: Timestamp, new: &Execution) -> Fence {
        let mut value = new.clone();
        if let Some(order) = &mut value.order {
            self.sequence += 1;
            order.sequence = self.sequence;
        }
        self.counted(&value).accepted += 1;
        self.put(now, value)
    }

    pub(super) fn claim(&mut self, now: Timestamp, holder: Holder, want: &Want) -> Vec<Fenced<Execution>> {
        let Some(due) = self.due.get(&want.function) else { return Vec::new() };
        let chosen = due.iter().take_while(|((at, _), _)| *at <= now).take(want.limit as usize);
        let chosen: Vec<ExecutionId> = chosen.map(|(_, id)| *id).collect();
        let hand_out = |id: ExecutionId| {
            let value = claimed(now, &self.rows.get(&id)?.value, holder, now + want.lease)?;
            Some(Fenced { fence: self.put(now, value.clone()), value })
        };
        chosen.into_iter().filter_map(hand_out).collect()
    }

    pub(super) fn write(&mut self, now: Timestamp, change: &Change) -> Written {
        let found = self.rows.get(&change.after.id());
        if found.map(|it| it.fence) != Some(change.expected) {
            return Written::Lost;
        }
        let fence = self.put(now, change.after.clone());
        for cause in &change.causes {
            // One that is there already is left as it is.
            let _: Accepted = self.accept(now, cause);
        }
        Written::Won(fence)
    }

    pub(super) fn list(&self, filter: &Filter, from: Option<Place>, limit: usize) -> Page<Fenced<Execution>> {
        let behind = (Bound::Unbounded, from.map_or(Bound::Unbounded, Bound::Excluded));
        let rows = self.listed.range(behind).rev().filter_map(|place| self.rows.get(&place.id));
        let mut items: Vec<_> =
            rows.filter(|it| filter.matches(&it.value)).take(limit + 1).cloned().collect();
        let is_more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| is_more).map(|it| Place::of(&it.value).cursor());
        Page { items, next }
    }

    pub(super) fn counts(&self) -> Vec<Counts> {
        self.counts.values().cloned().collect()
    }

    pub(super) fn purge(&mut self, expired_at: Timestamp, limit: u32) -> u32 {
        let expired = self.expiring.iter().take_while(|(at, _)| *at <= expired_at);
        let chosen: Vec<ExecutionId> = expired.take(limit as usize).map(|(_, id)| *id).collect();
        for id in &chosen {
            self.purge_one(id);
        }
        chosen.len() as u32
    }

    fn purge_one(&mut self, id: &ExecutionId) {
        if let Some(gone) = self.replace(*id, None) {
            self.counted(&gone.value).purged += 1;
        }
    }

    fn put(&mut self, now: Timestamp, value: Execution) -> Fence {
        let fence = Fence::next(self.last, now);
        self.last = Some(fence);
        self.replace(value.id(), Some(Fenced { fence, value }));
        fence
    }

    /// Puts this in the place of what is there, and gives back what was.
    fn replace(&mut self, id: ExecutionId, after: Option<Fenced<Execution>>) -> Option<Fenced<Execution>> {
        let line = self.rows.get(&id).or(after.as_ref()).and_then(|it| Line::of(&it.value));
        if let Some(front) = self.front(line.as_ref(), id) {
            self.step_back(&front);
        }
        let before = self.rows.remove(&id);
        if let Some(before) = &before {
            self.unindex(&before.value, line.as_ref());
        }
        if let Some(after) = after {
            self.index(&after.value, line.as_ref());
            self.rows.insert(id, after);
        }
        if let Some(front) = self.front(line.as_ref(), id) {
            self.step_up(front);
        }
        before
    }

    /// Who may be handed out: the head of the line, or whoever stands in none.
    fn front(&self, line: Option<&Line>, id: ExecutionId) -> Option<ExecutionId> {
        match line {
            Some(line) => self.lines.get(line)?.first_key_value().map(|(_, id)| *id),
            None => Some(id),
        }
    }

    fn step_back(&mut self, id: &ExecutionId) {
        let Some((function, due, _)) = self.rows.get(id).and_then(due_entry) else { return };
        if let Some(entries) = self.due.get_mut(&function) {
            entries.remove(&due);
        }
    }

    fn step_up(&mut self, id: ExecutionId) {
        let Some((function, due, id)) = self.rows.get(&id).and_then(due_entry) else { return };
        self.due.entry(function).or_default().insert(due, id);
    }

    fn unindex(&mut self, gone: &Execution, line: Option<&Line>) {
        self.listed.remove(&Place::of(gone));
        self.expiring.remove(&(gone.expires_at, gone.id()));
        *self.counted(gone).of(&gone.phase) -= 1;
        if let (Some(line), Some(order)) = (line, &gone.order)
            && let Some(waiting) = self.lines.get_mut(line)
        {
            waiting.remove(&order.sequence);
            if waiting.is_empty() {
                self.lines.remove(line);
            }
        }
    }

    fn index(&mut self, new: &Execution, line: Option<&Line>) {
        self.listed.insert(Place::of(new));
        if new.expires_at < Timestamp::NEVER {
            self.expiring.insert((new.expires_at, new.id()));
        }
        *self.counted(new).of(&new.phase) += 1;
        if let (Some(line), Some(order), false) = (line, &new.order, new.status().is_terminal()) {
            self.lines.entry(line.clone()).or_default().insert(order.sequence, new.id());
        }
    }

    fn counted(&mut self, execution: &Execution) -> &mut Counts {
        let function = &execution.function;
        self.counts.entry(Arc::clone(function)).or_insert_with(|| Counts::none(Arc::clone(function)))
    }
}

/// The executions of one function under one order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    function: Arc<str>,
    order: Arc<str>,
}

impl Line {
    fn of(execution: &Execution) -> Option<Self> {
        let order = Arc::clone(&execution.order.as_ref()?.key);
        Some(Self { function: Arc::clone(&execution.function), order })
    }
}

/// The function whose index this stands in, and where; `None` if nobody has to act.
fn due_entry(it: &Fenced<Execution>) -> Option<(Arc<str>, (Timestamp, Fence), ExecutionId)> {
    let due_at = it.value.due_at()?;
    Some((Arc::clone(&it.value.function), (due_at, it.fence), it.value.id()))
}
