//! What `semel serve` writes and counts, and what it never does.

use super::{
    sources::{hex, jwks, key, now, sha256, token, webhook_by},
    support::{Server, full, orders, read, told},
};
use crate::support::{Asked, Got, Upstream, answer};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{Request, request::Builder};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Texts that would end a line, move a cursor, turn the writing round, or end a label or a member.
const HOSTILE: [&str; 8] = [
    "a\n{\"event\":\"forged\"}",
    "a\r\nb",
    "\u{1b}[2J",
    "\u{9b}1m",
    "\u{202e}gpj.exe",
    "\",\"event\":\"forged\",\"x\":\"",
    "\"} 1\nforged_total{x=\"",
    "{{}}\\",
];

fn event(id: &str, source: &str, kind: &str) -> String {
    json!({"specversion": "1.0", "id": id, "source": source, "type": kind}).to_string()
}

/// The names of families and the sets of labels that metrics have, without their values.
fn labels(metrics: &Got) -> BTreeSet<String> {
    let lines = metrics.text().lines().filter(|it| !it.starts_with('#'));
    lines.map(|it| it.rsplit_once(' ').unwrap().0.to_owned()).collect()
}

/// Hostile 38.
#[tokio::test(flavor = "multi_thread")]
async fn no_event_forges_a_line_of_the_log_or_makes_a_label() {
    let function = Upstream::start(async |_: Asked| answer(400, HOSTILE.join(" "))).await;
    let server = Server::before(&function);
    assert_eq!(server.json("/events", &[], event("plain", "/shop", "order.created")).await.status, 202);
    function.called(1).await;
    server.program.events("an event failed for good", 1);
    // Each problem that is told below is one that was told before.
    assert_eq!(server.json("/events", &[], "{").await.status, 400);
    assert_eq!(server.json("/events/a", &[], "{").await.status, 404);
    let before = labels(&server.get("/metrics").await);
    let mut taken = 1;
    for text in HOSTILE {
        for (id, source, kind) in [(text, "/shop", "t"), ("evt", text, "t"), (text, "/other", text)] {
            let got = server.json("/events", &[], event(id, source, kind)).await;
            assert!([202, 400].contains(&got.status.as_u16()), "{got:?}");
            taken += usize::from(got.status == 202);
        }
        // Headers say it in percent-encoding, and so does a path.
        let encoded = text.bytes().fold(String::new(), |all, it| all + &format!("%{it:02x}"));
        let binary = |path: String| {
            let headers = [
                ("ce-specversion", "1.0"),
                ("ce-id", &*encoded),
                ("ce-source", &*encoded),
                ("ce-type", &*encoded),
            ];
            let named = |request: Builder, (name, value): (&str, &str)| request.header(name, value);
            let request = headers.into_iter().fold(Request::post(server.program.url(&path)), named);
            server.send(request.body(full("")).unwrap())
        };
        let got = binary("/events".to_owned()).await;
        assert!([202, 400].contains(&got.status.as_u16()), "{got:?}");
        taken += usize::from(got.status == 202);
        assert_eq!(binary(format!("/events/{encoded}")).await.status, 404);
    }
    assert!(taken > HOSTILE.len(), "some of them are events: {taken}");
    for n in 0..100 {
        let many = event(&format!("many-{n}"), &format!("/source-{n}"), &format!("type-{n}"));
        assert_eq!(server.json("/events", &[], many).await.status, 202);
    }
    server.program.events("an event failed for good", taken + 100);
    let log = server.program.log();
    for line in log.lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line:?}"));
        assert_ne!(line["event"], "forged", "{line}");
    }
    let is_plain = |it: char| it == '\n' || !(it.is_control() || ('\u{2028}'..='\u{202e}').contains(&it));
    assert!(log.chars().all(is_plain), "{log:?}");
    let metrics = server.get("/metrics").await;
    assert_eq!(labels(&metrics), before, "events make no label");
}

const CANARY: &str = "c4n4ry";

/// Nothing of what is told, counted or written names a secret.
#[derive(Default)]
struct Told(Vec<Got>);

impl Told {
    fn note(&mut self, got: Got) -> Got {
        self.0.push(got.clone());
        got
    }

    /// Checks what was told to senders, but for what a function answered, which is the sender's to see.
    fn check(&self) {
        for got in &self.0 {
            let is_result = got.header("content-type") == Some("application/json");
            assert!(is_result || !shows(got.text()), "{got:?}");
            assert!(
                got.headers.values().all(|it| !shows(&String::from_utf8_lossy(it.as_bytes()))),
                "{got:?}"
            );
        }
    }
}

/// Whether a secret stands in a text, as it is or as base64 has it.
fn shows(text: &str) -> bool {
    // Whatever stands before it, one of the three is there.
    let encoded = ["", "x", "xx"].map(|before| {
        let text = STANDARD.encode(format!("{before}{CANARY}"));
        text.trim_end_matches('=')[2 * before.len()..][..4].to_owned()
    });
    text.contains(CANARY) || encoded.iter().any(|it| text.contains(it.as_str()))
}

/// Fails at first, for good or not at all, as the event's id says; and says a secret each time.
async fn function() -> Upstream {
    Upstream::start(async |asked: Asked| {
        let is_first = asked.header("semel-attempt") == ["1"];
        let (id, body) = (asked.header("ce-id").join(""), format!("{CANARY}-answer"));
        let mut answer = match id.as_str() {
            "again" if is_first => answer(503, body),
            "dead" => answer(400, body),
            "dropped-by-json" => answer(400, format!("{{\"detail\":\"{CANARY}\"}}")),
            _ => answer(200, body),
        };
        answer.headers_mut().insert("set-cookie", format!("session={CANARY}").parse().unwrap());
        answer
    })
    .await
}

fn webhook_secret() -> String {
    STANDARD.encode(format!("{CANARY}-webhooks"))
}

/// A file in which everything that can be a secret is one.
fn file(function: &Upstream, keys: &Upstream) -> String {
    format!(
        "retry = \"immediate\"\nsecret = \"whsec_{}\"\n\
         [[function]]\nname = \"off\"\nurl = \"http://{}/{CANARY}?key={CANARY}\"\nfilter = {{ type = \"off\" }}\n\
         [[token]]\nname = \"olga\"\nrole = \"admin\"\nsecret = \"{CANARY}-operators-token\"\n\
         [[source]]\nname = \"bearer\"\nauth = \"bearer\"\nsecret = \"{CANARY}-bearer\"\n\
         [[source]]\nname = \"key\"\nauth = \"api-key\"\nsecret = \"{CANARY}-api-key\"\n\
         [[source]]\nname = \"basic\"\nauth = \"basic\"\nuser = \"ann\"\nsecret = \"{CANARY}-basic\"\n\
         [[source]]\nname = \"github\"\nauth = \"github\"\nsecret = \"{CANARY}-github\"\n\
         [[source]]\nname = \"webhooks\"\nauth = \"standard-webhooks\"\nsecret = \"whsec_{}\"\n\
         [[source]]\nname = \"sync\"\nauth = \"none\"\nmode = \"sync\"\n\
         [[source]]\nname = \"oidc\"\nauth = \"oidc\"\naudience = \"https://semel.example.com\"\nformat = \"cloudevents\"\n\
         jwks = \"http://{}/\"\n",
        STANDARD.encode(format!("{CANARY}-signing-secret")),
        function.address,
        webhook_secret(),
        keys.address,
    )
}

fn data(id: &str, kind: &str) -> String {
    let data = json!({"card": format!("{CANARY}-data")});
    json!({"specversion": "1.0", "id": id, "source": "/shop", "type": kind, "data": data}).to_string()
}

/// From everybody who shows who they are, and everybody who does not.
async fn send_from_everybody(server: &Server, told_all: &mut Told) {
    let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
    let claims = json!({"aud": "https://semel.example.com", "email": format!("{CANARY}@example.com"),
        "email_verified": true, "exp": now() + 3_000, "iat": now() - 10, "iss": "https://accounts.google.com"});
    let header = json!({"alg": "RS256", "kid": "k1"});
    let bearer = |name: &str| format!("Bearer {}", token(&header, &claims, &key(name)));

    for (path, name, right, wrong) in [
        ("bearer", "authorization", format!("Bearer {CANARY}-bearer"), format!("Bearer {CANARY}-bearers")),
        ("key", "x-api-key", format!("{CANARY}-api-key"), format!("{CANARY}-api-keys")),
        (
            "basic",
            "authorization",
            basic(&format!("ann:{CANARY}-basic")),
            basic(&format!("{CANARY}:{CANARY}-b")),
        ),
        ("oidc", "authorization", bearer("own"), bearer("stranger")),
    ] {
        let address = format!("/sources/{path}?token={CANARY}-query");
        for (value, status) in [(right, 202), (wrong, 401)] {
            let got = server.json(&address, &[(name, &value)], data(path, "order.created")).await;
            assert_eq!(told_all.note(got).status, status, "{path}");
        }
    }
    let body = data("1", "order.created");
    let signature = hex(sha256(format!("{CANARY}-github").as_bytes(), body.as_bytes()).as_ref());
    for (signature, status) in [(signature, 202), (format!("{CANARY}00"), 401)] {
        let headers = [
            ("x-hub-signature-256", format!("sha256={signature}")),
            ("x-github-delivery", "1".to_owned()),
            ("x-github-event", "push".to_owned()),
        ];
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let got = server.json("/sources/github", &headers, body.clone()).await;
        assert_eq!(told_all.note(got).status, status, "github");
    }
    let time = now();
    let signed = webhook_by(&webhook_secret(), "msg_1", time, &body);
    for (signature, status) in [(signed, 202), (format!("v1,{CANARY}"), 401)] {
        let time = time.to_string();
        let headers =
            [("webhook-id", "msg_1"), ("webhook-timestamp", &*time), ("webhook-signature", &*signature)];
        let got = server.json("/sources/webhooks", &headers, body.clone()).await;
        assert_eq!(told_all.note(got).status, status, "standard-webhooks");
    }
}

/// Taken, retried, dead, dropped, sent with another content, answered with what the function said, and no event at all.
async fn send_what_goes_every_way(server: &Server, told_all: &mut Told) {
    let first = [("again", "order.created"), ("dead", "order.created"), ("dropped-by-json", "off")];
    for (id, kind) in first {
        assert_eq!(told_all.note(server.json("/events", &[], data(id, kind)).await).status, 202, "{id}");
    }
    server.program.events("an event failed for good", 3);
    for (path, id, kind, status) in [
        ("/sources/sync", "in-sync", "order.created", 200),
        ("/sources/sync", "dead", "order.created", 400),
        ("/events", "again", CANARY, 200),
    ] {
        let got = server.json(path, &[], data(id, kind)).await;
        assert_eq!(told_all.note(got).status, status, "{path} {id}");
    }
    for body in [format!("{{\"{CANARY}\":1"), format!("[\"{CANARY}\"]"), data("1", &format!("{CANARY}\n"))] {
        let got = server.json("/events", &[("x-token", CANARY)], body).await;
        assert_eq!(told(&told_all.note(got)), (400, "event-invalid".to_owned()));
    }
    let got = server.json(&format!("/v1/functions?token={CANARY}"), &[("x-token", CANARY)], "{}").await;
    told_all.note(got);
}

/// Invariant 32.
#[tokio::test(flavor = "multi_thread")]
async fn no_secret_of_a_sender_a_function_or_an_operator_is_written_or_told() {
    let (function, keys) = (function().await, Upstream::start(async |_| answer(200, jwks("k1"))).await);
    let server = Server::with(&orders(&function, &file(&function, &keys)));
    let mut told_all = Told::default();
    send_from_everybody(&server, &mut told_all).await;
    send_what_goes_every_way(&server, &mut told_all).await;

    // Whoever operates it is told what there is, but no secret of it.
    let operator = format!("Bearer {CANARY}-operators-token");
    let asked = async |path: &str, token: &str| {
        let request = Request::get(server.program.url(path)).header("authorization", token);
        server.send(request.body(full("")).unwrap()).await
    };
    let dead = asked("/v1/executions?dead=true", &operator).await;
    assert!(!read(&dead)["executions"].as_array().unwrap().is_empty(), "{dead:?}");
    let metrics = asked("/metrics", &operator).await;
    assert_eq!(metrics.status, 200);
    assert!(!shows(metrics.text()), "{}", metrics.text());
    for path in ["/metrics", "/v1/functions"] {
        let got = asked(path, &format!("Bearer {CANARY}-wrong")).await;
        assert_eq!(told_all.note(got).status, 401);
    }
    let functions = asked("/v1/functions", &operator).await;
    assert!(
        !functions.text().contains("signing-secret") && !functions.text().contains("whsec_"),
        "{functions:?}"
    );
    server.program.signal("HUP");
    server.program.event("the file was read again");
    told_all.check();
    let log = server.program.log();
    assert!(log.lines().count() > 20 && !shows(&log), "{log}");
    let asked = function.asked();
    assert!(
        asked.iter().any(|it| shows(&String::from_utf8_lossy(&it.body))),
        "the data is what the function gets"
    );
}
