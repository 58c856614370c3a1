//! What the layer adds to a request, without a network: the same router, called by hand, on one thread.

use crate::{
    Trouble,
    app::{Kind, router},
    load::BODY,
    median,
};
use axum::{Router, body::Body};
use http::Request;
use http_body_util::BodyExt as _;
use std::{ops::Range, time::Instant};
use tower::ServiceExt as _;

const REQUESTS: u64 = 20_000;
const ROUNDS: usize = 15;
/// For a profiler that takes its time.
const PROFILED: u64 = 4_000;

/// Prints what the layer adds to a request, in microseconds.
pub(crate) fn measure() -> Result<(), Trouble> {
    runtime()?.block_on(async {
        let plain = router(Kind::Plain, None).await?;
        let (mut without, mut fresh, mut replays) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let layered = router(Kind::Memory, None).await?;
            without.push(micros(&plain, 0..REQUESTS).await?);
            fresh.push(micros(&layered, 0..REQUESTS).await?);
            replays.push(micros(&layered, 0..REQUESTS).await?);
        }
        let (without, fresh, replays) = (median(&mut without), median(&mut fresh), median(&mut replays));
        println!(
            "{:<32} +{:.2} µs for a fresh key, +{:.2} µs for a replay, to {without:.2} µs",
            "the layer alone",
            fresh - without,
            replays - without
        );
        Ok(())
    })
}

/// One kind of request alone: without the layer, with keys that are all new, or all the same.
pub(crate) fn profile(kind: Kind, is_replay: bool) -> Result<(), Trouble> {
    runtime()?.block_on(async {
        let router = router(kind, None).await?;
        for key in 0..PROFILED {
            let key = if is_replay { 0 } else { key };
            micros(&router, key..key + 1).await?;
        }
        Ok(())
    })
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

async fn micros(router: &Router, keys: Range<u64>) -> Result<f64, Trouble> {
    let begun = Instant::now();
    let requests = keys.end - keys.start;
    for key in keys {
        let request = Request::post("/orders")
            .header("host", "localhost")
            .header("authorization", "Bearer ann")
            .header("idempotency-key", format!("\"{key:032x}\""))
            .header("content-type", "application/json")
            .body(Body::from(BODY))?;
        let response = router.clone().oneshot(request).await?;
        assert!(response.status().is_success(), "it never fails");
        response.into_body().collect().await?;
    }
    Ok(begun.elapsed().as_secs_f64() * 1e6 / requests as f64)
}
