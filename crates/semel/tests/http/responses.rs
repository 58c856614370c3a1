//! Responses that cannot be kept: too large, without end, broken.

use crate::{
    bodies::{data, pieces, sent, whole},
    support::{Answer, Given, World, order, poll_pending, settle},
};
use bytes::Bytes;
use http::Response;
use http_body_util::BodyExt as _;
use semel::{
    BoxError,
    http::{
        DIGEST_BYTES_MAX, IdempotencyLayer, RESPONSE_BYTES_MAX, Recorded, RecordedBody, Unkept, UnkeptReason,
    },
};
use semel_core::sha256::sha256;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

fn of_type(content_type: &str, body: Given) -> Response<Given> {
    Response::builder().header("content-type", content_type).body(body).unwrap()
}

#[tokio::test]
async fn a_response_of_the_largest_size_is_kept_and_a_larger_one_is_not() {
    for (length, is_kept) in [(RESPONSE_BYTES_MAX, true), (RESPONSE_BYTES_MAX + 1, false)] {
        let world = World::new();
        // What cannot be compressed.
        let mut random = fastrand::Rng::with_seed(7);
        let body: Bytes = std::iter::repeat_with(|| random.u8(..)).take(length).collect();
        let app = {
            let body = body.clone();
            world.answering(&world.layer(), move |_| Response::new(whole(body.clone())))
        };
        assert_eq!(app.send(order("k")).await.body, body, "its own client gets all of it");
        let again = app.send(order("k")).await;
        if is_kept {
            assert_eq!((&again.body, again.is_replay()), (&body, true));
        } else {
            again.is_problem(409, "response-not-retained");
        }
        assert_eq!(world.calls(), 1, "it is never run again");
    }
}

#[tokio::test]
async fn a_response_that_turns_out_to_be_too_large_reaches_its_client_as_it_comes() {
    let world = World::new();
    let (sender, body) = sent();
    let body = Arc::new(Mutex::new(Some(body)));
    let app = world.answering(&world.layer().response_bytes_max(10), move |_| {
        Response::new(body.lock().unwrap().take().expect("called once"))
    });
    let mut response = tokio::spawn(app.begin(order("k")));
    for text in ["12345", "67890"] {
        sender.send(data(text)).unwrap();
        settle().await;
        assert!(!response.is_finished(), "it may still fit");
    }
    sender.send(data("too much")).unwrap();
    let response = (&mut response).await.unwrap();
    app.send(order("k")).await.is_problem(409, "response-not-retained");
    let mut body = response.into_body();
    let mut next = async || body.frame().await.map(|it| it.unwrap().into_data().unwrap());
    assert_eq!(next().await.as_deref(), Some(&b"1234567890"[..]));
    assert_eq!(next().await.as_deref(), Some(&b"too much"[..]));
    sender.send(data("and more")).unwrap();
    assert_eq!(next().await.as_deref(), Some(&b"and more"[..]));
    drop(sender);
    assert_eq!(next().await, None);
    assert_eq!(world.calls(), 1);
}

#[tokio::test]
async fn a_stream_reaches_its_client_before_anything_of_it_is_there() {
    for content_type in ["text/event-stream", "multipart/x-mixed-replace; boundary=x", "application/grpc"] {
        let world = World::new();
        let (sender, body) = sent();
        let body = Arc::new(Mutex::new(Some(body)));
        let app = world.answering(&world.layer(), move |_| {
            of_type(content_type, body.lock().unwrap().take().expect("called once"))
        });
        let mut body = app.raw(order("k")).await.into_body();
        app.send(order("k")).await.is_problem(409, "response-not-retained");
        let mut frame = Box::pin(body.frame());
        poll_pending(&mut frame);
        sender.send(data("event")).unwrap();
        let event = frame.await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(event, "event");
        assert_eq!(world.calls(), 1);
    }
}

#[tokio::test]
async fn a_body_that_takes_too_long_counts_as_a_stream_and_nothing_of_it_is_held_back() {
    let world = World::new();
    let (sender, body) = sent();
    let body = Arc::new(Mutex::new(Some(body)));
    let layer = world.layer().response_wait(Duration::from_secs(3));
    let app =
        world.answering(&layer, move |_| Response::new(body.lock().unwrap().take().expect("called once")));
    let mut response = tokio::spawn(app.begin(order("k")));
    sender.send(data("slow ")).unwrap();
    settle().await;
    world.clock.advance(Duration::from_millis(2_999));
    settle().await;
    assert!(!response.is_finished());
    world.clock.advance(Duration::from_millis(1));
    let response = (&mut response).await.unwrap();
    sender.send(data("but steady")).unwrap();
    drop(sender);
    assert_eq!(Answer::of(response).await.text(), "slow but steady");
    app.send(order("k")).await.is_problem(409, "response-not-retained");
    assert_eq!(world.calls(), 1);
}

#[tokio::test]
async fn a_body_that_breaks_reaches_its_client_as_far_as_it_goes_and_is_never_run_again() {
    let world = World::new();
    let app = world.answering(&world.layer(), |_| {
        Response::new(pieces([data("half a "), data("respon"), Err(BoxError::from("cut"))]))
    });
    let mut body = app.raw(order("k")).await.into_body();
    let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(frame, "half a respon");
    assert_eq!(body.frame().await.unwrap().unwrap_err().to_string(), "cut");
    app.send(order("k")).await.is_problem(409, "response-not-retained");
    assert_eq!(world.calls(), 1);
}

#[tokio::test]
async fn a_body_in_many_pieces_is_replayed_in_one() {
    let world = World::new();
    let app = world.answering(&world.layer(), |_| Response::new(pieces((0..5_000).map(|_| data("ab")))));
    let first = app.send(order("k")).await;
    assert_eq!(first.body.len(), 10_000);
    let replay = app.send(order("k")).await;
    assert_eq!((replay.is_replay(), replay.body), (true, first.body));
}

#[tokio::test]
async fn failures_pass_through_without_being_read() {
    let world = World::new();
    let (sender, body) = sent();
    let body = Arc::new(Mutex::new(Some(body)));
    let app = world.answering(&world.layer(), move |number| match number {
        1 => Response::builder().status(500).body(body.lock().unwrap().take().unwrap()).unwrap(),
        _ => Response::new(whole("better")),
    });
    let failed = app.raw(order("k")).await;
    assert_eq!(
        app.send(order("k")).await.text(),
        "better",
        "the next try runs while the failure is still being told"
    );
    sender.send(data("a long story")).unwrap();
    drop(sender);
    assert_eq!(Answer::of(failed).await.text(), "a long story");
}

/// The record of the usual request, as an operator sees it.
async fn record(world: &World, layer: &IdempotencyLayer) -> semel::Snapshot {
    let (parts, _) = order("k").into_parts();
    let key = layer.key_of(&parts).unwrap().unwrap();
    world.once.get_key(&key).await.unwrap().unwrap()
}

async fn unkept(world: &World, layer: &IdempotencyLayer) -> Unkept {
    match Recorded::of(&record(world, layer).await).unwrap().unwrap().body {
        RecordedBody::NotKept(unkept) => unkept,
        RecordedBody::Kept { size } => panic!("{size} bytes were kept"),
    }
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    sha256(bytes)
}

#[tokio::test]
async fn of_a_response_that_is_too_large_and_was_there_the_size_and_the_digest_are_kept() {
    for length in [11, 100_000, DIGEST_BYTES_MAX + 1] {
        let world = World::new();
        let layer = world.layer().response_bytes_max(10);
        let body = Bytes::from(vec![b'x'; length]);
        let app = {
            let body = body.clone();
            world.answering(&layer, move |_| Response::new(whole(body.clone())))
        };
        assert_eq!(app.send(order("k")).await.body, body);
        let unkept = unkept(&world, &layer).await;
        let hashed = length.min(DIGEST_BYTES_MAX);
        assert_eq!((unkept.reason, unkept.size), (UnkeptReason::TooLong, Some(length as u64)));
        assert_eq!((unkept.read, unkept.digest), (hashed as u64, Some(digest(&body[..hashed]))));
        assert_eq!(app.send(order("k")).await.told_size(), Some(length as u64));
    }
}

#[tokio::test]
async fn of_a_response_that_has_not_come_yet_what_was_announced_and_read_is_kept() {
    let world = World::new();
    let layer = world.layer().response_bytes_max(10);
    let app = world.answering(&layer, |_| Response::new(pieces([data("12345"), data("67890a"), data("b")])));
    assert_eq!(app.send(order("k")).await.body.len(), 12);
    let unkept_then = unkept(&world, &layer).await;
    assert_eq!((unkept_then.size, unkept_then.read), (None, 11), "nobody had said how long it would be");
    assert_eq!(unkept_then.digest, Some(digest(b"1234567890a")));
    assert_eq!(app.send(order("k")).await.told_size(), None);

    let world = World::new();
    let layer = world.layer();
    let app = world.answering(&layer, |_| {
        let response = Response::builder().header("content-type", "text/event-stream");
        response.header("content-length", "12").body(pieces([data("event: a\n\n\n\n")])).unwrap()
    });
    app.send(order("k")).await;
    let unkept = unkept(&world, &layer).await;
    assert_eq!(
        (unkept.reason, unkept.size, unkept.read, unkept.digest),
        (UnkeptReason::Stream, Some(12), 0, None)
    );
    assert_eq!(app.send(order("k")).await.told_size(), Some(12));
}

#[tokio::test]
async fn of_a_response_that_broke_what_came_is_kept() {
    let world = World::new();
    let layer = world.layer();
    let app = world.answering(&layer, |_| {
        Response::new(pieces([data("half a "), data("respon"), Err(BoxError::from("cut"))]))
    });
    drop(app.raw(order("k")).await);
    let unkept = unkept(&world, &layer).await;
    assert_eq!((unkept.reason, unkept.size, unkept.read), (UnkeptReason::Broken, None, 13));
    assert_eq!(unkept.digest, Some(digest(b"half a respon")));
    assert_eq!(app.send(order("k")).await.told_size(), None);
}

/// What is read whole, and is then too large for the store.
#[tokio::test]
async fn of_a_response_that_the_store_does_not_take_the_size_and_the_digest_are_exact() {
    let mut random = fastrand::Rng::with_seed(11);
    let link: String = std::iter::repeat_with(|| random.alphanumeric()).take(70_000).collect();
    let of = |layer: IdempotencyLayer, world: World| {
        let link = link.clone();
        async move {
            let app = world.answering(&layer, move |_| {
                Response::builder().header("link", &link).body(whole("made")).unwrap()
            });
            assert_eq!(app.send(order("k")).await.text(), "made");
            (app.send(order("k")).await, record(&world, &layer).await)
        }
    };
    let world = World::new();
    let (replay, kept) =
        of(world.layer().response_bytes_max(RESPONSE_BYTES_MAX + 10_000), world.clone()).await;
    assert!(replay.is_replay());
    let world = World::new();
    let (again, unkept) = of(world.layer().response_bytes_max(10), world.clone()).await;
    again.is_problem(409, "response-not-retained");
    assert_eq!(world.calls(), 1);
    // What cannot be compressed is stored behind one byte that says so.
    let stored = [&[0][..], &kept.bytes().unwrap().unwrap()].concat();
    assert_eq!(unkept.too_large(), Some((stored.len() as u64, digest(&stored))));
    assert_eq!(kept.too_large(), None);
}
