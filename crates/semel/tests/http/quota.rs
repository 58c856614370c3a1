//! How many new keys a caller may use.

use crate::support::{MINUTE, Sent, World, json, order};
use http::Request;
use semel::http::Quota;

fn of(caller: &str, key: &str) -> Request<Sent> {
    let request = Request::post("/orders").header("authorization", caller).header("idempotency-key", key);
    json(request, r#"{"item":"book"}"#)
}

/// 32: a sweep through keys ends at the quota; what was begun before still gets its answers.
#[tokio::test]
async fn a_caller_that_sweeps_through_keys_is_stopped_and_nobody_else() {
    let world = World::new();
    let app = world.numbered(&world.layer().quota(Quota { keys: 3, per: MINUTE }));
    world.clock.advance(MINUTE / 4);
    for n in 0..3 {
        assert_eq!(app.send(of("ann", &format!("k{n}"))).await.status, 200);
    }
    let refused = app.send(of("ann", "k3")).await;
    refused.is_problem(429, "quota");
    assert_eq!(refused.retry_after(), 45, "until the window is over");
    assert_eq!(world.calls(), 3);
    assert!(app.send(of("ann", "k0")).await.is_replay(), "what was begun before is answered");
    assert_eq!(app.send(of("bob", "k3")).await.status, 200, "another caller is not concerned");
    world.clock.advance(MINUTE);
    assert_eq!(app.send(of("ann", "k3")).await.status, 200, "a new window");
}

#[tokio::test]
async fn duplicates_and_retries_are_free() {
    let world = World::new();
    let app = world.answering(&world.layer().quota(Quota { keys: 2, per: MINUTE }), |number| {
        let status = if number == 1 { 503 } else { 200 };
        http::Response::builder().status(status).body(crate::bodies::whole("")).unwrap()
    });
    for _ in 0..10 {
        app.send(order("a")).await;
    }
    assert_eq!(app.send(order("b")).await.status, 200);
    app.send(order("c")).await.is_problem(429, "quota");
    assert!(app.send(order("a")).await.is_replay());
}

#[tokio::test]
async fn clones_of_a_layer_count_together() {
    let world = World::new();
    let layer = world.layer().quota(Quota { keys: 1, per: MINUTE });
    let (one, other) = (world.numbered(&layer), world.numbered(&layer.clone()));
    assert_eq!(one.send(order("a")).await.status, 200);
    other.send(order("b")).await.is_problem(429, "quota");
}

#[tokio::test]
async fn a_quota_does_not_answer_for_a_store_that_is_away() {
    let world = World::new();
    let app = world.numbered(&world.layer().quota(Quota { keys: 0, per: MINUTE }));
    app.send(order("a")).await.is_problem(429, "quota");
    world.store.is_down.store(true, std::sync::atomic::Ordering::SeqCst);
    app.send(order("a")).await.is_problem(503, "store");
}
