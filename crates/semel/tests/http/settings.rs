//! What a person can get wrong when setting up a layer, and what each setting changes.

use crate::{
    bodies::whole,
    support::{MINUTE, World, json, keyless, order, post},
};
use http::{HeaderName, Method, Request, Response, header};
use semel::{
    Once,
    http::{
        Caller, IdempotencyLayer, Problem, Quota, REQUEST_BYTES_MAX, RESPONSE_WAIT_MAX, RETRY_AFTER_SECS_MAX,
    },
};
use std::{panic::catch_unwind, time::Duration};

#[track_caller]
fn refuses(set: impl FnOnce(IdempotencyLayer) -> IdempotencyLayer + std::panic::UnwindSafe, why: &str) {
    let panic = catch_unwind(|| set(IdempotencyLayer::new(Once::memory()))).expect_err("it was accepted");
    let said = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    assert!(said.is_some_and(|it| it.contains(why)), "{said:?}");
}

#[test]
fn settings_that_would_protect_nothing_are_refused() {
    refuses(|it| it.methods([]), "protects nothing");
    refuses(|it| it.quota(Quota::within(1, Duration::ZERO)), "a quota is for some time");
}

#[test]
fn the_limits_are_those_that_are_documented() {
    assert_eq!(REQUEST_BYTES_MAX, 1024 * 1024);
    assert_eq!(semel::http::RESPONSE_BYTES_MAX, 64 * 1024);
    assert_eq!(semel::http::KEY_BYTES_MAX, 255);
    assert_eq!(RESPONSE_WAIT_MAX, Duration::from_secs(5));
    assert_eq!(RETRY_AFTER_SECS_MAX, 604_800);
}

#[tokio::test]
async fn strange_names_are_names_all_the_same() {
    let world = World::new();
    let names =
        [String::new(), " ".to_owned(), "line\nbreak".to_owned(), "n".repeat(10_000), "ünï".to_owned()];
    for (n, name) in names.into_iter().enumerate() {
        let layer = world.layer().service_name(name).route(|_| String::new());
        let app = world.numbered(&layer);
        assert_eq!(app.send(order("k")).await.text(), format!("call {}", n + 1));
        assert!(app.send(order("k")).await.is_replay());
    }
}

#[tokio::test]
async fn callers_are_told_apart_as_the_layer_says() {
    let world = World::new();
    let by = |caller: Caller| world.numbered(&world.layer().caller(caller));
    let of = |user: &str, token: &str| {
        let request = Request::post("/orders").header("x-user", user).header("authorization", token);
        json(request.header("idempotency-key", "k"), "{}")
    };
    let header = by(Caller::Header(HeaderName::from_static("x-user")));
    assert_eq!(header.send(of("ann", "1")).await.text(), "call 1");
    assert_eq!(header.send(of("ann", "2")).await.text(), "call 1", "a renewed token is the same caller's");
    assert_eq!(header.send(of("bob", "1")).await.text(), "call 2");

    let told = by(Caller::from_fn(|parts| Some(parts.headers.get("x-user")?.as_bytes().to_vec())));
    assert!(told.send(of("cleo", "1")).await.text() == "call 3");
    assert!(told.send(of("cleo", "2")).await.is_replay());

    let anyone = by(Caller::Anyone);
    assert_eq!(anyone.send(of("dan", "1")).await.text(), "call 4");
    assert_eq!(anyone.send(of("eve", "2")).await.text(), "call 4", "they share their keys, on purpose");
    let nobody = json(Request::post("/orders").header("idempotency-key", "k"), "{}");
    assert!(anyone.send(nobody).await.is_replay());
}

#[tokio::test]
async fn the_headers_that_are_compared_can_be_chosen() {
    let world = World::new();
    let layer = world.layer().fingerprint_headers([header::ACCEPT_LANGUAGE, header::ACCEPT_LANGUAGE]);
    let app = world.numbered(&layer);
    let of = |language: &str, content_type: &str| {
        let request = post("k").header("accept-language", language).header("content-type", content_type);
        request.body(http_body_util::Full::from("x")).unwrap()
    };
    app.send(of("de", "text/plain")).await;
    assert!(app.send(of("de", "text/html")).await.is_replay());
    app.send(of("en", "text/plain")).await.is_problem(422, "mismatch");
}

#[tokio::test]
async fn an_own_base_is_where_problems_point() {
    let world = World::new();
    let app = world.numbered(&world.layer().required().problem_base("https://example.com/errors/"));
    let answer = app.send(keyless(Method::POST)).await;
    let problem: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(problem["type"], "https://example.com/errors/key-missing");
    assert_eq!(problem["title"], Problem::KEY_MISSING.title());
}

#[tokio::test]
async fn a_lease_and_a_retention_of_its_own() {
    let world = World::new();
    let layer = world.layer().lease(MINUTE * 3).retention(MINUTE * 10);
    let app = world.serving(&layer, |_, number| {
        Box::pin(async move {
            assert!(number > 1, "on purpose");
            Ok(Response::new(whole("second")))
        })
    });
    app.send(order("k")).await;
    let busy = app.send(order("k")).await;
    assert_eq!(busy.retry_after(), 180, "what is left of the lease");
    world.clock.advance(MINUTE * 2);
    app.send(order("k")).await.is_problem(409, "in-progress");
    world.clock.advance(MINUTE);
    assert_eq!(app.send(order("k")).await.text(), "second");
    world.clock.advance(MINUTE * 10);
    assert!(!app.send(order("k")).await.is_replay());
}

#[test]
fn a_layer_says_what_it_is_but_no_secrets() {
    let layer = IdempotencyLayer::new(Once::memory()).service_name("shop").caller(Caller::from_fn(|_| None));
    let said = format!("{layer:?}");
    assert!(said.contains("shop") && said.contains("Teller"), "{said}");
}
