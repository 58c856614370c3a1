//! Whatever is done to a queue, in whatever sequence, it does what the model does.

use super::{
    model::Model,
    sample::{
        Bench, HOUR, MINUTE, change, claim, completed, failed, fresh_number, parked, pending, redriven,
    },
};
use crate::join::caught;
use fastrand::Rng;
use semel_core::{
    execution::Execution,
    fence::Fence,
    queue::{Change, Fenced, Filter, Queue},
    record::{Holder, Reason, Status},
    time::Timestamp,
};
use std::time::Duration;

/// Steps of one walk.
const STEPS: u32 = 250;
/// How many different events there are: few, so that they meet.
const EVENTS: usize = 24;
const ORDERS: usize = 3;

/// A walk of random steps finds the queue as the model says, after every one of them.
pub async fn a_random_walk_follows_the_model(queue: &dyn Queue) {
    walk(queue, fresh_number(), STEPS).await;
}

/// A walk of so many random steps, the same for the same seed: for soaking, and for going where one failed.
pub async fn walk(queue: &dyn Queue, seed: u64, steps: u32) {
    let mut walk = Walk::new(queue, seed);
    for step in 0..steps {
        if let Err(message) = caught(walk.step()).await {
            panic!("step {step} of `walk(queue, {seed}, {steps})`: {message}");
        }
    }
}

struct Walk<'a> {
    bench: Bench<'a>,
    model: Model,
    random: Rng,
    /// What stood before, for whoever comes late.
    old: Vec<Fenced<Execution>>,
}

impl<'a> Walk<'a> {
    fn new(queue: &'a dyn Queue, seed: u64) -> Self {
        // Ids follow from the name, and what is chosen from their order: the same seed has the same.
        let bench = Bench::named(queue, format!("conformance-walk-{seed:016x}").into());
        let model = Model::new(&bench.function);
        Self { bench, model, random: Rng::with_seed(seed), old: Vec::new() }
    }

    async fn step(&mut self) {
        match self.random.u32(..10) {
            0..3 => self.accept().await,
            3..6 => self.claim().await,
            6..9 => self.write().await,
            _ => self.purge().await,
        }
        let filter = self.filter();
        self.model.holds(&self.bench, &filter).await;
    }

    async fn accept(&mut self) {
        let count = self.random.usize(1..6);
        let new: Vec<Execution> = (0..count).map(|_| self.new_execution()).collect();
        let now = self.bench.now();
        let answers = self.bench.accept(&new).await;
        self.model.accepted(&self.bench, now, &new, &answers).await;
    }

    /// Of one of a few events: waiting, held, or over already.
    fn new_execution(&mut self) -> Execution {
        let now = self.bench.now();
        let number = self.random.usize(..EVENTS);
        let id = format!("evt-{number}");
        let due_at = if self.random.bool() { now - self.some_time() } else { now + HOUR };
        // A third of the events have an order, and always the same.
        if number.is_multiple_of(3) {
            let new = self.bench.ordered(&id, &format!("order-{}", number % ORDERS));
            return Execution { accepted_at: now - self.some_time(), ..pending(&new, due_at) };
        }
        let new = Execution { accepted_at: now - self.some_time(), ..self.bench.due_at(&id, due_at) };
        let holder = self.some_holder();
        match self.random.u32(..6) {
            0 => self.bench.leased(&self.bench.due(&id), holder, now + HOUR),
            1 => self.bench.leased(&self.bench.due(&id), holder, now - MINUTE),
            // Not expired yet: else a batch with two of them would accept both.
            2 => completed(&new, now + HOUR),
            _ => new,
        }
    }

    fn some_holder(&mut self) -> Holder {
        Holder(self.random.u128(..))
    }

    fn some_time(&mut self) -> Duration {
        Duration::from_millis(self.random.u64(1..3_000_000))
    }

    fn some_expiry(&mut self, now: Timestamp) -> Timestamp {
        if self.random.bool() { now + HOUR } else { now - self.some_time() }
    }

    async fn claim(&mut self) {
        let (holder, limit) = (self.some_holder(), self.random.u32(..6));
        let mut demand = self.bench.demand(holder, limit);
        if self.random.bool() {
            demand.wants[0].lease = Duration::ZERO;
        }
        let handed_out = claim(self.bench.queue, &demand).await;
        // What lapsed by the queue's clock when it was asked, has by now.
        let now = handed_out.first().map_or_else(|| self.bench.now(), |it| it.value.updated_at);
        self.model.claimed(now, &demand, &handed_out);
        self.old.extend(handed_out);
    }

    async fn write(&mut self) {
        let count = self.random.usize(1..5);
        let mut changes: Vec<Change> = (0..count).filter_map(|_| self.some_change()).collect();
        // What is changed in a batch is not caused by it, too: nobody could tell which came first.
        let changed: Vec<_> = changes.iter().map(|it| it.after.id()).collect();
        for change in &mut changes {
            change.causes.retain(|it| !changed.contains(&it.id()));
        }
        let now = self.bench.now();
        let answers = self.bench.write(&changes).await;
        self.model.written(&self.bench, now, &changes, &answers).await;
    }

    /// Of what stands, or of what stood.
    fn some_change(&mut self) -> Option<Change> {
        let current: Vec<Fenced<Execution>> = self.model.rows().cloned().collect();
        let from = if self.random.u32(..4) > 0 || self.old.is_empty() { &current } else { &self.old };
        let before = self.random.choice(from)?.clone();
        let (now, it) = (self.bench.now(), &before.value);
        let after = match self.random.u32(..7) {
            0 => completed(it, self.some_expiry(now)),
            1 => failed(it, *self.random.choice(&Reason::ALL)?, now + HOUR),
            2 => failed(it, Reason::OutcomeUnknown, Timestamp::NEVER),
            3 => parked(it, now),
            4 => redriven(it, now - self.some_time()),
            5 => Execution { event: Some(vec![self.random.u8(..); 9].into()), ..redriven(it, now + HOUR) },
            _ => pending(it, now - self.some_time()),
        };
        let expires_at = if after.status().is_terminal() { after.expires_at } else { Timestamp::NEVER };
        let after = Execution { expires_at, updated_at: now, ..after };
        let expected = match self.random.u32(..8) {
            0 => Fence::new(before.fence.get() + 1_000_000_000)?,
            _ => before.fence,
        };
        let causes = (0..self.random.usize(..3)).map(|_| self.new_execution()).collect();
        Some(Change { causes, ..change(expected, &after) })
    }

    async fn purge(&mut self) {
        let moment = self.bench.now() - Duration::from_millis(self.random.u64(..3_000_000));
        let limit = self.random.u32(..4);
        let count = self.bench.purge(moment, limit).await;
        self.model.purged(&self.bench, moment, count).await;
    }

    fn filter(&mut self) -> Filter {
        let all = self.bench.all();
        match self.random.u32(..6) {
            0 => Filter { status: self.random.choice(Status::ALL), ..all },
            1 => Filter { reason: self.random.choice(Reason::ALL), ..all },
            2 => Filter { name: Some(format!("evt-{}", self.random.usize(..EVENTS)).into()), ..all },
            3 => Filter { accepted_from: Some(self.bench.now() - self.some_time()), ..all },
            _ => all,
        }
    }
}
