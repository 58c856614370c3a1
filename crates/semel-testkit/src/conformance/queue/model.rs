//! A queue as it should be, told by its answers: predicts what can be predicted, and judges the rest.

use super::sample::{Bench, get};
use super::{claiming::expect_claimed, sample::list};
use semel_core::{
    execution::{Execution, ExecutionId},
    fence::Fence,
    queue::{Accepted, Change, Counts, Demand, Fenced, Filter, Written},
    time::Timestamp,
};
use std::{collections::BTreeMap, sync::Arc};

/// What should stand in the queue, of one function.
pub(super) struct Model {
    rows: BTreeMap<ExecutionId, Fenced<Execution>>,
    counts: Counts,
    /// The last fence of each id, also of those that are gone.
    last: BTreeMap<ExecutionId, Fence>,
    /// The last sequence of each order.
    places: BTreeMap<Arc<str>, u64>,
}

impl Model {
    pub(super) fn new(function: &Arc<str>) -> Self {
        let counts = Counts::none(Arc::clone(function));
        Self { rows: BTreeMap::new(), counts, last: BTreeMap::new(), places: BTreeMap::new() }
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &Fenced<Execution>> {
        self.rows.values()
    }

    pub(super) fn is_there(&self, execution: &Execution, now: Timestamp) -> bool {
        self.rows.get(&execution.id()).is_some_and(|it| !it.value.is_expired(now))
    }

    /// Demands that these are the answers, and takes over what was accepted.
    pub(super) async fn accepted(
        &mut self,
        bench: &Bench<'_>,
        now: Timestamp,
        new: &[Execution],
        answers: &[Accepted],
    ) {
        for (execution, answer) in new.iter().zip(answers) {
            let id = execution.id();
            match answer {
                Accepted::New(fence) => {
                    assert!(!self.is_there(execution, now), "{id} was there, and is called new");
                    self.appeared(bench, execution, Some(*fence)).await;
                }
                Accepted::Duplicate(shown) => {
                    assert!(self.is_there(execution, now), "{id} was not there, and is called a duplicate");
                    assert_eq!(self.rows.get(&id), Some(&**shown), "a duplicate was shown something else");
                }
            }
        }
    }

    /// An execution was accepted, in an answer or as a cause.
    async fn appeared(&mut self, bench: &Bench<'_>, execution: &Execution, fence: Option<Fence>) {
        let stands = bench.stored(&execution.id()).await;
        assert!(fence.is_none_or(|it| it == stands.fence), "under another fence than was answered");
        let expected = Execution { order: stands.value.order.clone(), ..execution.clone() };
        assert_eq!(stands.value, expected, "accepted as something else");
        if let Some(order) = &stands.value.order {
            let last = self.places.insert(Arc::clone(&order.key), order.sequence);
            assert!(last < Some(order.sequence), "the sequence went from {last:?} to {}", order.sequence);
        }
        self.gone(&execution.id());
        self.counts.accepted += 1;
        self.stands(stands);
    }

    /// This stands now, under a fence that is higher than any before.
    fn stands(&mut self, it: Fenced<Execution>) {
        let id = it.value.id();
        let last = self.last.insert(id, it.fence);
        assert!(last < Some(it.fence), "the fence of {id} went from {last:?} to {}", it.fence);
        *self.counts.of(&it.value.phase) += 1;
        if let Some(before) = self.rows.insert(id, it) {
            *self.counts.of(&before.value.phase) -= 1;
        }
    }

    fn gone(&mut self, id: &ExecutionId) {
        if let Some(gone) = self.rows.remove(id) {
            *self.counts.of(&gone.value.phase) -= 1;
            self.counts.purged += 1;
        }
    }

    /// What may be handed out, the longest due first.
    pub(super) fn due(&self, now: Timestamp) -> Vec<&Fenced<Execution>> {
        let is_due = |it: &&Fenced<Execution>| it.value.due_at().is_some_and(|at| at <= now);
        let mut due: Vec<_> = self.rows().filter(is_due).filter(|it| self.is_head(&it.value)).collect();
        due.sort_by_key(|it| it.value.due_at());
        due
    }

    fn is_head(&self, execution: &Execution) -> bool {
        let Some(order) = &execution.order else { return true };
        let before = |it: &Fenced<Execution>| {
            let earlier = it.value.order.as_ref().filter(|it| it.key == order.key);
            earlier.is_some_and(|it| it.sequence < order.sequence) && !it.value.status().is_terminal()
        };
        !self.rows().any(before)
    }

    /// Demands that this was to be handed out, all of it and no more, and takes it over.
    pub(super) fn claimed(&mut self, now: Timestamp, demand: &Demand, handed_out: &[Fenced<Execution>]) {
        let want = &demand.wants[0];
        let due: Vec<Fenced<Execution>> = self.due(now).into_iter().cloned().collect();
        let expected = due.len().min(want.limit as usize);
        assert_eq!(handed_out.len(), expected, "{} are due, {} were wanted", due.len(), want.limit);
        for (it, should) in handed_out.iter().zip(&due) {
            let before = due.iter().find(|before| before.value.id() == it.value.id());
            let before = before.unwrap_or_else(|| panic!("{it:?} was not to be handed out"));
            assert_eq!(before.value.due_at(), should.value.due_at(), "not the longest due first");
            expect_claimed(before, it, demand.holder, want.lease);
            self.stands(it.clone());
        }
    }

    /// Demands that these are the answers, and takes over what was won.
    pub(super) async fn written(
        &mut self,
        bench: &Bench<'_>,
        now: Timestamp,
        changes: &[Change],
        answers: &[Written],
    ) {
        for (change, answer) in changes.iter().zip(answers) {
            let found = self.rows.get(&change.after.id());
            let is_current = found.is_some_and(|it| it.fence == change.expected);
            match answer {
                Written::Lost => assert!(!is_current, "a change was lost to nobody: {change:?}"),
                Written::Won(fence) => {
                    assert!(is_current, "a stale change was won: {change:?}");
                    self.stands(Fenced { fence: *fence, value: change.after.clone() });
                    for cause in &change.causes {
                        if !self.is_there(cause, now) {
                            self.appeared(bench, cause, None).await;
                        }
                    }
                }
            }
        }
    }

    /// Looks which of those that expired by this moment are gone; the others may not be.
    pub(super) async fn purged(&mut self, bench: &Bench<'_>, expired_at: Timestamp, count: u32) {
        let expired: Vec<ExecutionId> =
            self.rows().filter(|it| it.value.is_expired(expired_at)).map(|it| it.value.id()).collect();
        let mut gone = 0;
        for id in expired {
            if bench.get(&id).await.is_none() {
                self.gone(&id);
                gone += 1;
            }
        }
        assert!(gone <= count, "{gone} are gone, and {count} were purged");
    }

    /// Demands that everything stands, is listed and counted as it should be.
    pub(super) async fn holds(&self, bench: &Bench<'_>, filter: &Filter) {
        let ids: Vec<ExecutionId> = self.last.keys().copied().collect();
        for ids in ids.chunks(100) {
            let expected: Vec<_> = ids.iter().map(|id| self.rows.get(id).cloned()).collect();
            assert_eq!(get(bench.queue, ids).await, expected, "something else stands");
        }
        let mut listed = list(bench.queue, filter, 17).await;
        let times: Vec<Timestamp> = listed.iter().map(|it| it.value.accepted_at).collect();
        assert!(times.is_sorted_by(|a, b| a >= b), "the latest accepted is not first");
        listed.sort_by_key(|it| it.value.id());
        let matching: Vec<_> = self.rows().filter(|it| filter.matches(&it.value)).cloned().collect();
        assert_eq!(listed, matching, "by {filter:?}");
        assert_eq!(bench.counts().await, self.counts);
    }
}
