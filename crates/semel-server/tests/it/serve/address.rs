//! What is at which address.

use super::support::{Server, event, full, orders, read, told};
use crate::support::{Client, Upstream};
use http::{Method, Request};
use http_body_util::{BodyExt, Full};

async fn ask(server: &Server, method: Method, path: &str) -> crate::support::Got {
    let request = Request::builder().method(method).uri(server.program.url(path));
    server.send(request.body(Full::default().boxed()).unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn health_readiness_version_and_metrics_are_told() {
    let function = Upstream::echo().await;
    let server = Server::before(&function);
    assert_eq!(server.get("/health").await.text(), "{\"status\":\"healthy\"}\n");
    assert_eq!(server.get("/ready").await.text(), "{\"status\":\"ready\"}\n");
    let version = read(&server.get("/version").await);
    assert_eq!((&version["name"], &version["version"]), (&"semel".into(), &env!("CARGO_PKG_VERSION").into()));
    server.event("evt-1", "{}").await;
    server.event("evt-1", "{}").await;
    function.called(1).await;
    let metrics = server.get("/metrics").await;
    assert_eq!(metrics.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    for line in [
        "semel_up 1",
        "semel_ingest_waiting 0",
        "semel_ingest_waiting_limit 65536",
        "semel_ingest_events_new_total 1",
        "semel_ingest_events_duplicate_total 1",
        "semel_function_accepted_total{function=\"orders\"} 1",
        "semel_executions_accepted_total{function=\"orders\"} 1",
        "semel_function_target_down{function=\"orders\"} 0",
    ] {
        assert!(metrics.text().lines().any(|it| it == line), "no `{line}` in\n{}", metrics.text());
    }
}

/// Hostile 45.
#[tokio::test(flavor = "multi_thread")]
async fn other_methods_are_told_which_ones_are_right() {
    let function = Upstream::echo().await;
    let server = Server::with(&orders(&function, "[[source]]\nname = \"a\"\nauth = \"none\"\n"));
    for path in ["/events", "/sources/a"] {
        for method in [Method::GET, Method::HEAD, Method::PUT, Method::DELETE, Method::PATCH, Method::TRACE] {
            let got = ask(&server, method.clone(), path).await;
            assert_eq!(
                (got.status.as_u16(), got.header("allow")),
                (405, Some("POST, OPTIONS")),
                "{method} {path}"
            );
        }
    }
    for path in ["/health", "/ready", "/version", "/metrics"] {
        let got = ask(&server, Method::POST, path).await;
        assert_eq!((got.status.as_u16(), got.header("allow")), (405, Some("GET, HEAD")), "{path}");
        assert_eq!(ask(&server, Method::HEAD, path).await.status, 200, "{path}");
    }
    let got = ask(&server, Method::OPTIONS, "/events").await;
    assert_eq!((got.status.as_u16(), got.header("allow")), (200, Some("POST, OPTIONS")));
}

/// Hostile 43.
#[tokio::test(flavor = "multi_thread")]
async fn no_other_way_to_write_a_path_is_a_path() {
    let function = Upstream::echo().await;
    let server = Server::with(&orders(&function, "[[source]]\nname = \"a\"\nauth = \"none\"\n"));
    for path in [
        "/",
        "/events/",
        "//events",
        "/EVENTS",
        "/events;x=1",
        "/%65vents",
        "/./events",
        "/x/../events",
        "/events%00",
        "/sources",
        "/sources/",
        "/sources/a/",
        "/sources//a",
        "/sources/b",
        "/sources/A",
        "/sources/%61",
        "/sources/..%2fevents",
        "/v1",
        "/.semel/health",
    ] {
        let got = ask(&server, Method::POST, path).await;
        assert_eq!(told(&got), (404, "not-found".to_owned()), "{path}");
    }
    assert_eq!(function.calls(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_an_address_of_its_own_the_rest_is_not_where_events_are() {
    let function = Upstream::echo().await;
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--store", "memory:", "--admin-listen", "127.0.0.1:0"];
    let server = Server::start(directory, &orders(&function, ""), &arguments);
    let admin = server.program.admin.unwrap();
    assert_eq!(told(&server.get("/metrics").await), (404, "not-found".to_owned()));
    assert_eq!(told(&server.get("/health").await), (404, "not-found".to_owned()));
    assert_eq!(server.event("evt-1", "{}").await.status, 202);
    let client = Client::new();
    assert_eq!(client.get(&format!("http://{admin}/ready")).await.status, 200);
    let mut event = event(&server.program, "evt-2").body(full("{}")).unwrap();
    *event.uri_mut() = format!("http://{admin}/events").parse().unwrap();
    assert_eq!(client.send(event).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_whether_it_may_send_is_told() {
    let function = Upstream::echo().await;
    let file = "[[source]]\nname = \"a\"\nauth = \"none\"\norigins = \"eventemitter.example.com\"\n\
        [[source]]\nname = \"slow\"\nauth = \"none\"\norigin_rate_max = 60\n";
    let server = Server::with(&orders(&function, file));
    let asked = async |path: &str, origin: &str| {
        let request = Request::builder().method(Method::OPTIONS).uri(server.program.url(path));
        let request = request.header("webhook-request-origin", origin).header("webhook-request-rate", "100");
        server.send(request.body(Full::default().boxed()).unwrap()).await
    };
    let allowed = asked("/events", "anybody.example.com").await;
    assert_eq!(allowed.header("webhook-allowed-origin"), Some("anybody.example.com"));
    assert_eq!(allowed.header("webhook-allowed-rate"), Some("100"));
    let allowed = asked("/sources/a", "eventemitter.example.com").await;
    assert_eq!(allowed.header("webhook-allowed-origin"), Some("eventemitter.example.com"));
    let other = asked("/sources/a", "other.example.com").await;
    assert_eq!((other.status.as_u16(), other.header("webhook-allowed-origin")), (200, None));
    let slow = asked("/sources/slow", "anybody.example.com").await;
    assert_eq!(slow.header("webhook-allowed-rate"), Some("60"), "as many a minute as the file says");
    assert_eq!(told(&asked("/events", "no origin").await).0, 400);
}
