//! Clients and services as people have them: curl, Python, Node.
//!
//! `cargo xtask test` brings what they need; `cargo xtask clients` runs these tests alone.

mod crowd;
mod demo;
mod outside;
mod senders;

use super::support::{Client, Proxy, soon};
use outside::{Service, client, curl};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const SERVICES: [&str; 2] = ["service.py", "service.mjs"];
const CLIENTS: [&str; 2] = ["client.py", "client.mjs"];

#[tokio::test(flavor = "multi_thread")]
async fn curl_gets_the_first_answer_again() {
    for name in SERVICES {
        let service = Service::start(name);
        let proxy = Proxy::before(service.address);
        for version in ["--http1.1", "--http2-prior-knowledge"] {
            let key = format!("Idempotency-Key: \"{version}\"");
            let ask = || {
                let headers =
                    ["-H", &key, "-H", "Authorization: Bearer ann", "-H", "Content-Type: application/json"];
                curl(
                    &[&["-i", version, "-d", "{\"amount\":100}"], &headers[..], &[&proxy.url("/pay")]]
                        .concat(),
                )
            };
            let (first, again) = (ask().to_ascii_lowercase(), ask().to_ascii_lowercase());
            assert!(first.contains(" 201") && !first.contains("idempotency-replayed"), "{first}");
            assert!(again.contains(" 201") && again.contains("idempotency-replayed: true"), "{again}");
            let body = |answer: &str| answer.rsplit("\r\n").next().unwrap().to_owned();
            assert_eq!(body(&first), body(&again));
        }
        assert_eq!(service.count().await, 2, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_retries_and_uploads_through_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("large");
    std::fs::write(&file, vec![b'x'; 3_000_000]).unwrap();
    for name in SERVICES {
        let service = Service::start(name);
        let proxy = Proxy::before(service.address);
        let headers = ["-H", "Idempotency-Key: \"k\"", "-H", "Authorization: Bearer ann"];
        let retried = curl(
            &[&["--retry", "3", "--retry-delay", "1", "-d", "x"], &headers[..], &[&proxy.url("/fail-once")]]
                .concat(),
        );
        assert!(retried.replace(' ', "").ends_with("{\"n\":2,\"bytes\":1}"), "{retried}");
        assert_eq!(service.count().await, 2, "{name}");
        // Larger than what is kept in memory for a key, and asked for first.
        let data = format!("@{}", file.display());
        let upload = ["--data-binary", &data, "-H", "Expect: 100-continue"];
        let uploaded = curl(&[&upload[..], &[&proxy.url("/pay")]].concat());
        assert!(uploaded.contains("3000000"), "{uploaded}");
        let refused = curl(&[&upload[..], &headers[..], &[&proxy.url("/pay")]].concat());
        assert!(refused.contains("request_too_large"), "{refused}");
        assert_eq!(service.count().await, 3, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_after_a_failure_is_carried_out_and_then_replayed() {
    for (service_name, client_name) in SERVICES.into_iter().zip(CLIENTS.into_iter().rev()) {
        let service = Service::start(service_name);
        let proxy = Proxy::before(service.address);
        let url = proxy.url("/fail-once");
        let first = client(client_name, &url, "k", "30").await;
        let expected = json!({"status": 201, "body": {"n": 2, "bytes": first["body"]["bytes"]}, "replayed": null, "retries": 1});
        assert_eq!(first, expected, "{client_name} and {service_name}");
        let again = client(client_name, &url, "k", "30").await;
        assert_eq!((&again["body"], &again["replayed"]), (&first["body"], &Value::from("true")));
        assert_eq!(service.count().await, 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_gives_up_and_comes_again_gets_what_was_done_meanwhile() {
    for (service_name, client_name) in SERVICES.into_iter().zip(CLIENTS) {
        let service = Service::start(service_name);
        let proxy = Proxy::with(service.address, "[defaults]\nwait = \"100ms\"\n");
        let url = proxy.url("/hold");
        let asking = tokio::spawn(async move { client(client_name, &url, "k", "0.5").await });
        // It has given up, and was told that the first one is under way.
        let is_told = |it: &Value| it["status"] == 409 && it["idempotency"] == "refused";
        soon("the second try", async {
            while !proxy.events("request", 1).iter().any(is_told) {
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert_eq!(service.count().await, 1);
        Client::new().get(&format!("http://{}/release", service.address)).await;
        let got = soon("the answer", asking).await.unwrap();
        assert_eq!((&got["status"], &got["replayed"]), (&json!(201), &json!("true")), "{got}");
        assert_eq!(
            (&got["body"]["n"], service.count().await),
            (&json!(1), 1),
            "{client_name} and {service_name}"
        );
    }
}

/// curl, that comes again as long as it is refused, or nobody is there; its answer as the other clients tell theirs.
fn curl_that_retries(url: &str) -> Value {
    let headers = ["-H", "Idempotency-Key: \"k\"", "-H", "Authorization: Bearer ann"];
    let again = ["--retry", "60", "--retry-all-errors", "--retry-delay", "1", "--fail"];
    let tell = ["-w", "\n%{http_code} %header{idempotency-replayed}"];
    let said = curl(&[&again[..], &tell, &headers, &["-d", "{\"amount\":100}", url]].concat());
    let (body, told) = said.rsplit_once('\n').unwrap();
    let (status, replayed) = told.split_once(' ').unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    let replayed = Some(replayed).filter(|it| !it.is_empty());
    json!({"status": status.parse::<u16>().unwrap(), "body": body, "replayed": replayed})
}

/// What a client is answered in the end that comes again by itself.
async fn asked(name: &'static str, url: String) -> Value {
    match name {
        "curl" => tokio::task::spawn_blocking(move || curl_that_retries(&url)).await.unwrap(),
        script => client(script, &url, "k", "30").await,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_was_killed_in_the_middle_sends_nothing_again_within_the_lease() {
    const LEASE: Duration = Duration::from_secs(4);
    let config = format!("[defaults]\nlease = \"{}s\"\nwait = \"100ms\"\n", LEASE.as_secs());
    let clients = CLIENTS.into_iter().chain(["curl", "curl"]);
    for (service_name, client_name) in SERVICES.into_iter().cycle().zip(clients) {
        let service = Service::start(service_name);
        let directory = tempfile::tempdir().unwrap();
        let proxy = Proxy::start(directory.path(), service.address, &config, &[]);
        let (address, url) = (proxy.address.to_string(), proxy.url("/hold"));
        let began = Instant::now();
        let asking = tokio::spawn(asked(client_name, url.clone()));
        service.counts(1).await;
        // Between the call of the service and its answer, which nobody hears.
        proxy.kill();
        Client::new().get(&format!("http://{}/release", service.address)).await;
        let proxy = Proxy::start(directory.path(), service.address, &config, &["--listen", &address]);
        let refused = proxy.events("request", 1);
        assert_eq!((&refused[0]["status"], service.count().await), (&json!(409), 1), "{client_name}");
        let got = soon("the answer", asking).await.unwrap();
        assert!(began.elapsed() >= LEASE, "{client_name}: it was sent again after {:?}", began.elapsed());
        assert_eq!((&got["status"], &got["body"]["n"]), (&json!(201), &json!(2)), "{client_name}: {got}");
        let again = asked(client_name, url).await;
        assert_eq!((&again["body"], &again["replayed"]), (&got["body"], &json!("true")), "{client_name}");
        assert_eq!(service.count().await, 2, "{client_name} and {service_name}");
    }
}
