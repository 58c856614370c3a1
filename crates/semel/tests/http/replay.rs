//! What a replay is made of.

use crate::{
    bodies::{data, pieces, whole},
    support::{World, json, keyless, order, post},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response};
use http_body::Frame;
use http_body_util::BodyExt as _;
use semel::http::{Answered, REPLAY_HEADERS};

#[tokio::test]
async fn a_replay_has_the_allowed_headers_with_repeats_and_commas_and_raw_bytes() {
    let world = World::new();
    let app = world.answering(&world.layer(), |_| {
        Response::builder()
            .header("link", "<a>; rel=\"next\", <b>")
            .header("link", "<c>")
            .header("etag", HeaderValue::from_bytes(b"\"\xff\xfe\"").unwrap())
            .header("vary", "a,b")
            .header("x-trace", "1")
            .header("set-cookie", "session=secret")
            .header("set-cookie", "other=secret")
            .header("date", "Thu, 01 Jan 1970 00:00:00 GMT")
            .header("content-length", "4")
            .header("keep-alive", "timeout=5")
            .body(whole("body"))
            .unwrap()
    });
    let first = app.send(order("k")).await;
    assert_eq!(first.headers.get_all("set-cookie").iter().count(), 2, "the first client gets everything");
    assert_eq!(
        (&first.headers["x-trace"], &first.headers["date"]),
        (&"1".parse().unwrap(), &"Thu, 01 Jan 1970 00:00:00 GMT".parse().unwrap())
    );
    let replay = app.send(order("k")).await;
    let mut lines: Vec<_> = replay
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes().escape_ascii().to_string()))
        .collect();
    lines.sort();
    let expected = [
        ("etag", "\\\"\\xff\\xfe\\\""),
        ("idempotency-replayed", "true"),
        ("link", "<a>; rel=\\\"next\\\", <b>"),
        ("link", "<c>"),
        ("vary", "a,b"),
    ];
    assert_eq!(lines, expected.map(|(name, value)| (name, value.to_owned())));
    let links: Vec<_> = replay.headers.get_all("link").iter().collect();
    assert_eq!(links, ["<a>; rel=\"next\", <b>", "<c>"], "in their order");
    assert_eq!(replay.text(), "body");
}

#[tokio::test]
async fn what_must_never_be_replayed_is_not_even_if_it_is_listed() {
    let world = World::new();
    let listed = [
        http::header::SET_COOKIE,
        http::header::DATE,
        http::header::CONNECTION,
        HeaderName::from_static("x-trace"),
    ];
    let layer = world.layer().replay_headers(listed);
    let app = world.answering(&layer, |_| {
        let response =
            Response::builder().header("set-cookie", "a=b").header("date", "now").header("etag", "\"1\"");
        response.header("connection", "close").header("x-trace", "7").body(whole("")).unwrap()
    });
    app.send(order("k")).await;
    let replay = app.send(order("k")).await;
    let mut names: Vec<_> = replay.headers.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["idempotency-replayed", "x-trace"]);
}

#[tokio::test]
async fn a_browser_can_read_a_replay_as_it_could_the_first_answer() {
    let said = [
        ("access-control-allow-origin", "https://shop.example"),
        ("access-control-allow-credentials", "true"),
        ("access-control-expose-headers", "etag, idempotency-replayed"),
        ("vary", "origin"),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "default-src 'none'"),
        ("cross-origin-resource-policy", "same-site"),
    ];
    let world = World::new();
    let app = world.answering(&world.layer(), move |_| {
        let mut response = Response::new(whole("done"));
        for (name, value) in said {
            response.headers_mut().insert(name, value.parse().unwrap());
        }
        response
    });
    let from = |origin: &'static str| {
        let mut request = order("k");
        request.headers_mut().insert("origin", HeaderValue::from_static(origin));
        request
    };
    app.send(from("https://shop.example")).await;
    // It names whom the service had let read it: a page of another origin is not.
    for origin in ["https://shop.example", "https://other.example"] {
        let replay = app.send(from(origin)).await;
        assert_eq!(replay.headers["idempotency-replayed"], "true");
        for (name, value) in said {
            let replayed: Vec<_> = replay.headers.get_all(name).iter().collect();
            assert_eq!(replayed, [value], "{name}");
        }
    }
}

#[tokio::test]
async fn more_headers_can_be_allowed() {
    let world = World::new();
    let request_id = HeaderName::from_static("x-request-id");
    let layer = world.layer().replay_headers(REPLAY_HEADERS.into_iter().chain([request_id]));
    let app = world.answering(&layer, |_| {
        Response::builder().header("x-request-id", "7").header("etag", "\"1\"").body(whole("")).unwrap()
    });
    app.send(order("k")).await;
    let replay = app.send(order("k")).await;
    assert_eq!(
        (&replay.headers["x-request-id"], &replay.headers["etag"]),
        (&"7".parse().unwrap(), &"\"1\"".parse().unwrap())
    );
}

#[tokio::test]
async fn trailers_are_replayed() {
    let mut trailers = HeaderMap::new();
    trailers.append("x-checksum", "1f".parse().unwrap());
    trailers.append("x-checksum", "2e".parse().unwrap());
    trailers.append("set-cookie", "a=b".parse().unwrap());
    let world = World::new();
    let app = {
        let trailers = trailers.clone();
        world.answering(&world.layer(), move |_| {
            Response::new(pieces([data("one "), data("two"), Ok(Frame::trailers(trailers.clone()))]))
        })
    };
    let first = app.send(order("k")).await;
    assert_eq!((first.text(), first.trailers.as_ref()), ("one two", Some(&trailers)));
    let named: Vec<_> = first.headers.get_all("trailer").iter().collect();
    assert_eq!(
        named,
        ["x-checksum", "set-cookie"],
        "else they would not pass over HTTP/1.1, and those of its replay would"
    );
    let replay = app.send(order("k")).await;
    trailers.remove("set-cookie");
    assert_eq!((replay.text(), replay.trailers.as_ref()), ("one two", Some(&trailers)));
    assert_eq!(replay.headers["trailer"], "x-checksum", "announced, as HTTP/1.1 wants it");
}

#[tokio::test]
async fn the_answer_to_a_head_keeps_its_length() {
    let world = World::new();
    let app = world.answering(&world.layer().methods([Method::HEAD]), |_| {
        Response::builder().header("content-length", "1234").body(whole("")).unwrap()
    });
    for is_replay in [false, true] {
        let mut request = order("k");
        *request.method_mut() = Method::HEAD;
        let answer = app.send(request).await;
        assert_eq!((&answer.headers["content-length"], answer.text()), (&"1234".parse().unwrap(), ""));
        assert_eq!(answer.is_replay(), is_replay);
    }
}

#[tokio::test]
async fn empty_answers_stay_empty() {
    for status in [204, 304] {
        let world = World::new();
        let app = world.answering(&world.layer(), move |_| {
            Response::builder().status(status).header("etag", "\"1\"").body(whole("")).unwrap()
        });
        app.send(order("k")).await;
        let response = app.raw(order("k")).await;
        assert_eq!(
            (response.status().as_u16(), http_body::Body::is_end_stream(response.body())),
            (status, true)
        );
        assert!(!response.headers().contains_key("content-length"));
    }
}

#[tokio::test]
async fn how_a_request_was_answered_is_told_to_outer_layers() {
    let world = World::new();
    let app = world.answering(&world.layer().mark_answers(), |number| {
        Response::builder().status(if number == 1 { 503 } else { 200 }).body(whole("")).unwrap()
    });
    let answered =
        async |request| app.raw(request).await.extensions().get::<Answered>().copied().map(Answered::as_str);
    assert_eq!(answered(order("k")).await, Some("fresh"));
    assert_eq!(answered(order("k")).await, Some("retried"));
    assert_eq!(answered(order("k")).await, Some("replayed"));
    assert_eq!(answered(json(post("k"), "{}")).await, Some("refused"));
    assert_eq!(answered(keyless(Method::POST)).await, None);
}

#[tokio::test]
async fn the_service_sees_the_request_as_it_was_sent() {
    let world = World::new();
    let app = world.serving(&world.layer(), |request, _| {
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let text = format!(
                "{} {} {:?} {:?} {}",
                parts.method,
                parts.uri,
                parts.headers["idempotency-key"],
                parts.headers["content-type"],
                String::from_utf8_lossy(&body)
            );
            Ok(Response::new(whole(text)))
        })
    });
    let answer = app.send(json(post("\"k\""), r#" {"b":1, "a":2}"#)).await;
    assert_eq!(answer.text(), "POST /orders \"\\\"k\\\"\" \"application/json\"  {\"b\":1, \"a\":2}");
}

#[tokio::test]
async fn a_body_in_one_piece_is_handed_on_without_being_copied() {
    let world = World::new();
    let body = Bytes::from(vec![7; 300_000]);
    let address = body.as_ptr() as usize;
    let app = world.serving(&world.layer(), move |request, _| {
        Box::pin(async move {
            let frame = request.into_body().frame().await.unwrap().unwrap().into_data().unwrap();
            assert_eq!(frame.len(), 300_000);
            Ok(Response::new(whole((frame.as_ptr() as usize == address).to_string())))
        })
    });
    let answer = app.send(post("k").body(body.into()).unwrap()).await;
    assert_eq!(answer.text(), "true");
}
