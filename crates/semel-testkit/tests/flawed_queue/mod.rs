//! A queue that does one thing wrong.

use semel_core::{
    BoxFuture,
    execution::{Execution, ExecutionId, Order, Phase, claimed},
    fence::Fence,
    queue::{Accepted, Change, Counts, Cursor, Demand, Fenced, Filter, PAGE_MAX, Page, Queue, Want, Written},
    record::{Holder, Reason, Status},
    store::{StoreError, StoreErrorKind},
    time::{Clock, Timestamp},
};
use semel_testkit::ManualClock;
use std::{
    collections::BTreeMap,
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard},
    task::Poll,
};

macro_rules! flaws {
    ($($flaw:ident => $rule:literal,)*) => {
        /// What a queue may get wrong.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Flaw { None, $($flaw),* }

        /// The rule about each.
        pub(crate) const CAUGHT_BY: &[(Flaw, &str)] = &[$((Flaw::$flaw, $rule)),*];
    };
}

flaws! {
    WriteUnguarded => "a_stale_fence_never_writes_to_an_execution",
    GuardByOrder => "a_fence_from_the_future_never_writes_to_an_execution",
    GhostIsCreated => "a_change_of_what_is_not_there_leaves_no_trace",
    DuplicateOverwrites => "a_duplicate_is_shown_what_is_there_and_changes_nothing",
    DuplicateSeesItsOwn => "a_duplicate_is_shown_what_is_there_and_changes_nothing",
    ExpiredIsDuplicate => "an_expired_execution_is_accepted_anew_under_a_higher_fence",
    FenceRestartsAfterPurge => "fences_grow_over_purge_and_acceptance",
    FenceStays => "the_current_fence_writes_and_gets_a_higher_one",
    ClaimedIsPending => "one_that_is_accepted_claimed_is_its_holders_until_the_lease_lapses",
    EndedIsHandedOut => "one_that_is_accepted_ended_is_kept_and_never_handed_out",
    ClaimIgnoresDue => "what_is_not_due_is_not_handed_out",
    ClaimIgnoresLimit => "the_longest_due_are_handed_out_first",
    ClaimShortestFirst => "the_longest_due_are_handed_out_first",
    ClaimAnyFunction => "each_function_has_its_own_limit_and_the_unnamed_get_nothing",
    ClaimInTwoSteps => "concurrent_claimers_never_get_the_same",
    ClaimNotStored => "what_was_handed_out_is_not_handed_out_again",
    AttemptNotCounted => "what_is_handed_out_is_leased_and_its_attempt_counted",
    LapsedIsLost => "a_lapsed_lease_is_taken_over_and_every_attempt_counts",
    CausesAlways => "causes_of_a_change_that_is_lost_are_not_accepted",
    CausesNever => "causes_are_accepted_with_a_change_that_is_won",
    CauseOverwrites => "a_cause_that_is_there_is_left_as_it_is",
    EventIsKept => "an_event_can_be_edited_and_dropped",
    OrderIgnored => "only_the_head_of_an_order_is_handed_out",
    OrderByDue => "only_the_head_of_an_order_is_handed_out",
    OrderAcrossFunctions => "a_blocked_head_blocks_only_its_own_order",
    ParkedMakesWay => "a_blocked_head_blocks_only_its_own_order",
    DeadBlocks => "a_head_that_ended_makes_way",
    RedrivenGoesLast => "a_redriven_one_takes_its_old_place",
    SequenceAsAsked => "the_sequence_is_that_of_acceptance",
    OrderTrimmed => "orders_that_look_alike_are_apart",
    ListOldestFirst => "every_filter_finds_exactly_what_matches",
    ListIgnoresErrors => "every_filter_finds_exactly_what_matches",
    NameIsTheEventsOnly => "a_name_is_the_events_id_or_the_keys",
    CursorIsOffset => "paging_is_steady_while_things_change",
    AnyCursor => "a_cursor_that_is_none_is_refused",
    PageForgetsOne => "pages_put_together_are_the_list",
    DuplicatesCounted => "what_changes_nothing_counts_nothing",
    ClaimsNotCounted => "the_counters_follow_an_execution_through_its_life",
    PurgeNotCounted => "an_expired_execution_is_shown_as_it_was_or_absent",
    PurgeTakesUnfinished => "purge_never_takes_the_unfinished_doubts_or_the_unexpired",
    PurgeTakesDoubts => "purge_never_takes_the_unfinished_doubts_or_the_unexpired",
    PurgeIgnoresTheMoment => "purge_respects_the_moment_that_it_is_given",
    PurgeIgnoresTheLimit => "purge_of_nothing_takes_no_execution",
    EventCutShort => "large_events_come_back_byte_for_byte",
    HistoryForgotten => "extreme_executions_come_back_as_written",
    FunctionCaseless => "functions_that_look_alike_are_apart",
    TypeForgotten => "hostile_names_of_events_do_no_harm",
}

pub(crate) struct Flawed {
    flaw: Flaw,
    clock: ManualClock,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    rows: BTreeMap<ExecutionId, Fenced<Execution>>,
    counts: BTreeMap<Arc<str>, Counts>,
    last: u64,
    sequence: u64,
}

impl Flawed {
    pub(crate) fn new(flaw: Flaw) -> Self {
        Self { flaw, clock: ManualClock::new(), inner: Mutex::default() }
    }

    fn is(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn accept_one(&self, inner: &mut Inner, new: &Execution) -> Accepted {
        let found = inner.rows.get(&new.id()).cloned();
        let is_there = |it: &Fenced<Execution>| {
            self.is(Flaw::ExpiredIsDuplicate) || !it.value.is_expired(self.clock.now())
        };
        if let Some(it) = found.clone().filter(is_there) {
            if self.is(Flaw::DuplicatesCounted) {
                let counts = inner.counted(&new.function);
                (counts.accepted, counts.purged) = (counts.accepted + 1, counts.purged + 1);
            }
            if self.is(Flaw::DuplicateOverwrites) {
                inner.put(self.flaw, Execution { event: new.event.clone(), ..it.value.clone() });
            }
            let shown = if self.is(Flaw::DuplicateSeesItsOwn) { new.clone() } else { it.value };
            return Accepted::Duplicate(Box::new(Fenced { fence: it.fence, value: shown }));
        }
        if found.is_some() {
            inner.remove(&new.id(), self.flaw);
        }
        inner.sequence += 1;
        let mut new = new.clone();
        if let Some(order) = new.order.as_mut().filter(|_| !self.is(Flaw::SequenceAsAsked)) {
            order.sequence = inner.sequence;
        }
        if self.is(Flaw::ClaimedIsPending) && new.status() == Status::InProgress {
            new.phase = Phase::Pending(semel_core::execution::Due::At(Timestamp::EPOCH));
        }
        inner.counted(&new.function).accepted += 1;
        Accepted::New(inner.put(self.flaw, new))
    }

    fn due(&self, inner: &Inner, want: &Want) -> Vec<ExecutionId> {
        let now = self.clock.now();
        let is_wanted = |it: &&Execution| {
            let function = it.function == want.function || self.is(Flaw::ClaimAnyFunction);
            let lapsed = it.status() == Status::InProgress && self.is(Flaw::LapsedIsLost);
            let due = match it.due_at() {
                Some(at) => at <= now || (self.is(Flaw::ClaimIgnoresDue) && it.status() == Status::Pending),
                None => self.is(Flaw::EndedIsHandedOut) && it.status() == Status::Failed,
            };
            function && due && !lapsed && self.is_head(inner, it)
        };
        let mut due: Vec<&Execution> = inner.rows.values().map(|it| &it.value).filter(is_wanted).collect();
        due.sort_by_key(|it| it.due_at());
        if self.is(Flaw::ClaimShortestFirst) {
            due.reverse();
        }
        let limit = if self.is(Flaw::ClaimIgnoresLimit) { usize::MAX } else { want.limit as usize };
        due.into_iter().take(limit).map(Execution::id).collect()
    }

    fn is_head(&self, inner: &Inner, execution: &Execution) -> bool {
        let Some(order) = execution.order.as_ref().filter(|_| !self.is(Flaw::OrderIgnored)) else {
            return true;
        };
        let same = |it: &Order| match self.flaw {
            Flaw::OrderTrimmed => it.key.trim() == order.key.trim(),
            _ => it.key == order.key,
        };
        let is_before = |it: &Execution| {
            let earlier = it.order.as_ref().is_some_and(|it| same(it) && it.sequence < order.sequence);
            let earlier = match self.flaw {
                Flaw::OrderByDue => it.order.as_ref().is_some_and(same) && it.due_at() < execution.due_at(),
                Flaw::ParkedMakesWay => earlier && it.due_at().is_some(),
                _ => earlier,
            };
            let function = it.function == execution.function || self.is(Flaw::OrderAcrossFunctions);
            let blocks = !it.status().is_terminal()
                || (self.is(Flaw::DeadBlocks) && it.phase.reason() == Some(Reason::OutcomeUnknown));
            earlier && function && blocks && it.id() != execution.id()
        };
        !inner.rows.values().any(|it| is_before(&it.value))
    }

    fn hand_out(&self, id: &ExecutionId, holder: Holder, want: &Want) -> Option<Fenced<Execution>> {
        let (mut inner, now) = (self.inner(), self.clock.now());
        let before = inner.rows.get(id)?.value.clone();
        let after = claimed(now, &before, holder, now + want.lease);
        let hasty = self.is(Flaw::ClaimInTwoSteps)
            || self.is(Flaw::ClaimIgnoresDue)
            || self.is(Flaw::EndedIsHandedOut);
        let phase = Phase::InProgress { holder, lease_until: now + want.lease, since: now };
        let mut after = after.or_else(|| hasty.then(|| Execution { phase, ..before.clone() }))?;
        if self.is(Flaw::AttemptNotCounted) {
            after.attempts = before.attempts;
        }
        if self.is(Flaw::ClaimNotStored) {
            return Some(Fenced { fence: inner.rows.get(id)?.fence, value: after });
        }
        if self.is(Flaw::ClaimsNotCounted) {
            let fence = inner.next();
            inner.rows.insert(*id, Fenced { fence, value: after.clone() });
            return Some(Fenced { fence, value: after });
        }
        Some(Fenced { fence: inner.put(self.flaw, after.clone()), value: after })
    }

    fn write_one(&self, inner: &mut Inner, change: &Change) -> Written {
        let found = inner.rows.get(&change.after.id()).cloned();
        let fence = found.as_ref().map(|it| it.fence);
        let may = match self.flaw {
            Flaw::WriteUnguarded => fence.is_some(),
            Flaw::GuardByOrder => fence.is_some_and(|it| it <= change.expected),
            Flaw::GhostIsCreated => fence.is_none_or(|it| it == change.expected),
            _ => fence == Some(change.expected),
        };
        let mut after = change.after.clone();
        if self.is(Flaw::EventIsKept) {
            after.event = found.as_ref().and_then(|it| it.value.event.clone());
        }
        if self.is(Flaw::RedrivenGoesLast) && found.is_some_and(|it| it.value.status().is_terminal()) {
            inner.sequence += 1;
            if let Some(order) = &mut after.order {
                order.sequence = inner.sequence;
            }
        }
        let written = if may { Written::Won(inner.put(self.flaw, after)) } else { Written::Lost };
        let causes = (may && !self.is(Flaw::CausesNever)) || self.is(Flaw::CausesAlways);
        for cause in change.causes.iter().filter(|_| causes) {
            if self.is(Flaw::CauseOverwrites) && inner.rows.contains_key(&cause.id()) {
                inner.put(self.flaw, cause.clone());
            }
            let _ = self.accept_one(inner, cause);
        }
        written
    }

    fn page(
        &self,
        filter: &Filter,
        from: Option<usize>,
        behind: Option<Place>,
        limit: usize,
    ) -> Page<Fenced<Execution>> {
        let inner = self.inner();
        let matches = |it: &&Fenced<Execution>| match self.flaw {
            Flaw::ListIgnoresErrors => Filter { error: None, ..filter.clone() }.matches(&it.value),
            Flaw::NameIsTheEventsOnly => {
                filter.matches(&it.value)
                    && filter.name.as_ref().is_none_or(|name| *name == it.value.origin.id)
            }
            _ => filter.matches(&it.value),
        };
        let mut found: Vec<_> = inner.rows.values().filter(matches).cloned().collect();
        found.sort_by_key(|it| place(&it.value));
        if !self.is(Flaw::ListOldestFirst) {
            found.reverse();
        }
        let is_behind = |it: &Fenced<Execution>| match behind {
            Some(from) if self.is(Flaw::ListOldestFirst) => place(&it.value) > from,
            Some(from) => place(&it.value) < from,
            None => true,
        };
        let skipped = from.unwrap_or(0) + usize::from(self.is(Flaw::PageForgetsOne) && behind.is_some());
        let items: Vec<_> =
            found.iter().filter(|it| is_behind(it)).skip(skipped).take(limit + 1).cloned().collect();
        let is_more = items.len() > limit;
        let items: Vec<_> = items.into_iter().take(limit).collect();
        let end = match (self.is(Flaw::CursorIsOffset), items.last()) {
            (true, _) => (from.unwrap_or(0) + limit).to_be_bytes().to_vec(),
            (false, Some(it)) => written(place(&it.value)),
            (false, None) => Vec::new(),
        };
        Page { next: is_more.then_some(Cursor(end)), items }
    }
}

type Place = (Timestamp, ExecutionId);

fn place(execution: &Execution) -> Place {
    (execution.accepted_at, execution.id())
}

fn written((at, id): Place) -> Vec<u8> {
    at.as_millis().to_be_bytes().into_iter().chain(*id.identity().as_bytes()).collect()
}

fn read(cursor: &Cursor) -> Option<Place> {
    let (at, id) = cursor.0.split_first_chunk()?;
    let id = semel_core::key::Identity::from_bytes(id.try_into().ok()?);
    Some((Timestamp::from_millis(u64::from_be_bytes(*at)), ExecutionId::from_identity(id)))
}

impl Inner {
    fn counted(&mut self, function: &Arc<str>) -> &mut Counts {
        self.counts.entry(Arc::clone(function)).or_insert_with(|| Counts::none(Arc::clone(function)))
    }

    fn next(&mut self) -> Fence {
        self.last += 1;
        Fence::new(self.last).expect("more than zero")
    }

    fn put(&mut self, flaw: Flaw, mut value: Execution) -> Fence {
        let id = value.id();
        let before = self.rows.get(&id).cloned();
        let fence = match (flaw, &before) {
            (Flaw::FenceStays, Some(it)) => it.fence,
            (Flaw::FenceRestartsAfterPurge, None) => Fence::new(1).expect("one is not zero"),
            _ => self.next(),
        };
        match flaw {
            Flaw::EventCutShort => value.event = value.event.map(|it| it[..it.len().min(65_535)].into()),
            Flaw::HistoryForgotten => value.history.truncate(1),
            Flaw::FunctionCaseless => value.function = value.function.to_lowercase().into(),
            Flaw::TypeForgotten => value.origin.kind = value.origin.kind.trim().into(),
            _ => {}
        }
        if let Some(before) = before {
            *self.counted(&before.value.function).of(&before.value.phase) -= 1;
        }
        *self.counted(&value.function).of(&value.phase) += 1;
        self.rows.insert(id, Fenced { fence, value });
        fence
    }

    fn remove(&mut self, id: &ExecutionId, flaw: Flaw) {
        if let Some(gone) = self.rows.remove(id) {
            let counts = self.counted(&gone.value.function);
            *counts.of(&gone.value.phase) -= 1;
            counts.purged += u64::from(flaw != Flaw::PurgeNotCounted);
        }
    }
}

impl Queue for Flawed {
    fn accept<'a>(&'a self, new: &'a [Execution]) -> BoxFuture<'a, Result<Vec<Accepted>, StoreError>> {
        Box::pin(async move {
            let mut inner = self.inner();
            Ok(new.iter().map(|it| self.accept_one(&mut inner, it)).collect())
        })
    }

    fn claim<'a>(&'a self, demand: &'a Demand) -> BoxFuture<'a, Result<Vec<Fenced<Execution>>, StoreError>> {
        Box::pin(async move {
            let mut handed_out = Vec::new();
            for want in &demand.wants {
                let chosen = self.due(&self.inner(), want);
                if self.is(Flaw::ClaimInTwoSteps) {
                    let mut waited = false;
                    poll_fn(|_| {
                        if std::mem::replace(&mut waited, true) { Poll::Ready(()) } else { Poll::Pending }
                    })
                    .await;
                }
                handed_out.extend(chosen.iter().filter_map(|id| self.hand_out(id, demand.holder, want)));
            }
            Ok(handed_out)
        })
    }

    fn write<'a>(&'a self, changes: &'a [Change]) -> BoxFuture<'a, Result<Vec<Written>, StoreError>> {
        Box::pin(async move {
            let mut inner = self.inner();
            Ok(changes.iter().map(|it| self.write_one(&mut inner, it)).collect())
        })
    }

    fn get<'a>(
        &'a self,
        ids: &'a [ExecutionId],
    ) -> BoxFuture<'a, Result<Vec<Option<Fenced<Execution>>>, StoreError>> {
        Box::pin(async move {
            let inner = self.inner();
            Ok(ids.iter().map(|id| inner.rows.get(id).cloned()).collect())
        })
    }

    fn list<'a>(
        &'a self,
        filter: &'a Filter,
        from: Option<&'a Cursor>,
        limit: u32,
    ) -> BoxFuture<'a, Result<Page<Fenced<Execution>>, StoreError>> {
        Box::pin(async move {
            let limit = limit.min(PAGE_MAX) as usize;
            if self.is(Flaw::CursorIsOffset) {
                let offset = from.and_then(|it| it.0.first_chunk()).map(|it| usize::from_be_bytes(*it));
                return Ok(self.page(filter, offset, None, limit));
            }
            let behind = from.and_then(read);
            if from.is_some() && behind.is_none() && !self.is(Flaw::AnyCursor) {
                return Err(StoreError::new(StoreErrorKind::Refused, "flawed", "no cursor of mine"));
            }
            Ok(self.page(filter, None, behind, limit))
        })
    }

    fn counts(&self) -> BoxFuture<'_, Result<Vec<Counts>, StoreError>> {
        Box::pin(async move { Ok(self.inner().counts.values().cloned().collect()) })
    }

    fn purge(&self, expired_at: Timestamp, limit: u32) -> BoxFuture<'_, Result<u32, StoreError>> {
        Box::pin(async move {
            let mut inner = self.inner();
            let is_gone = |it: &Execution| match self.flaw {
                Flaw::PurgeTakesUnfinished => it.expires_at <= expired_at || !it.status().is_terminal(),
                Flaw::PurgeTakesDoubts => {
                    it.expires_at <= expired_at || it.phase.reason() == Some(Reason::OutcomeUnknown)
                }
                Flaw::PurgeIgnoresTheMoment => it.is_expired(self.clock.now()),
                _ => it.expires_at <= expired_at,
            };
            let limit = if self.is(Flaw::PurgeIgnoresTheLimit) { usize::MAX } else { limit as usize };
            let gone = inner.rows.values().map(|it| &it.value).filter(|it| is_gone(it)).take(limit);
            let gone: Vec<ExecutionId> = gone.map(Execution::id).collect();
            for id in &gone {
                inner.remove(id, self.flaw);
            }
            Ok(gone.len() as u32)
        })
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.arc()
    }
}
