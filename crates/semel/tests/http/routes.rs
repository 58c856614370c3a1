//! Which route a request takes, in axum and without.

use crate::support::{Answer, World, call};
use axum::{Router, body::Body, routing::any};
use http::Request;
use semel::http::IdempotencyLayer;

fn request(method: &str, path: &str, key: &str) -> Request<Body> {
    let request = Request::builder().method(method).uri(path).header("authorization", "ann");
    request.header("idempotency-key", key).body(Body::empty()).unwrap()
}

async fn send(app: &Router, request: Request<Body>) -> Answer {
    Answer::of(call(app, request).await).await
}

fn numbered(world: &World) -> axum::routing::MethodRouter {
    let world = world.clone();
    any(move || async move { format!("call {}", world.called()) })
}

/// A key is one operation's: on another route, or with another method, it is another.
#[tokio::test]
async fn routes_and_methods_have_keys_of_their_own() {
    let world = World::new();
    let app = Router::new()
        .route("/orders", numbered(&world))
        .route("/refunds", numbered(&world))
        .layer(world.layer());
    assert_eq!(send(&app, request("POST", "/orders", "k")).await.text(), "call 1");
    assert_eq!(send(&app, request("POST", "/refunds", "k")).await.text(), "call 2");
    assert_eq!(send(&app, request("PATCH", "/orders", "k")).await.text(), "call 3");
    assert_eq!(send(&app, request("POST", "/orders", "k")).await.text(), "call 1");
}

/// The route is the router's: the same key for two resources of one route is a mistake, and is told.
#[tokio::test]
async fn the_route_is_the_one_that_was_matched() {
    let world = World::new();
    let app = Router::new().route("/orders/{id}", numbered(&world)).layer(world.layer());
    assert_eq!(send(&app, request("POST", "/orders/7", "k")).await.text(), "call 1");
    send(&app, request("POST", "/orders/8", "k")).await.is_problem(422, "mismatch");
    send(&app, request("POST", "/orders/7?x=1", "k")).await.is_problem(422, "mismatch");
}

/// A nested router cuts the path: what the client sent is what counts.
#[tokio::test]
async fn nested_routers_do_not_share_keys() {
    let world = World::new();
    let nested = || {
        Router::new().route("/pay", numbered(&world)).fallback_service(numbered(&world)).layer(world.layer())
    };
    let app = Router::new().nest("/a", nested()).nest("/b", nested());
    for (n, path) in ["/a/pay", "/b/pay", "/a/other", "/b/other"].iter().enumerate() {
        assert_eq!(send(&app, request("POST", path, "k")).await.text(), format!("call {}", n + 1), "{path}");
    }
    assert!(send(&app, request("POST", "/b/other", "k")).await.is_replay());
}

/// Each route may have a layer of its own.
#[tokio::test]
async fn required_on_one_route_and_optional_on_another() {
    let world = World::new();
    let layer = world.layer().required();
    let app = Router::new()
        .route("/charges", numbered(&world).layer(layer.clone()))
        .route("/searches", numbered(&world).layer(layer.optional()));
    let keyless = |path: &str| Request::post(path).body(Body::empty()).unwrap();
    send(&app, keyless("/charges")).await.is_problem(400, "key-missing");
    assert_eq!(send(&app, keyless("/searches")).await.status, 200);
}

/// The default caller and the whole of axum, end to end.
#[tokio::test]
async fn services_with_names_of_their_own_share_a_store() {
    let world = World::new();
    let app = |name: &str| {
        let layer = IdempotencyLayer::new(world.once.clone()).service_name(name);
        Router::new().route("/orders", numbered(&world)).layer(layer)
    };
    assert_eq!(send(&app("shop"), request("POST", "/orders", "k")).await.text(), "call 1");
    assert_eq!(send(&app("bank"), request("POST", "/orders", "k")).await.text(), "call 2");
    assert_eq!(send(&app("shop"), request("POST", "/orders", "k")).await.text(), "call 1");
}
