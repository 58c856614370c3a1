//! HTTP/2 by prior knowledge, and targets that speak it badly, frame by frame.

use super::target::{Connection, Target, client, status};
use http::Response;
use http_body_util::Full;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use semel_runtime::deliver::{Answer, Client, Deliver as _, Delivery, Protocol, Stage, Trouble};
use std::{convert::Infallible, time::Duration};
use tokio::io::AsyncReadExt as _;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// `:status: 200`, as every table of HPACK has it.
const OK: &[u8] = &[0x88];

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn goaway(last_stream: u32, error: u32) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[last_stream.to_be_bytes(), error.to_be_bytes()].concat())
}

/// Reads until the first request has come, by its frame of headers; which stream it is.
async fn request_stream(connection: &mut Connection) -> Option<u32> {
    const PREFACE: usize = 24;
    connection.send(&frame(SETTINGS, 0, 0, &[])).await;
    let mut preface = [0; PREFACE];
    connection.stream.read_exact(&mut preface).await.ok()?;
    loop {
        let mut head = [0; 9];
        connection.stream.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        connection.stream.read_exact(&mut payload).await.ok()?;
        match head[3] {
            SETTINGS if head[4] == 0 => {
                connection.send(&frame(SETTINGS, 1, 0, &[])).await;
            }
            HEADERS => return Some(u32::from_be_bytes([head[5], head[6], head[7], head[8]])),
            _ => {}
        }
    }
}

async fn well_behaved(connection: Connection) {
    let service = service_fn(|_: http::Request<Incoming>| async {
        Ok::<_, Infallible>(Response::new(Full::<bytes::Bytes>::from("good")))
    });
    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    let _ = server.serve_connection(TokioIo::new(connection.stream), service).await;
}

fn delivery(target: &Target) -> Delivery {
    let mut delivery = target.delivery();
    delivery.protocol = Protocol::Http2;
    delivery
}

/// A target that says this to its first request, and behaves on all other connections.
async fn says(frames: fn(u32) -> Vec<Vec<u8>>) -> Target {
    Target::start(move |mut connection: Connection| async move {
        if connection.nth > 0 {
            return well_behaved(connection).await;
        }
        let Some(stream) = request_stream(&mut connection).await else { return };
        for frame in frames(stream) {
            connection.send(&frame).await;
        }
        connection.hold_until_told().await;
    })
    .await
}

async fn meet(frames: fn(u32) -> Vec<Vec<u8>>) -> (Client, Target, Answer) {
    let (client, target) = (client(), says(frames).await);
    let answer = client.deliver(delivery(&target)).await;
    (client, target, answer)
}

/// Ends the held connection, and checks that the next delivery works, as soon as the client has noticed.
async fn check_next(client: &Client, target: &Target) {
    target.seen.end.notify_one();
    for _ in 0..3 {
        match client.deliver(delivery(target)).await {
            Answer::Status(status) => return assert_eq!(status.body, "good"),
            Answer::NotSent(cause) => assert_eq!(cause.trouble, Trouble::Stale, "{cause}"),
            Answer::Broken(cause) => assert_eq!(cause.trouble, Trouble::Closed, "{cause}"),
            Answer::TimedOut(stage) => panic!("no {stage:?} in time"),
        }
    }
    panic!("three deliveries found no new connection");
}

#[tokio::test]
async fn one_connection_serves_many_deliveries_at_once() {
    let (client, target) = (client(), Target::start(well_behaved).await);
    check_next(&client, &target).await;
    let under_way: Vec<_> = (0..100)
        .map(|_| {
            let (client, delivery) = (client.clone(), delivery(&target));
            tokio::spawn(async move { client.deliver(delivery).await })
        })
        .collect();
    for delivered in under_way {
        assert_eq!(status(delivered.await.unwrap()).body, "good");
    }
    assert_eq!(target.seen.connections(), 1);
}

#[tokio::test]
async fn a_goodbye_without_an_answer_is_broken_and_the_next_delivery_works() {
    for frames in [|_| vec![goaway(0, 0)], |_| vec![goaway(0, 2)], |stream| vec![goaway(stream, 11)]]
        as [fn(u32) -> Vec<Vec<u8>>; 3]
    {
        let (client, target) = (client(), says(frames).await);
        let mut delivery = delivery(&target);
        delivery.first_byte = Some(Duration::from_secs(1));
        let answer = client.deliver(delivery).await;
        assert!(matches!(answer, Answer::Broken(_) | Answer::TimedOut(Stage::Head)), "{answer:?}");
        check_next(&client, &target).await;
    }
}

#[tokio::test]
async fn a_goodbye_after_an_answer_does_no_harm() {
    let (client, target, answer) = meet(|stream| {
        vec![
            frame(HEADERS, END_HEADERS, stream, OK),
            frame(DATA, END_STREAM, stream, b"good"),
            goaway(stream, 0),
        ]
    })
    .await;
    assert_eq!(status(answer).body, "good");
    check_next(&client, &target).await;
    assert_eq!(target.seen.connections(), 2);
}

#[tokio::test]
async fn a_stream_that_is_reset_is_broken_before_and_after_the_head() {
    for error in [0_u32, 1, 2, 5, 8, 11] {
        let target = Target::start(move |mut connection: Connection| async move {
            if connection.nth > 0 {
                return well_behaved(connection).await;
            }
            let Some(stream) = request_stream(&mut connection).await else { return };
            if error % 2 == 0 {
                connection.send(&frame(HEADERS, END_HEADERS, stream, OK)).await;
            }
            connection.send(&frame(RST_STREAM, 0, stream, &error.to_be_bytes())).await;
            connection.reset();
        })
        .await;
        let client = client();
        let answer = client.deliver(delivery(&target)).await;
        assert!(matches!(answer, Answer::Broken(_)), "{error}: {answer:?}");
        check_next(&client, &target).await;
    }
}

/// RFC 9113, 8.7: whoever refuses a stream has done nothing about it.
#[tokio::test]
async fn a_stream_that_is_refused_was_not_sent() {
    const REFUSED_STREAM: u32 = 7;
    let (client, target, answer) =
        meet(|stream| vec![frame(RST_STREAM, 0, stream, &REFUSED_STREAM.to_be_bytes())]).await;
    let Answer::NotSent(cause) = answer else { panic!("{answer:?}") };
    assert_eq!(cause.trouble, Trouble::Refused, "{cause}");
    check_next(&client, &target).await;
}

#[tokio::test]
async fn garbage_instead_of_frames_is_broken() {
    let (client, target, answer) =
        meet(|_| vec![b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec()]).await;
    assert!(matches!(answer, Answer::Broken(_)), "{answer:?}");
    check_next(&client, &target).await;
}

#[tokio::test]
async fn a_target_that_speaks_the_old_protocol_only_is_broken() {
    let target = Target::start(|mut connection: Connection| async move {
        connection.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await;
        connection.hold().await;
    })
    .await;
    let answer = client().deliver(delivery(&target)).await;
    assert!(matches!(answer, Answer::Broken(_)), "{answer:?}");
}

#[tokio::test]
async fn of_an_endless_body_no_more_than_the_limit_is_read() {
    let target = Target::start(|connection: Connection| async move {
        let service = service_fn(|_: http::Request<Incoming>| async {
            Ok::<_, Infallible>(Response::new(Full::<bytes::Bytes>::from(vec![b'x'; 64 << 20])))
        });
        let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        let _ = server.serve_connection(TokioIo::new(connection.stream), service).await;
    })
    .await;
    let client = client();
    for _ in 0..3 {
        let answer = status(client.deliver(delivery(&target)).await);
        assert_eq!((answer.body.len(), answer.is_truncated), (1 << 20, true));
    }
    assert_eq!(target.seen.connections(), 1, "the stream is closed, and not the connection");
}

#[tokio::test]
async fn a_head_that_is_too_large_is_broken() {
    let (client, target, answer) = meet(|stream| {
        // Literal headers, never indexed, with names and values of their own.
        let mut block = OK.to_vec();
        for _ in 0..80 {
            block.extend_from_slice(&[0x10, 1, b'a', 0x7f, 0xe9, 0x06]);
            block.extend_from_slice(&[b'x'; 1000]);
        }
        let mut frames = Vec::new();
        for (index, part) in block.chunks(16_000).enumerate() {
            let is_last = (index + 1) * 16_000 >= block.len();
            let kind = if index == 0 { HEADERS } else { 9 };
            frames.push(frame(kind, if is_last { END_HEADERS } else { 0 }, stream, part));
        }
        frames
    })
    .await;
    assert!(matches!(answer, Answer::Broken(_)), "{answer:?}");
    check_next(&client, &target).await;
}
