//! What the tower layer adds to a call, on the memory store: `cargo xtask bench service`.
//!
//! Fresh calls claim and complete a record; replays decode a stored one. Both are compared with the same service
//! without the layer, on one thread.

use semel::{Once, service::IdempotentLayer};
use std::{convert::Infallible, time::Instant};
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

const CALLS: u64 = 200_000;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let bare = service_fn(|id: u64| std::future::ready(Ok::<_, Infallible>(id)));
    let layer = || IdempotentLayer::new(Once::memory(), "bench").key(|id: &u64| *id);
    let layered = ServiceBuilder::new().layer(layer()).service(bare);
    let checked = ServiceBuilder::new().layer(layer().payload()).service(bare);

    let limit = micros(bare).await;
    println!("without the layer      {limit:>8.3} µs");
    for (name, added) in [
        ("fresh", micros(layered.clone()).await - limit),
        ("replayed", micros(layered).await - limit),
        ("fresh, with payload", micros(checked).await - limit),
    ] {
        println!("{name:<22} {added:>+8.3} µs");
        assert!(added < 10.0, "the layer adds more than single-digit microseconds");
    }
}

/// Microseconds per call.
async fn micros<S: Service<u64, Response = u64>>(mut service: S) -> f64 {
    let start = Instant::now();
    for id in 0..CALLS {
        let answer = service.ready().await.ok().expect("it is always ready").call(id).await;
        assert!(answer.is_ok_and(|it| it == id), "it never fails");
    }
    start.elapsed().as_secs_f64() * 1e6 / CALLS as f64
}
