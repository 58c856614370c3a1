//! Executions, demands and shorthands for the rules.

use semel_core::{
    execution::{Arrival, Due, Execution, ExecutionId, Origin, Phase, claimed},
    fence::Fence,
    fingerprint::Fingerprint,
    key::Key,
    queue::{Accepted, Change, Counts, Demand, Fenced, Filter, PAGE_MAX, Page, Queue, Want, Written},
    record::{Body, Holder, Reason},
    time::Timestamp,
};
use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

pub(super) const HOUR: Duration = Duration::from_hours(1);
pub(super) const MINUTE: Duration = Duration::from_mins(1);
/// Most pages that a list of the suite may take: a queue may give short ones, but not for ever.
const PAGES_MAX: usize = 10_000;

/// A number that no earlier run and no other rule has.
pub(super) fn fresh_number() -> u64 {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    // Randomly keyed, so that the count gives another number in every process.
    RandomState::new().hash_one(RUNS.fetch_add(1, Ordering::Relaxed))
}

/// A function that no earlier run and no other rule has.
pub(super) fn fresh_function() -> Arc<str> {
    format!("conformance-{:016x}", fresh_number()).into()
}

pub(super) fn fresh_holder() -> Holder {
    Holder(u128::from(fresh_number()) << 64 | u128::from(fresh_number()))
}

/// A queue, and a function on it that is this rule's alone.
pub(super) struct Bench<'a> {
    pub(super) queue: &'a dyn Queue,
    pub(super) function: Arc<str>,
}

impl<'a> Bench<'a> {
    pub(super) fn new(queue: &'a dyn Queue) -> Self {
        Self::named(queue, fresh_function())
    }

    pub(super) fn named(queue: &'a dyn Queue, function: Arc<str>) -> Self {
        Self { queue, function }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.queue.clock().now()
    }

    /// An execution of an event with this id, due at this moment.
    pub(super) fn due_at(&self, id: &str, due_at: Timestamp) -> Execution {
        self.arrived(id, None, due_at)
    }

    /// An execution of an event with this id, due for an hour.
    pub(super) fn due(&self, id: &str) -> Execution {
        self.due_at(id, self.now() - HOUR)
    }

    /// An execution that stands under this order, due for an hour.
    pub(super) fn ordered(&self, id: &str, order: &str) -> Execution {
        self.arrived(id, Some(order), self.now() - HOUR)
    }

    fn arrived(&self, id: &str, order: Option<&str>, due_at: Timestamp) -> Execution {
        let event: Arc<[u8]> = format!("{{\"id\":\"{id}\"}}").into_bytes().into();
        let arrival = Arrival {
            key: Key::new(self.function.as_bytes(), id).expect("ids of rules are valid"),
            function: Arc::clone(&self.function),
            origin: Origin { source: "/conformance".into(), id: id.into(), kind: "order.created".into() },
            order: order.map(Into::into),
            fingerprint: Fingerprint::of_bytes(&event),
            event,
            event_time: None,
            event_expires_at: None,
        };
        Execution::accepted(self.now(), arrival, due_at)
    }

    /// The execution as a node takes it that has room for it.
    pub(super) fn leased(&self, execution: &Execution, holder: Holder, lease_until: Timestamp) -> Execution {
        claimed(self.now(), execution, holder, lease_until).expect("it is due")
    }

    pub(super) async fn accept(&self, new: &[Execution]) -> Vec<Accepted> {
        let accepted = self.queue.accept(new).await.unwrap_or_else(|error| panic!("accept: {error}"));
        assert_eq!(accepted.len(), new.len(), "every execution is answered for");
        accepted
    }

    /// Accepts what is new for sure, and gives it as it stands.
    pub(super) async fn accept_new(&self, new: &Execution) -> Fenced<Execution> {
        match &self.accept(std::slice::from_ref(new)).await[..] {
            [Accepted::New(fence)] => {
                let stored = self.stored(&new.id()).await;
                assert_eq!(stored.fence, *fence, "the fence of the answer is not the one that stands");
                stored
            }
            other => panic!("`{}` is new, and the answer was {other:?}", new.key),
        }
    }

    pub(super) fn demand(&self, holder: Holder, limit: u32) -> Demand {
        demand(holder, &[(&self.function, limit)])
    }

    /// What a new holder is handed out, leased for an hour.
    pub(super) async fn claim(&self, limit: u32) -> Vec<Fenced<Execution>> {
        claim(self.queue, &self.demand(fresh_holder(), limit)).await
    }

    /// What a new holder is handed out under leases that lapse at once.
    pub(super) async fn claim_and_crash(&self, limit: u32) -> Vec<Fenced<Execution>> {
        let mut demand = self.demand(fresh_holder(), limit);
        demand.wants[0].lease = Duration::ZERO;
        claim(self.queue, &demand).await
    }

    pub(super) async fn write(&self, changes: &[Change]) -> Vec<Written> {
        let written = self.queue.write(changes).await.unwrap_or_else(|error| panic!("write: {error}"));
        assert_eq!(written.len(), changes.len(), "every change is answered for");
        written
    }

    pub(super) async fn write_one(&self, expected: Fence, after: &Execution) -> Written {
        self.write(&[change(expected, after)]).await[0]
    }

    /// A write that nothing can prevent.
    pub(super) async fn overwrite(&self, expected: Fence, after: &Execution) -> Fence {
        match self.write_one(expected, after).await {
            Written::Won(fence) => fence,
            Written::Lost => panic!("the write of `{}` that expected {expected} was lost", after.key),
        }
    }

    pub(super) async fn get(&self, id: &ExecutionId) -> Option<Fenced<Execution>> {
        get(self.queue, &[*id]).await.pop().flatten()
    }

    pub(super) async fn stored(&self, id: &ExecutionId) -> Fenced<Execution> {
        self.get(id).await.unwrap_or_else(|| panic!("{id} is gone"))
    }

    /// Demands that this and nothing else stands under the execution's id.
    pub(super) async fn expect_stored(&self, fence: Fence, execution: &Execution) {
        let found = self.get(&execution.id()).await;
        let written = Some(Fenced { fence, value: execution.clone() });
        assert!(found == written, "`{}` holds\n    {found:?}\n  instead of\n    {written:?}", execution.key);
    }

    /// Everything of this function.
    pub(super) fn all(&self) -> Filter {
        Filter { function: Some(Arc::clone(&self.function)), ..Filter::default() }
    }

    /// The counters of this function.
    pub(super) async fn counts(&self) -> Counts {
        counts(self.queue, &self.function).await
    }

    pub(super) async fn purge(&self, expired_at: Timestamp, limit: u32) -> u32 {
        self.queue.purge(expired_at, limit).await.unwrap_or_else(|error| panic!("purge: {error}"))
    }
}

pub(super) fn demand(holder: Holder, wants: &[(&Arc<str>, u32)]) -> Demand {
    let want = |(function, limit): &(&Arc<str>, u32)| Want {
        function: Arc::clone(function),
        limit: *limit,
        lease: HOUR,
    };
    Demand { holder, wants: wants.iter().map(want).collect() }
}

pub(super) async fn claim(queue: &dyn Queue, demand: &Demand) -> Vec<Fenced<Execution>> {
    queue.claim(demand).await.unwrap_or_else(|error| panic!("claim: {error}"))
}

pub(super) async fn get(queue: &dyn Queue, ids: &[ExecutionId]) -> Vec<Option<Fenced<Execution>>> {
    let found = queue.get(ids).await.unwrap_or_else(|error| panic!("get: {error}"));
    assert_eq!(found.len(), ids.len(), "every id is answered for");
    found
}

pub(super) async fn page(
    queue: &dyn Queue,
    filter: &Filter,
    from: Option<&semel_core::queue::Cursor>,
    limit: u32,
) -> Page<Fenced<Execution>> {
    let page = queue.list(filter, from, limit).await.unwrap_or_else(|error| panic!("list: {error}"));
    let most = limit.min(PAGE_MAX) as usize;
    assert!(page.items.len() <= most, "{} on a page of {most}", page.items.len());
    page
}

/// All pages of a list, in a row.
pub(super) async fn list(queue: &dyn Queue, filter: &Filter, limit: u32) -> Vec<Fenced<Execution>> {
    let (mut items, mut from) = (Vec::new(), None);
    for _ in 0..PAGES_MAX {
        let page = page(queue, filter, from.as_ref(), limit).await;
        items.extend(page.items);
        match page.next {
            Some(next) => from = Some(next),
            None => return items,
        }
    }
    panic!("the list did not end after {PAGES_MAX} pages");
}

/// The counters of a function, which must be there once at most, and balanced.
pub(super) async fn counts(queue: &dyn Queue, function: &Arc<str>) -> Counts {
    let all = queue.counts().await.unwrap_or_else(|error| panic!("counts: {error}"));
    let mut found = all.into_iter().filter(|it| it.function == *function);
    let counts = found.next().unwrap_or_else(|| Counts::none(Arc::clone(function)));
    assert_eq!(found.next(), None, "a function is counted in one place");
    assert!(counts.is_balanced(), "something was lost: {counts:?}");
    counts
}

pub(super) fn change(expected: Fence, after: &Execution) -> Change {
    Change { expected, after: after.clone(), causes: Vec::new() }
}

/// The execution, in this phase, which it stays in.
pub(super) fn in_phase(before: &Execution, phase: Phase) -> Execution {
    Execution { phase, ..before.clone() }
}

pub(super) fn pending(before: &Execution, due_at: Timestamp) -> Execution {
    in_phase(before, Phase::Pending(Due::At(due_at)))
}

pub(super) fn parked(before: &Execution, since: Timestamp) -> Execution {
    in_phase(before, Phase::Pending(Due::Parked { since, due_at: since }))
}

/// The execution, completed, until this moment.
pub(super) fn completed(before: &Execution, expires_at: Timestamp) -> Execution {
    let body = Body::Kept { bytes: b"done".to_vec(), until: expires_at };
    Execution { expires_at, ..in_phase(before, Phase::Completed(body)) }
}

/// The execution, failed, until this moment.
pub(super) fn failed(before: &Execution, reason: Reason, expires_at: Timestamp) -> Execution {
    let phase = Phase::Failed { reason, error: format!("it is {reason}") };
    Execution { expires_at, ..in_phase(before, phase) }
}

/// The execution, redriven: due at once, in the next generation.
pub(super) fn redriven(before: &Execution, now: Timestamp) -> Execution {
    Execution {
        attempts: 0,
        generation: before.generation + 1,
        first_attempt_at: None,
        expires_at: Timestamp::NEVER,
        ..pending(before, now)
    }
}

/// The event ids of these, which tell them apart.
pub(super) fn names(executions: &[Fenced<Execution>]) -> Vec<&str> {
    executions.iter().map(|it| &*it.value.origin.id).collect()
}

/// The fence of what was accepted as new.
pub(super) fn fence_of(accepted: &Accepted) -> Fence {
    match accepted {
        Accepted::New(fence) => *fence,
        Accepted::Duplicate(it) => panic!("taken for a duplicate of {it:?}"),
    }
}
