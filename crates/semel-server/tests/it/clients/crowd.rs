//! Many at once.

use super::{
    SERVICES,
    outside::{Service, crowd, crowd_of_curl},
};
use crate::support::{Client, Proxy, Upstream, answer, post};
use http::Request;
use http_body_util::{BodyExt, Full};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::task::JoinSet;

/// Most memory that a proxy may have had, in KiB, when a thousand uploads of a megabyte each went through it: the budget
/// for requests with keys (64 MiB here), and what a thousand connections need.
const MEMORY_KIB_MAX: u64 = 320 * 1024;

/// How long a crowd may take until it is there.
const CROWD_WAIT: Duration = Duration::from_mins(3);

/// A thousand clients of one test on a busy machine are slow, and no slow-loris.
const PATIENT: &str = "[proxy.limits]\nbuffer_bytes_max = \"64MiB\"\n\
                       [proxy.timeouts]\nfirst_byte = \"5m\"\nhead = \"5m\"\nbody_grace = \"5m\"\n";

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_duplicates_of_curl_python_and_node_at_once_are_one_request() {
    for name in SERVICES {
        let service = Service::start(name);
        let limits = "connections_max = 20000\nconnections_per_ip_max = 20000\n";
        let waits = PATIENT.replacen('\n', &format!("\n{limits}"), 1) + "[defaults]\nwait = \"5m\"\n";
        let proxy = Proxy::with(service.address, &waits);
        let url = proxy.url("/hold");
        let mut asking = vec![crowd_of_curl(&url, "one", 200), crowd("crowd.py", &url, "one", 800)];
        asking.extend((0..4).map(|_| crowd("crowd.mjs", &url, "one", 2_250)));
        connected(&proxy, 10_000).await;
        Client::new().get(&format!("http://{}/release", service.address)).await;
        let mut answers = Vec::new();
        for asked in asking {
            answers.extend(asked.await.unwrap());
        }
        assert_eq!(answers.len(), 10_000);
        let others: Vec<_> =
            answers.iter().filter(|it| it["status"] != 201 || it["body"] != answers[0]["body"]).collect();
        assert!(others.is_empty(), "{name}: {} others, such as {:?}", others.len(), others[0]);
        let replayed = answers.iter().filter(|it| it["replayed"] == "true").count();
        assert_eq!((replayed, service.count().await), (9_999, 1), "{name}");
    }
}

/// Resolves when a proxy has so many connections.
async fn connected(proxy: &Proxy, connections: usize) {
    let (files, since) = (format!("/proc/{}/fd", proxy.id()), Instant::now());
    let counting = move || {
        while std::fs::read_dir(&files).unwrap().count() < connections {
            assert!(since.elapsed() < CROWD_WAIT, "they do not come");
            // Nobody tells how many connections another process has.
            std::thread::park_timeout(Duration::from_millis(100));
        }
    };
    tokio::task::spawn_blocking(counting).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_duplicates_on_a_hundred_connections_are_one_request() {
    for name in SERVICES {
        let service = Service::start(name);
        let proxy = Proxy::with(service.address, &format!("{PATIENT}[defaults]\nwait = \"5m\"\n"));
        let url = Arc::new(proxy.url("/hold"));
        // A hundred on each connection.
        let mut waiting = JoinSet::new();
        for _ in 0..100 {
            let client = Client::http2();
            for _ in 0..100 {
                let (client, url) = (client.clone(), Arc::clone(&url));
                waiting
                    .spawn(async move { client.send_patiently(post(&url, "one", "{\"amount\":100}")).await });
            }
        }
        service.counts(1).await;
        Client::new().get(&format!("http://{}/release", service.address)).await;
        let answers = waiting.join_all().await;
        let others: Vec<_> =
            answers.iter().filter(|it| it.status != 201 || it.body != answers[0].body).collect();
        assert!(others.is_empty(), "{name}: {} others, such as {:?}", others.len(), others[0]);
        let replayed = answers.iter().filter(|it| it.is_replayed()).count();
        assert_eq!((replayed, service.count().await), (9_999, 1), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_uploads_at_once_do_not_fill_the_memory() {
    for has_key in [true, false] {
        let received = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&received);
        // It reads, and keeps nothing.
        let upstream = Upstream::streaming(move |request: Request<hyper::body::Incoming>| {
            let counted = Arc::clone(&counted);
            async move {
                let mut body = request.into_body();
                while let Some(Ok(frame)) = body.frame().await {
                    counted.fetch_add(frame.data_ref().map_or(0, bytes::Bytes::len), Ordering::Relaxed);
                }
                answer(200, "")
            }
        })
        .await;
        let proxy = Proxy::with(upstream.address, PATIENT);
        let megabyte = bytes::Bytes::from(vec![b'x'; 1_000_000]);
        let mut uploads = JoinSet::new();
        for n in 0..1_000 {
            // A connection of its own for each.
            let (client, url, body) = (Client::new(), proxy.url("/upload"), megabyte.clone());
            uploads.spawn(async move {
                loop {
                    let mut request = post(&url, &n.to_string(), "");
                    *request.body_mut() = Full::new(body.clone()).boxed();
                    if !has_key {
                        request.headers_mut().remove("idempotency-key");
                    }
                    let got = client.send_patiently(request).await;
                    // On a slow machine some have to come again.
                    if got.status != 503 {
                        return got;
                    }
                    assert_eq!(got.problem(), "busy");
                }
            });
        }
        let answers = uploads.join_all().await;
        assert!(
            answers.iter().all(|it| it.status == 200),
            "{:?}",
            answers.iter().find(|it| it.status != 200)
        );
        assert_eq!(received.load(Ordering::Relaxed), 1_000_000_000);
        let status = std::fs::read_to_string(format!("/proc/{}/status", proxy.id())).unwrap();
        let peak = status.lines().find_map(|it| it.strip_prefix("VmHWM:")).unwrap();
        let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
        println!("{} MiB at most, {}", peak / 1024, if has_key { "with keys" } else { "without" });
        assert!(peak < MEMORY_KIB_MAX, "{peak} KiB");
    }
}
