//! A queue of our own: what it accepts by itself, and what a server is to find in its store.

use crate::{BATCH, BATCHERS, Result};
use http::HeaderMap;
use semel_core::{
    execution::{Due, Execution, Input, Phase, claimed, step},
    queue::{Accepted, Change, Queue as _},
    record::{Body, Holder},
    retry::{Jitter, RetryPolicy},
};
use semel_embedded::EmbeddedQueue;
use semel_events::event::Event;
use semel_runtime::{
    Aim, Function,
    deliver::guard::{Policy, check_url},
    function::route::route,
};
use semel_server::bench::traffic::nanos;
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::task::JoinSet;

/// What a server finds an execution as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    Waiting,
    Completed,
}

impl Found {
    /// The function of such executions: one that is called, and one that is not.
    pub(crate) fn function(self) -> &'static str {
        match self {
            Self::Waiting => "later",
            Self::Completed => "noop",
        }
    }
}

/// A queue of our own, in this process.
pub(crate) struct Own {
    queue: Arc<EmbeddedQueue>,
    function: Arc<Function>,
    source: String,
    next: AtomicU64,
}

impl Own {
    /// In this directory, for this function.
    pub(crate) fn open(directory: &Path, function: &str) -> Result<Self> {
        let clock = Arc::new(semel::SystemClock::new());
        let queue = Arc::new(EmbeddedQueue::open(directory, clock)?);
        let near = Policy { allow: Vec::new(), loopback: true };
        let function = Function::new(function.parse()?, Aim::Url(check_url("http://127.0.0.1/", &near)?));
        let (source, next) = (format!("/bench/{}", nanos()), AtomicU64::new(0));
        Ok(Self { queue, function: Arc::new(function), source, next })
    }

    /// Events a second, by so many at once, in batches: those of the next turn are made before it.
    pub(crate) async fn accepts(&self, callers: usize, batch: u64, turn: Duration) -> f64 {
        // Made before: what a batch is made of is not the queue's to pay for.
        let made = 8 * callers;
        let (mut count, mut took) = (0, Duration::ZERO);
        while took < turn {
            let mut accepting = JoinSet::new();
            let batches: Vec<_> = (0..made).map(|_| self.batch(batch)).collect();
            let mut batches = batches.into_iter();
            let began = Instant::now();
            for _ in 0..callers {
                let own: Vec<_> = batches.by_ref().take(made / callers).collect();
                let queue = Arc::clone(&self.queue);
                accepting.spawn(async move {
                    for batch in own {
                        queue.accept(&batch).await.expect("it accepts");
                    }
                });
            }
            accepting.join_all().await;
            took += began.elapsed();
            count += made as u64 * batch;
        }
        count as f64 / took.as_secs_f64()
    }

    /// Puts so many executions there, and waits until all of them are where they stay.
    pub(crate) async fn fill(self, count: u64, found: Found) {
        let own = Arc::new(self);
        let mut filling = JoinSet::new();
        for _ in 0..BATCHERS {
            let own = Arc::clone(&own);
            filling.spawn(async move {
                for _ in 0..count / BATCHERS as u64 / BATCH {
                    own.put(found).await;
                }
            });
        }
        filling.join_all().await;
        own.queue.settled().await;
    }

    async fn put(&self, found: Found) {
        let (batch, now) = (self.batch(BATCH), self.queue.clock().now());
        if found == Found::Waiting {
            self.queue.accept(&batch).await.expect("it accepts");
            return;
        }
        let until = now + Duration::from_hours(1);
        let leased = |it| {
            let due = Execution { phase: Phase::Pending(Due::At(now)), ..it };
            claimed(now, &due, Holder(1), until).expect("it is due")
        };
        let batch: Vec<_> = batch.into_iter().map(leased).collect();
        let answers = self.queue.accept(&batch).await.expect("it accepts");
        let completed = |it: &Execution| {
            let body = Body::Kept { bytes: Vec::new(), until };
            step(now, it, Input::Complete(body), &RetryPolicy::gen2(), Jitter::LEAST).expect("it runs")
        };
        let changes = batch.iter().zip(answers).map(|(it, answer)| {
            let Accepted::New(expected) = answer else { panic!("{} is new", it.key) };
            Change { expected, after: completed(it), causes: Vec::new() }
        });
        let changes: Vec<_> = changes.collect();
        self.queue.write(&changes).await.expect("it writes");
    }

    fn batch(&self, count: u64) -> Vec<Execution> {
        let first = self.next.fetch_add(count, Ordering::Relaxed);
        (first..first + count).map(|it| self.execution(it)).collect()
    }

    fn execution(&self, number: u64) -> Execution {
        let now = self.queue.clock().now();
        let data = format!("{{\"order\":{number},\"of\":\"{}\"}}", "x".repeat(180));
        let event = Event::builder(format!("evt-{number:010}"), &*self.source, "bench.later");
        let event = event.json(data).build().expect("it is an event");
        let routed = route(&event, &HeaderMap::new(), [&self.function]).expect("it has a key");
        let (_, arrival) = routed.into_iter().next().expect("the function takes it");
        Execution::accepted(now, arrival, now + Duration::from_hours(700))
    }
}
