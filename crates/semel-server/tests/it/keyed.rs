//! What carries a key takes effect once.

use super::support::{Asked, Channel, Client, Gate, Proxy, Upstream, answer, json, pieces, post, soon};
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};
use tokio::sync::mpsc;

/// An upstream that never answers twice with the same.
async fn counting() -> Upstream {
    let count = AtomicUsize::new(0);
    Upstream::start(move |asked: Asked| {
        let n = count.fetch_add(1, Ordering::SeqCst) + 1;
        async move {
            let mut answer = answer(201, format!("{n}: {}", String::from_utf8_lossy(&asked.body)));
            answer.headers_mut().insert("content-type", "text/plain".parse().unwrap());
            answer.headers_mut().insert("location", format!("/payments/{n}").parse().unwrap());
            answer.headers_mut().insert("set-cookie", "session=1".parse().unwrap());
            answer
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_gets_the_first_answer() {
    let upstream = counting().await;
    let proxy = Proxy::before(upstream.address);
    for client in [Client::new(), Client::http2()] {
        let key = format!("{:?}", client.get(&proxy.url("/.semel/health")).await.version);
        let before = upstream.calls();
        let first = client.send(post(&proxy.url("/payments?x=1"), &key, "100 EUR")).await;
        assert_eq!((first.status.as_u16(), first.is_replayed()), (201, false));
        assert_eq!(first.header("set-cookie"), Some("session=1"));
        let again = client.send(post(&proxy.url("/payments?x=1"), &key, "100 EUR")).await;
        assert_eq!((again.status, again.is_replayed()), (first.status, true));
        assert_eq!(again.body, first.body);
        for name in ["content-type", "location"] {
            assert_eq!(again.header(name), first.header(name), "{name}");
        }
        assert_eq!(again.header("set-cookie"), None);
        assert_eq!(upstream.calls(), before + 1);
        let other = client.send(post(&proxy.url("/payments?x=1"), &key, "200 EUR")).await;
        assert_eq!((other.status.as_u16(), other.problem().as_str()), (422, "mismatch"));
        assert_eq!(upstream.calls(), before + 1);
    }
    assert_eq!(upstream.asked()[0].header("idempotency-key").len(), 1, "the upstream may want it, too");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_duplicates_at_once_are_one_request() {
    let (upstream, gate) = Upstream::gated().await;
    let proxy = Proxy::with(upstream.address, "[defaults]\nwait = \"1m\"\n");
    let client = Client::http2();
    let url = Arc::new(proxy.url("/pay"));
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..1_000 {
        let (client, url) = (client.clone(), Arc::clone(&url));
        waiting.spawn(async move { client.send(post(&url, "one", "10")).await });
    }
    upstream.called(1).await;
    gate.open(usize::MAX >> 4);
    let answers = waiting.join_all().await;
    let replayed = answers.iter().filter(|it| it.is_replayed()).count();
    assert!(answers.iter().all(|it| it.status == 200 && it.text() == "10"));
    assert_eq!((replayed, upstream.calls()), (999, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_of_a_request_in_progress_is_told_so() {
    let gate = Gate::closed();
    let held = gate.clone();
    let upstream = Upstream::start(move |_| {
        let held = held.clone();
        async move {
            held.pass().await;
            answer(200, "done")
        }
    })
    .await;
    let proxy = Proxy::with(upstream.address, "[defaults]\nwait = \"0s\"\n");
    let client = Client::new();
    let url = proxy.url("/pay");
    let first = tokio::spawn({
        let (client, url) = (client.clone(), url.clone());
        async move { client.send(post(&url, "one", "10")).await }
    });
    upstream.called(1).await;
    let second = client.send(post(&url, "one", "10")).await;
    assert_eq!((second.status.as_u16(), second.problem().as_str()), (409, "in-progress"));
    assert!(second.header("retry-after").is_some());
    gate.open(1);
    assert_eq!(first.await.unwrap().text(), "done");
    assert!(client.send(post(&url, "one", "10")).await.is_replayed());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hosts_behind_one_proxy_are_two_services() {
    let upstream = Upstream::start(async |asked: Asked| answer(201, asked.header("host").concat())).await;
    let to = async |proxy: &Proxy, host: &'static str| {
        let mut request = post(&proxy.url("/orders"), "order-1", "10");
        request.headers_mut().insert("host", host.parse().unwrap());
        let got = Client::new().send(request).await;
        (got.text().to_owned(), got.is_replayed())
    };
    let route = "[[route]]\npath = \"/orders\"\n";
    for config in ["", route] {
        let proxy = Proxy::with(upstream.address, config);
        assert_eq!(to(&proxy, "a.shop").await, ("a.shop".to_owned(), false), "{config}");
        assert_eq!(to(&proxy, "b.shop").await, ("b.shop".to_owned(), false), "{config}");
        // However it is written.
        assert_eq!(to(&proxy, "A.shop:80").await, ("a.shop".to_owned(), true), "{config}");
        assert_eq!(to(&proxy, "a.shop:8080").await, ("a.shop:8080".to_owned(), false), "{config}");
    }
    // One service with two names, because the file says so, or because it is not told by which it was called.
    for config in ["[defaults]\nper_host = false\n", "[proxy]\nhost = \"upstream\"\n"] {
        let proxy = Proxy::with(upstream.address, config);
        let (first, is_replayed) = to(&proxy, "a.shop").await;
        assert!(!is_replayed, "{config}");
        assert_eq!(to(&proxy, "b.shop").await, (first, true), "{config}");
    }
    let proxy = Proxy::with(upstream.address, "[proxy]\nhost = \"upstream\"\n[defaults]\nper_host = true\n");
    for host in ["a.shop", "b.shop"] {
        assert!(!to(&proxy, host).await.1, "{host}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_host_of_http2_and_that_of_http1_are_one() {
    let upstream = counting().await;
    let proxy = Proxy::before(upstream.address);
    let first = Client::new().send(post(&proxy.url("/orders"), "k", "10")).await;
    let again = Client::http2().send(post(&proxy.url("/orders"), "k", "10")).await;
    assert_eq!((again.text(), again.is_replayed()), (first.text(), true));
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_gets_the_answer_of_somebody_else() {
    let upstream = counting().await;
    let proxy = Proxy::before(upstream.address);
    let client = Client::new();
    let by = |who: &'static str| {
        let mut request = post(&proxy.url("/payments"), "same", "10");
        request.headers_mut().insert("authorization", who.parse().unwrap());
        request
    };
    let (ann, bob) = (client.send(by("Bearer ann")).await, client.send(by("Bearer bob")).await);
    assert_eq!((ann.text(), bob.text()), ("1: 10", "2: 10"));
    let mut nobody = post(&proxy.url("/payments"), "same", "10");
    nobody.headers_mut().remove("authorization");
    let nobody = client.send(nobody).await;
    assert_eq!((nobody.status.as_u16(), nobody.problem().as_str()), (401, "caller-missing"));
    assert_eq!(upstream.calls(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_route_has_its_own_rules() {
    let upstream = counting().await;
    let proxy = Proxy::with(
        upstream.address,
        r#"
        [[route]]
        path = "/payments/{id}/refunds"
        key = "required"
        methods = ["POST", "PUT"]
        caller = "anyone"

        [[route]]
        path = "/webhooks/*"
        key = "off"

        [[route]]
        path = "/strict"
        strict = true
        caller = "header:x-account"
        request_bytes_max = "8B"
        "#,
    );
    let client = Client::new();
    let send = async |method: Method, path: &str, headers: &[(&'static str, &str)], body: &'static str| {
        let mut request =
            Request::builder().method(method).uri(proxy.url(path)).body(Full::from(body).boxed()).unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        client.send(request).await
    };
    let key = ("idempotency-key", "k1");
    // Required, also for a PUT, and whatever way the path is written.
    for path in
        ["/payments/7/refunds", "//payments/7/refunds", "/payments/7/%72efunds", "/x/../payments/7/refunds"]
    {
        let got = send(Method::PUT, path, &[], "").await;
        assert_eq!((got.status.as_u16(), got.problem().as_str()), (400, "key-missing"), "{path}");
    }
    assert_eq!(
        send(Method::PATCH, "/payments/7/refunds", &[], "").await.status,
        201,
        "not a method of this route"
    );
    // The route is the pattern: its parameters do not make another scope, but another request.
    assert_eq!(send(Method::POST, "/payments/7/refunds", &[key], "").await.status, 201);
    assert!(send(Method::POST, "/payments/7/refunds", &[key], "").await.is_replayed());
    assert_eq!(send(Method::POST, "/payments/8/refunds", &[key], "").await.problem(), "mismatch");
    // Off: a key is nobody's business.
    for _ in 0..2 {
        let forged = [key, ("idempotency-replayed", "true"), ("semel-fence", "7")];
        assert!(!send(Method::POST, "/webhooks/a/b", &forged, "").await.is_replayed());
        let asked = upstream.asked().pop().unwrap();
        assert!(asked.header("idempotency-replayed").is_empty() && asked.header("semel-fence").is_empty());
        assert_eq!(asked.header("idempotency-key"), ["k1"]);
    }
    // Strict, by account, and small.
    let account = ("x-account", "7");
    assert_eq!(send(Method::POST, "/strict", &[key, account], "").await.problem(), "key-invalid");
    let quoted = ("idempotency-key", "\"k1\"");
    assert_eq!(send(Method::POST, "/strict", &[quoted], "").await.problem(), "caller-missing");
    assert_eq!(
        send(Method::POST, "/strict", &[quoted, account], "123456789").await.problem(),
        "request-too-large"
    );
    assert_eq!(send(Method::POST, "/strict", &[quoted, account], "12345678").await.status, 201);
    assert!(send(Method::POST, "/strict", &[quoted, account], "12345678").await.is_replayed());
    // Elsewhere the defaults hold, and every path is a route.
    let ann = ("authorization", "Bearer ann");
    assert_eq!(send(Method::POST, "/a", &[key, ann], "").await.status, 201);
    assert_eq!(send(Method::POST, "/b", &[key, ann], "").await.status, 201);
    assert!(send(Method::POST, "/a", &[key, ann], "").await.is_replayed());
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_without_a_quota_of_their_own_share_that_of_all() {
    let upstream = counting().await;
    let quota = |keys: u32| format!("quota = {{ keys = {keys}, per = \"7d\" }}\n");
    let config = format!(
        "[defaults]\n{}[[route]]\npath = \"/a\"\n[[route]]\npath = \"/b\"\n[[route]]\npath = \"/own\"\n{}",
        quota(2),
        quota(1)
    );
    let proxy = Proxy::with(upstream.address, &config);
    let client = Client::new();
    let send = async |path: &str, key: &str| {
        let got = client.send(post(&proxy.url(path), key, "")).await;
        if got.status == 201 { "taken".to_owned() } else { got.problem() }
    };
    assert_eq!(send("/a", "1").await, "taken");
    assert_eq!(send("/b", "1").await, "taken");
    for path in ["/a", "/b", "/elsewhere"] {
        assert_eq!(send(path, "2").await, "quota", "{path}");
    }
    assert_eq!(send("/own", "1").await, "taken");
    assert_eq!(send("/own", "2").await, "quota");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_switches_the_quota_of_all_off_by_name() {
    let upstream = counting().await;
    let config = "[defaults]\nquota = { keys = 1 }\n[[route]]\npath = \"/a\"\n[[route]]\npath = \"/free\"\nquota = \"off\"\n";
    let proxy = Proxy::with(upstream.address, config);
    let client = Client::new();
    let send = async |path: &str, key: &str| client.send(post(&proxy.url(path), key, "")).await;
    assert_eq!(send("/a", "1").await.status, 201);
    let refused = send("/a", "2").await;
    assert_eq!(refused.problem(), "quota");
    assert!(send("/a", "1").await.headers.contains_key("idempotency-replayed"));
    for key in 0..20 {
        assert_eq!(send("/free", &key.to_string()).await.status, 201);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_are_tried_again_unless_they_are_to_be_kept() {
    for (config, replayed) in [("", false), ("[defaults]\nstore_errors = true\n", true)] {
        let upstream = Upstream::start(async |_| answer(503, "not now")).await;
        let proxy = Proxy::with(upstream.address, config);
        let client = Client::new();
        for n in 0..2 {
            let got = client.send(post(&proxy.url("/"), "k", "")).await;
            assert_eq!((got.status.as_u16(), got.is_replayed()), (503, replayed && n > 0));
        }
        assert_eq!(upstream.calls(), if replayed { 1 } else { 2 });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_too_large_to_keep_is_not_made_again() {
    let upstream = Upstream::start(async |_| answer(200, vec![b'x'; 300_000])).await;
    let proxy = Proxy::with(upstream.address, "[defaults]\nresponse_bytes_max = \"64KiB\"\n");
    let client = Client::new();
    let first = client.send(post(&proxy.url("/"), "k", "")).await;
    assert_eq!((first.status.as_u16(), first.body.len()), (200, 300_000));
    let second = client.send(post(&proxy.url("/"), "k", "")).await;
    assert_eq!((second.status.as_u16(), second.problem().as_str()), (409, "response-not-retained"));
    assert_eq!(upstream.calls(), 1);
    let lines = proxy.events("request", 2);
    assert!(lines[0]["kept"] == false && lines[1].get("kept").is_none(), "{lines:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_takes_longer_than_its_route_lets_it_is_passed_on_and_not_kept() {
    let (say, said) = mpsc::unbounded_channel();
    let said = Mutex::new(Some(said));
    let upstream = Upstream::start(move |_| {
        let said = said.lock().unwrap().take().expect("it is asked once");
        async move { Response::new(Channel(said).boxed()) }
    })
    .await;
    let config =
        "[defaults]\nresponse_wait = \"5m\"\n[[route]]\npath = \"/slow\"\nresponse_wait = \"10ms\"\n";
    let proxy = Proxy::with(upstream.address, config);
    let client = Client::new();
    let mut answer = soon("the head", client.begin(post(&proxy.url("/slow"), "k", ""))).await.into_body();
    assert_eq!(client.send(post(&proxy.url("/slow"), "k", "")).await.problem(), "response-not-retained");
    say.send(Bytes::from_static(b"late")).unwrap();
    drop(say);
    let frame = soon("the rest", answer.frame()).await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), "late");
    drop(answer);
    let lines = proxy.events("request", 2);
    assert!(lines.iter().any(|it| it["kept"] == false && it["status"] == 200), "{lines:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn json_is_compared_as_json_and_forwarded_as_it_came() {
    let upstream = counting().await;
    let proxy = Proxy::before(upstream.address);
    let client = Client::new();
    let body = "{ \"b\": 1,\n \"a\": 2 }";
    client.send(json(post(&proxy.url("/"), "k", body))).await;
    assert!(client.send(json(post(&proxy.url("/"), "k", "{\"a\":2,\"b\":1}"))).await.is_replayed());
    assert_eq!(upstream.only().body, body);
    assert_eq!(upstream.only().header("content-length"), [body.len().to_string()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_whose_length_is_not_told_is_read_up_to_the_limit() {
    let upstream = counting().await;
    let proxy = Proxy::with(upstream.address, "[defaults]\nrequest_bytes_max = \"1KiB\"\n");
    let client = Client::new();
    let send = async |key: &str, length: usize| {
        let mut request = post(&proxy.url("/"), key, "");
        *request.body_mut() =
            pieces(vec![Bytes::from(vec![b'x'; length / 2]), Bytes::from(vec![b'x'; length / 2])], None);
        client.send(request).await
    };
    assert_eq!(send("a", 1024).await.status, 201);
    assert!(send("a", 1024).await.is_replayed());
    assert_eq!(send("b", 1026).await.problem(), "request-too-large");
    assert_eq!(upstream.calls(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_for_keyed_requests_is_limited_and_waited_for() {
    let gate = Gate::closed();
    let held = gate.clone();
    let upstream = Upstream::start(move |asked: Asked| {
        let held = held.clone();
        async move {
            held.pass().await;
            answer(200, asked.body.len().to_string())
        }
    })
    .await;
    // Room for two of them: one address has half.
    let proxy = Proxy::with(upstream.address, "[proxy.limits]\nbuffer_bytes_max = \"256KiB\"\n");
    let client = Client::new();
    let send = |n: usize| {
        let (client, url) = (client.clone(), proxy.url("/"));
        tokio::spawn(async move { client.send(post(&url, &n.to_string(), vec![b'x'; 64 * 1024])).await })
    };
    let sent: Vec<_> = (0..4).map(send).collect();
    upstream.called(2).await;
    let small = Request::post(proxy.url("/")).body(Full::from("no key").boxed()).unwrap();
    let passing = tokio::spawn({
        let client = client.clone();
        async move { client.send(small).await }
    });
    upstream.called(3).await;
    assert_eq!(upstream.calls(), 3, "two that have room, and one that needs none");
    gate.open(5);
    assert_eq!(passing.await.unwrap().text(), "6");
    for sent in sent {
        assert_eq!(sent.await.unwrap().text(), "65536");
    }
}

/// Whether these bytes stand in any file below a directory.
#[cfg(feature = "embedded")]
fn is_in_files(directory: &std::path::Path, bytes: &[u8]) -> bool {
    std::fs::read_dir(directory).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return is_in_files(&path, bytes);
        }
        std::fs::read(path).unwrap().windows(bytes.len()).any(|it| it == bytes)
    })
}

#[cfg(all(feature = "embedded", feature = "seal"))]
#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_can_be_sealed() {
    const SECRET: &str = "4242-4242-4242";
    let first = format!("one {}\n", "0a".repeat(32));
    let rotated = format!("two {}\n{first}", "0b".repeat(32));
    let lost = format!("two {}\n", "0b".repeat(32));
    for keys in [None, Some(&first)] {
        let upstream = Upstream::start(async |_| answer(201, SECRET)).await;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        // It has another port each time.
        let anywhere = "[defaults]\nper_host = false\n";
        let start = |keys: Option<&String>| {
            let Some(keys) = keys else { return Proxy::start(path, upstream.address, anywhere, &[]) };
            std::fs::write(path.join("keys"), keys).unwrap();
            let config = format!("[proxy]\nseal_keys = \"keys\"\n{anywhere}");
            Proxy::start(path, upstream.address, &config, &[])
        };
        let client = Client::new();
        let proxy = start(keys);
        assert_eq!(client.send(post(&proxy.url("/"), "k", "10")).await.text(), SECRET);
        assert_eq!(client.send(post(&proxy.url("/"), "k", "10")).await.text(), SECRET);
        proxy.kill();
        assert_eq!(is_in_files(&path.join("semel-data"), SECRET.as_bytes()), keys.is_none());
        if keys.is_some() {
            let proxy = start(Some(&rotated));
            let again = client.send(post(&proxy.url("/"), "k", "10")).await;
            assert_eq!((again.text(), again.is_replayed()), (SECRET, true));
            proxy.kill();
            let proxy = start(Some(&lost));
            assert_eq!(client.send(post(&proxy.url("/"), "k", "10")).await.problem(), "internal");
        }
        assert_eq!(upstream.calls(), 1);
    }
}
