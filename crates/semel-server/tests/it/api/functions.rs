//! Functions that are added while the server runs.

use super::support::{Server, command, orders, picky, told};
use crate::support::{Proxy, semel};
use http::Method;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_was_added_is_called_and_stays_over_a_restart() {
    let function = picky().await;
    let server = Server::start(tempfile::tempdir().unwrap(), "", &[]);
    let written = json!({"url": format!("http://{}/orders", function.address), "retry": "gen2"}).to_string();
    let added = server.done(Method::PUT, "/v1/functions/orders", &written).await;
    assert_eq!((&added["name"], &added["defined_by"]), (&json!("orders"), &json!("api")));
    assert!(!added["url"].as_str().unwrap().contains("/orders"), "a path may be a secret");
    server.event("a", r#"{"good": true}"#).await;
    server.why_when("a", |it| it["execution"]["status"] == "COMPLETED").await;
    let (_, what, subject) = server.last_audit().await;
    assert_eq!((what.as_str(), subject.as_str()), ("put function", "orders"));
    let entry = &server.get("/v1/audit?subject=orders").await["entries"][0];
    assert_eq!(entry["detail"], format!("added, http://{}: retry, url", function.address));
    let changed = written.replace("gen2", "gen1").replace('}', ", \"concurrency\": 3}");
    server.done(Method::PUT, "/v1/functions/orders", &changed).await;
    let entry = &server.get("/v1/audit?subject=orders").await["entries"][0];
    assert_eq!(entry["detail"], format!("changed, http://{}: concurrency, retry", function.address));
    let server = server.killed(&[]);
    server.event("b", r#"{"good": true}"#).await;
    server.why_when("b", |it| it["execution"]["status"] == "COMPLETED").await;
    server.done(Method::DELETE, "/v1/functions/orders", "").await;
    let (_, what, subject) = server.last_audit().await;
    assert_eq!((what.as_str(), subject.as_str()), ("remove function", "orders"));
    let got = server.ask_with(&Method::GET, "/v1/functions/orders", &[], "").await;
    assert_eq!(got.status, 404);
    assert_eq!(server.event("c", "{}").await.status, 422);
    let got = server.ask_with(&Method::DELETE, "/v1/functions/orders", &[], "").await;
    assert_eq!(told(&got), (404, "not-found".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_functions_of_the_file_are_the_files() {
    let function = picky().await;
    let server = Server::before(&function);
    let written = r#"{"url": "http://127.0.0.1:1/"}"#;
    for (method, body) in [(Method::PUT, written), (Method::DELETE, "")] {
        let got = server.ask_with(&method, "/v1/functions/orders", &[], body).await;
        assert_eq!(told(&got), (409, "conflict".to_owned()), "{method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_added_survives_a_reload_of_the_file() {
    let function = picky().await;
    let server = Server::before(&function);
    let written = r#"{"url": "http://127.0.0.1:1/", "filter": {"type": "none"}}"#;
    server.done(Method::PUT, "/v1/functions/added", written).await;
    std::fs::write(server.directory.path().join("semel.toml"), orders(&function, "concurrency = 3\n"))
        .unwrap();
    server.program.signal("HUP");
    let all = server
        .when("/v1/functions", |it| {
            it["functions"].as_array().unwrap().iter().any(|it| it["concurrency"] == 3)
        })
        .await;
    let names: Vec<_> =
        all["functions"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["added", "orders"]);
}

/// Hostile 25: an address that the guard refuses in the file is refused here.
#[tokio::test(flavor = "multi_thread")]
async fn a_function_is_checked_like_one_of_the_file() {
    let function = picky().await;
    let server = Server::before(&function);
    for written in [
        json!({}),
        json!({"url": "http://169.254.169.254/latest"}),
        json!({"url": "file:///etc/passwd"}),
        json!({"url": "http://127.0.0.1:1/", "retyr": "gen2"}),
        json!({"url": "http://127.0.0.1:1/", "dead_letter": "function:nobody"}),
        json!({"url": "http://127.0.0.1:1/", "dead_letter": "function:added"}),
        json!({"url": "http://127.0.0.1:1/", "concurrency": 0}),
    ] {
        let got = server.ask_with(&Method::PUT, "/v1/functions/added", &[], &written.to_string()).await;
        assert_eq!(told(&got), (422, "invalid".to_owned()), "{written}");
    }
    let got =
        server.ask_with(&Method::PUT, "/v1/functions/$audit", &[], r#"{"url": "http://127.0.0.1:1/"}"#).await;
    assert_eq!(got.status, 422);
    let first = r#"{"url": "http://127.0.0.1:1/", "filter": {"type": "none"}}"#;
    server.done(Method::PUT, "/v1/functions/first", first).await;
    let second =
        r#"{"url": "http://127.0.0.1:1/", "filter": {"type": "none"}, "dead_letter": "function:first"}"#;
    server.done(Method::PUT, "/v1/functions/second", second).await;
    let got = server.ask_with(&Method::DELETE, "/v1/functions/first", &[], "").await;
    assert_eq!(told(&got), (409, "conflict".to_owned()), "the second one needs it");
    let back = r#"{"url": "http://127.0.0.1:1/", "dead_letter": "function:second"}"#;
    let got = server.ask_with(&Method::PUT, "/v1/functions/first", &[], back).await;
    assert_eq!(told(&got), (422, "invalid".to_owned()), "dead letters would go round");
}

/// How each function stands, and what is wrong with it.
fn standing(all: &Value) -> Vec<(&str, Option<&str>)> {
    let all = all["functions"].as_array().unwrap();
    all.iter().map(|it| (it["name"].as_str().unwrap(), it["left_out"].as_str())).collect()
}

/// Another node, or this one after a restart, may not have the variable.
#[tokio::test(flavor = "multi_thread")]
async fn a_function_whose_secret_is_not_there_is_left_out_and_the_server_starts() {
    let function = picky().await;
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("semel.toml"), "").unwrap();
    let secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3";
    let program = Proxy::spawn(command(directory.path(), &[]).env("SEMEL_TEST_HOOK", secret));
    let server = Server::of(directory, program);
    let url = format!("http://{}/orders", function.address);
    let signed = json!({"url": url, "secret": "env:SEMEL_TEST_HOOK", "filter": {"type": "none"}});
    server.done(Method::PUT, "/v1/functions/signed", &signed.to_string()).await;
    let orders = json!({"url": url, "filter": {"type": "order.created"}}).to_string();
    server.done(Method::PUT, "/v1/functions/orders", &orders).await;
    let server = server.killed(&[]);
    let none = [("ce-specversion", "1.0"), ("ce-id", "n"), ("ce-source", "/shop"), ("ce-type", "none")];
    let kept = server.ask_with(&Method::POST, "/events", &none, r#"{"good": true}"#).await;
    assert_eq!(kept.status, 202, "another node would have taken it: {kept:?}");
    let told = server.program.event("a function that was added does not fit, and is left out");
    assert_eq!(told["function"], "signed", "{told}");
    let why = "function `signed` has no secret to sign with; \
        `SEMEL_TEST_HOOK` is not in the environment, or is no text";
    let all = server.get("/v1/functions").await;
    assert_eq!(standing(&all), [("orders", None), ("signed", Some(why))]);
    assert_eq!(server.get("/v1/functions/signed").await["left_out"], why);
    server.event("a", r#"{"good": true}"#).await;
    server.why_when("a", |it| it["execution"]["status"] == "COMPLETED").await;
    server.program.signal("HUP");
    server.program.event("the file was read again");
    let doctor = semel(server.directory.path(), &["doctor", "--server", &server.program.url("")]);
    let told = format!("!!  signed is left out\n      hint: mend it: {why}\n");
    assert!(doctor.stdout.contains(&told), "{}", doctor.stdout);
    let list = semel(server.directory.path(), &["functions", "--server", &server.program.url("")]);
    assert!(
        list.stdout.lines().any(|it| it.starts_with("signed ") && it.contains("left out")),
        "{}",
        list.stdout
    );
    assert_eq!(
        (&server.get("/v1/functions/signed").await["ledger"]["pending"], function.calls()),
        (&json!(1), 1)
    );
    // Whoever mends it over the API need not restart anything, and what came meanwhile is delivered.
    let unsigned = json!({"url": url, "filter": {"type": "none"}}).to_string();
    server.done(Method::PUT, "/v1/functions/signed", &unsigned).await;
    assert_eq!(standing(&server.get("/v1/functions").await), [("orders", None), ("signed", None)]);
    server.when("/v1/functions/signed", |it| it["ledger"]["completed"] == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_sends_dead_letters_to_a_function_that_is_left_out_is_left_out_and_the_server_starts() {
    let function = picky().await;
    let server = Server::start(tempfile::tempdir().unwrap(), "[guard]\nallow = [\"10.0.0.0/8\"]\n", &[]);
    let none = r#""filter": {"type": "none"}"#;
    let undertaker = format!(r#"{{"url": "http://10.1.2.3/", {none}}}"#);
    server.done(Method::PUT, "/v1/functions/undertaker", &undertaker).await;
    let buried = format!(r#"{{"url": "http://127.0.0.1:1/", {none}, "dead_letter": "function:undertaker"}}"#);
    server.done(Method::PUT, "/v1/functions/buried", &buried).await;
    let url = json!({"url": format!("http://{}/orders", function.address)}).to_string();
    server.done(Method::PUT, "/v1/functions/orders", &url).await;
    std::fs::write(server.directory.path().join("semel.toml"), "").unwrap();
    let server = server.killed(&[]);
    let all = server.get("/v1/functions").await;
    let left_out: Vec<_> = standing(&all).into_iter().map(|(name, why)| (name, why.is_some())).collect();
    assert_eq!(left_out, [("buried", true), ("orders", false), ("undertaker", true)]);
    server.event("a", r#"{"good": true}"#).await;
    server.why_when("a", |it| it["execution"]["status"] == "COMPLETED").await;
    let got = server.ask_with(&Method::DELETE, "/v1/functions/undertaker", &[], "").await;
    assert!(got.status.is_success(), "{got:?}");
}
