//! One simulation: trouble first, then peace, and everything must end.
//!
//! 1. When trouble is over, whatever is unfinished is due within [`DUE_MAX`] at any moment (invariant 20), and all of it has
//!    ended within [`DRAIN_MAX`], for which a backlog, leases of crashed nodes and breakers may take.
//! 2. What has expired is gone soon after, and its event is new when it comes again.

use super::{
    faults::{Injected, Rates},
    functions::{BACKOFF_MAX, FORGETFUL, NAMES, ORDERED, TIMEOUT, UNDERTAKER},
    node::Node,
    sync,
    world::Shared,
};
use http::HeaderMap;
use semel_core::{
    execution::ExecutionId,
    key::Key,
    queue::{Fenced, Filter, Queue},
    record::{Reason, Status},
    retry::RETENTION_MIN,
    time::Clock,
};
use semel_events::event::Event;
use semel_runtime::{Action, BulkOptions, Receipt};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};
use tokio::task::JoinSet;

pub(super) const NODES: usize = 3;
/// How long after trouble ended everything must have ended, in simulated time. The longest was 200 s.
const DRAIN_MAX: Duration = Duration::from_mins(6);
/// When something unfinished is due at the latest: when its lease has lapsed, or its backoff is over.
const DUE_MAX: Duration = Duration::from_secs(5 + 10 + 10 + 10);
const _: () = assert!(
    DUE_MAX.as_secs() == TIMEOUT.as_secs() + BACKOFF_MAX.as_secs() + 10 + 10,
    "lease, backoff, and 10 s"
);
/// How far the queue's clock jumps from the truth, in milliseconds.
const JUMP_MS: i64 = 3_600_000;
/// How long after it expired something is purged at the latest: two rounds of one node, while others may be down.
const PURGE_MAX: Duration = Duration::from_mins(4);

/// What came of a simulation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    pub(super) trace: u64,
    pub(super) lifecycles: u64,
    pub(super) starts: u64,
    /// How long it took until everything had ended.
    pub(super) drained: Duration,
    pub(super) injected: Injected,
}

/// Runs the simulation of this seed, on a tokio runtime of its own.
pub(super) fn run(seed: u64, steps: u32) -> Outcome {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut sim = Sim::new(seed).await;
        for _ in 0..steps {
            sim.step().await;
            sim.shared.check_oracle();
        }
        sim.heal().await;
        let drained = sim.drain().await;
        sim.shared.check_oracle();
        sim.check_ends().await;
        sim.forget().await;
        sim.shared.check_oracle();
        sim.outcome(drained).await
    })
}

struct Sim {
    shared: Arc<Shared>,
    nodes: Arc<Vec<Node>>,
    senders: JoinSet<()>,
    sent: u64,
    /// The furthest that the queue's clock was ahead of the truth, in milliseconds.
    latest: AtomicI64,
}

impl Sim {
    async fn new(seed: u64) -> Self {
        let shared = Shared::new(seed);
        let nodes: Arc<Vec<_>> = Arc::new((0..NODES).map(Node::new).collect());
        for node in nodes.iter() {
            node.start(&shared).await;
        }
        shared.set_rates(Rates { before: 10, after: 10, slow: 10 });
        Self { shared, nodes, senders: JoinSet::new(), sent: 0, latest: AtomicI64::new(0) }
    }

    fn node(&self) -> &Node {
        &self.nodes[self.shared.chance(|it| it.usize(0..NODES))]
    }

    async fn step(&mut self) {
        while self.senders.try_join_next().is_some_and(|it| it.is_ok()) {}
        let dice = self.shared.chance(|it| it.u32(0..1_000));
        match dice {
            0..555 => self.send(),
            555..635 => self.send_sync(),
            635..640 | 990..995 => self.drain_one(),
            640..800 => self.pass(300).await,
            800..820 => self.pass(8_000).await,
            820..840 => self.crash(),
            840..935 => self.node().start(&self.shared).await,
            935..945 => self.freeze(4_000),
            945..955 => self.freeze(40_000),
            955..958 => self.jump(),
            958..963 => self.jump_wall(),
            963..985 => self.operate(),
            985..990 => self.shut_down(),
            _ => self.weather(),
        }
    }

    async fn pass(&self, millis_max: u64) {
        let millis = self.shared.chance(|it| it.u64(1..millis_max));
        self.shared.clock.sleep(Duration::from_millis(millis)).await;
    }

    /// A batch of events goes to some node, and to another one if that fails, until it is acknowledged.
    fn send(&mut self) {
        let count = self.shared.chance(|it| it.u32(1..24));
        let events: Vec<_> = (0..count).map(|_| self.event()).collect();
        let (shared, nodes) = (Arc::clone(&self.shared), Arc::clone(&self.nodes));
        self.senders.spawn(async move {
            for _ in 0..50 {
                let node = shared.chance(|it| it.usize(0..NODES));
                let runtime = nodes[node].runtime.lock().unwrap().clone();
                if let Some(runtime) = runtime
                    && let Ok(receipts) = runtime.accept(&events, &HeaderMap::new()).await
                {
                    let taken = receipts.iter().flat_map(|it| match it {
                        Receipt::Taken(taken) => taken.iter(),
                        Receipt::Unmatched | Receipt::Refused(_) => panic!("{it:?}"),
                    });
                    let ids: Vec<_> = taken.map(|it| it.id).collect();
                    let found = shared.queue.get(&ids).await.unwrap();
                    for (id, found) in ids.iter().zip(&found) {
                        let may_be_gone = || shared.oracle().may_be_gone(shared.clock.now(), *id);
                        assert!(found.is_some() || may_be_gone(), "{id} was acknowledged, and is not stored");
                    }
                    shared.oracle().acknowledged.extend(ids);
                    return;
                }
                shared.clock.sleep(Duration::from_millis(500)).await;
            }
        });
    }

    /// A few events come from senders that wait for what becomes of them. What is in order cannot be waited for.
    fn send_sync(&mut self) {
        for _ in 0..self.shared.chance(|it| it.u32(1..8)) {
            let event = self.event();
            if event.kind() != ORDERED {
                self.senders.spawn(sync::send(Arc::clone(&self.shared), Arc::clone(&self.nodes), event));
            }
        }
    }

    /// A new event, or one that was sent before.
    fn event(&mut self) -> Event {
        let is_new = self.sent == 0 || self.shared.chance(|it| it.u32(0..100)) < 80;
        let number = if is_new { self.sent } else { self.shared.chance(|it| it.u64(0..self.sent)) };
        self.sent += u64::from(is_new);
        Self::event_of(number)
    }

    /// The event of this number: always the same.
    fn event_of(number: u64) -> Event {
        let kind = NAMES[(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % NAMES.len()];
        let is_poison = kind == "poison" && number.is_multiple_of(61);
        let id = if is_poison { format!("poison-{number}") } else { format!("evt-{number}") };
        let event = Event::builder(id, "/sim", kind).subject(format!("customer-{}", number % 5));
        event.json(format!("{{\"number\": {number}}}")).build().unwrap()
    }

    fn crash(&self) {
        if self.node().crash(&self.shared) {
            self.shared.injected(|it| it.crashes += 1);
        }
    }

    fn freeze(&mut self, millis_max: u64) {
        let number = self.shared.chance(|it| it.usize(0..NODES));
        let millis = self.shared.chance(|it| it.u64(millis_max / 2..millis_max));
        self.shared.injected(|it| {
            it.freezes += 1;
            it.long_freezes += u64::from(millis_max > 15_000);
        });
        self.shared.trace(&format!("node {number} is frozen for {millis} ms"));
        self.nodes[number].freezer.freeze();
        let (nodes, nap) = (Arc::clone(&self.nodes), self.shared.clock.sleep(Duration::from_millis(millis)));
        self.senders.spawn(async move {
            nap.await;
            nodes[number].freezer.thaw();
        });
    }

    /// The queue's clock jumps, forwards or backwards, to within an hour of the truth.
    fn jump(&self) {
        let millis = self.shared.chance(|it| it.i64(-JUMP_MS..JUMP_MS));
        self.shared.injected(|it| it.jumps += 1);
        self.jump_to(millis);
    }

    /// The queue's clock jumps to so far from the truth.
    fn jump_to(&self, millis: i64) {
        let clock = &self.shared.clock;
        let by = millis - clock.jumped();
        self.shared.oracle().jumps(clock.now(), clock.monotonic(), by > 0);
        self.shared.trace(&format!("the queue's clock jumps by {by} ms"));
        clock.jump(by);
        self.latest.fetch_max(millis, Ordering::Relaxed);
    }

    /// Somebody sets the clock of a machine, to within an hour of the truth.
    fn jump_wall(&self) {
        let (node, millis) = (self.node(), self.shared.chance(|it| it.i64(-JUMP_MS..JUMP_MS)));
        self.shared.injected(|it| it.wall_jumps += 1);
        self.shared.trace(&format!("the clock of node {} is wrong by {millis} ms", node.number));
        node.skew.set_wall(millis);
    }

    /// An operator does something to some execution.
    fn operate(&mut self) {
        let Some(runtime) = self.node().runtime.lock().unwrap().clone() else { return };
        let number = self.shared.chance(|it| it.u64(0..self.sent.max(1)));
        let action = match self.shared.chance(|it| it.u32(0..4)) {
            0 => Action::Cancel,
            1 => Action::Park,
            2 => Action::Unpark,
            _ => Action::Redrive(None),
        };
        let kind = NAMES[(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % NAMES.len()];
        let key = Key::new(kind, ("/sim", format!("evt-{number}"))).unwrap();
        self.shared.injected(|it| it.operations += 1);
        self.senders.spawn(async move {
            let _whatever = runtime.operate(ExecutionId::of(&key), &action, "ada").await;
        });
    }

    /// A node is stopped as one should be.
    fn shut_down(&mut self) {
        let number = self.shared.chance(|it| it.usize(0..NODES));
        let Some(runtime) = self.nodes[number].runtime.lock().unwrap().take() else { return };
        let deadline = Duration::from_millis(self.shared.chance(|it| it.u64(0..5_000)));
        self.shared.injected(|it| it.shutdowns += 1);
        let shared = Arc::clone(&self.shared);
        self.senders.spawn(async move {
            let is_done = runtime.shutdown(deadline).await;
            shared.trace(&format!("node {number} is shut down: {is_done}"));
        });
    }

    /// A function is drained, and stays so for a while.
    fn drain_one(&mut self) {
        let name = NAMES[self.shared.chance(|it| it.usize(0..NAMES.len()))];
        let Some(runtime) = self.node().runtime.lock().unwrap().clone() else { return };
        let shared = Arc::clone(&self.shared);
        self.senders.spawn(async move {
            let resumed = shared.oracle().resumed(name);
            let drained = runtime.drain(name, "ada", Duration::from_secs(20)).await;
            if matches!(drained, Ok(true)) && shared.oracle().drained(name, resumed) {
                shared.injected(|it| it.drains += 1);
                shared.trace(&format!("{name} is drained"));
            }
            shared.clock.sleep(Duration::from_secs(10)).await;
            shared.oracle().resumes(name);
            let _whatever = runtime.resume(name, "ada").await;
        });
    }

    /// The queue gets better or worse.
    fn weather(&self) {
        let (bad, slow) = self.shared.chance(|it| (it.u32(0..60), it.u32(0..40)));
        self.shared.set_rates(Rates { before: bad, after: bad, slow });
    }

    /// Trouble ends: all nodes are up, nothing is paused or parked, and the queue's clock shows no moment twice any more: what was
    /// put off until a moment that it had shown before would wait for that.
    async fn heal(&mut self) {
        self.shared.set_rates(Rates::default());
        self.jump_to(self.latest.load(Ordering::Relaxed));
        self.nodes.iter().for_each(|it| it.freezer.thaw());
        while let Some(ended) = self.senders.join_next().await {
            ended.unwrap();
            self.revive().await;
        }
        self.revive().await;
        let runtime = self.nodes[0].runtime.lock().unwrap().clone().unwrap();
        for name in NAMES {
            self.shared.oracle().resumes(name);
            runtime.resume(name, "ada").await.unwrap();
        }
        let mut job = runtime
            .bulk(
                Filter { status: Some(Status::Pending), ..Filter::default() },
                Action::Unpark,
                BulkOptions::default(),
                "ada",
            )
            .await
            .unwrap()
            .unwrap();
        // Poison may kill the node under the job.
        let _whatever = job.finished().await;
        self.shared.trace("trouble is over");
    }

    async fn revive(&self) {
        for node in self.nodes.iter() {
            node.start(&self.shared).await;
        }
    }

    /// Waits until everything has ended. How long that took.
    async fn drain(&mut self) -> Duration {
        let began = self.shared.clock.monotonic();
        loop {
            let unfinished = self.unfinished().await;
            let since = self.shared.clock.monotonic().saturating_sub(began);
            if unfinished == 0 {
                return since;
            }
            assert!(since < DRAIN_MAX, "{unfinished} executions never end");
            self.check_dues().await;
            self.shared.clock.sleep(Duration::from_secs(5)).await;
            // Poison goes on killing until it is a dead letter.
            self.revive().await;
            self.unpark().await;
        }
    }

    /// Invariant 20: whatever is unfinished is due soon.
    async fn check_dues(&self) {
        for status in [Status::Pending, Status::InProgress] {
            let (filter, mut from) = (Filter { status: Some(status), ..Filter::default() }, None);
            loop {
                let page = self.shared.queue.list(&filter, from.as_ref(), 500).await.unwrap();
                let latest = self.shared.clock.now() + DUE_MAX;
                for found in &page.items {
                    let due_at = found.value.due_at();
                    assert!(due_at.is_none_or(|it| it <= latest), "due after {latest:?}: {found:?}");
                }
                from = page.next;
                if from.is_none() {
                    break;
                }
            }
        }
    }

    /// What has expired is gone soon, and its event is new when it comes again.
    async fn forget(&mut self) {
        self.shared.clock.sleep(RETENTION_MIN + PURGE_MAX).await;
        self.revive().await;
        self.check_forgotten().await;
        let before = self.shared.all_injected().reborn;
        let events: Vec<_> = (0..self.sent.min(200)).map(Self::event_of).collect();
        let events: Vec<_> = events.into_iter().filter(|it| FORGETFUL.contains(&it.kind())).collect();
        let runtime = self.nodes[0].runtime.lock().unwrap().clone().unwrap();
        runtime.accept(&events, &HeaderMap::new()).await.unwrap();
        let reborn = self.shared.all_injected().reborn - before;
        assert!(reborn as usize >= events.len() * 9 / 10, "{reborn} of {} are new again", events.len());
        self.drain().await;
        self.shared.clock.sleep(RETENTION_MIN + PURGE_MAX).await;
        self.check_forgotten().await;
    }

    async fn check_forgotten(&self) {
        for name in FORGETFUL {
            let filter = Filter { function: Some(name.into()), ..Filter::default() };
            let left = self.shared.queue.list(&filter, None, 500).await.unwrap().items;
            assert!(left.is_empty(), "{} of {name} are not forgotten, such as {:?}", left.len(), left[0]);
        }
    }

    async fn unpark(&self) {
        let filter = Filter { status: Some(Status::Pending), ..Filter::default() };
        let page = self.shared.queue.list(&filter, None, 500).await.unwrap();
        let Some(runtime) = self.nodes[0].runtime.lock().unwrap().clone() else { return };
        for parked in page.items.iter().filter(|it| it.value.due_at().is_none()) {
            let _whatever = runtime.operate(parked.value.id(), &Action::Unpark, "ada").await;
        }
    }

    async fn unfinished(&self) -> u64 {
        let counts = self.shared.queue.counts().await.unwrap();
        let of_users = counts.iter().filter(|it| !it.function.starts_with('$'));
        of_users.map(|it| it.pending + it.in_progress).sum()
    }

    /// Whatever was acknowledged has ended, or was remembered for as long as it should be.
    async fn check_ends(&self) {
        let ids: Vec<_> = self.shared.oracle().acknowledged.iter().copied().collect();
        let mut forwards = BTreeMap::new();
        for ids in ids.chunks(500) {
            for (id, found) in ids.iter().zip(self.shared.queue.get(ids).await.unwrap()) {
                let Some(Fenced { value: found, .. }) = found else {
                    let has_expired = self.shared.oracle().may_be_gone(self.shared.clock.now(), *id);
                    assert!(has_expired, "{id} was acknowledged, and is lost");
                    continue;
                };
                assert!(found.status().is_terminal(), "{id} never ended: {found:?}");
                if found.origin.id.starts_with("poison") {
                    let reason = found.phase.reason();
                    let is_over =
                        matches!(reason, Some(Reason::Exhausted | Reason::Window | Reason::Cancelled));
                    assert!(is_over, "poison ended as {:?}", found.phase);
                }
                if &*found.function == "fatal" && found.phase.reason() == Some(Reason::Fatal) {
                    let key = Key::new(UNDERTAKER, ("fatal", id.to_string(), found.generation)).unwrap();
                    forwards.insert(*id, ExecutionId::of(&key));
                }
            }
        }
        for (id, forward) in forwards {
            let found = self.shared.queue.get(&[forward]).await.unwrap().pop().flatten();
            assert!(found.is_some(), "{id} is a dead letter, and was not forwarded");
        }
    }

    async fn outcome(&self, drained: Duration) -> Outcome {
        let counts = self.shared.queue.counts().await.unwrap();
        let of_users: Vec<_> = counts.iter().filter(|it| !it.function.starts_with('$')).collect();
        let lifecycles = of_users.iter().map(|it| it.accepted).sum();
        self.shared.injected(|it| it.purged += of_users.iter().map(|it| it.purged).sum::<u64>());
        let (starts, injected) = (self.shared.oracle().starts, self.shared.all_injected());
        Outcome { trace: self.shared.trace_hash(), lifecycles, starts, drained, injected }
    }
}
