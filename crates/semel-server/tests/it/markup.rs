//! Markup and script in everything that senders and functions can say, read back from everything that answers: number 39 of
//! the list of hostile inputs. There is no page here that could show them; what answers says so, and lets no browser doubt it.

use super::support::{Asked, Client, Got, Proxy, Upstream, answer, exchange, soon};
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use std::fmt::Write as _;

const POLICY: &str = "default-src 'none'; frame-ancestors 'none'";
/// What stands in every payload.
const MARK: &str = "alert(1)";

/// What breaks out of where a text may be put.
const OPENERS: [&str; 9] = ["", "\"", "'>", "-->", "</script>", "</title>", "]]>", "`", "\u{2028}*/"];
/// What runs there.
const BODIES: [&str; 20] = [
    "<script>alert(1)</script>",
    "<ScRiPt>alert(1)</sCrIpT>",
    "<script src=//evil.example/alert(1)></script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<math><mtext><style><img src onerror=alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "<object data='data:text/html,<script>alert(1)</script>'>",
    "<body onload=alert(1)>",
    "<details open ontoggle=alert(1)>",
    "<a href='javascript:alert(1)'>x</a>",
    "<meta http-equiv=refresh content='0;url=javascript:alert(1)'>",
    "<style>@import 'javascript:alert(1)';</style>",
    "javascript:alert(1)",
    "{{constructor.constructor('alert(1)')()}}",
    "${alert(1)}",
    "+ADw-script+AD4-alert(1)+ADw-/script+AD4-",
    "\u{feff}<script>alert(1)</script>",
    "<xmp><img title='</xmp><img src onerror=alert(1)>'>",
];
/// What swallows what stands behind.
const ENDINGS: [&str; 3] = ["", "<!--", "//"];

fn payloads() -> Vec<String> {
    let mut all = Vec::new();
    for opener in OPENERS {
        for body in BODIES {
            all.extend(ENDINGS.map(|ending| format!("{opener}{body}{ending}")));
        }
    }
    assert!(all.len() >= 500 && all.iter().all(|it| it.contains(MARK)));
    all
}

/// A server before a function that says back what it is sent, as an error.
async fn served() -> (Proxy, Upstream) {
    let function = Upstream::start(async |asked: Asked| {
        let mut answer = answer(422, asked.body);
        answer.headers_mut().insert("content-type", "text/html".parse().unwrap());
        answer
    })
    .await;
    let directory = tempfile::tempdir().unwrap();
    let file = format!(
        "[[function]]\nname = \"orders\"\nurl = \"http://{0}/\"\n\
         [[source]]\nname = \"now\"\nauth = \"none\"\nmode = \"sync\"\nfunctions = [\"orders\"]\n",
        function.address
    );
    std::fs::write(directory.path().join("semel.toml"), file).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_semel"));
    command.args(["serve", "--config", "semel.toml", "--dev", "--listen", "127.0.0.1:0"]);
    command.args(["--log", "json", "--store", "memory:"]).current_dir(directory.path());
    (Proxy::spawn(&mut command), function)
}

/// Demands that no browser takes this for a page, whatever stands in it.
#[track_caller]
fn is_inert(what: &str, got: &Got) {
    assert_eq!(got.header("x-content-type-options"), Some("nosniff"), "{what}: {got:?}");
    assert_eq!(got.header("content-security-policy"), Some(POLICY), "{what}: {got:?}");
    let is_json = matches!(got.header("content-type"), Some("application/json" | "application/problem+json"));
    if is_json {
        let read: Result<Value, _> = serde_json::from_slice(&got.body);
        assert!(read.is_ok(), "{what}: {got:?}");
    } else {
        assert!(!String::from_utf8_lossy(&got.body).contains(MARK), "{what}: {got:?}");
    }
}

struct Browser<'a> {
    program: &'a Proxy,
    client: Client,
}

impl Browser<'_> {
    async fn get(&self, path: &str) -> Got {
        let got = self.client.get(&self.program.url(path)).await;
        is_inert(path, &got);
        got
    }

    async fn send(&self, method: Method, path: &str, kind: &str, body: String) -> Got {
        let request =
            Request::builder().method(method).uri(self.program.url(path)).header("content-type", kind);
        let got = self.client.send(request.body(Full::from(body).boxed()).unwrap()).await;
        is_inert(path, &got);
        got
    }
}

/// In a query or a path, every byte of it.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut all, it| {
        write!(all, "%{it:02X}").unwrap();
        all
    })
}

/// An event whose field is this.
fn event(field: &str, n: usize, payload: &str) -> Value {
    let mut event = json!({
        "specversion": "1.0", "id": format!("{field}-{n}"), "source": "/shop", "type": "order.created", "data": n,
    });
    match field {
        "extension" => event["note"] = payload.into(),
        "name" => event[payload] = "x".into(),
        _ => event[field] = payload.into(),
    }
    event
}

#[tokio::test(flavor = "multi_thread")]
async fn markup_is_given_back_as_data_and_as_nothing_else() {
    let (program, function) = served().await;
    let browser = Browser { program: &program, client: Client::new() };
    let payloads = payloads();
    let mut accepted = 0;
    for field in ["id", "source", "type", "subject", "extension", "name", "data"] {
        let events: Vec<_> = payloads.iter().enumerate().map(|(n, it)| event(field, n, it)).collect();
        let batch = Value::from(events).to_string();
        let got = browser.send(Method::POST, "/events", "application/cloudevents-batch+json", batch).await;
        let text = got.text();
        accepted += text.matches("\"executions\"").count();
    }
    // What was accepted is called, and says back what it was sent.
    function.called(payloads.len()).await;
    let path = "/v1/executions?status=FAILED&limit=500";
    let listed = async {
        loop {
            let got: Value = serde_json::from_slice(&browser.get(path).await.body).unwrap();
            if got["executions"].as_array().is_some_and(|it| it.len() == 500) {
                return got;
            }
        }
    };
    let listed = soon("500 dead letters", listed).await;
    let mut shown = 0;
    for execution in listed["executions"].as_array().unwrap() {
        let id = execution["id"].as_str().unwrap();
        shown += usize::from(browser.get(&format!("/v1/executions/{id}")).await.text().contains(MARK));
    }
    assert!(shown > 100, "{shown} of {accepted} show what was sent");
    for path in
        ["functions", "functions/orders", "errors", "audit", "jobs", "server", "ledger", "openapi.json"]
    {
        browser.get(&format!("/v1/{path}")).await;
    }
    for path in ["/metrics", "/health", "/ready", "/version", "/nowhere"] {
        browser.get(path).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn markup_in_what_is_asked_for_is_given_back_as_data_and_as_nothing_else() {
    let (program, _function) = served().await;
    let browser = Browser { program: &program, client: Client::new() };
    for payload in payloads() {
        let text = encoded(&payload);
        for path in [
            "why?q=",
            "executions?name=",
            "executions?function=",
            "audit?subject=",
            "executions?x=",
            "functions/",
        ] {
            browser.get(&format!("/v1/{path}{text}")).await;
        }
        browser.get(&format!("/sources/{text}")).await;
        let body = json!({ "url": payload, &payload: 1, "filter": { "type": [payload] } }).to_string();
        browser.send(Method::PUT, "/v1/functions/other", "application/json", body).await;
        let body = json!({ "action": payload, "filter": { "function": payload }, "all": true }).to_string();
        browser.send(Method::POST, "/v1/bulk", "application/json", body).await;
        browser.send(Method::POST, "/events", "application/json", payload.clone()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn markup_in_heads_is_not_given_back() {
    let (program, _function) = served().await;
    let upstream = Upstream::echo().await;
    let proxy = Proxy::with(upstream.address, "");
    for payload in payloads() {
        for address in [program.address, proxy.address] {
            for line in [format!("X<{payload}: 1"), format!("X: \u{1}{payload}"), format!("Host: {payload}")]
            {
                let head = format!("POST /events HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{line}\r\n\r\n");
                let got = exchange(address, head).await.to_ascii_lowercase();
                assert!(got.starts_with("http/1.1 400 "), "{line}: {got}");
                assert!(got.contains("\r\ncontent-type: application/problem+json\r\n"), "{line}: {got}");
                assert!(got.contains("\r\nx-content-type-options: nosniff\r\n"), "{line}: {got}");
                assert!(got.contains(&format!("\r\ncontent-security-policy: {POLICY}\r\n")), "{line}: {got}");
                assert!(!got.contains(MARK), "{line}: {got}");
            }
        }
    }
    assert_eq!(upstream.calls(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_a_function_answers_with_does_not_run() {
    let (program, _function) = served().await;
    let event = event("data", 1, "<script>alert(1)</script>").to_string();
    let request =
        Request::post(program.url("/sources/now")).header("content-type", "application/cloudevents+json");
    let got = Client::new().send(request.body(Full::from(event).boxed()).unwrap()).await;
    assert_eq!(got.header("x-content-type-options"), Some("nosniff"), "{got:?}");
    assert_eq!(got.header("content-security-policy"), Some(POLICY), "{got:?}");
}
