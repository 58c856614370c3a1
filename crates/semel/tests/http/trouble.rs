//! The store is away, the handler panics, somebody took over: what the client is told.

use crate::{
    bodies::{Holding, whole},
    support::{Answer, MINUTE, Sent, World, json, keyless, order, poll_pending, post, settle},
};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full};
use semel::{
    BoxError, OnLapse, Reason, Resolution, Status,
    http::{Answered, Body, BodyRefused, CallLease, Problem, Verdict},
};
use std::sync::{Arc, Mutex, atomic::Ordering};
use tokio::sync::Notify;
use tower::{Layer as _, ServiceExt as _, service_fn};

#[tokio::test]
async fn nothing_runs_while_the_store_cannot_be_reached() {
    let world = World::new();
    let app = world.numbered(&world.layer());
    world.store.is_down.store(true, Ordering::SeqCst);
    let refused = app.send(order("k")).await;
    refused.is_problem(503, "store");
    assert_eq!((refused.retry_after(), world.calls()), (5, 0));
    assert_eq!(app.send(keyless(Method::POST)).await.status, 200, "what has no key needs no store");
    world.store.is_down.store(false, Ordering::SeqCst);
    assert_eq!(app.send(order("k")).await.text(), "call 2");
}

#[tokio::test]
async fn it_runs_unprotected_if_that_was_asked_for() {
    let world = World::new();
    let app = world.numbered(&world.layer().fail_open().mark_answers());
    world.store.is_down.store(true, Ordering::SeqCst);
    for n in 1..=2 {
        let response = app.raw(order("k")).await;
        assert_eq!(response.extensions().get(), Some(&Answered::Unprotected));
        assert_eq!(Answer::of(response).await.text(), format!("call {n}"));
    }
    world.store.is_down.store(false, Ordering::SeqCst);
    app.send(order("k")).await;
    assert!(app.send(order("k")).await.is_replay());
}

#[tokio::test]
async fn what_was_done_and_could_not_be_recorded_is_neither_success_nor_failure() {
    let world = World::new();
    let app = world.numbered(&world.layer());
    world.store.refuses(Some("COMPLETED"));
    let answer = world.clock.drive(app.send(order("k"))).await;
    answer.is_problem(503, "outcome-unconfirmed");
    assert_eq!(answer.retry_after(), 5);
    world.store.refuses(None);
    // The lease is over: the next try takes over, as after a crash.
    world.clock.advance(MINUTE);
    assert_eq!(app.send(order("k")).await.text(), "call 2");
}

#[tokio::test]
async fn a_handler_that_was_stopped_is_not_told_as_nothing_done() {
    let world = World::new();
    let app = world.serving(&world.layer(), |_, number| {
        Box::pin(async move {
            if number == 1 {
                std::future::pending::<()>().await;
            }
            Ok(Response::new(whole("second")))
        })
    });
    let response = tokio::spawn(app.begin(order("k")));
    settle().await;
    assert_eq!(world.calls(), 1, "it is at work");
    world.store.is_down.store(true, Ordering::SeqCst);
    let answer = Answer::of(world.clock.drive(response).await.unwrap()).await;
    answer.is_problem(503, "interrupted");
    assert_eq!(answer.retry_after(), 5);
    world.store.is_down.store(false, Ordering::SeqCst);
    world.clock.advance(MINUTE);
    assert_eq!(app.send(order("k")).await.text(), "second", "the same key takes it up again");
}

#[tokio::test]
async fn an_outcome_is_written_again_until_it_is_recorded() {
    let world = World::new();
    let app = world.numbered(&world.layer());
    world.store.refuses(Some("COMPLETED"));
    let mut response = tokio::spawn(app.begin(order("k")));
    settle().await;
    world.clock.advance(MINUTE / 6);
    settle().await;
    assert!(!response.is_finished(), "it does not give up yet");
    world.store.refuses(None);
    world.clock.advance(MINUTE / 6);
    assert_eq!(Answer::of((&mut response).await.unwrap()).await.text(), "call 1");
    assert!(app.send(order("k")).await.is_replay());
}

#[tokio::test]
async fn a_failure_is_told_even_if_it_could_not_be_recorded() {
    let world = World::new();
    let app =
        world.answering(&world.layer(), |_| Response::builder().status(502).body(whole("sorry")).unwrap());
    world.store.refuses(Some("PENDING"));
    let answer = world.clock.drive(app.send(order("k"))).await;
    assert_eq!((answer.status, answer.text()), (StatusCode::BAD_GATEWAY, "sorry"));
}

#[tokio::test]
async fn a_panic_is_a_crash_and_the_next_try_runs_when_the_lease_has_lapsed() {
    let world = World::new();
    let app = world.serving(&world.layer().mark_answers(), |_, number| {
        Box::pin(async move {
            tokio::task::yield_now().await;
            assert!(number > 1, "on purpose");
            Ok(Response::new(whole("second")))
        })
    });
    app.send(order("k")).await.is_problem(500, "internal");
    app.send(order("k")).await.is_problem(409, "in-progress");
    world.clock.advance(MINUTE);
    let response = app.raw(order("k")).await;
    assert_eq!(response.extensions().get(), Some(&Answered::TakenOver));
    assert_eq!(Answer::of(response).await.text(), "second");
}

#[tokio::test]
async fn a_panic_after_the_client_has_gone_is_a_crash_too() {
    let world = World::new();
    let go = Arc::new(Notify::new());
    let app = {
        let go = Arc::clone(&go);
        world.serving(&world.layer(), move |_, number| {
            let go = Arc::clone(&go);
            Box::pin(async move {
                go.notified().await;
                assert!(number > 1, "on purpose");
                Ok(Response::new(whole("second")))
            })
        })
    };
    let mut response = app.begin(order("k"));
    poll_pending(&mut response);
    drop(response);
    settle().await;
    go.notify_one();
    settle().await;
    world.clock.advance(MINUTE);
    go.notify_one();
    assert_eq!(app.send(order("k")).await.text(), "second");
}

#[tokio::test]
async fn whoever_was_superseded_is_not_believed() {
    let world = World::new();
    let go = Arc::new(Notify::new());
    let app = {
        let go = Arc::clone(&go);
        world.serving(&world.layer(), move |_, number| {
            let go = Arc::clone(&go);
            Box::pin(async move {
                if number == 1 {
                    go.notified().await;
                }
                Ok(Response::new(whole(format!("call {number}"))))
            })
        })
    };
    let mut first = app.begin(order("k"));
    poll_pending(&mut first);
    // The process stands still for longer than its lease: nobody renews it.
    world.clock.advance(MINUTE);
    assert_eq!(app.send(order("k")).await.text(), "call 2");
    go.notify_one();
    let late = Answer::of(first.await).await;
    assert!(late.status.is_server_error(), "{late:?}");
    assert_eq!(app.send(order("k")).await.text(), "call 2");
}

#[tokio::test]
async fn an_error_of_the_service_is_handed_on_and_the_next_try_runs() {
    let world = World::new();
    let service = {
        let world = world.clone();
        world.clone().layer().layer(service_fn(move |_: Request<Body<Sent>>| {
            let number = world.called();
            std::future::ready(match number {
                1 => Err("the line broke"),
                _ => Ok(Response::new(Full::new(Bytes::from_static(b"second")))),
            })
        }))
    };
    let error = service.clone().oneshot(order("k")).await.unwrap_err();
    assert_eq!(error, "the line broke");
    assert_eq!(Answer::of(service.clone().oneshot(order("k")).await.unwrap()).await.text(), "second");
    assert!(Answer::of(service.oneshot(order("k")).await.unwrap()).await.is_replay());
}

#[tokio::test]
async fn the_services_own_verdict_goes_before_its_status() {
    let check = async |verdict: Verdict, status: u16| {
        let world = World::new();
        let app = world.answering(&world.layer(), move |number| {
            let mut response =
                Response::builder().status(status).body(whole(format!("call {number}"))).unwrap();
            if number == 1 {
                response.extensions_mut().insert(verdict);
            }
            response
        });
        let first = app.raw(order("k")).await;
        assert!(first.extensions().get::<Verdict>().is_none(), "it is taken out");
        assert_eq!(Answer::of(first).await.text(), "call 1", "its client gets what the service said");
        (app.send(order("k")).await, world, app)
    };
    let (kept, ..) = check(Verdict::Kept, 503).await;
    assert_eq!((kept.status.as_u16(), kept.text(), kept.is_replay()), (503, "call 1", true));
    let (released, ..) = check(Verdict::Released, 200).await;
    assert_eq!((released.text(), released.is_replay()), ("call 2", false));
    let (lost, world, app) = check(Verdict::Lost, 504).await;
    lost.is_problem(409, "in-progress");
    world.clock.advance(MINUTE);
    assert_eq!(app.send(order("k")).await.text(), "call 2", "its lease stood until it lapsed");
    let (unknown, world, app) = check(Verdict::Unknown, 504).await;
    unknown.is_problem(409, "outcome-unknown");
    world.clock.advance(MINUTE * 60 * 24 * 30);
    app.send(order("k")).await.is_problem(409, "outcome-unknown");
}

#[tokio::test]
async fn a_call_that_must_not_be_repeated_in_doubt_waits_for_somebody() {
    let world = World::new();
    let key = Arc::new(Mutex::new(None));
    let app = {
        let key = Arc::clone(&key);
        world.serving(&world.layer().on_lapse(OnLapse::Report), move |request, number| {
            let lease = CallLease::of(request.extensions()).unwrap();
            *key.lock().unwrap() = Some(lease.key().clone());
            Box::pin(async move {
                assert!(number > 1, "on purpose");
                Ok(Response::new(whole("second")))
            })
        })
    };
    app.send(order("k")).await.is_problem(500, "internal");
    world.clock.advance(MINUTE);
    app.send(order("k")).await.is_problem(409, "outcome-unknown");
    let key = key.lock().unwrap().clone().unwrap();
    let found = world.once.get_key(&key).await.unwrap().unwrap();
    assert_eq!((found.status(), found.reason()), (Status::Failed, Some(Reason::OutcomeUnknown)));
    world.once.resolve(&key, Resolution::did_not_happen(), "ops", "looked").await.unwrap();
    assert_eq!(app.send(order("k")).await.text(), "second");
}

#[tokio::test]
async fn a_body_that_ends_early_is_refused_and_one_that_says_why_is_told_as_it_says() {
    let world = World::new();
    let service = {
        let world = world.clone();
        world.clone().layer().layer(service_fn(move |_: Request<Body<crate::support::Given>>| {
            world.called();
            std::future::ready(Ok::<_, std::convert::Infallible>(Response::new(Full::new(Bytes::new()))))
        }))
    };
    let send = async |error: BoxError| {
        let body = crate::bodies::pieces([Ok(Frame::data(Bytes::from_static(b"half"))), Err(error)]);
        let request = post("k").body(body).unwrap();
        Answer::of(service.clone().oneshot(request).await.unwrap()).await
    };
    send("cut".into()).await.is_problem(400, "request-incomplete");
    send(BodyRefused(Problem::REQUEST_TIMEOUT).into()).await.is_problem(408, "request-timeout");
    let wrapped = std::io::Error::other(BodyRefused(Problem::REQUEST_TOO_LARGE));
    send(wrapped.into()).await.is_problem(413, "request-too-large");
    assert_eq!((world.calls(), world.store.asked().len()), (0, 0));
}

#[tokio::test]
async fn a_stored_response_that_cannot_be_read_is_not_guessed_at() {
    let world = World::new();
    let app = world.numbered(&world.layer());
    let key = Arc::new(Mutex::new(None));
    let seeing = {
        let key = Arc::clone(&key);
        world.serving(&world.layer(), move |request, _| {
            *key.lock().unwrap() = Some(CallLease::of(request.extensions()).unwrap().key().clone());
            Box::pin(async { Ok(Response::builder().status(500).body(whole("")).unwrap()) })
        })
    };
    seeing.send(order("k")).await;
    // Somebody else's result under the same key, as another version might have written it.
    let key = key.lock().unwrap().clone().unwrap();
    let record = semel::Store::load(&*world.store, &key).await.unwrap().unwrap().record;
    let call = world.once.call_key(key).fingerprint(record.fingerprint);
    call.run(async |_| Ok("of another version".to_owned())).await.unwrap();
    app.send(order("k")).await.is_problem(409, "response-not-retained");
    assert_eq!(world.calls(), 1);
}

#[tokio::test]
async fn a_response_body_that_is_kept_elsewhere_keeps_nothing_open() {
    let world = World::new();
    let app = world.serving(&world.layer(), |request, _| {
        Box::pin(async move {
            let lease = CallLease::of(request.extensions()).unwrap();
            Ok(Response::new(Holding(whole("held"), lease).boxed_unsync()))
        })
    });
    assert_eq!(app.send(order("k")).await.text(), "held", "it was read to its end, and let go of the lease");
    assert!(app.send(order("k")).await.is_replay());
    assert!(app.send(json(post("k"), "[]")).await.status == 422);
}
