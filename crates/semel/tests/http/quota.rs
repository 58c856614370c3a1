//! How many keys of a caller are remembered.

use crate::support::{MINUTE, Sent, World, json, order};
use http::Request;
use semel::http::Quota;
use std::time::Duration;

fn of(caller: &str, key: &str) -> Request<Sent> {
    let request = Request::post("/orders").header("authorization", caller).header("idempotency-key", key);
    json(request, r#"{"item":"book"}"#)
}

/// 32: a sweep through keys ends at the quota; what was begun before still gets its answers.
#[tokio::test]
async fn a_caller_that_sweeps_through_keys_is_stopped_and_nobody_else() {
    let world = World::new();
    let app = world.numbered(&world.layer().quota(Quota::live(3)).retention(MINUTE));
    for n in 0..3 {
        assert_eq!(app.send(of("ann", &format!("k{n}"))).await.status, 200);
    }
    for n in 3..100 {
        app.send(of("ann", &format!("k{n}"))).await.is_problem(429, "quota");
    }
    assert_eq!(world.calls(), 3);
    assert!(app.send(of("ann", "k0")).await.is_replay(), "what was begun before is answered");
    for n in 0..3 {
        assert_eq!(
            app.send(of("bob", &format!("k{n}"))).await.status,
            200,
            "another caller is not concerned"
        );
    }
}

#[tokio::test]
async fn a_keys_place_is_free_again_when_its_record_expires_and_not_before() {
    let world = World::new();
    let layer = world.layer().quota(Quota::live(2)).retention(MINUTE * 16);
    let app = world.numbered(&layer);
    assert_eq!(app.send(order("a")).await.status, 200);
    world.clock.advance(MINUTE * 8);
    assert_eq!(app.send(order("b")).await.status, 200);
    let refused = app.send(order("c")).await;
    refused.is_problem(429, "quota");
    let wait = refused.retry_after();
    assert!((8 * 60..=9 * 60).contains(&wait), "{wait} s: `a` expires in eight minutes");
    world.clock.advance(Duration::from_millis(8 * 60_000 - 1));
    app.send(order("c")).await.is_problem(429, "quota");
    assert!(app.send(order("a")).await.is_replay(), "it is still remembered");
    world.clock.advance(MINUTE + Duration::from_millis(1));
    assert_eq!(app.send(order("c")).await.status, 200, "`a` is forgotten, and its place is free");
    app.send(order("d")).await.is_problem(429, "quota");
    assert!(app.send(order("b")).await.is_replay());
}

#[tokio::test]
async fn unless_the_layer_has_a_retention_the_places_are_for_that_of_its_records() {
    let clock = semel_testkit::ManualClock::new();
    let store = semel::MemoryStore::with_clock(clock.arc());
    let once = semel::Once::builder().retention(MINUTE).store(store);
    let layer = semel::http::IdempotencyLayer::new(once).quota(Quota::live(1));
    let app = World::new().numbered(&layer);
    assert_eq!(app.send(order("a")).await.status, 200);
    app.send(order("b")).await.is_problem(429, "quota");
    clock.advance(MINUTE + MINUTE / 16);
    assert_eq!(app.send(order("b")).await.status, 200);
}

#[tokio::test]
async fn who_comes_when_it_was_told_to_is_not_refused_again() {
    for retention in [MINUTE, MINUTE * 60, MINUTE * 60 * 24 * 6] {
        let world = World::new();
        let app = world.numbered(&world.layer().quota(Quota::live(1)).retention(retention));
        assert_eq!(app.send(order("a")).await.status, 200);
        let wait = app.send(order("b")).await.retry_after();
        world.clock.advance(Duration::from_secs(wait));
        assert_eq!(app.send(order("b")).await.status, 200, "after {wait} s");
    }
}

#[tokio::test]
async fn a_quota_may_be_of_another_time_than_the_records() {
    let world = World::new();
    let app = world.numbered(&world.layer().quota(Quota::within(1, MINUTE)).retention(MINUTE * 60));
    assert_eq!(app.send(order("a")).await.status, 200);
    app.send(order("b")).await.is_problem(429, "quota");
    world.clock.advance(MINUTE + MINUTE / 16);
    assert_eq!(app.send(order("b")).await.status, 200);
}

#[tokio::test]
async fn duplicates_and_retries_are_free() {
    let world = World::new();
    let app = world.answering(&world.layer().quota(Quota::live(2)), |number| {
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
    let layer = world.layer().quota(Quota::live(1));
    let (one, other) = (world.numbered(&layer), world.numbered(&layer.clone()));
    assert_eq!(one.send(order("a")).await.status, 200);
    other.send(order("b")).await.is_problem(429, "quota");
}

#[tokio::test]
async fn a_quota_does_not_answer_for_a_store_that_is_away() {
    let world = World::new();
    let app = world.numbered(&world.layer().quota(Quota::live(0)));
    app.send(order("a")).await.is_problem(429, "quota");
    world.store.is_down.store(true, std::sync::atomic::Ordering::SeqCst);
    app.send(order("a")).await.is_problem(503, "store");
}
