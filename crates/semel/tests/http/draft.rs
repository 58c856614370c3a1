//! The IETF's `draft-ietf-httpapi-idempotency-key-header-07`, sentence by sentence.

use crate::bodies::whole;
use crate::support::{Answer, App, MINUTE, World, json, keyless, order, poll_pending, post, settle};
use http::{Method, Response};
use semel::BoxFuture;
use std::sync::Arc;
use tokio::sync::Notify;

/// Every key of this list, one after the other, and how often the service was called.
async fn calls_for(world: &World, app: &App, keys: &[&str]) -> usize {
    let before = world.calls();
    for key in keys {
        app.send(order(key)).await;
    }
    world.calls() - before
}

/// 2.1: "`Idempotency-Key` is an Item Structured Header. Its value MUST be a String."
#[tokio::test]
async fn the_key_is_a_structured_field_string() {
    let world = World::new();
    let app = world.numbered(&world.layer().strict());
    let first = app.send(order(r#""8e03978e-40d5-43e8-bc93-6894a57f9324""#)).await;
    assert_eq!((first.status.as_u16(), first.text()), (200, "call 1"));
    let again = app.send(order(r#""8e03978e-40d5-43e8-bc93-6894a57f9324";v=1"#)).await;
    assert_eq!((again.is_replay(), again.text()), (true, "call 1"));
    for bare in ["8e03978e-40d5-43e8-bc93-6894a57f9324", "17", ":YWJj:", "?1", "token"] {
        app.send(order(bare)).await.is_problem(400, "key-invalid");
    }
    assert_eq!(world.calls(), 1);
}

/// 2.1, and what clients in the wild send: a bare key is the quoted one, unless the layer is strict.
#[tokio::test]
async fn a_bare_key_is_the_quoted_key_with_the_same_content() {
    let world = World::new();
    let app = world.numbered(&world.layer());
    assert_eq!(calls_for(&world, &app, &["clkyoesmbgybucifusbbtdsbohtyuuwz"; 2]).await, 1);
    assert_eq!(calls_for(&world, &app, &[r#""clkyoesmbgybucifusbbtdsbohtyuuwz""#]).await, 0);
    assert_eq!(calls_for(&world, &app, &[r#""a\"b""#, r#""a\\b""#, r#""ab""#]).await, 3);
}

/// 2.1: "Clients MUST NOT include more than one `Idempotency-Key` header field in the same request."
#[tokio::test]
async fn two_header_fields_are_refused() {
    let world = World::new();
    let app = world.numbered(&world.layer());
    for second in [r#""a""#, r#""b""#, ""] {
        let request = json(post(r#""a""#).header("idempotency-key", second), "{}");
        app.send(request).await.is_problem(400, "key-invalid");
    }
    assert_eq!(world.calls(), 0);
}

/// 2.2: "It is RECOMMENDED that UUID or a similar random identifier be used as an idempotency key."
#[tokio::test]
async fn different_keys_are_different_requests() {
    let world = World::new();
    let app = world.numbered(&world.layer());
    let keys: Vec<_> = (0..100).map(|n| format!("\"{n:032x}\"")).collect();
    let keys: Vec<_> = keys.iter().map(String::as_str).collect();
    assert_eq!(calls_for(&world, &app, &keys).await, 100);
}

/// 2.3: "The resource MAY enforce time based idempotency keys, thus, be able to purge or delete a key upon its expiry."
#[tokio::test]
async fn an_expired_key_is_a_new_one() {
    let world = World::new();
    let layer = world.layer().retention(MINUTE * 10).body_retention(MINUTE * 5);
    let app = world.numbered(&layer);
    app.send(order("k")).await;
    world.clock.advance(MINUTE * 4);
    assert!(app.send(order("k")).await.is_replay());
    world.clock.advance(MINUTE * 4);
    // Its response is no longer kept, but that it was carried out is known.
    app.send(order("k")).await.is_problem(409, "response-not-retained");
    world.clock.advance(MINUTE * 4);
    assert_eq!(app.send(order("k")).await.text(), "call 2");
}

/// 2.4: "An idempotency fingerprint MAY be used in conjunction with an idempotency key to determine the uniqueness of a
/// request."
#[tokio::test]
async fn the_same_key_with_another_payload_is_no_duplicate() {
    let world = World::new();
    let app = world.numbered(&world.layer());
    app.send(json(post("k"), r#"{"a":1,"b":[1,2]}"#)).await;
    assert!(
        app.send(json(post("k"), r#" {"b" : [1, 2], "a":1}"#)).await.is_replay(),
        "the same in other words"
    );
    for other in [r#"{"a":1,"b":[2,1]}"#, r#"{"a":1}"#, "", "{"] {
        app.send(json(post("k"), other)).await.is_problem(422, "mismatch");
    }
    assert_eq!(world.calls(), 1);
}

/// 2.6: "First time request (idempotency key and fingerprint has not been seen): The resource server SHOULD process the request
/// normally and respond with an appropriate response and status code."
#[tokio::test]
async fn a_first_request_is_processed_normally() {
    let world = World::new();
    let app = world.answering(&world.layer(), |_| {
        Response::builder().status(201).header("location", "/orders/7").body(whole("made")).unwrap()
    });
    let first = app.send(order("k")).await;
    assert_eq!(
        (first.status.as_u16(), first.text(), &first.headers["location"]),
        (201, "made", &"/orders/7".parse().unwrap())
    );
    assert!(!first.headers.contains_key("idempotency-replayed"));
}

/// 2.6: "Duplicate request, Retry: The request was retried after the original request completed. The resource server SHOULD
/// respond with the result of the previously completed operation, success or an error."
#[tokio::test]
async fn a_retry_gets_the_result_success_or_an_error() {
    for status in [200, 201, 202, 204, 301, 303, 400, 403, 404, 409, 410, 422] {
        let world = World::new();
        let app = world.answering(&world.layer(), move |number| {
            let body = if status == 204 { String::new() } else { format!("call {number}") };
            Response::builder().status(status).header("etag", "\"7\"").body(whole(body)).unwrap()
        });
        let first = app.send(order("k")).await;
        for _ in 0..3 {
            let again = app.send(order("k")).await;
            assert!(again.is_replay());
            assert_eq!(
                (again.status, &again.body, &again.headers["etag"]),
                (first.status, &first.body, &first.headers["etag"])
            );
        }
        assert_eq!(world.calls(), 1, "{status}");
    }
}

/// 2.6: "Duplicate request, Concurrent Request: The request was retried before the original request completed. The resource
/// server MUST respond with a resource conflict error."
#[tokio::test]
async fn a_concurrent_request_is_a_conflict() {
    let world = World::new();
    let go = Arc::new(Notify::new());
    let app = waiting(&world, &go);
    let first = tokio::spawn(app.begin(order("k")));
    settle().await;
    let conflict = app.send(order("k")).await;
    conflict.is_problem(409, "in-progress");
    assert_eq!(conflict.retry_after(), 60, "what is left of the lease");
    world.clock.advance(MINUTE / 4);
    assert_eq!(app.send(order("k")).await.retry_after(), 45);
    go.notify_one();
    assert_eq!(Answer::of(first.await.unwrap()).await.text(), "done");
    assert!(app.send(order("k")).await.is_replay());
    assert_eq!(world.calls(), 1);
}

/// A service that answers when it is told to.
fn waiting(world: &World, go: &Arc<Notify>) -> App {
    let go = Arc::clone(go);
    world.serving(&world.layer(), move |_, _| -> BoxFuture<'static, _> {
        let go = Arc::clone(&go);
        Box::pin(async move {
            go.notified().await;
            Ok(Response::new(whole("done")))
        })
    })
}

/// 2.6, and what the draft leaves to us: a concurrent request waits for a moment, and gets the result if it comes.
#[tokio::test]
async fn a_concurrent_request_waits_for_a_moment() {
    let world = World::new();
    let go = Arc::new(Notify::new());
    let layer = world.layer().wait(MINUTE / 30);
    let service = {
        let go = Arc::clone(&go);
        world.serving(&layer, move |_, _| {
            let go = Arc::clone(&go);
            Box::pin(async move {
                go.notified().await;
                Ok(Response::new(whole("done")))
            })
        })
    };
    let mut first = service.begin(order("k"));
    poll_pending(&mut first);
    let second = tokio::spawn(service.begin(order("k")));
    settle().await;
    assert!(!second.is_finished(), "it waits");
    go.notify_one();
    assert_eq!(Answer::of(first.await).await.text(), "done");
    let second = Answer::of(second.await.unwrap()).await;
    assert_eq!((second.is_replay(), second.text()), (true, "done"));

    let mut first = service.begin(order("other"));
    poll_pending(&mut first);
    let refused = world.clock.drive(service.send(order("other"))).await;
    refused.is_problem(409, "in-progress");
}

/// 2.7: "If the `Idempotency-Key` request header is missing for a documented idempotent operation requiring this header, the
/// resource server SHOULD reply with an HTTP 400 status code with body containing a link pointing to relevant documentation."
#[tokio::test]
async fn a_missing_key_is_refused_where_it_is_required() {
    let world = World::new();
    let app = world.numbered(&world.layer().required());
    for method in [Method::POST, Method::PATCH] {
        app.send(keyless(method)).await.is_problem(400, "key-missing");
    }
    assert_eq!(world.calls(), 0);
    let lax = world.numbered(&world.layer());
    for method in [Method::POST, Method::PATCH, Method::GET, Method::PUT, Method::DELETE] {
        assert_eq!(lax.send(keyless(method)).await.status, 200);
    }
    assert_eq!(world.calls(), 5, "where none is required, all of them run");
}

/// 2.7: "If there is an attempt to reuse an idempotency key with a different request payload, the resource server SHOULD reply
/// with a HTTP 422 status code with body containing a link pointing to relevant documentation."
#[tokio::test]
async fn reuse_with_another_payload_is_refused_in_every_state() {
    let world = World::new();
    let go = Arc::new(Notify::new());
    let app = waiting(&world, &go);
    let other = || json(post("k"), r#"{"item":"car"}"#);
    let mut first = app.begin(order("k"));
    poll_pending(&mut first);
    app.send(other()).await.is_problem(422, "mismatch");
    go.notify_one();
    first.await;
    app.send(other()).await.is_problem(422, "mismatch");

    let failing =
        world.answering(&world.layer(), |_| Response::builder().status(503).body(whole("")).unwrap());
    failing.send(order("failed")).await;
    let other = json(post("failed"), r#"{"item":"car"}"#);
    failing.send(other).await.is_problem(422, "mismatch");
}

/// 2.7: "If the request is retried, while the original request is still being processed, the resource server SHOULD reply with an
/// HTTP 409 status code with body containing problem description." And then: "Clients MUST correct the requests (with the
/// exception of 409 where no correction is required) before performing a retry operation".
#[tokio::test]
async fn a_conflict_needs_no_correction() {
    let world = World::new();
    let go = Arc::new(Notify::new());
    let app = waiting(&world, &go);
    let mut first = app.begin(order("k"));
    poll_pending(&mut first);
    app.send(order("k")).await.is_problem(409, "in-progress");
    go.notify_one();
    first.await;
    assert_eq!(app.send(order("k")).await.text(), "done");
}

/// 5: "Always validate the key as per its published specification before processing any request." and "implement a unique composite
/// key as the idempotent cache lookup key".
#[tokio::test]
async fn the_key_is_validated_before_anything_is_looked_up_and_combined_with_the_caller() {
    let world = World::new();
    let app = world.numbered(&world.layer());
    app.send(order("\"not closed")).await.is_problem(400, "key-invalid");
    assert!(world.store.asked().is_empty());
    app.send(order("k")).await;
    let of_bob = json(
        http::Request::post("/orders").header("authorization", "Bearer bob").header("idempotency-key", "k"),
        r#"{"item":"book","cents":1200}"#,
    );
    assert_eq!(app.send(of_bob).await.text(), "call 2");
}

/// 1: "HTTP methods `OPTIONS`, `HEAD`, `GET`, `PUT` and `DELETE` are idempotent while methods `POST` and `PATCH` are not."
#[tokio::test]
async fn only_post_and_patch_are_protected_unless_others_are_named() {
    let world = World::new();
    let app = world.numbered(&world.layer());
    let twice = async |app: &App, method: Method| {
        let before = world.calls();
        for _ in 0..2 {
            let mut request = order("k");
            *request.method_mut() = method.clone();
            assert_eq!(app.send(request).await.status, 200);
        }
        world.calls() - before
    };
    for method in [Method::OPTIONS, Method::HEAD, Method::GET, Method::PUT, Method::DELETE] {
        assert_eq!(twice(&app, method).await, 2);
    }
    for method in [Method::POST, Method::PATCH] {
        assert_eq!(twice(&app, method).await, 1);
    }
    let app = world.numbered(&world.layer().methods([Method::DELETE]));
    assert_eq!(twice(&app, Method::DELETE).await, 1);
    assert_eq!(twice(&app, Method::POST).await, 2);
}
