//! Targets of every kind, by seed.

use super::{node::Freezer, world::Shared};
use crate::support::targets::{Seen, status};
use http::StatusCode;
use semel_core::time::Clock;
use semel_runtime::{
    Runtime,
    deliver::{Answer, BoxedAnswer, Cause, Deliver, Delivery, Stage, Status, Trouble},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

pub(super) struct Targets {
    pub(super) shared: Arc<Shared>,
    pub(super) freezer: Arc<Freezer>,
    /// The node that calls: poison kills it.
    pub(super) node: Arc<Mutex<Option<Runtime>>>,
    /// How many calls of each function there may be at once.
    pub(super) concurrency: BTreeMap<String, u32>,
    /// How many there are.
    pub(super) calling: Mutex<BTreeMap<String, u32>>,
}

/// A call that is under way until this is dropped.
struct Calling<'a> {
    targets: &'a Targets,
    function: String,
}

impl Drop for Calling<'_> {
    fn drop(&mut self) {
        *self.targets.calling.lock().unwrap().get_mut(&self.function).unwrap() -= 1;
    }
}

impl Deliver for Targets {
    fn deliver(&self, delivery: Delivery) -> BoxedAnswer<'_> {
        let seen = Seen::of(&delivery);
        let id = seen.key.trim_matches('"').to_owned();
        let (now, function) = (self.shared.clock.monotonic(), function_of(&delivery));
        self.shared.oracle().started(now, &function, &id, seen.fence, seen.attempt);
        self.shared.trace(&format!("starts {id} {} {}", seen.fence, seen.attempt));
        let calling = self.begin(function_of(&delivery));
        Box::pin(async move {
            let _calling = calling;
            let answer = self.answer(&delivery, &seen.id).await;
            if matches!(&answer, Answer::Status(it) if it.code.is_success()) {
                self.shared.oracle().took_effect(&id);
            }
            self.freezer.pass().await;
            answer
        })
    }
}

fn function_of(delivery: &Delivery) -> String {
    delivery.target.uri().path().trim_start_matches('/').to_owned()
}

impl Targets {
    fn begin(&self, function: String) -> Calling<'_> {
        let mut calling = self.calling.lock().unwrap();
        let calls = calling.entry(function.clone()).or_default();
        *calls += 1;
        // A probe does not wait for what hangs from before the outage.
        let most = self.concurrency[&function] + 1;
        self.shared.oracle().check(*calls <= most, || format!("{calls} calls of {function} at once"));
        Calling { targets: self, function }
    }

    async fn answer(&self, delivery: &Delivery, event: &str) -> Answer {
        let (shared, path) = (&self.shared, function_of(delivery));
        let dice = shared.chance(|it| it.u32(0..100));
        let fine = || status(200, "done");
        let sleep = |millis| shared.clock.sleep(Duration::from_millis(millis));
        match path.as_str() {
            "slow" => {
                sleep(shared.chance(|it| it.u64(1..3_000))).await;
                fine()
            }
            "flaky" | "ordered" | "direct" => {
                sleep(shared.chance(|it| it.u64(1..200))).await;
                match dice {
                    0..20 => status(503, "later"),
                    20..25 => Answer::NotSent(Cause::new(Trouble::Unconnected, "")),
                    25..30 => Answer::Broken(Cause::new(Trouble::Closed, "")),
                    _ => fine(),
                }
            }
            "fatal" if dice < 40 => status(422, "never"),
            "hanging" if dice < 15 => {
                shared.clock.sleep(delivery.timeout).await;
                Answer::TimedOut(Stage::Head)
            }
            "poison" if event.starts_with("poison") => {
                shared.injected(|it| it.poisoned += 1);
                let node = self.node.lock().unwrap().take();
                if let Some(node) = node {
                    node.crash();
                }
                std::future::pending().await
            }
            _ => {
                sleep(shared.chance(|it| it.u64(0..20))).await;
                Answer::Status(Status::of(StatusCode::NO_CONTENT))
            }
        }
    }
}
