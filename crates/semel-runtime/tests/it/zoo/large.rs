//! Answers without end.

use super::target::{Animal, Target, check_next, client, client_with, status};
use semel_runtime::deliver::{Answer, Deliver as _, Limits, RESPONSE_BYTES_MAX, Trouble};

/// What the sockets of a machine hold for a client that does not read.
const SOCKETS_HOLD: usize = 24 << 20;

async fn check_truncated(animal: Animal, limits: Limits) {
    let bytes_max = limits.response_bytes_max;
    let (client, target) = (client_with(limits), Target::first(animal).await);
    let answer = status(client.deliver(target.delivery()).await);
    assert_eq!((answer.code.as_u16(), answer.is_truncated, answer.body.len()), (200, true, bytes_max));
    check_next(&client, &target).await;
    let sent = target.seen.sent_bytes();
    assert!(sent < SOCKETS_HOLD, "{sent} bytes were taken");
}

async fn check_head_refused(animal: Animal) {
    let (client, target) = (client(), Target::first(animal).await);
    match client.deliver(target.delivery()).await {
        Answer::Broken(cause) => assert_eq!(cause.trouble, Trouble::Malformed, "{cause}"),
        other => panic!("{other:?}"),
    }
    check_next(&client, &target).await;
    let sent = target.seen.sent_bytes();
    assert!(sent < SOCKETS_HOLD, "{sent} bytes were taken");
}

#[tokio::test]
async fn f16_of_ten_gibibytes_one_mebibyte_is_read() {
    let animal: Animal = |mut connection| {
        Box::pin(async move {
            connection.request().await;
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10737418240\r\n\r\n").await;
            let block = vec![b'x'; 1 << 16];
            for _ in 0..(10_usize << 30 >> 16) {
                if !connection.send(&block).await {
                    return;
                }
            }
        })
    };
    check_truncated(animal, Limits::default()).await;
}

#[tokio::test]
async fn f16_of_endless_chunks_no_more_than_the_limit_is_read() {
    let animal: Animal = |mut connection| {
        Box::pin(async move {
            connection.request().await;
            connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
            let chunk = [&b"10000\r\n"[..], &vec![b'x'; 1 << 16], b"\r\n"].concat();
            while connection.send(&chunk).await {}
        })
    };
    check_truncated(animal, Limits::default()).await;
}

#[tokio::test]
async fn f16_of_endless_tiny_chunks_no_more_than_the_limit_is_read() {
    let animal: Animal = |mut connection| {
        Box::pin(async move {
            connection.request().await;
            connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
            let chunks = b"1\r\nx\r\n".repeat(1 << 12);
            while connection.send(&chunks).await {}
        })
    };
    check_truncated(animal, Limits { response_bytes_max: 1 << 16, ..Limits::default() }).await;
}

#[tokio::test]
async fn an_answer_without_a_length_that_never_ends_is_cut() {
    let animal: Animal = |mut connection| {
        Box::pin(async move {
            connection.request().await;
            connection.send(b"HTTP/1.0 200 OK\r\n\r\n").await;
            let block = vec![b'x'; 1 << 16];
            while connection.send(&block).await {}
        })
    };
    check_truncated(animal, Limits::default()).await;
}

#[tokio::test]
async fn an_answer_of_the_limit_is_whole_and_one_byte_more_is_not() {
    for (bytes, is_truncated) in [(RESPONSE_BYTES_MAX, false), (RESPONSE_BYTES_MAX + 1, true)] {
        let target = Target::start(move |mut connection| async move {
            connection.request().await;
            connection.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n").as_bytes()).await;
            connection.send(&vec![b'x'; bytes]).await;
        })
        .await;
        let answer = status(client().deliver(target.delivery()).await);
        assert_eq!((answer.is_truncated, answer.body.len()), (is_truncated, RESPONSE_BYTES_MAX));
    }
}

#[tokio::test]
async fn hostile_28_endless_headers_are_no_answer() {
    check_head_refused(|mut connection| {
        Box::pin(async move {
            connection.request().await;
            connection.send(b"HTTP/1.1 200 OK\r\n").await;
            while connection.send(b"X-Header: and one more\r\n").await {}
        })
    })
    .await;
}

#[tokio::test]
async fn hostile_28_a_header_without_end_is_no_answer() {
    check_head_refused(|mut connection| {
        Box::pin(async move {
            connection.request().await;
            connection.send(b"HTTP/1.1 200 OK\r\nX-Header: ").await;
            let block = vec![b'x'; 1 << 14];
            while connection.send(&block).await {}
        })
    })
    .await;
}

#[tokio::test]
async fn hostile_28_ten_thousand_headers_are_no_answer() {
    check_head_refused(|mut connection| {
        Box::pin(async move {
            connection.request().await;
            let headers = "a: b\r\n".repeat(10_000);
            connection
                .send(format!("HTTP/1.1 200 OK\r\n{headers}Content-Length: 0\r\n\r\n").as_bytes())
                .await;
        })
    })
    .await;
}

#[tokio::test]
async fn a_hundred_headers_are_an_answer_and_one_more_is_not() {
    for (headers, is_answered) in [(100, true), (101, false)] {
        let target = Target::start(move |mut connection| async move {
            connection.request().await;
            let more = "a: b\r\n".repeat(headers - 1);
            connection.send(format!("HTTP/1.1 200 OK\r\n{more}Content-Length: 0\r\n\r\n").as_bytes()).await;
        })
        .await;
        let answer = client().deliver(target.delivery()).await;
        assert_eq!(matches!(answer, Answer::Status(_)), is_answered, "{headers} headers: {answer:?}");
    }
}

#[tokio::test]
async fn endless_trailers_are_no_answer() {
    let animal: Animal = |mut connection| {
        Box::pin(async move {
            connection.request().await;
            connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n").await;
            while connection.send(b"X-Trailer: and one more\r\n").await {}
        })
    };
    let (client, target) = (client(), Target::first(animal).await);
    let answer = client.deliver(target.delivery()).await;
    assert!(matches!(answer, Answer::Broken(_)), "{answer:?}");
    check_next(&client, &target).await;
    assert!(target.seen.sent_bytes() < SOCKETS_HOLD);
}
