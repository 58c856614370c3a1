//! Clients that do not wait for their response.

use crate::{
    bodies::{Holding, Never, data, sent, whole},
    support::{Answer, App, MINUTE, World, order, poll_pending, settle},
};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty};
use semel::http::{Body, CallLease};
use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::Notify;
use tower::{Layer as _, ServiceExt as _};

/// A service that waits in the middle of its work, and what it came to.
fn halfway(world: &World) -> (App, Arc<Notify>, Arc<AtomicBool>) {
    let (go, is_done) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
    let app = {
        let (go, is_done) = (Arc::clone(&go), Arc::clone(&is_done));
        world.serving(&world.layer(), move |_, number| {
            let (go, is_done) = (Arc::clone(&go), Arc::clone(&is_done));
            Box::pin(async move {
                go.notified().await;
                is_done.store(true, Ordering::SeqCst);
                Ok(Response::new(whole(format!("call {number}"))))
            })
        })
    };
    (app, go, is_done)
}

#[tokio::test]
async fn work_that_was_begun_is_finished_and_recorded_when_its_client_hangs_up() {
    let world = World::new();
    let (app, go, is_done) = halfway(&world);
    let mut response = app.begin(order("k"));
    poll_pending(&mut response);
    drop(response);
    settle().await;
    app.send(order("k")).await.is_problem(409, "in-progress");
    go.notify_one();
    settle().await;
    assert!(is_done.load(Ordering::SeqCst));
    let replay = app.send(order("k")).await;
    assert_eq!((replay.text(), replay.is_replay()), ("call 1", true));
    assert_eq!(world.calls(), 1);
}

#[tokio::test]
async fn its_lease_is_renewed_for_as_long_as_it_takes() {
    let world = World::new();
    let (app, go, _) = halfway(&world);
    let mut response = app.begin(order("k"));
    poll_pending(&mut response);
    drop(response);
    for _ in 0..20 {
        settle().await;
        world.clock.advance(MINUTE / 4);
        settle().await;
        app.send(order("k")).await.is_problem(409, "in-progress");
    }
    go.notify_one();
    settle().await;
    assert!(app.send(order("k")).await.is_replay());
    assert_eq!(world.calls(), 1);
}

#[tokio::test]
async fn a_graceful_stop_can_wait_for_what_nobody_else_waits_for() {
    let world = World::new();
    let layer = world.layer();
    let go = Arc::new(Notify::new());
    let app = {
        let go = Arc::clone(&go);
        world.serving(&layer, move |_, _| {
            let go = Arc::clone(&go);
            Box::pin(async move {
                go.notified().await;
                Ok(Response::new(whole("done")))
            })
        })
    };
    layer.idle().await;
    let (mut dropped, mut kept) = (app.begin(order("a")), app.begin(order("b")));
    poll_pending(&mut dropped);
    poll_pending(&mut kept);
    drop(dropped);
    let mut idle = {
        let layer = layer.clone();
        Box::pin(async move { layer.idle().await })
    };
    settle().await;
    poll_pending(&mut idle);
    go.notify_one();
    go.notify_one();
    settle().await;
    poll_pending(&mut idle);
    go.notify_one();
    Answer::of(kept.await).await;
    settle().await;
    idle.await;
}

#[tokio::test]
async fn who_hangs_up_before_the_request_was_read_has_asked_for_nothing() {
    let world = World::new();
    let service = {
        let world = world.clone();
        world.clone().layer().layer(tower::service_fn(move |_: Request<Body<_>>| {
            world.called();
            std::future::ready(Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())))
        }))
    };
    let request =
        Request::post("/").header("authorization", "a").header("idempotency-key", "k").body(Never).unwrap();
    let mut response = Box::pin(service.oneshot(request));
    poll_pending(&mut response);
    drop(response);
    settle().await;
    assert_eq!((world.calls(), world.store.asked().len()), (0, 0));
}

#[tokio::test]
async fn a_client_that_hangs_up_while_the_response_is_read_changes_nothing_either() {
    let world = World::new();
    let go = Arc::new(Notify::new());
    let app = {
        let go = Arc::clone(&go);
        world.serving(&world.layer(), move |_, _| {
            let go = Arc::clone(&go);
            Box::pin(async move {
                let (sender, body) = sent();
                tokio::spawn(async move {
                    go.notified().await;
                    sender.send(data("late")).unwrap();
                });
                Ok(Response::new(body))
            })
        })
    };
    let mut response = app.begin(order("k"));
    poll_pending(&mut response);
    drop(response);
    settle().await;
    go.notify_one();
    settle().await;
    let replay = app.send(order("k")).await;
    assert_eq!((replay.text(), replay.is_replay()), ("late", true));
}

#[tokio::test]
async fn who_keeps_the_lease_keeps_the_call_open() {
    let world = World::new();
    let go = Arc::new(Notify::new());
    let app = {
        let go = Arc::clone(&go);
        world.serving(&world.layer(), move |request, _| {
            let go = Arc::clone(&go);
            Box::pin(async move {
                let lease = CallLease::of(request.extensions()).unwrap();
                // Copied, as some layers do: this keeps nothing open.
                std::mem::forget(request.extensions().clone());
                tokio::spawn(async move {
                    go.notified().await;
                    drop(lease);
                });
                Ok(Response::new(whole("done")))
            })
        })
    };
    let response = tokio::spawn(app.begin(order("k")));
    settle().await;
    assert!(!response.is_finished(), "the other task works under its lease");
    go.notify_one();
    assert_eq!(Answer::of(response.await.unwrap()).await.text(), "done");
}

#[tokio::test]
async fn a_lease_in_the_body_of_a_stream_does_not_wait_for_itself() {
    let world = World::new();
    let app = world.serving(&world.layer(), |request, _| {
        Box::pin(async move {
            let lease = CallLease::of(request.extensions()).unwrap();
            let body = Holding(whole("x"), lease).boxed_unsync();
            Ok(Response::builder().header("content-type", "text/event-stream").body(body).unwrap())
        })
    });
    let answer = world.clock.drive(app.send(order("k"))).await;
    answer.is_problem(500, "internal");
    app.send(order("k")).await.is_problem(409, "response-not-retained");
    assert_eq!(world.calls(), 1);
}
