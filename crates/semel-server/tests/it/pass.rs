//! What carries no key passes through, as it came.

use super::support::{
    Asked, Channel, Client, Gate, Proxy, Raw, Upstream, answer, bytes, exchange, pieces, soon,
};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, Version};
use http_body_util::{BodyExt, Full};
use tokio::sync::mpsc;

#[tokio::test(flavor = "multi_thread")]
async fn every_byte_passes_in_both_directions() {
    let upstream = Upstream::echo().await;
    let proxy = Proxy::before(upstream.address);
    for (client, is_http2) in [(Client::new(), false), (Client::http2(), true)] {
        for method in [Method::GET, Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
            for length in [0, 1, 70_000, 3_000_000] {
                let sized = Full::new(bytes(length)).boxed();
                let cut = pieces(bytes(length).chunks(16_000).map(Bytes::copy_from_slice).collect(), None);
                for (body, is_cut) in [(sized, false), (cut, true)] {
                    let path = proxy.url("/any/path%20x;y?q=1&r=%2F#");
                    let mut request = Request::builder().method(method.clone()).uri(path).body(body).unwrap();
                    if is_cut && !is_http2 {
                        // Else hyper's own client leaves the body of a GET out.
                        request.headers_mut().insert("transfer-encoding", "chunked".parse().unwrap());
                    }
                    let got = client.send(request).await;
                    assert_eq!(got.status, 200, "{method} {length}");
                    assert!(
                        got.body == bytes(length),
                        "{method} {length}: {} bytes came back",
                        got.body.len()
                    );
                }
            }
        }
    }
    for asked in upstream.asked() {
        assert_eq!(asked.uri, "/any/path%20x;y?q=1&r=%2F");
        assert_eq!(asked.version, Version::HTTP_11);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_passes_with_its_status_and_headers() {
    let upstream = Upstream::start(async |asked: Asked| {
        let status = asked.uri.path()[1..].parse().unwrap();
        let mut answer = answer(status, if matches!(status, 204 | 304) { "" } else { "body" });
        let headers = answer.headers_mut();
        for (name, value) in [
            ("x-twice", "a, b"),
            ("x-twice", "c"),
            ("set-cookie", "a=1"),
            ("set-cookie", "b=2"),
            ("etag", "\"x\""),
            ("location", "http://elsewhere.example/"),
            ("server", "upstream"),
        ] {
            headers.append(name, value.parse().unwrap());
        }
        answer
    })
    .await;
    let proxy = Proxy::before(upstream.address);
    let client = Client::new();
    for status in [200, 201, 204, 206, 301, 302, 304, 307, 308, 400, 401, 404, 418, 429, 500, 503] {
        let before = upstream.calls();
        let got = client.get(&proxy.url(&format!("/{status}"))).await;
        assert_eq!(got.status, status);
        assert_eq!(
            upstream.calls(),
            before + 1,
            "{status}: a redirect was followed, or a request sent twice"
        );
        let all =
            |name: &str| got.headers.get_all(name).iter().map(|it| it.to_str().unwrap()).collect::<Vec<_>>();
        assert_eq!(all("x-twice"), ["a, b", "c"]);
        assert_eq!(all("set-cookie"), ["a=1", "b=2"]);
        assert_eq!((got.header("etag"), got.header("server")), (Some("\"x\""), Some("upstream")));
        assert_eq!(got.header("location"), Some("http://elsewhere.example/"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_to_a_connection_stays_on_it() {
    let upstream = Upstream::start(async |_| {
        let mut answer = answer(200, "");
        for (name, value) in
            [("connection", "x-hop"), ("x-hop", "1"), ("keep-alive", "timeout=5"), ("x-end", "1")]
        {
            answer.headers_mut().insert(name, value.parse().unwrap());
        }
        answer
    })
    .await;
    let proxy = Proxy::before(upstream.address);
    let mut raw = Raw::connect(proxy.address).await;
    raw.write(
        "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close, X-Secret\r\nX-Secret: 1\r\nKeep-Alive: 5\r\n\
         Proxy-Authorization: Basic eA==\r\nTE: trailers, gzip\r\nUpgrade: h2c\r\nX-End: 2\r\nX_Forwarded_For: 1.2.3.4\r\n\
         Semel_Fence: 7\r\n\r\n",
    )
    .await;
    let got = raw.rest().await.to_ascii_lowercase();
    assert!(got.starts_with("http/1.1 200 ok\r\n") && got.contains("\r\nx-end: 1\r\n"), "{got}");
    assert!(!got.contains("x-hop") && !got.contains("keep-alive"), "{got}");
    let asked = upstream.only();
    for gone in ["x-secret", "keep-alive", "proxy-authorization", "upgrade", "x_forwarded_for", "semel_fence"]
    {
        assert!(asked.header(gone).is_empty(), "{gone}: {asked:?}");
    }
    assert_eq!((asked.header("te"), asked.header("x-end")), (vec!["trailers"], vec!["2"]));
    assert_eq!(asked.header("connection"), ["te"], "`TE` is for one hop, and says so");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_upstream_learns_who_called_and_for_whom() {
    let upstream = Upstream::echo().await;
    let request = |proxy: &Proxy| {
        Request::get(proxy.url("/"))
            .header("host", "shop.example:8443")
            .header("x-forwarded-for", "203.0.113.7")
            .header("x-forwarded-proto", "https")
            .header("forwarded", "for=203.0.113.7")
            .body(Full::default().boxed())
            .unwrap()
    };
    let seen = |asked: &Asked| {
        ["host", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "forwarded", "via"]
            .map(|name| asked.header(name).join(" | "))
    };
    let proxy = Proxy::before(upstream.address);
    Client::new().send(request(&proxy)).await;
    assert_eq!(
        seen(&upstream.asked()[0]),
        [
            "shop.example:8443",
            "127.0.0.1",
            "http",
            "shop.example:8443",
            "for=127.0.0.1;host=\"shop.example:8443\";proto=http",
            ""
        ],
        "what a client says of itself is not believed"
    );
    let trusting = "[proxy]\ntrusted_proxies = [\"127.0.0.0/8\"]\nvia = \"semel\"\nhost = \"upstream\"\n";
    let proxy = Proxy::with(upstream.address, trusting);
    let got = Client::new().send(request(&proxy)).await;
    assert_eq!(
        seen(&upstream.asked()[1]),
        [
            &upstream.address.to_string(),
            "203.0.113.7, 127.0.0.1",
            "https",
            "shop.example:8443",
            "for=203.0.113.7, for=127.0.0.1;host=\"shop.example:8443\";proto=http",
            "1.1 semel"
        ],
        "what a trusted proxy says is added to"
    );
    assert_eq!(got.header("via"), Some("1.1 semel"));
}

#[tokio::test(flavor = "multi_thread")]
async fn trailers_pass_in_both_directions() {
    let upstream = Upstream::start(async |asked: Asked| {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", asked.trailers.unwrap()["x-count"].clone());
        let body = pieces(vec![Bytes::from_static(b"a"), Bytes::from_static(b"b")], Some(trailers));
        let mut answer = Response::new(body);
        answer.headers_mut().insert("trailer", "x-sum".parse().unwrap());
        answer
    })
    .await;
    let proxy = Proxy::before(upstream.address);
    for client in [Client::new(), Client::http2()] {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-count", "7".parse().unwrap());
        let request = Request::post(proxy.url("/"))
            .header("te", "trailers")
            .header("trailer", "x-count")
            .body(pieces(vec![bytes(10)], Some(trailers)))
            .unwrap();
        let got = client.send(request).await;
        assert_eq!(
            (got.text(), got.trailers.as_ref().map(|it| it["x-sum"].to_str().unwrap())),
            ("ab", Some("7"))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_waited_for_to_its_end() {
    // The upstream answers each piece of the request as it comes.
    let upstream = Upstream::streaming(async |request: Request<hyper::body::Incoming>| {
        let (told, heard) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut body = request.into_body();
            while let Some(Ok(frame)) = body.frame().await {
                if told.send(frame.into_data().unwrap()).is_err() {
                    break;
                }
            }
        });
        Response::new(Channel(heard).boxed())
    })
    .await;
    let proxy = Proxy::before(upstream.address);
    for client in [Client::new(), Client::http2()] {
        let (say, said) = mpsc::unbounded_channel();
        say.send(Bytes::from_static(b"first")).unwrap();
        let request = Request::post(proxy.url("/")).body(Channel(said).boxed()).unwrap();
        let mut answer = client.begin(request).await.into_body();
        for piece in ["first", "second", "third"] {
            if piece != "first" {
                say.send(Bytes::from(piece)).unwrap();
            }
            let frame = soon(piece, answer.frame()).await.unwrap().unwrap();
            assert_eq!(frame.into_data().unwrap(), piece);
        }
        drop(say);
        let rest = soon("the end", answer.collect()).await.unwrap().to_bytes();
        assert!(rest.is_empty(), "{rest:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_has_no_body_and_keeps_its_length() {
    let upstream = Upstream::start(async |_| {
        let mut answer = answer(200, "");
        answer.headers_mut().insert("content-length", "1234".parse().unwrap());
        answer
    })
    .await;
    let proxy = Proxy::before(upstream.address);
    let client = Client::new();
    for _ in 0..2 {
        let request = Request::head(proxy.url("/")).body(Full::default().boxed()).unwrap();
        let got = client.send(request).await;
        assert_eq!((got.status.as_u16(), got.header("content-length"), got.text()), (200, Some("1234"), ""));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_asks_first_is_told_to_go_on() {
    let upstream = Upstream::echo().await;
    let proxy = Proxy::before(upstream.address);
    let mut raw = Raw::connect(proxy.address).await;
    raw.write("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n").await;
    assert_eq!(raw.until("\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
    raw.write("hello").await;
    assert!(raw.rest().await.ends_with("\r\n\r\nhello"));
    assert!(upstream.only().header("expect").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_can_speak_http2() {
    let upstream = Upstream::echo().await;
    let directory = tempfile::tempdir().unwrap();
    let proxy =
        Proxy::start(directory.path(), upstream.address, "", &["--store", "memory:", "--upstream-http2"]);
    let got = Client::new()
        .send(Request::post(proxy.url("/x")).body(Full::new(bytes(100_000)).boxed()).unwrap())
        .await;
    assert!(got.body == bytes(100_000));
    let asked = upstream.only();
    assert_eq!(asked.version, Version::HTTP_2);
    assert_eq!(asked.uri.authority().unwrap().as_str(), upstream.address.to_string());
    assert_eq!(asked.header("x-forwarded-host"), [proxy.address.to_string()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_below_a_path_gets_it_before_every_other() {
    let upstream = Upstream::echo().await;
    let config = format!("[proxy]\nupstream = \"http://{}/api/v1/\"\n", upstream.address);
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("semel.toml"), config).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_semel"));
    command.args([
        "proxy",
        "--config",
        "semel.toml",
        "--listen",
        "127.0.0.1:0",
        "--log",
        "json",
        "--store",
        "memory:",
    ]);
    let proxy = Proxy::spawn(command.current_dir(directory.path()));
    Client::new().get(&proxy.url("/pets?x=1")).await;
    assert_eq!(upstream.only().uri, "/api/v1/pets?x=1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_takes_its_request_with_it() {
    let gate = Gate::closed();
    let held = gate.clone();
    let (gone, mut is_gone) = mpsc::unbounded_channel();
    let upstream = Upstream::streaming(move |_| {
        let (held, gone) = (held.clone(), Told(gone.clone()));
        async move {
            held.pass().await;
            drop(gone);
            answer(200, "")
        }
    })
    .await;
    let proxy = Proxy::before(upstream.address);
    let mut raw = Raw::connect(proxy.address).await;
    raw.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    upstream.called(1).await;
    drop(raw);
    soon("the end of the request at the upstream", is_gone.recv()).await.unwrap();
    drop(gate);
}

/// Tells when it is dropped.
struct Told(mpsc::UnboundedSender<()>);

impl Drop for Told {
    fn drop(&mut self) {
        // Nobody may be listening any more.
        let _ = self.0.send(());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn health_is_told_and_never_forwarded() {
    let upstream = Upstream::echo().await;
    let proxy = Proxy::before(upstream.address);
    let client = Client::new();
    let health = client.get(&proxy.url("/.semel/health")).await;
    assert_eq!((health.status.as_u16(), health.text()), (200, "{\"status\":\"healthy\"}\n"));
    let ready = client.get(&proxy.url("/.semel/ready")).await;
    assert_eq!((ready.status.as_u16(), ready.text()), (200, "{\"status\":\"ready\"}\n"));
    for path in ["/.semel", "/.semel/", "/.semel/other", "/x/../.semel/ready/x", "//.semel/a", "/%2esemel/a"]
    {
        let got = client.get(&proxy.url(path)).await;
        assert_eq!((got.status.as_u16(), got.problem().as_str()), (404, "not-found"), "{path}");
    }
    assert_eq!(upstream.calls(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn health_with_an_address_of_its_own_is_told_only_there() {
    let upstream = Upstream::echo().await;
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--store", "memory:", "--admin-listen", "127.0.0.1:0"];
    let proxy = Proxy::start(directory.path(), upstream.address, "", &arguments);
    let client = Client::new();
    let admin = proxy.admin.unwrap();
    assert_eq!(client.get(&format!("http://{admin}/.semel/ready")).await.status, 200);
    assert_eq!(client.get(&format!("http://{admin}/")).await.problem(), "not-found");
    assert_eq!(client.get(&proxy.url("/.semel/ready")).await.problem(), "not-found");
    assert_eq!(upstream.calls(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_reverse_proxy_cannot_do_is_refused() {
    let upstream = Upstream::echo().await;
    let proxy = Proxy::before(upstream.address);
    for request in ["CONNECT a.example:443 HTTP/1.1", "OPTIONS * HTTP/1.1"] {
        let got = exchange(proxy.address, format!("{request}\r\nHost: a\r\nConnection: close\r\n\r\n")).await;
        assert!(
            got.starts_with("HTTP/1.1 501 Not Implemented\r\n") && got.contains("not_implemented"),
            "{got}"
        );
    }
    assert_eq!(upstream.calls(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_falls_silent_in_an_answer_is_given_up() {
    let upstream = Upstream::streaming(async |_| {
        let (say, said) = mpsc::unbounded_channel();
        say.send(Bytes::from_static(b"first")).unwrap();
        // Kept open, and silent.
        tokio::spawn(async move {
            say.closed().await;
        });
        Response::new(Channel(said).boxed())
    })
    .await;
    let proxy = Proxy::with(upstream.address, "[proxy.timeouts]\nresponse_idle = \"100ms\"\n");
    let mut answer = Client::new()
        .begin(Request::get(proxy.url("/")).body(Full::default().boxed()).unwrap())
        .await
        .into_body();
    assert_eq!(soon("the first piece", answer.frame()).await.unwrap().unwrap().into_data().unwrap(), "first");
    assert!(
        soon("the end", answer.frame()).await.unwrap().is_err(),
        "a broken answer does not look like a whole one"
    );
    let logged = &proxy.events("request", 1)[0];
    assert_eq!(logged["aborted"], true, "{logged}");
}
