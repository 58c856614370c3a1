//! The conformance suite passes a right store, and names the rule that a wrong one breaks.

use semel_core::{
    BoxFuture,
    fence::Fence,
    key::Key,
    record::{Body, Record, State, Stored},
    store::{Store, StoreError, Swap},
    time::{Clock, Timestamp},
};
use semel_testkit::{ManualClock, conformance};
use std::{
    collections::HashMap,
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll, Waker},
};

/// What a store may get wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flaw {
    None,
    NoGuard,
    GuardByOrder,
    GuardByState,
    GhostIsCreated,
    LoserSeesNothing,
    LoserSeesItsOwn,
    FenceStaysForTheSame,
    FenceRestartsAfterPurge,
    SwapInTwoSteps,
    PurgeTakesUnfinished,
    PurgeIgnoresTheMoment,
    PurgeIgnoresTheLimit,
    ExpiredShownBare,
    KeyByText,
    KeyByCaselessText,
    KeyCutShort,
    BodyCutShort,
    AttemptsCutShort,
    ErrorForgotten,
}

struct Flawed {
    flaw: Flaw,
    clock: ManualClock,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    last: HashMap<Vec<u8>, Fence>,
    records: HashMap<Vec<u8>, Stored>,
}

impl Flawed {
    fn new(flaw: Flaw) -> Self {
        Self { flaw, clock: ManualClock::new(), inner: Mutex::default() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("no caller panics while it holds this")
    }

    fn address(&self, key: &Key) -> Vec<u8> {
        match self.flaw {
            Flaw::KeyByText => key.to_string().into_bytes(),
            Flaw::KeyByCaselessText => key.to_string().to_lowercase().into_bytes(),
            Flaw::KeyCutShort => key.preimage()[..key.preimage().len().min(255)].to_vec(),
            _ => key.identity().as_bytes().to_vec(),
        }
    }

    fn may_write(&self, current: Option<&Stored>, expected: Option<Fence>) -> bool {
        let fence = current.map(|it| it.fence);
        match self.flaw {
            Flaw::NoGuard => true,
            Flaw::GuardByOrder => fence <= expected,
            Flaw::GuardByState => {
                fence == expected
                    || current.is_some_and(|it| matches!(it.record.state, State::InProgress { .. }))
            }
            Flaw::GhostIsCreated => fence.is_none() || fence == expected,
            _ => fence == expected,
        }
    }

    fn next_fence(&self, inner: &Inner, address: &[u8], record: &Record) -> Fence {
        let current = inner.records.get(address);
        match (self.flaw, current) {
            (Flaw::FenceStaysForTheSame, Some(it)) if it.record == *record => it.fence,
            (Flaw::FenceRestartsAfterPurge, None) => Fence::new(1).expect("one is not zero"),
            _ => {
                let last = inner.last.get(address).map_or(0, |it| it.get());
                Fence::new(last + 1).expect("more than zero")
            }
        }
    }

    fn as_kept(&self, record: &Record) -> Record {
        let mut record = record.clone();
        match (self.flaw, &mut record.state) {
            (Flaw::BodyCutShort, State::Completed(Body::Kept { bytes, .. })) => bytes.truncate(65_535),
            (Flaw::AttemptsCutShort, _) => record.attempts = record.attempts.min(0xffff),
            (Flaw::ErrorForgotten, State::Pending { error, .. }) => *error = None,
            _ => {}
        }
        record
    }

    fn write(&self, address: Vec<u8>, expected: Option<Fence>, record: &Record) -> Swap {
        let mut inner = self.inner();
        let current = inner.records.get(&address).cloned();
        if !self.may_write(current.as_ref(), expected) {
            return Swap::Lost(match self.flaw {
                Flaw::LoserSeesNothing => None,
                Flaw::LoserSeesItsOwn => current.map(|it| Stored { record: record.clone(), ..it }),
                _ => current,
            });
        }
        self.force(&mut inner, address, record)
    }

    fn force(&self, inner: &mut Inner, address: Vec<u8>, record: &Record) -> Swap {
        let fence = self.next_fence(inner, &address, record);
        inner.last.insert(address.clone(), fence);
        inner.records.insert(address, Stored { fence, record: self.as_kept(record) });
        Swap::Won(fence)
    }

    async fn in_two_steps(&self, address: Vec<u8>, expected: Option<Fence>, record: &Record) -> Swap {
        let current = self.inner().records.get(&address).cloned();
        if !self.may_write(current.as_ref(), expected) {
            return Swap::Lost(current);
        }
        let mut waited = false;
        poll_fn(|_| if std::mem::replace(&mut waited, true) { Poll::Ready(()) } else { Poll::Pending }).await;
        self.force(&mut self.inner(), address, record)
    }
}

impl Store for Flawed {
    fn load<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        Box::pin(async move {
            let mut found = self.inner().records.get(&self.address(key)).cloned();
            if let (Flaw::ExpiredShownBare, Some(it)) = (self.flaw, &mut found)
                && it.record.is_expired(self.clock.now())
            {
                it.record.state = State::Pending { due_at: Timestamp::EPOCH, error: None };
            }
            Ok(found)
        })
    }

    fn swap<'a>(
        &'a self,
        key: &'a Key,
        expected: Option<Fence>,
        record: &'a Record,
    ) -> BoxFuture<'a, Result<Swap, StoreError>> {
        let address = self.address(key);
        Box::pin(async move {
            Ok(match self.flaw {
                Flaw::SwapInTwoSteps => self.in_two_steps(address, expected, record).await,
                _ => self.write(address, expected, record),
            })
        })
    }

    fn purge(&self, expired_at: Timestamp, limit: u32) -> BoxFuture<'_, Result<u32, StoreError>> {
        Box::pin(async move {
            let mut inner = self.inner();
            let is_due = |it: &Record| match self.flaw {
                Flaw::PurgeTakesUnfinished => it.expires_at <= expired_at || !it.status().is_terminal(),
                Flaw::PurgeIgnoresTheMoment => it.is_expired(self.clock.now()),
                _ => it.expires_at <= expired_at,
            };
            let limit = if self.flaw == Flaw::PurgeIgnoresTheLimit { usize::MAX } else { limit as usize };
            let due: Vec<_> = inner.records.iter().filter(|(_, it)| is_due(&it.record)).take(limit).collect();
            let due: Vec<Vec<u8>> = due.into_iter().map(|(address, _)| address.clone()).collect();
            for it in &due {
                inner.records.remove(it);
            }
            Ok(due.len() as u32)
        })
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.arc()
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(it) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return it;
        }
    }
}

#[test]
fn a_right_store_passes() {
    let store = Flawed::new(Flaw::None);
    block_on(conformance::all(&store));
    block_on(conformance::all(&store));
    block_on(conformance::purge_takes_the_expired_at_once(&store));
}

#[test]
fn a_right_store_passes_with_a_thread_for_each_caller() {
    let spawn = |task| drop(std::thread::spawn(|| block_on(task)));
    block_on(conformance::contended(Arc::new(Flawed::new(Flaw::None)), spawn));
}

#[test]
fn every_flaw_is_caught_by_the_rule_about_it() {
    let expected = [
        (Flaw::NoGuard, "a_stale_fence_never_writes"),
        (Flaw::GuardByOrder, "a_fence_from_the_future_never_writes"),
        (Flaw::GuardByState, "a_stale_fence_never_writes"),
        (Flaw::GhostIsCreated, "a_fence_on_an_absent_key_is_lost_and_leaves_no_trace"),
        (Flaw::LoserSeesNothing, "a_lost_swap_shows_the_current_record"),
        (Flaw::LoserSeesItsOwn, "a_lost_swap_shows_the_current_record"),
        (Flaw::FenceStaysForTheSame, "the_same_record_written_twice_gets_two_fences"),
        (Flaw::FenceRestartsAfterPurge, "fences_grow_over_purge_and_creation"),
        (Flaw::SwapInTwoSteps, "concurrent_swaps_have_one_winner_per_generation"),
        (Flaw::PurgeTakesUnfinished, "purge_never_takes_unexpired_or_unfinished_records"),
        (Flaw::PurgeIgnoresTheMoment, "purge_respects_the_moment_it_is_given"),
        (Flaw::PurgeIgnoresTheLimit, "purge_of_nothing_takes_nothing"),
        (Flaw::ExpiredShownBare, "an_expired_record_is_shown_as_it_was_or_absent"),
        (Flaw::KeyByText, "keys_that_look_alike_are_apart"),
        (Flaw::KeyByCaselessText, "keys_that_look_alike_are_apart"),
        (Flaw::KeyCutShort, "unicode_and_long_keys_work"),
        (Flaw::BodyCutShort, "large_and_empty_bodies_load_back_as_written"),
        (Flaw::AttemptsCutShort, "extreme_numbers_load_back_as_written"),
        (Flaw::ErrorForgotten, "every_state_loads_back_as_written"),
    ];
    for (flaw, rule) in expected {
        let check = || block_on(conformance::all(&Flawed::new(flaw)));
        let panic = std::panic::catch_unwind(check).expect_err(&format!("{flaw:?} went unnoticed"));
        let message = panic.downcast_ref::<String>().expect("a formatted message");
        assert!(
            message.contains(&format!("  {rule}: ")),
            "{flaw:?} is not caught by `{rule}` but by\n{message}"
        );
    }
}
