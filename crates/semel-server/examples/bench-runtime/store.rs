//! What the queue by itself accepts.

use crate::Result;
use http::HeaderMap;
use semel_core::{execution::Execution, queue::Queue as _};
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

/// A queue of our own, in this process.
pub(crate) struct Own {
    queue: Arc<EmbeddedQueue>,
    function: Arc<Function>,
    source: String,
    next: AtomicU64,
}

impl Own {
    /// Below this directory.
    pub(crate) fn open(directory: &Path) -> Result<Self> {
        let clock = Arc::new(semel::SystemClock::new());
        let queue = Arc::new(EmbeddedQueue::open(directory.join("own"), clock)?);
        let near = Policy { allow: Vec::new(), loopback: true };
        let function = Function::new("later".parse()?, Aim::Url(check_url("http://127.0.0.1/", &near)?));
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
