//! What Stripe's documentation says of its API, v2 (failures are tried again) and v1 (they are replayed).

use crate::bodies::whole;
use crate::support::{World, json, order, post};
use http::Response;
use semel::http::Problem;

fn failing_once(number: usize, status: u16) -> Response<crate::support::Given> {
    let status = if number == 1 { status } else { 200 };
    Response::builder().status(status).body(whole(format!("call {number}"))).unwrap()
}

/// v2: "retries don't repeat successful operations."
#[tokio::test]
async fn v2_a_retry_does_not_repeat_a_success() {
    let world = World::new();
    let app = world.numbered(&world.layer());
    for _ in 0..3 {
        assert_eq!(app.send(order("k")).await.text(), "call 1");
    }
    assert_eq!(world.calls(), 1);
}

/// v2: "Stripe retries failed or partially failed work to completion when possible and returns an updated response."
#[tokio::test]
async fn v2_failures_are_tried_again_and_give_an_updated_response() {
    for status in [500, 502, 503, 504, 599, 429, 408] {
        let world = World::new();
        let app = world.answering(&world.layer(), move |number| failing_once(number, status));
        let failed = app.send(order("k")).await;
        assert_eq!(
            (failed.status.as_u16(), failed.text()),
            (status, "call 1"),
            "the failure is told as it is"
        );
        let retried = app.send(order("k")).await;
        assert_eq!((retried.status.as_u16(), retried.text(), retried.is_replay()), (200, "call 2", false));
        let again = app.send(order("k")).await;
        assert_eq!((again.text(), again.is_replay()), ("call 2", true));
        assert_eq!(world.calls(), 2);
    }
}

/// v1: "Stripe saves the status code and body of the first request made with a given idempotency key […]. Retries with the same key
/// return the saved response, including `500` errors."
#[tokio::test]
async fn v1_failures_are_saved_too() {
    for status in [500, 503, 429, 408, 402] {
        let world = World::new();
        let app = world.answering(&world.layer().store_errors(), move |number| failing_once(number, status));
        let failed = app.send(order("k")).await;
        let again = app.send(order("k")).await;
        assert_eq!((again.status, &again.body, again.is_replay()), (failed.status, &failed.body, true));
        assert_eq!(world.calls(), 1, "{status}");
    }
}

/// v1: "Idempotency keys are up to 255 characters long."
#[tokio::test]
async fn keys_are_up_to_255_characters_long() {
    let world = World::new();
    let app = world.numbered(&world.layer());
    assert_eq!(app.send(order(&"k".repeat(255))).await.status, 200);
    app.send(order(&"k".repeat(256))).await.is_problem(400, "key-invalid");
}

/// v1: "You can remove keys from the system automatically after they're at least 24 hours old. We generate a new request if a key is
/// reused after the original is pruned."
#[tokio::test]
async fn responses_are_kept_for_24_hours_and_keys_for_longer() {
    let world = World::new();
    let app = world.numbered(&world.layer());
    app.send(order("k")).await;
    let hour = std::time::Duration::from_hours(1);
    world.clock.advance(hour * 23);
    assert!(app.send(order("k")).await.is_replay());
    world.clock.advance(hour * 2);
    app.send(order("k")).await.is_problem(409, "response-not-retained");
    world.clock.advance(hour * 24 * 7);
    assert_eq!(app.send(order("k")).await.text(), "call 2");
}

/// v1: "The idempotency layer compares incoming parameters to those of the original request and errors if they're not the same to
/// prevent accidental misuse."
#[tokio::test]
async fn parameters_are_compared() {
    let world = World::new();
    let app = world.numbered(&world.layer());
    app.send(json(post("k"), r#"{"amount":1}"#)).await;
    let other = app.send(json(post("k"), r#"{"amount":2}"#)).await;
    other.is_problem(422, Problem::MISMATCH.slug());
    assert!(!other.text().contains("amount"));
}

/// v1: "We save results only after the execution of an endpoint begins. If incoming parameters fail validation, or the request
/// conflicts with another request that's executing concurrently, we don't save the idempotent result because no API endpoint
/// initiates the execution. You can retry these requests."
#[tokio::test]
async fn what_was_refused_before_it_began_is_not_saved() {
    let world = World::new();
    let app = world.numbered(&world.layer().request_bytes_max(20));
    app.send(json(post("k"), r#"{"much":"too much for this"}"#)).await.is_problem(413, "request-too-large");
    assert_eq!(app.send(json(post("k"), "{}")).await.text(), "call 1");
}

/// "All `POST` requests accept idempotency keys. Don't send idempotency keys in `GET` and `DELETE` requests because it has no
/// effect."
#[tokio::test]
async fn keys_have_no_effect_on_get_and_delete() {
    let world = World::new();
    let app = world.numbered(&world.layer().required());
    for method in [http::Method::GET, http::Method::DELETE] {
        let mut request = order("k");
        *request.method_mut() = method;
        assert!(!app.send(request.clone()).await.is_replay());
        assert!(!app.send(request).await.is_replay());
    }
    assert_eq!(world.calls(), 4);
    assert!(world.store.asked().is_empty());
}
