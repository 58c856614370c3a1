//! The lease of a request, in axum handlers.

use crate::support::{Answer, MINUTE, World, call};
use axum::{Router, body::Body, response::IntoResponse, routing::post};
use http::{Request, StatusCode};
use semel::{Error, HandlerError, Provider, Reason, Resolution, axum::CallLease};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

fn request(key: Option<&str>) -> Request<Body> {
    let mut request = Request::post("/orders").header("authorization", "ann");
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    request.body(Body::empty()).unwrap()
}

async fn send(app: &Router, key: Option<&str>) -> Answer {
    Answer::of(call(app, request(key)).await).await
}

#[tokio::test]
async fn a_retry_does_not_repeat_an_effect_that_was_finished() {
    let world = World::new();
    let charged = Arc::new(Mutex::new(Vec::new()));
    let handler = {
        let (world, charged) = (world.clone(), Arc::clone(&charged));
        async move |lease: CallLease| -> Result<String, Error> {
            let charge: String = lease
                .effect("charge")
                .keyed(Provider::STRIPE)
                .run(async |key| {
                    charged.lock().unwrap().push(key.to_string());
                    Ok::<_, HandlerError>(format!("ch_{}", charged.lock().unwrap().len()))
                })
                .await?;
            lease
                .effect("email")
                .at_least_once()
                .run(async || if world.called() == 1 { Err("the mail server is away") } else { Ok(()) })
                .await?;
            Ok(charge)
        }
    };
    let app = Router::new().route("/orders", post(handler)).layer(world.layer());
    let failed = send(&app, Some("k")).await;
    failed.is_problem(500, "internal");
    let retried = send(&app, Some("k")).await;
    assert_eq!((retried.status, retried.text()), (StatusCode::OK, "ch_1"));
    assert_eq!(charged.lock().unwrap().len(), 1, "one charge");
    let replay = send(&app, Some("k")).await;
    assert_eq!((replay.is_replay(), replay.text()), (true, "ch_1"));
}

#[tokio::test]
async fn a_handler_sees_which_attempt_it_is() {
    let world = World::new();
    let handler = async |lease: CallLease| {
        let status = if lease.attempt() < 3 { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
        (status, format!("attempt {} of {}", lease.attempt(), lease.key().scope()))
    };
    let app = Router::new().route("/orders", post(handler)).layer(world.layer().service_name("shop"));
    for n in 1..=3 {
        assert_eq!(send(&app, Some("k")).await.text(), format!("attempt {n} of shop:POST:/orders"));
    }
}

#[tokio::test]
async fn a_handler_that_needs_a_lease_says_clearly_that_there_is_none() {
    let world = World::new();
    let route = || Router::new().route("/orders", post(async |_: CallLease| "done"));
    send(&route(), Some("k")).await.is_problem(500, "lease-missing");
    let lax = route().layer(world.layer());
    send(&lax, None).await.is_problem(500, "lease-missing");
    assert_eq!(send(&lax, Some("k")).await.text(), "done");
}

#[tokio::test]
async fn a_handler_can_do_without() {
    let world = World::new();
    let handler = async |lease: Option<CallLease>| lease.map_or("unprotected", |_| "protected");
    let app = Router::new().route("/orders", post(handler)).layer(world.layer());
    assert_eq!(send(&app, None).await.text(), "unprotected");
    assert_eq!(send(&app, Some("k")).await.text(), "protected");
}

#[tokio::test]
async fn several_extractors_share_one_lease() {
    let world = World::new();
    let handler = async |one: CallLease, other: CallLease| (one.fence() == other.fence()).to_string();
    let app = Router::new().route("/orders", post(handler)).layer(world.layer());
    assert_eq!(send(&app, Some("k")).await.text(), "true");
    assert!(send(&app, Some("k")).await.is_replay());
}

#[tokio::test]
async fn an_effect_in_doubt_puts_its_request_in_doubt_until_it_is_resolved() {
    let world = World::new();
    let sent = Arc::new(AtomicUsize::new(0));
    let keys = Arc::new(Mutex::new(None));
    let handler = {
        let (sent, keys) = (Arc::clone(&sent), Arc::clone(&keys));
        async move |lease: CallLease| -> Result<&'static str, Error> {
            *keys.lock().unwrap() = Some(lease.key().clone());
            lease
                .effect("email")
                .at_most_once()
                .run(async || {
                    sent.fetch_add(1, Ordering::SeqCst);
                    Err::<(), _>(HandlerError::unknown("the line broke after it was sent"))
                })
                .await?;
            Ok("sent")
        }
    };
    let app = Router::new().route("/orders", post(handler)).layer(world.layer());
    send(&app, Some("k")).await.is_problem(409, "outcome-unknown");
    send(&app, Some("k")).await.is_problem(409, "outcome-unknown");
    let call = keys.lock().unwrap().clone().unwrap();
    let found = world.once.get_key(&call).await.unwrap().unwrap();
    assert_eq!(found.reason(), Some(Reason::OutcomeUnknown));
    assert!(found.error().unwrap().contains("effect `email`"), "{found}");
    let email = call.effect("email").unwrap();
    world.once.resolve(&email, Resolution::happened(), "ops", "it is in the outbox").await.unwrap();
    assert_eq!(send(&app, Some("k")).await.text(), "sent");
    assert_eq!(sent.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_effect_that_failed_for_good_is_kept() {
    let world = World::new();
    let handler = {
        let world = world.clone();
        async move |lease: CallLease| -> Result<(), Error> {
            world.called();
            let effect = lease.effect("charge").at_most_once();
            effect.run(async || Err::<(), _>(HandlerError::fatal("card declined"))).await
        }
    };
    let app = Router::new().route("/orders", post(handler)).layer(world.layer());
    send(&app, Some("k")).await.is_problem(500, "internal");
    let again = send(&app, Some("k")).await;
    assert!(again.is_replay());
    assert_eq!((again.status, world.calls()), (StatusCode::INTERNAL_SERVER_ERROR, 1));
}

#[tokio::test]
async fn a_handler_whose_effect_could_not_be_recorded_was_interrupted() {
    let world = World::new();
    let handler = {
        let world = world.clone();
        async move |lease: CallLease| -> Result<&'static str, Error> {
            world.store.is_down.store(world.called() == 1, Ordering::SeqCst);
            lease.effect("mail").at_least_once().run(async || Ok::<_, HandlerError>(())).await?;
            Ok("sent")
        }
    };
    let app = Router::new().route("/orders", post(handler)).layer(world.layer());
    let told = world.clock.drive(send(&app, Some("k"))).await;
    told.is_problem(503, "interrupted");
    assert_eq!(told.retry_after(), 5);
    world.store.is_down.store(false, Ordering::SeqCst);
    world.clock.advance(MINUTE);
    assert_eq!(send(&app, Some("k")).await.text(), "sent");
}

#[tokio::test]
async fn a_handlers_problems_point_where_the_layers_do() {
    let world = World::new();
    let layer = world.layer().problem_base("https://api.example/problems/");
    let fails = async |lease: CallLease| -> Result<(), Error> {
        let effect = lease.effect("charge").at_most_once();
        effect.run(async || Err::<(), _>(HandlerError::fatal("card declined"))).await
    };
    let app = Router::new().route("/orders", post(fails)).layer(layer.clone());
    let address = |answer: &Answer| {
        let problem: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        problem["type"].as_str().unwrap().to_owned()
    };
    let (first, again) = (send(&app, Some("k")).await, send(&app, Some("k")).await);
    assert_eq!(address(&first), "https://api.example/problems/internal");
    assert!(again.is_replay());
    assert_eq!(again.body, first.body);
    let none = send(&app, None).await;
    assert_eq!(
        (none.status.as_u16(), address(&none).as_str()),
        (500, "https://api.example/problems/lease-missing")
    );
    assert_eq!(none.headers["content-type"], "application/problem+json");
}

#[tokio::test]
async fn a_superseded_handler_writes_nothing() {
    let world = World::new();
    let handler = {
        let world = world.clone();
        async move |lease: CallLease| {
            if world.called() == 1 {
                world.clock.advance(MINUTE * 2);
                let effect = lease.effect("charge").at_most_once();
                return effect.run(async || Ok::<_, HandlerError>(())).await.into_response();
            }
            "second".into_response()
        }
    };
    let app = Router::new().route("/orders", post(handler)).layer(world.layer());
    let late = send(&app, Some("k")).await;
    assert!(late.status.is_server_error());
    assert_eq!(send(&app, Some("k")).await.text(), "second");
}
