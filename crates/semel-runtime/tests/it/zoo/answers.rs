//! Answers that should not be: broken off, malformed, forged, pointing elsewhere.

use super::target::{Animal, Connection, GOOD, Target, check_next, client, status};
use http::StatusCode;
use semel_runtime::deliver::{Answer, Deliver as _, INFORMATIONAL_MAX, Trouble};

/// Reads a request, sends this, and closes.
macro_rules! says {
    ($($bytes:expr),+) => {
        |mut connection| Box::pin(async move {
            connection.request().await;
            $(connection.send($bytes.as_ref()).await;)+
        })
    };
}

async fn meet(animal: Animal) -> Answer {
    let (client, target) = (client(), Target::first(animal).await);
    let answer = client.deliver(target.delivery()).await;
    assert!(target.seen.requests() <= 1, "one delivery is one request at most");
    let before = target.seen.requests();
    check_next(&client, &target).await;
    assert_eq!(target.seen.requests(), before + 1);
    answer
}

async fn check_broken(animal: Animal, expected: Trouble) {
    match meet(animal).await {
        Answer::Broken(cause) => assert_eq!(cause.trouble, expected, "{cause}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_good_answer_comes_as_it_is() {
    let answer = status(meet(says!(GOOD)).await);
    assert_eq!(
        (answer.code, answer.body.as_ref(), answer.is_truncated),
        (StatusCode::OK, &b"good"[..], false)
    );
}

#[tokio::test]
async fn f16_an_end_before_the_request_is_not_sent_or_broken() {
    let animals: [Animal; 2] = [
        |connection| Box::pin(async { connection.reset() }),
        |connection| Box::pin(async { drop(connection) }),
    ];
    for animal in animals {
        match meet(animal).await {
            Answer::NotSent(cause) => assert_eq!(cause.trouble, Trouble::Stale, "{cause}"),
            Answer::Broken(cause) => assert_eq!(cause.trouble, Trouble::Closed, "{cause}"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn f16_an_end_after_the_request_is_broken() {
    check_broken(says!(""), Trouble::Closed).await;
    check_broken(
        |mut connection| {
            Box::pin(async {
                connection.request().await;
                connection.reset();
            })
        },
        Trouble::Closed,
    )
    .await;
}

#[tokio::test]
async fn f16_an_answer_that_breaks_off_is_no_answer() {
    check_broken(says!("HTTP/1.1 200 OK\r\nContent-Le"), Trouble::Closed).await;
    check_broken(says!("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nnot as much"), Trouble::Closed).await;
    check_broken(
        says!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"),
        Trouble::Closed,
    )
    .await;
}

#[tokio::test]
async fn f16_garbage_is_no_answer() {
    let garbage: [Animal; 9] = [
        says!("\0\u{1}\u{2}\u{3} what is this\r\n\r\n"),
        says!("SSH-2.0-OpenSSH_9.6\r\n"),
        says!("220 mail.example.com ESMTP\r\n"),
        says!("{\"status\":200}\r\n\r\n"),
        says!("HTTP/9.9 200 OK\r\n\r\n"),
        says!("HTTP/1.1 20 OK\r\n\r\n"),
        says!("HTTP/1.1 2000 OK\r\n\r\n"),
        says!("HTTP/1.1 099 OK\r\n\r\n"),
        says!("HTTP/1.1  200 OK\r\nno colon here\r\n\r\n"),
    ];
    for animal in garbage {
        check_broken(animal, Trouble::Malformed).await;
    }
}

#[tokio::test]
async fn hostile_28_an_answer_of_http_0_9_is_no_answer() {
    check_broken(says!("<html>hello</html>"), Trouble::Malformed).await;
}

#[tokio::test]
async fn hostile_29_headers_with_line_ends_and_nul_are_no_answer() {
    let injected: [Animal; 6] = [
        says!("HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 0\r\n\r\n"),
        says!("HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: b\r\nContent-Length: 0\r\n\r\n"),
        says!("HTTP/1.1 200 OK\r\nX : a\r\nContent-Length: 0\r\n\r\n"),
        says!("HTTP/1.1 200 OK\r\nX: a\r\n folded\r\nContent-Length: 0\r\n\r\n"),
        says!("HTTP/1.1 200 OK\r\n: a\r\nContent-Length: 0\r\n\r\n"),
        says!("HTTP/1.1 200 OK\r\nSemel-Outcome: do\0ne\r\nContent-Length: 0\r\n\r\n"),
    ];
    for animal in injected {
        check_broken(animal, Trouble::Malformed).await;
    }
}

#[tokio::test]
async fn f16_lengths_that_are_none_are_no_answer() {
    let lengths: [Animal; 6] = [
        says!("HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n"),
        says!("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"),
        says!("HTTP/1.1 200 OK\r\nContent-Length: 4, 5\r\n\r\ngood"),
        says!("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\ngood"),
        says!("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n"),
        says!("HTTP/1.1 200 OK\r\nContent-Length: 0x4\r\n\r\ngood"),
    ];
    for animal in lengths {
        check_broken(animal, Trouble::Malformed).await;
    }
}

#[tokio::test]
async fn f16_chunks_that_are_none_are_no_answer() {
    let chunks: [Animal; 3] = [
        says!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n"),
        says!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n"),
        says!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nhello\r\n0\r\n\r\n"),
    ];
    for animal in chunks {
        check_broken(animal, Trouble::Closed).await;
    }
}

#[tokio::test]
async fn what_follows_an_answer_is_never_the_next_answer() {
    const FORGED: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged";
    let followed: [Animal; 4] = [
        says!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", FORGED),
        says!("HTTP/1.1 204 No Content\r\n\r\n", FORGED),
        says!("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", FORGED),
        |mut connection: Connection| {
            Box::pin(async move {
                connection.request().await;
                connection.send(&[GOOD, FORGED.as_bytes()].concat()).await;
                connection.hold().await;
            })
        },
    ];
    for animal in followed {
        status(meet(animal).await);
    }
}

#[tokio::test]
async fn hostile_27_no_redirect_is_followed() {
    let elsewhere = Target::good().await;
    for code in [301, 302, 303, 307, 308] {
        for to in [elsewhere.url(), "http://169.254.169.254/latest/".into(), "/other".into(), "//evil".into()]
        {
            let said = format!("HTTP/1.1 {code} Elsewhere\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n");
            let target = Target::start(move |mut connection| {
                let said = said.clone();
                async move {
                    while connection.request().await.is_some() {
                        connection.send(said.as_bytes()).await;
                    }
                }
            })
            .await;
            let answer = status(client().deliver(target.delivery()).await);
            assert_eq!(answer.code, code);
            assert_eq!(target.seen.requests(), 1);
        }
    }
    assert_eq!(elsewhere.seen.connections(), 0);
}

#[tokio::test]
async fn hostile_28_a_flood_of_informational_answers_is_no_answer() {
    check_broken(
        |mut connection| {
            Box::pin(async move {
                connection.request().await;
                while connection.send(&b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".repeat(100)).await {}
            })
        },
        Trouble::Malformed,
    )
    .await;
}

#[tokio::test]
async fn as_many_informational_answers_as_the_limit_do_no_harm() {
    let answer = meet(|mut connection| {
        Box::pin(async move {
            connection.request().await;
            connection.send(&b"HTTP/1.1 100 Continue\r\n\r\n".repeat(INFORMATIONAL_MAX as usize)).await;
            connection.send(GOOD).await;
        })
    })
    .await;
    assert_eq!(status(answer).body, "good");
}

#[tokio::test]
async fn processing_with_nothing_after_it_is_an_answer_to_whoever_takes_it() {
    let animal: Animal = says!("HTTP/1.1 102 Processing\r\n\r\n");
    let (client, target) = (client(), Target::start(animal).await);
    let mut delivery = target.delivery();
    assert!(matches!(client.deliver(delivery.clone()).await, Answer::Broken(_)));
    delivery.takes_processing = true;
    assert_eq!(status(client.deliver(delivery).await).code, StatusCode::PROCESSING);

    let target = Target::start(says!("HTTP/1.1 102 Processing\r\n\r\n", GOOD) as Animal).await;
    let mut delivery = target.delivery();
    delivery.takes_processing = true;
    assert_eq!(status(client.deliver(delivery).await).code, StatusCode::OK, "the last word counts");
}

#[tokio::test]
async fn a_change_of_protocols_that_nobody_asked_for_ends_the_connection() {
    let answer =
        meet(says!("HTTP/1.1 101 Switching Protocols\r\nUpgrade: other\r\nConnection: upgrade\r\n\r\nother"))
            .await;
    let is_answered =
        matches!(&answer, Answer::Status(status) if status.code == StatusCode::SWITCHING_PROTOCOLS);
    assert!(is_answered || matches!(answer, Answer::Broken(_)), "{answer:?}");
}

#[tokio::test]
async fn hostile_28_nothing_is_decompressed() {
    let answer = status(
        meet(says!("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x7f\0\0"))
            .await,
    );
    assert_eq!(answer.body.as_ref(), b"\x1f\x7f\0\0");
}

#[tokio::test]
async fn what_matters_of_the_head_is_kept_and_nothing_else() {
    let answer = status(
        meet(says!(
            "HTTP/1.1 503 Later\r\nRetry-After: 7\r\nSemel-Outcome: fatal\r\nContent-Type: text/plain\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n"
        ))
        .await,
    );
    assert_eq!(answer.retry_after.unwrap(), "7");
    assert_eq!(answer.outcome, Some(semel_runtime::deliver::Outcome::Fatal));
    assert_eq!(answer.content_type.unwrap(), "text/plain");
}

#[tokio::test]
async fn an_answer_before_the_body_was_read_counts() {
    let (client, target) = (
        client(),
        Target::first(|mut connection| {
            Box::pin(async move {
                let mut some = [0; 1024];
                tokio::io::AsyncReadExt::read(&mut connection.stream, &mut some).await.unwrap();
                connection
                    .send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                    .await;
                connection.hold().await;
            })
        })
        .await,
    );
    let mut delivery = target.delivery();
    delivery.body = vec![b'a'; 16 << 20].into();
    assert_eq!(status(client.deliver(delivery).await).code, StatusCode::PAYLOAD_TOO_LARGE);
    check_next(&client, &target).await;
}
