//! What is tried against the API, by the numbers of the list of hostile inputs.

use super::support::{Server, TOKENS, orders, picky, told};
use http::Method;

/// Hostile 2: an id of nobody, an id of the server's own books, and an address that is none are told the same.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_told_like_what_never_was() {
    let function = picky().await;
    let server = Server::before(&function);
    server.post("/v1/functions/orders/pause", "").await;
    let id = "0".repeat(64);
    let mut bodies = Vec::new();
    for path in [
        format!("/v1/executions/{id}"),
        "/v1/executions/x".to_owned(),
        "/v1/nowhere".to_owned(),
        "/v1/jobs/7".to_owned(),
        "/v1/functions/none".to_owned(),
    ] {
        let got = server.ask_with(&Method::GET, &path, &[], "").await;
        assert_eq!(told(&got), (404, "not-found".to_owned()), "{path}");
        bodies.push(got.body);
    }
    bodies.dedup();
    assert_eq!(bodies.len(), 1);
    for function in ["$audit", "$control"] {
        let list = server.get(&format!("/v1/executions?function=%24{}", &function[1..])).await;
        assert_eq!(list["executions"], serde_json::json!([]), "{function}");
    }
}

/// Hostile 40: no page of another site makes a browser change anything.
#[tokio::test(flavor = "multi_thread")]
async fn other_sites_change_nothing() {
    let function = picky().await;
    let server = Server::before(&function);
    let path = "/v1/functions/orders/pause";
    for headers in [
        &[("origin", "https://evil.example")][..],
        &[("origin", "null")],
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site")],
        &[("origin", "https://evil.example"), ("content-type", "text/plain")],
    ] {
        let got = server.ask_with(&Method::POST, path, headers, "").await;
        assert_eq!(told(&got), (403, "cross-site".to_owned()), "{headers:?}");
    }
    // What a form can send is not read, whoever sends it.
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"] {
        let got = server.ask_with(&Method::POST, path, &[("content-type", kind)], "{}").await;
        assert_eq!(told(&got), (415, "media-type".to_owned()), "{kind}");
    }
    assert_eq!(server.get("/v1/functions/orders").await["is_paused"], false);
    let own = format!("http://{}", server.program.address);
    let got = server
        .ask_with(&Method::POST, path, &[("origin", &own), ("sec-fetch-site", "same-origin")], "")
        .await;
    assert_eq!(got.status, 200);
}

/// Hostile 41: a name that was pointed here is not ours.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_was_pointed_here_is_misdirected() {
    let function = picky().await;
    let server = Server::with(&format!("[server]\nhosts = [\"semel.example\"]\n{}", orders(&function, "")));
    for host in ["evil.example", "evil.example:8787", "127.0.0.1.evil.example"] {
        let got = server.ask_with(&Method::GET, "/v1/functions", &[("host", host)], "").await;
        assert_eq!(told(&got), (421, "misdirected".to_owned()), "{host}");
    }
    for host in ["localhost:8787", "semel.example"] {
        let got = server.ask_with(&Method::GET, "/v1/functions", &[("host", host)], "").await;
        assert_eq!(got.status, 200, "{host}");
    }
}

/// Hostile 43: a path has one form.
#[tokio::test(flavor = "multi_thread")]
async fn paths_with_tricks_are_not_found() {
    let function = picky().await;
    let server = Server::before(&function);
    for path in [
        "/v1/functions/..%2forders",
        "/v1/functions/orders%00",
        "/v1/functions/orders;a=b",
        "/v1/Functions/orders",
        "/v1//functions/orders",
        "/v1/functions/%6frders",
        "/v1/functions/orders/",
        "/v1/x/../functions/orders",
    ] {
        let got = server.ask_with(&Method::GET, path, &[], "").await;
        assert_eq!(told(&got), (404, "not-found".to_owned()), "{path}");
    }
}

/// Hostile 44: what nobody knows is refused, and what is something else than it says.
#[tokio::test(flavor = "multi_thread")]
async fn members_that_nobody_knows_are_refused() {
    let function = picky().await;
    let server = Server::before(&function);
    for (path, body, wanted) in [
        ("/v1/bulk", r#"{"action": "cancel", "all": true, "role": "admin"}"#, 422),
        ("/v1/bulk", r#"{"action": "cancel", "filter": {"holder": 1}}"#, 422),
        ("/v1/bulk", r#"{"action": "redrive", "filter": {"function": "nobody"}, "dry_run": true}"#, 422),
        ("/v1/bulk", r#"{"action": "drop table", "all": true}"#, 422),
        ("/v1/bulk", r#"{"action": "cancel", "all": "true"}"#, 422),
        ("/v1/bulk", r#"{"action": "cancel", "action": "redrive", "all": true}"#, 422),
        ("/v1/bulk", r#"{"action": "cancel", "all": true, "canary": -1}"#, 422),
        ("/v1/bulk", r#"{"action": "cancel"}"#, 422),
        ("/v1/bulk", "", 422),
        ("/v1/bulk", "[]", 422),
        ("/v1/bulk", "{", 400),
        ("/v1/bulk", "\u{feff}{}", 400),
        ("/v1/functions/orders/pause", r#"{"who": "somebody else"}"#, 422),
        ("/v1/functions/orders/drain", r#"{"within_secs": 1e3}"#, 422),
        ("/v1/functions/orders/drain", r#"{"within_secs": 301}"#, 422),
        ("/v1/functions/orders/drain", r#"{"only_wait": 1}"#, 422),
    ] {
        let got = server.ask_with(&Method::POST, path, &[], body).await;
        assert_eq!(got.status.as_u16(), wanted, "{path} {body}: {}", got.text());
        for piece in ["admin", "drop table", "somebody"] {
            assert!(!got.text().contains(piece), "{} repeats what was sent", got.text());
        }
    }
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let got = server.ask_with(&Method::PUT, "/v1/functions/x", &[], &format!(r#"{{"url": {deep}}}"#)).await;
    assert_eq!(got.status, 400);
    let large = format!(r#"{{"url": "{}"}}"#, "x".repeat(3 << 20));
    let got = server.ask_with(&Method::PUT, "/v1/functions/x", &[], &large).await;
    assert_eq!(told(&got), (413, "request-too-large".to_owned()));
    assert!(server.get("/v1/jobs").await["jobs"].as_array().unwrap().is_empty());
}

/// Cursors are only read by the list that gave them.
#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_of_nobody_is_refused() {
    let function = picky().await;
    let server = Server::before(&function);
    for cursor in ["x", "00", "ffff", &"0".repeat(2_000)] {
        let got = server.ask_with(&Method::GET, &format!("/v1/executions?cursor={cursor}"), &[], "").await;
        assert_eq!(told(&got), (422, "invalid".to_owned()), "{cursor}");
    }
}

/// With an address of its own, the API is there and nowhere else.
#[tokio::test(flavor = "multi_thread")]
async fn with_an_address_of_its_own_the_api_is_not_where_events_are() {
    let function = picky().await;
    let arguments = ["--store", "memory:", "--admin-listen", "127.0.0.1:0"];
    let server = Server::start(tempfile::tempdir().unwrap(), &orders(&function, TOKENS), &arguments);
    let got = server.ask_as("admin-0123456789", &Method::GET, "/v1/functions", "").await;
    assert_eq!(got.status, 404);
    let url = format!("http://{}/v1/functions", server.program.admin.unwrap());
    let request = http::Request::get(url).header("authorization", "Bearer admin-0123456789");
    let got = crate::support::Client::new().send(request.body(super::support::full("")).unwrap()).await;
    assert_eq!(got.status, 200);
}

/// One line for each refusal that says more than its problem does.
#[tokio::test(flavor = "multi_thread")]
async fn every_refusal_says_what_is_wanted_instead() {
    let function = picky().await;
    let server = Server::before(&function);
    let nobody = r#"{"url": "http://127.0.0.1:1/", "filter": {"type": "none"}"#;
    server.done(Method::PUT, "/v1/functions/first", &format!("{nobody}}}")).await;
    let second = format!(r#"{nobody}, "dead_letter": "function:first"}}"#);
    server.done(Method::PUT, "/v1/functions/second", &second).await;
    server.event("a", "{}").await;
    let dead = server.why_when("a", |it| it["execution"]["status"] == "FAILED").await;
    let execution = format!("/v1/executions/{}", dead["execution"]["id"].as_str().unwrap());
    let redrive = format!("{execution}/redrive");
    let back = format!(r#"{nobody}, "dead_letter": "function:second"}}"#);
    let renamed = dead["event"].to_string().replace("/shop", "/elsewhere");
    let (put, post, get, delete) = (Method::PUT, Method::POST, Method::GET, Method::DELETE);
    let table = [
        (&put, "/v1/functions/orders", nobody.to_owned() + "}"),
        (&delete, "/v1/functions/orders", String::new()),
        (&delete, "/v1/functions/first", String::new()),
        (&put, "/v1/functions/first", back),
        (&put, "/v1/functions/-first", nobody.to_owned() + "}"),
        (&put, "/v1/functions/third", nobody.to_owned() + r#", "name": "third"}"#),
        (&put, "/v1/functions/third", nobody.to_owned() + r#", "strict": null, "rate": 7}"#),
        (&put, "/v1/functions/third", r#"{"rate": "often", "answers": 7, "urll": 1}"#.to_owned()),
        (&put, "/v1/functions/third", nobody.to_owned() + r#", "secret": "short"}"#),
        (&put, "/v1/functions/third", nobody.to_owned() + ", \"secret\": \"0123456789\u{7f}\"}"),
        (&post, "/v1/functions/orders/drain", r#"{"within_secs": 301}"#.to_owned()),
        (&post, "/v1/functions/orders/drain", r#"{"within_secs": "long"}"#.to_owned()),
        (&post, "/v1/bulk", r#"{"action": "redrive"}"#.to_owned()),
        (&post, "/v1/bulk", r#"{"action": "resolve", "all": true}"#.to_owned()),
        (&post, "/v1/bulk", r#"{"action": "redrive", "all": true, "canary": 501}"#.to_owned()),
        (&post, "/v1/bulk", r#"{"action": "redrive", "all": true, "rate": "fast"}"#.to_owned()),
        (&post, "/v1/bulk", r#"{"action": "redrive", "filter": {"error": "x"}}"#.to_owned()),
        (&post, "/v1/bulk", r#"{"action": "redrive", "filter": {"function": "nobody"}}"#.to_owned()),
        (&post, &redrive, r#"{"event": {"id": "a"}}"#.to_owned()),
        (&post, &redrive, format!(r#"{{"event": {renamed}}}"#)),
        (&post, &format!("{execution}/cancel"), String::new()),
        (&post, &format!("{execution}/resolve"), String::new()),
        (&post, "/v1/past/skip", String::new()),
        (&get, "/v1/executions?cursor=x", String::new()),
        (&get, "/v1/executions?holder=1", String::new()),
        (&get, "/v1/executions?limit=many", String::new()),
        (&get, "/v1/executions?status=LOST", String::new()),
        (&get, "/v1/why", String::new()),
    ];
    let mut told = Vec::new();
    for (method, path, body) in table {
        let got = server.ask_with(method, path, &[], &body).await;
        let problem: serde_json::Value = serde_json::from_slice(&got.body).unwrap();
        let path = path.replace(&execution, "/v1/executions/ID");
        let (status, detail) = (got.status.as_u16(), problem["detail"].as_str().unwrap());
        told.push(format!("{method} {path} {body}").trim_end().to_owned());
        told.push(format!("    {status}: {detail}"));
    }
    insta::assert_snapshot!(told.join("\n").replace(&function.address.to_string(), "127.0.0.1:FUNCTION"));
}
