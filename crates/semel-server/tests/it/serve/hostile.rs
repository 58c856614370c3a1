//! Senders that try something. The numbers are those of the table of hostile inputs.

use super::support::{Server, event, full, orders, read, told};
use crate::support::{Got, Raw, Upstream, exchange, pieces, slow_and_another, soon};
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::Request;
use insta::assert_snapshot;
use std::io::Write as _;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

async fn sent(server: &Server, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Got {
    let mut request = Request::post(server.program.url("/events"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    server.send(request.body(full(body)).unwrap()).await
}

const STRUCTURED: (&str, &str) = ("content-type", "application/cloudevents+json");
const BATCH: (&str, &str) = ("content-type", "application/cloudevents-batch+json");
const RIGHT: &str = r#"{"specversion":"1.0","id":"1","source":"/s","type":"t"}"#;

/// 15.
#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_limited() {
    let function = Upstream::echo().await;
    let server = Server::with(&orders(&function, "[server.limits]\nbody_bytes_max = \"1KiB\"\n"));
    let announced = server.event("evt-1", &"1".repeat(1025)).await;
    assert_eq!(told(&announced), (413, "request-too-large".to_owned()));
    let body = pieces(vec![Bytes::from(vec![b'1'; 1024]), Bytes::from_static(b"1")], None);
    let found = server.send(event(&server.program, "evt-1").body(body).unwrap()).await;
    assert_eq!(told(&found), (413, "request-too-large".to_owned()));
    let endless = format!(
        "POST /events HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n401\r\n{}\r\n",
        "1".repeat(1025)
    );
    let cut = exchange(server.program.address, endless).await;
    assert!(cut.starts_with("HTTP/1.1 413 "), "what does not end is cut at the limit: {cut}");
    assert!(
        cut.contains("\r\nconnection: close\r\n"),
        "who sends more must know that nobody reads it: {cut}"
    );
    let just = pieces(vec![Bytes::from(vec![b'1'; 1000]), Bytes::from(vec![b'1'; 24])], None);
    let just = server.send(event(&server.program, "evt-1").body(just).unwrap()).await;
    assert_eq!(just.status, 202, "{just:?}");
    function.called(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_no_queue_takes_is_refused() {
    let function = Upstream::echo().await;
    let server = Server::before(&function);
    let got = server.event("evt-1", &format!("\"{}\"", "x".repeat(1024 * 1024))).await;
    assert_eq!(told(&got), (413, "request-too-large".to_owned()));
    let just = server.event("evt-1", &format!("\"{}\"", "x".repeat(1024 * 1024 - 4096))).await;
    assert_eq!(just.status, 202);
    function.called(1).await;
}

/// 16 and 18.
#[tokio::test(flavor = "multi_thread")]
async fn heads_are_limited_and_can_be_read_in_one_way_only() {
    let function = Upstream::echo().await;
    let server = Server::before(&function);
    let uri = format!("/{}", "a".repeat(8 * 1024));
    let many = "X: a\r\n".repeat(101);
    let large = format!("X: {}\r\n", "a".repeat(64 * 1024));
    for (bytes, status, problem) in [
        (format!("POST {uri} HTTP/1.1\r\nHost: a\r\n\r\n"), 414, "uri-too-long"),
        (format!("POST /events HTTP/1.1\r\nHost: a\r\n{many}\r\n"), 431, "headers-too-large"),
        (format!("POST /events HTTP/1.1\r\nHost: a\r\n{large}\r\n"), 431, "headers-too-large"),
        ("POST /events HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".into(), 400, "bad-request"),
        ("POST /events HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n".into(), 400, "bad-request"),
        ("POST /events HTTP/1.1\nHost: a\n\n".into(), 400, "bad-request"),
        ("POST /events HTTP/1.1\r\nHost: a\r\nX: a\r\n folded\r\n\r\n".into(), 400, "bad-request"),
        ("POST /events HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n".into(), 400, "bad-request"),
        ("POST /events HTTP/1.1\r\nConnection: close\r\n\r\n".into(), 400, "bad-request"),
        ("POST /events HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n".into(), 400, "bad-request"),
    ] {
        let got = exchange(server.program.address, &bytes).await;
        let shown = &bytes[..bytes.len().min(100)];
        assert!(got.starts_with(&format!("HTTP/1.1 {status} ")), "{shown:?}: {got}");
        assert!(got.contains("application/problem+json") && got.contains(problem), "{shown:?}: {got}");
        assert_eq!(got.matches("HTTP/1.1 ").count(), 1, "{shown:?}: {got}");
    }
    assert_eq!(function.calls(), 0);
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// 17.
#[tokio::test(flavor = "multi_thread")]
async fn compressed_bodies_are_read_and_bombs_are_not() {
    let function = Upstream::echo().await;
    let server = Server::before(&function);
    let encoded = async |encoding: &str, body: Vec<u8>| {
        sent(&server, &[STRUCTURED, ("content-encoding", encoding)], body).await
    };
    assert_eq!(encoded("gzip", gzip(RIGHT.as_bytes())).await.status, 202);
    let zst = include_bytes!("../../../../semel-events/tests/fixtures/zstd/batch.json.zst");
    let batch = sent(&server, &[BATCH, ("content-encoding", "zstd")], &zst[..]).await;
    assert_eq!(batch.status, 202, "{batch:?}");
    let bomb = gzip(&vec![b' '; 100 << 20]);
    assert!(bomb.len() < 200_000);
    assert_eq!(told(&encoded("gzip", bomb).await), (413, "request-too-large".to_owned()));
    let unknown = encoded("br", RIGHT.as_bytes().to_vec()).await;
    assert_eq!(told(&unknown), (415, "encoding".to_owned()));
    assert_eq!(unknown.header("accept-encoding"), Some("gzip, zstd"));
    let nested = encoded("gzip, gzip", gzip(&gzip(RIGHT.as_bytes()))).await;
    assert_eq!(told(&nested), (415, "encoding".to_owned()));
    let trailing = [gzip(RIGHT.as_bytes()), b"garbage".to_vec()].concat();
    assert_eq!(told(&encoded("gzip", trailing).await), (400, "encoding-invalid".to_owned()));
    assert_eq!(told(&encoded("gzip", RIGHT.as_bytes().to_vec()).await), (400, "encoding-invalid".to_owned()));
    let mut lying = gzip(RIGHT.as_bytes());
    let length = lying.len();
    lying[length - 1] ^= 1;
    assert_eq!(told(&encoded("gzip", lying).await), (400, "encoding-invalid".to_owned()));
}

const HASTY: &str =
    "[server.timeouts]\nfirst_byte = \"200ms\"\nhead = \"300ms\"\nidle = \"400ms\"\nbody_grace = \"300ms\"\n";

/// 19.
#[tokio::test(flavor = "multi_thread")]
async fn who_is_slow_is_not_waited_for() {
    let function = Upstream::echo().await;
    let server = Server::with(&orders(&function, HASTY));
    let address = server.program.address;
    assert_eq!(exchange(address, "").await, "", "silence");
    let head = exchange(address, "POST /events HTTP/1.1\r\nHost: a\r\nX: ").await;
    assert!(head.starts_with("HTTP/1.1 408 "), "{head}");
    let body = exchange(address, "POST /events HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc").await;
    assert!(body.starts_with("HTTP/1.1 408 ") && body.contains("request-timeout"), "{body}");
    let mut raw = Raw::connect(address).await;
    raw.write("POST /events HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n").await;
    let (mut reader, mut writer) = raw.0.split();
    let dribble = async {
        while writer.write_all(b"a").await.is_ok() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        std::future::pending::<()>().await;
    };
    let mut read = Vec::new();
    let ended = async {
        // It may be reset while it still sends.
        let _ = reader.read_to_end(&mut read).await;
    };
    soon("the end", async {
        tokio::select! {
            () = dribble => {}
            () = ended => {}
        }
    })
    .await;
    assert_eq!(function.calls(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_senders_of_one_address_leave_room_for_others() {
    let function = Upstream::echo().await;
    let file = "[server.limits]\nbody_bytes_max = \"512KiB\"\nbuffer_bytes_max = \"1MiB\"\n\
                [server.timeouts]\nbody_grace = \"1m\"\n";
    let server = Server::with(&orders(&function, file));
    let head = |id: &str| {
        format!(
            "POST /events HTTP/1.1\r\nHost: a\r\nConnection: close\r\nExpect: 100-continue\r\nCe-Specversion: 1.0\r\n\
             Ce-Id: {id}\r\nCe-Source: /shop\r\nCe-Type: order.created\r\nContent-Type: application/json\r\n\
             Transfer-Encoding: chunked\r\n\r\n"
        )
    };
    let (_slow, mut other) = slow_and_another(server.program.address, head).await;
    other.write("2\r\n{}\r\n0\r\n\r\n").await;
    let got = other.rest().await;
    assert!(got.contains("HTTP/1.1 202 "), "{got}");
}

/// 20.
#[tokio::test(flavor = "multi_thread")]
async fn connections_are_limited() {
    let function = Upstream::echo().await;
    let server = Server::with(&orders(&function, "[server.limits]\nconnections_per_ip_max = 2\n"));
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut raw = Raw::connect(server.program.address).await;
        raw.write("GET /health HTTP/1.1\r\nHost: a\r\n\r\n").await;
        raw.until("healthy").await;
        held.push(raw);
    }
    let third = exchange(server.program.address, "").await;
    assert!(third.is_empty() || third == "(reset)", "{third}");
}

/// 21.
#[tokio::test(flavor = "multi_thread")]
async fn json_that_could_be_read_in_two_ways_is_refused() {
    let function = Upstream::echo().await;
    let server = Server::before(&function);
    let with =
        |member: &str| format!(r#"{{"specversion":"1.0","id":"1","source":"/s","type":"t",{member}}}"#);
    let deep = with(&format!("\"data\":{}{}", "[".repeat(10_000), "]".repeat(10_000)));
    let many: Vec<_> = (0..200_000).map(|it| format!("\"a{it}\":1")).collect();
    let refused = [
        deep,
        with(r#""id":"2""#),
        with(r#""data":NaN"#),
        with(r#""data":1,"data":2"#),
        with(r#""subject":"\ud800""#),
        with(&many.join(",")),
        format!("\u{feff}{RIGHT}"),
        "[]".to_owned(),
        String::new(),
        "null".to_owned(),
        RIGHT.trim_end_matches('}').to_owned(),
        format!("{RIGHT}{RIGHT}"),
    ];
    for body in refused {
        let got = sent(&server, &[STRUCTURED], body.clone()).await;
        assert_eq!(told(&got), (400, "event-invalid".to_owned()), "{}", &body[..body.len().min(120)]);
    }
    let invalid = sent(&server, &[STRUCTURED], [RIGHT.as_bytes(), &[0xff]].concat()).await;
    assert_eq!(told(&invalid), (400, "event-invalid".to_owned()));
    assert_eq!(function.calls(), 0);
}

/// 22.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_cloudevent_is_refused() {
    let function = Upstream::echo().await;
    let server = Server::before(&function);
    for body in [
        r#"{"specversion":"1.0","source":"/s","type":"t"}"#,
        r#"{"specversion":"1.0","id":"","source":"/s","type":"t"}"#,
        r#"{"specversion":"1.0","id":"1","type":"t"}"#,
        r#"{"specversion":"9.9","id":"1","source":"/s","type":"t"}"#,
        r#"{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1,"data_base64":"AA=="}"#,
        r#"{"specversion":"1.0","id":"1","source":"/s","type":"t","__proto__":"x"}"#,
        r#"{"specversion":"1.0","id":"1\r\nx","source":"/s","type":"t"}"#,
        r#"{"specversion":"1.0","id":"1","source":"/s","type":"t","data_base64":"?"}"#,
    ] {
        let got = sent(&server, &[STRUCTURED], body).await;
        assert_eq!(told(&got), (400, "event-invalid".to_owned()), "{body}");
        assert!(!got.text().contains("__proto__"), "nothing of it is repeated");
    }
    let batch = format!("[{}]", vec![RIGHT; 100_000].join(","));
    assert_eq!(told(&sent(&server, &[BATCH], batch).await), (413, "request-too-large".to_owned()));
    let missing = server.send(
        Request::post(server.program.url("/events"))
            .header("ce-specversion", "1.0")
            .header("ce-id", "1")
            .body(full(""))
            .unwrap(),
    );
    assert_eq!(told(&missing.await), (400, "event-invalid".to_owned()));
    assert_eq!(function.calls(), 0);
}

/// 23.
#[tokio::test(flavor = "multi_thread")]
async fn a_media_type_that_is_not_read_is_refused() {
    let function = Upstream::echo().await;
    let server = Server::before(&function);
    for headers in [
        vec![],
        vec![("content-type", "text/html")],
        vec![("content-type", "application/json"), ("content-type", "text/html")],
        vec![("content-type", "application/cloudevents+xml")],
        vec![("content-type", "application/cloudevents+json; charset=utf-16")],
    ] {
        let got = sent(&server, &headers, RIGHT).await;
        assert_eq!(told(&got), (415, "media-type".to_owned()), "{headers:?}");
    }
    assert_eq!(function.calls(), 0);
}

/// 24.
#[tokio::test(flavor = "multi_thread")]
async fn a_time_is_data_and_no_schedule() {
    let function = Upstream::echo().await;
    let server = Server::before(&function);
    let with = |id: &str, member: &str| {
        format!(r#"{{"specversion":"1.0","id":"{id}","source":"/s","type":"t",{member}}}"#)
    };
    let taken = sent(&server, &[STRUCTURED], with("1", r#""time":"9999-12-31T23:59:59Z""#)).await;
    assert_eq!(taken.status, 202, "{taken:?}");
    let delay = sent(&server, &[STRUCTURED], with("2", r#""delay":"1000000000000000000""#)).await;
    assert_eq!(delay.status, 202, "{delay:?}");
    function.called(2).await;
    for time in ["-0001-01-01T00:00:00Z", "yesterday", "2026-13-01T00:00:00Z"] {
        let got = sent(&server, &[STRUCTURED], with("3", &format!("\"time\":\"{time}\""))).await;
        assert_eq!(told(&got), (400, "event-invalid".to_owned()), "{time}");
    }
}

/// 2: whoever may send elsewhere learns nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_is_not_there_is_like_any_other_address() {
    let function = Upstream::echo().await;
    let file = "[[source]]\nname = \"a\"\nauth = \"bearer\"\nsecret = \"correct horse\"\n";
    let server = Server::with(&orders(&function, file));
    let bearer = ("authorization", "Bearer correct horse");
    let unknown = server.json("/sources/b", &[bearer], RIGHT).await;
    let nowhere = server.json("/nowhere", &[bearer], RIGHT).await;
    assert_eq!(told(&unknown), (404, "not-found".to_owned()));
    assert_eq!(unknown.body, nowhere.body);
}

/// 33: headers of ours are not believed.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_can_say_which_attempt_it_is() {
    let function = Upstream::echo().await;
    let server = Server::before(&function);
    let request = event(&server.program, "evt-1")
        .header("semel-attempt", "7")
        .header("semel-fence", "9")
        .header("idempotency-key", "\"k\"")
        .header("semel-outcome", "done");
    assert_eq!(server.send(request.body(full("{}")).unwrap()).await.status, 202);
    let asked = function.heard(1).await.remove(0);
    assert_eq!(asked.header("semel-attempt"), ["1"]);
    assert_ne!(asked.header("idempotency-key"), ["\"k\""]);
    assert!(asked.header("semel-outcome").is_empty());
}

/// What a sender sees, and nothing of what it sent.
#[tokio::test(flavor = "multi_thread")]
async fn problems_have_one_shape() {
    let function = Upstream::echo().await;
    let server = Server::before(&function);
    let mut all = Vec::new();
    for got in [
        sent(&server, &[STRUCTURED], r#"{"specversion":"9.9"}"#).await,
        sent(&server, &[STRUCTURED], "s3cret").await,
        sent(&server, &[("content-type", "s3cret/html")], "").await,
        sent(&server, &[STRUCTURED, ("content-encoding", "s3cret")], "").await,
        server.json("/sources/s3cret", &[], "").await,
        server.get("/events").await,
        sent(&server, &[BATCH], r#"[{"specversion":"1.0"}]"#).await,
    ] {
        let mut members: Vec<_> = read(&got).as_object().unwrap().keys().cloned().collect();
        members.retain(|it| it != "items");
        assert_eq!(members, ["detail", "status", "title", "type"]);
        all.push(format!("{} {}", got.status.as_u16(), got.text()));
    }
    let all = all.join("\n");
    assert!(!all.contains("s3cret"), "{all}");
    assert_snapshot!(all);
}
