//! Mode `sync`: the sender waits for the function.

use super::support::{Server, orders, read, told};
use crate::support::{Asked, Upstream, answer, pieces};
use http::Request;
use serde_json::json;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

const SOURCE: &str = "[[source]]\nname = \"it\"\nauth = \"none\"\nmode = \"sync\"\n";

fn event(id: &str) -> String {
    json!({"specversion": "1.0", "id": id, "source": "/shop", "type": "order.created"}).to_string()
}

const STRUCTURED: [(&str, &str); 1] = [("x-nothing", "")];

#[tokio::test(flavor = "multi_thread")]
async fn the_sender_is_told_what_the_function_said() {
    let function = Upstream::start(async |_: Asked| answer(200, r#"{"charge":"ch_1"}"#)).await;
    let server = Server::with(&orders(&function, SOURCE));
    for is_duplicate in [false, true] {
        let got = server.json("/sources/it", &STRUCTURED, event("evt-1")).await;
        assert_eq!(got.status, 200, "{got:?}");
        let said = read(&got);
        assert_eq!(
            (&said["duplicate"], &said["functions"][0]["status"]),
            (&json!(is_duplicate), &json!("COMPLETED"))
        );
        assert_eq!(said["functions"][0]["result"]["charge"], "ch_1");
    }
    assert_eq!(function.calls(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_senders_own_retry_is_what_makes_it_again() {
    let function = Upstream::start(async |asked: Asked| {
        let is_first = asked.header("semel-attempt") == ["1"] && asked.header("ce-id") == ["evt-1"];
        answer(if is_first { 503 } else { 200 }, "")
    })
    .await;
    let server =
        Server::with(&orders(&function, &format!("retry = \"gen2\"\nbackoff = [\"0ms\"]\n{SOURCE}")));
    let failed = server.json("/sources/it", &STRUCTURED, event("evt-1")).await;
    assert_eq!(told(&failed), (503, "function-failed".to_owned()));
    assert!(failed.header("retry-after").is_some());
    function.called(2).await;
    let mut again = server.json("/sources/it", &STRUCTURED, event("evt-1")).await;
    while again.status == 409 || again.status == 503 {
        again = server.json("/sources/it", &STRUCTURED, event("evt-1")).await;
    }
    assert_eq!(again.status, 200, "{again:?}");
    assert_eq!(function.calls(), 2);
}

/// Answers with this status at first, and with 201 ever after.
async fn at_first(status: u16) -> Upstream {
    let calls = Arc::new(AtomicUsize::new(0));
    Upstream::start(move |_: Asked| {
        let is_first = calls.fetch_add(1, Ordering::SeqCst) == 0;
        async move { answer(if is_first { status } else { 201 }, "s3cret") }
    })
    .await
}

/// Retry is off unless a file says otherwise: nobody but the sender tries again.
#[tokio::test(flavor = "multi_thread")]
async fn with_retry_off_the_sender_comes_again_and_the_function_is_called_again() {
    for status in [503, 429, 500, 408] {
        let function = at_first(status).await;
        let server = Server::with(&orders(&function, SOURCE));
        let failed = server.json("/sources/it", &STRUCTURED, event("evt-1")).await;
        assert_eq!(told(&failed), (status, "function-failed".to_owned()));
        assert!(failed.header("retry-after").is_some(), "{failed:?}");
        assert!(!failed.text().contains("s3cret"), "{failed:?}");
        for is_duplicate in [false, true] {
            let again = server.json("/sources/it", &STRUCTURED, event("evt-1")).await;
            assert_eq!((again.status.as_u16(), &read(&again)["duplicate"]), (200, &json!(is_duplicate)));
        }
        assert_eq!(function.calls(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_takes_too_long_is_one_to_come_again_for() {
    let (function, gate) = Upstream::gated().await;
    let server = Server::with(&orders(&function, &format!("timeout = \"1s\"\n{SOURCE}")));
    let failed = server.json("/sources/it", &STRUCTURED, event("evt-1")).await;
    assert_eq!(told(&failed), (502, "function-failed".to_owned()));
    assert!(failed.header("retry-after").is_some(), "{failed:?}");
    gate.open(2);
    let again = server.json("/sources/it", &STRUCTURED, event("evt-1")).await;
    assert_eq!(again.status, 200, "{again:?}");
    assert_eq!(function.calls(), 2);
}

/// What is a redirect or a question for credentials is the function's to us.
#[tokio::test(flavor = "multi_thread")]
async fn a_status_that_does_not_concern_the_sender_is_not_passed_on() {
    for (status, expected) in [
        (302, (422, "function-refused")),
        (401, (422, "function-refused")),
        (404, (502, "function-failed")),
        (410, (410, "function-refused")),
    ] {
        let function = at_first(status).await;
        let server = Server::with(&orders(&function, SOURCE));
        let got = server.json("/sources/it", &STRUCTURED, event("evt-1")).await;
        assert_eq!(told(&got), (expected.0, expected.1.to_owned()), "{status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_function_refuses_for_good_is_refused_for_good() {
    let function = Upstream::start(async |_: Asked| answer(400, "s3cret")).await;
    let server = Server::with(&orders(&function, SOURCE));
    for _ in 0..2 {
        let got = server.json("/sources/it", &STRUCTURED, event("evt-1")).await;
        assert_eq!(told(&got), (400, "function-refused".to_owned()));
        assert!(!got.text().contains("s3cret"), "{got:?}");
    }
    assert_eq!(function.calls(), 1);
}

/// Nobody could say with one status what became of several: they are kept, and called for afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_answered_when_it_is_kept_and_not_when_its_functions_were_called() {
    let (function, gate) = Upstream::gated().await;
    let server = Server::with(&orders(&function, SOURCE));
    let batch = async |ids: &[&str]| {
        let events: Vec<_> = ids.iter().map(|it| event(it)).collect();
        let request = Request::post(server.program.url("/sources/it"))
            .header("content-type", "application/cloudevents-batch+json");
        server.send(request.body(super::support::full(format!("[{}]", events.join(",")))).unwrap()).await
    };
    let taken = batch(&["evt-1", "evt-2"]).await;
    assert_eq!(taken.status, 202, "no function has answered: {taken:?}");
    let items = read(&taken);
    assert_eq!((&items[0]["status"], &items[1]["status"]), (&json!(202), &json!(202)));
    assert_eq!((&items[0]["id"], items[0]["functions"][0].get("result")), (&json!("evt-1"), None), "{items}");
    function.called(2).await;
    let again = batch(&["evt-2", "evt-3"]).await;
    let items = read(&again);
    assert_eq!((&items[0]["duplicate"], &items[1]["duplicate"]), (&json!(true), &json!(false)), "{items}");
    gate.open(3);
    function.heard(3).await;
    assert_eq!(batch(&["evt-1", "evt-2", "evt-3"]).await.status, 200);
    assert_eq!(function.calls(), 3);
}

/// The file is refused; the API adds functions after it was read.
#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_is_called_in_order_is_told_of() {
    let function = Upstream::echo().await;
    let server = Server::with(SOURCE);
    let written = json!({"url": format!("http://{}/", function.address), "order": "source"}).to_string();
    let request = Request::put(server.program.url("/v1/functions/orders"));
    let request = request.header("content-type", "application/json").body(super::support::full(written));
    assert_eq!(server.send(request.unwrap()).await.status, 200);
    let got = server.json("/sources/it", &STRUCTURED, event("evt-1")).await;
    assert_eq!(told(&got), (503, "in-order".to_owned()));
    assert_eq!(function.calls(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_while_the_function_is_at_it_comes_again() {
    let (function, gate) = Upstream::gated().await;
    let server = Server::with(&orders(&function, SOURCE));
    let (first, second) = tokio::join!(server.json("/sources/it", &STRUCTURED, event("evt-1")), async {
        function.called(1).await;
        let second = server.json("/sources/it", &STRUCTURED, event("evt-1")).await;
        gate.open(1);
        second
    });
    assert_eq!(first.status, 200, "{first:?}");
    assert_eq!(told(&second), (409, "in-progress".to_owned()));
    assert!(second.header("retry-after").is_some());
    assert_eq!(function.calls(), 1);
}

/// What a body could have become is not held while a function works: only what it is.
#[tokio::test(flavor = "multi_thread")]
async fn small_requests_whose_function_is_slow_keep_nobody_else_out() {
    let (function, gate) = Upstream::gated().await;
    let limits = "[server.limits]\nbody_bytes_max = \"256KiB\"\nbuffer_bytes_max = \"1MiB\"\n";
    let server = Server::with(&orders(&function, &format!("{SOURCE}{limits}")));
    let sent = async |id: &str| {
        let request = Request::post(server.program.url("/sources/it"));
        let request = request.header("content-type", "application/json");
        server.send(request.body(pieces(vec![event(id).into()], None)).unwrap()).await
    };
    let (one, two, three, other) = tokio::join!(sent("evt-1"), sent("evt-2"), sent("evt-3"), async {
        function.called(3).await;
        let other = server.event("evt-4", "{}").await;
        gate.open(4);
        other
    });
    assert_eq!([one, two, three].map(|it| it.status.as_u16()), [200; 3]);
    assert_eq!(other.status, 202, "{other:?}");
}

/// As it is without `mode = "sync"`.
#[tokio::test(flavor = "multi_thread")]
async fn what_comes_again_is_counted_also_while_it_runs_and_with_another_content() {
    let (function, gate) = Upstream::gated().await;
    let server = Server::with(&orders(&function, SOURCE));
    let other =
        json!({"specversion": "1.0", "id": "evt-1", "source": "/shop", "type": "order.created", "data": 2});
    let (first, again) = tokio::join!(server.json("/sources/it", &STRUCTURED, event("evt-1")), async {
        function.called(1).await;
        let same = server.json("/sources/it", &STRUCTURED, event("evt-1")).await;
        let other = server.json("/sources/it", &STRUCTURED, other.to_string()).await;
        gate.open(1);
        [same.status.as_u16(), other.status.as_u16()]
    });
    assert_eq!((first.status.as_u16(), again), (200, [409, 200]));
    assert_eq!(server.json("/sources/it", &STRUCTURED, other.to_string()).await.status, 200);
    let got = server.get("/metrics").await;
    let counted = got.text();
    for line in [
        "semel_function_duplicate_total{function=\"orders\"} 3\n",
        "semel_function_mismatch_total{function=\"orders\"} 2\n",
        "semel_ingest_events_mismatch_total 2\n",
    ] {
        assert!(counted.contains(line), "{line}{counted}");
    }
    assert_eq!(function.calls(), 1);
}
