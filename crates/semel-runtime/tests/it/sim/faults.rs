//! A queue that is slow, or fails before or after it took effect, by seed; and that tells the oracle what it did.

use super::{
    node::{Freezer, NodeClock, Skew},
    world::Shared,
};
use semel_core::{
    BoxFuture,
    execution::{Execution, ExecutionId},
    queue::{Accepted, Change, Counts, Cursor, Demand, Fenced, Filter, Page, Queue, Written},
    store::{StoreError, StoreErrorKind},
    time::{Clock, Timestamp},
};
use std::{sync::Arc, time::Duration};

/// How often things go wrong, in thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rates {
    pub(super) before: u32,
    pub(super) after: u32,
    pub(super) slow: u32,
}

/// What went wrong, and how often.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Injected {
    pub(super) errors_before: u64,
    pub(super) errors_after: u64,
    pub(super) slow: u64,
    pub(super) crashes: u64,
    pub(super) poisoned: u64,
    pub(super) freezes: u64,
    pub(super) long_freezes: u64,
    pub(super) jumps: u64,
    pub(super) wall_jumps: u64,
    pub(super) reborn: u64,
    pub(super) purged: u64,
    pub(super) shutdowns: u64,
    pub(super) operations: u64,
    pub(super) lost_writes: u64,
    pub(super) drains: u64,
    pub(super) sync_calls: u64,
    pub(super) sync_retries: u64,
    pub(super) sync_replays: u64,
    pub(super) sync_restarts: u64,
}

impl Injected {
    /// These and those.
    pub(super) const fn plus(self, more: Self) -> Self {
        Self {
            errors_before: self.errors_before + more.errors_before,
            errors_after: self.errors_after + more.errors_after,
            slow: self.slow + more.slow,
            crashes: self.crashes + more.crashes,
            poisoned: self.poisoned + more.poisoned,
            freezes: self.freezes + more.freezes,
            long_freezes: self.long_freezes + more.long_freezes,
            jumps: self.jumps + more.jumps,
            wall_jumps: self.wall_jumps + more.wall_jumps,
            reborn: self.reborn + more.reborn,
            purged: self.purged + more.purged,
            shutdowns: self.shutdowns + more.shutdowns,
            operations: self.operations + more.operations,
            lost_writes: self.lost_writes + more.lost_writes,
            drains: self.drains + more.drains,
            sync_calls: self.sync_calls + more.sync_calls,
            sync_retries: self.sync_retries + more.sync_retries,
            sync_replays: self.sync_replays + more.sync_replays,
            sync_restarts: self.sync_restarts + more.sync_restarts,
        }
    }

    /// A simulation in which nothing goes wrong proves nothing.
    pub(super) fn check_floors(&self) {
        let floors = [
            ("errors before", self.errors_before, 300),
            ("errors after", self.errors_after, 300),
            ("slow calls", self.slow, 300),
            ("crashes", self.crashes, 50),
            ("crashes by poison", self.poisoned, 300),
            ("freezes", self.freezes, 100),
            ("freezes longer than a lease", self.long_freezes, 30),
            ("jumps of the queue's clock", self.jumps, 10),
            ("jumps of a node's clock", self.wall_jumps, 20),
            ("executions that were accepted anew after they expired", self.reborn, 200),
            ("executions that expired and were purged", self.purged, 5_000),
            ("shutdowns", self.shutdowns, 15),
            ("operations", self.operations, 100),
            ("writes that were superseded", self.lost_writes, 50),
            ("functions that were drained", self.drains, 8),
            ("sync calls", self.sync_calls, 5_000),
            ("sync calls after the first", self.sync_retries, 3_000),
            ("sync duplicates", self.sync_replays, 300),
            ("executions that a sync sender started again", self.sync_restarts, 50),
        ];
        for (what, count, floor) in floors {
            assert!(count >= floor, "{what}: {count}, fewer than {floor}");
        }
    }
}

pub(super) struct FaultyQueue {
    shared: Arc<Shared>,
    freezer: Arc<Freezer>,
    skew: Arc<Skew>,
}

impl FaultyQueue {
    pub(super) const fn new(shared: Arc<Shared>, freezer: Arc<Freezer>, skew: Arc<Skew>) -> Self {
        Self { shared, freezer, skew }
    }

    fn error(context: &str) -> StoreError {
        StoreError::new(StoreErrorKind::Unavailable, "faulty", context)
    }

    /// Calls the queue, with whatever goes wrong on the way there and back.
    async fn call<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let shared = &self.shared;
        self.freezer.pass().await;
        self.delay().await;
        if shared.happens(|it| it.before) {
            shared.injected(|it| it.errors_before += 1);
            return Err(Self::error("nothing was done"));
        }
        let answer = call.await;
        shared.check_counts().await;
        self.delay().await;
        if shared.happens(|it| it.after) {
            shared.injected(|it| it.errors_after += 1);
            return Err(Self::error("the answer was lost"));
        }
        self.freezer.pass().await;
        answer
    }

    async fn delay(&self) {
        let shared = &self.shared;
        let millis = if shared.happens(|it| it.slow) {
            shared.injected(|it| it.slow += 1);
            shared.chance(|it| it.u64(100..4_000))
        } else {
            shared.chance(|it| it.u64(0..4))
        };
        if millis > 0 {
            shared.clock.sleep(Duration::from_millis(millis)).await;
        }
    }
}

impl Queue for FaultyQueue {
    fn accept<'a>(&'a self, new: &'a [Execution]) -> BoxFuture<'a, Result<Vec<Accepted>, StoreError>> {
        Box::pin(self.call(async {
            let answers = self.shared.queue.accept(new).await?;
            let now = self.shared.clock.now();
            let mut news = 0;
            for (execution, answer) in new.iter().zip(&answers) {
                if let Accepted::New(fence) = answer {
                    news += 1;
                    let is_reborn = self.shared.oracle().accepted(now, *fence, execution);
                    self.shared.injected(|it| it.reborn += u64::from(is_reborn));
                }
            }
            self.shared.trace(&format!("accepts {news} of {}", new.len()));
            Ok(answers)
        }))
    }

    fn claim<'a>(&'a self, demand: &'a Demand) -> BoxFuture<'a, Result<Vec<Fenced<Execution>>, StoreError>> {
        Box::pin(self.call(async {
            let given = self.shared.queue.claim(demand).await?;
            let now = self.shared.clock.now();
            let mut oracle = self.shared.oracle();
            for held in &given {
                oracle.claimed(now, held);
            }
            drop(oracle);
            if !given.is_empty() {
                self.shared.trace(&format!("claims {}", given.len()));
            }
            Ok(given)
        }))
    }

    fn write<'a>(&'a self, changes: &'a [Change]) -> BoxFuture<'a, Result<Vec<Written>, StoreError>> {
        Box::pin(self.call(async {
            let answers = self.shared.queue.write(changes).await?;
            for (change, answer) in changes.iter().zip(&answers) {
                match answer {
                    Written::Won(fence) => {
                        let now = self.shared.clock.now();
                        let is_restart = self.shared.oracle().written(now, *fence, change);
                        self.shared.injected(|it| it.sync_restarts += u64::from(is_restart));
                    }
                    Written::Lost => self.shared.injected(|it| it.lost_writes += 1),
                }
                let (id, phase) = (change.after.id(), change.after.phase.as_str());
                self.shared.trace(&format!("writes {id} {phase}: {answer:?}"));
            }
            Ok(answers)
        }))
    }

    fn get<'a>(
        &'a self,
        ids: &'a [ExecutionId],
    ) -> BoxFuture<'a, Result<Vec<Option<Fenced<Execution>>>, StoreError>> {
        Box::pin(self.call(self.shared.queue.get(ids)))
    }

    fn list<'a>(
        &'a self,
        filter: &'a Filter,
        from: Option<&'a Cursor>,
        limit: u32,
    ) -> BoxFuture<'a, Result<Page<Fenced<Execution>>, StoreError>> {
        Box::pin(self.call(self.shared.queue.list(filter, from, limit)))
    }

    fn counts(&self) -> BoxFuture<'_, Result<Vec<Counts>, StoreError>> {
        Box::pin(self.call(self.shared.queue.counts()))
    }

    fn purge(&self, expired_at: Timestamp, limit: u32) -> BoxFuture<'_, Result<u32, StoreError>> {
        Box::pin(self.call(async move {
            let purged = self.shared.queue.purge(expired_at, limit).await?;
            if purged > 0 {
                self.shared.trace(&format!("purges {purged}"));
            }
            Ok(purged)
        }))
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(NodeClock {
            shared: Arc::clone(&self.shared),
            freezer: Arc::clone(&self.freezer),
            skew: Arc::clone(&self.skew),
        })
    }
}
