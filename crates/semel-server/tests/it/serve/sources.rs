//! Everybody who sends, as their documentation has it: signed, sent, sent again.

use super::support::{Server, orders, read, told};
use crate::support::{Asked, Got, Upstream, answer};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use ring::{
    hmac,
    rand::SystemRandom,
    signature::{RSA_PKCS1_SHA256, RsaKeyPair, RsaPublicKeyComponents},
};
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const UNAUTHORIZED: (u16, &str) = (401, "unauthorized");
/// Headers that name an event, which no signature of a body covers.
pub(super) const FORGED: [(&str, &str); 9] = [
    ("ce-specversion", "1.0"),
    ("ce-id", "forged"),
    ("ce-source", "/forged"),
    ("ce-type", "forged"),
    ("x-goog-pubsub-message-id", "forged"),
    ("x-goog-pubsub-subscription-name", "projects/forged/subscriptions/forged"),
    ("x-amz-sns-message-id", "forged"),
    ("x-amz-sns-topic-arn", "arn:aws:sns:us-west-2:123456789012:MyTopic"),
    ("svix-id", "forged"),
];

pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, it| text + &format!("{it:02x}"))
}

pub(super) fn sha256(secret: &[u8], message: &[u8]) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message)
}

pub(super) fn is_duplicate(got: &Got) -> bool {
    got.status == 200 && read(got)["duplicate"] == true
}

/// Sends what is signed, and again with everything added that somebody could who captured it; and gives what the function
/// was asked.
async fn once_signed(file: &str, headers: &[(&str, &str)], body: &str) -> Asked {
    let function = Upstream::echo().await;
    let server = Server::with(&orders(&function, file));
    let first = server.json("/sources/it", headers, body.to_owned()).await;
    assert_eq!(first.status, 202, "{first:?}");
    for added in [&[][..], &FORGED[..4], &FORGED[4..6], &FORGED[6..8], &FORGED[8..], &FORGED[..]] {
        let raw = [("x-amz-sns-message-type", "Notification"), ("x-amz-sns-rawdelivery", "true")];
        // Standard Webhooks has two names for each of its headers, and which of them counts must be one question.
        let is_own = |(name, _): &&(&str, &str)| !headers.iter().any(|(it, _)| it == name);
        for added in [added.to_vec(), [added, &raw].concat()] {
            let added: Vec<_> = added.iter().filter(is_own).copied().collect();
            let again = server.json("/sources/it", &[headers, &added].concat(), body.to_owned()).await;
            assert!(is_duplicate(&again), "{added:?}: {again:?}");
        }
    }
    let asked = function.heard(1).await;
    assert_eq!(asked.len(), 1);
    asked[0].clone()
}

/// Sends it twice: the first is new, the second a duplicate; and gives what the function was asked.
async fn once(file: &str, headers: &[(&str, &str)], body: &str) -> Asked {
    let function = Upstream::echo().await;
    let server = Server::with(&orders(&function, file));
    let first = server.json("/sources/it", headers, body.to_owned()).await;
    assert_eq!(first.status, 202, "{first:?}");
    let second = server.json("/sources/it", headers, body.to_owned()).await;
    assert!(is_duplicate(&second), "{second:?}");
    let asked = function.heard(1).await;
    assert_eq!(asked.len(), 1);
    asked[0].clone()
}

fn named(asked: &Asked) -> [String; 3] {
    ["ce-id", "ce-source", "ce-type"].map(|it| asked.header(it).join(","))
}

/// Hostile 7, for GitHub.
#[tokio::test(flavor = "multi_thread")]
async fn github() {
    let file = "[[source]]\nname = \"it\"\nauth = \"github\"\nsecret = \"It's a Secret to Everybody\"\n";
    let body = r#"{"action":"opened","repository":{"full_name":"octocat/Hello-World"}}"#;
    let signature =
        format!("sha256={}", hex(sha256(b"It's a Secret to Everybody", body.as_bytes()).as_ref()));
    let headers = [
        ("x-github-event", "issues"),
        ("x-github-delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958"),
        ("x-hub-signature-256", signature.as_str()),
    ];
    let asked = once_signed(file, &headers, body).await;
    assert_eq!(named(&asked), ["72d3162e-cc78-11e3-81ab-4c9367dc0958", "https://github.com", "issues"]);
    assert_eq!(asked.header("ce-subject"), ["octocat/Hello-World"]);
    assert_eq!(&asked.body[..], body.as_bytes());
}

#[tokio::test(flavor = "multi_thread")]
async fn stripe() {
    let file = format!(
        "[[source]]\nname = \"it\"\nauth = \"stripe\"\nsecrets = [\"whsec_newer_one\", \"{SECRET}\"]\n"
    );
    let body = r#"{"id":"evt_1NG8Du2eZvKYlo2CUI79vXWy","object":"event","created":1686089970,"type":"payment_intent.succeeded","data":{"object":{"id":"pi_1"}}}"#;
    let time = now();
    let signature = hex(sha256(SECRET.as_bytes(), format!("{time}.{body}").as_bytes()).as_ref());
    let header = format!("t={time},v1={},v1={signature},v0=aa", "0".repeat(64));
    let asked = once_signed(&file, &[("stripe-signature", &header)], body).await;
    assert_eq!(
        named(&asked),
        ["evt_1NG8Du2eZvKYlo2CUI79vXWy", "https://api.stripe.com", "payment_intent.succeeded"]
    );
}

fn webhook(id: &str, time: u64, body: &str) -> String {
    webhook_by(SECRET.strip_prefix("whsec_").unwrap(), id, time, body)
}

/// The signature by a secret, as base64.
pub(super) fn webhook_by(secret: &str, id: &str, time: u64, body: &str) -> String {
    let secret = STANDARD.decode(secret).unwrap();
    format!("v1,{}", STANDARD.encode(sha256(&secret, format!("{id}.{time}.{body}").as_bytes())))
}

#[tokio::test(flavor = "multi_thread")]
async fn standard_webhooks() {
    let file = format!("[[source]]\nname = \"it\"\nauth = \"standard-webhooks\"\nsecret = \"{SECRET}\"\n");
    let body =
        r#"{"type":"contact.created","timestamp":"2022-11-03T20:26:10.344522Z","data":{"id":"1f81eb52"}}"#;
    let time = now();
    let (signature, time_text) = (webhook("msg_2KWPBgLlAfxdpx2AI54pPJ85f4W", time, body), time.to_string());
    let headers = [
        ("webhook-id", "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W"),
        ("webhook-timestamp", time_text.as_str()),
        ("webhook-signature", signature.as_str()),
    ];
    let expected = ["msg_2KWPBgLlAfxdpx2AI54pPJ85f4W", "/sources/it", "contact.created"];
    assert_eq!(named(&once_signed(&file, &headers, body).await), expected);
    // As Svix called them before.
    let older =
        [("svix-id", headers[0].1), ("svix-timestamp", headers[1].1), ("svix-signature", headers[2].1)];
    assert_eq!(named(&once_signed(&file, &older, body).await), expected);
    let function = Upstream::echo().await;
    let server = Server::with(&orders(&function, &file));
    let other = server.json("/sources/it", &[&older[..], &[("webhook-id", "forged")]].concat(), body).await;
    assert_eq!(told(&other), (401, "unauthorized".to_owned()), "what names it was not signed");
}

/// A signature of the body says nothing of headers: CloudEvents are then in the body, or are none.
#[tokio::test(flavor = "multi_thread")]
async fn cloudevents_that_are_signed_stand_in_what_is_signed() {
    let function = Upstream::echo().await;
    let secret = "It's a Secret to Everybody";
    let file = format!(
        "[[source]]\nname = \"it\"\nformat = \"cloudevents\"\nauth = \"github\"\nsecret = \"{secret}\"\n"
    );
    let server = Server::with(&orders(&function, &file));
    let body =
        json!({"specversion": "1.0", "id": "1", "source": "/shop", "type": "order.created"}).to_string();
    let signature = format!("sha256={}", hex(sha256(secret.as_bytes(), body.as_bytes()).as_ref()));
    let signed = [("x-hub-signature-256", signature.as_str())];
    assert_eq!(server.json("/sources/it", &signed, body.clone()).await.status, 202);
    assert!(is_duplicate(&server.json("/sources/it", &signed, body.clone()).await));
    let binary = server.json("/sources/it", &[&signed[..], &FORGED[..4]].concat(), body).await;
    assert_eq!(told(&binary), (400, "event-invalid".to_owned()));
    assert!(read(&binary)["detail"].as_str().unwrap().contains("not signed"), "{binary:?}");
    assert_eq!(named(&function.heard(1).await[0]), ["1", "/shop", "order.created"]);
    assert_eq!(function.calls(), 1);
}

/// Hostile 4, 5 and 6: nothing is stored, and every cause has the same answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_signature_that_is_not_right_is_refused_whatever_is_wrong_with_it() {
    let function = Upstream::echo().await;
    let file = format!("[[source]]\nname = \"it\"\nauth = \"standard-webhooks\"\nsecret = \"{SECRET}\"\n");
    let server = Server::with(&orders(&function, &file));
    let (body, id, time) = (r#"{"type":"t"}"#, "msg_1", now());
    let right = webhook(id, time, body);
    // To the second it is judged by the formats' own tests: here a real clock goes on.
    let (old, to_come) = (time - 301, time + 360);
    let dotted = webhook("msg.1", time, body);
    let none: [(&str, String, String, String); 11] = [
        ("wrong", id.into(), time.to_string(), webhook(id, time, "other")),
        ("v1a is another kind of key", id.into(), time.to_string(), right.replace("v1,", "v1a,")),
        ("nothing", id.into(), time.to_string(), String::new()),
        ("another id", "msg_2".into(), time.to_string(), right.clone()),
        ("an old time", id.into(), old.to_string(), webhook(id, old, body)),
        ("a time to come", id.into(), to_come.to_string(), webhook(id, to_come, body)),
        ("a negative time", id.into(), "-1".into(), right.clone()),
        ("a large time", id.into(), "1000000000000000000".into(), right.clone()),
        ("no time", id.into(), String::new(), right.clone()),
        ("an id that shifts", "msg.1".into(), time.to_string(), dotted),
        ("a time that shifts", id.into(), format!("{time}.0"), right.clone()),
    ];
    let mut bodies = Vec::new();
    for (what, id, time, signature) in &none {
        let headers =
            [("webhook-id", id.as_str()), ("webhook-timestamp", time), ("webhook-signature", signature)];
        let got = server.json("/sources/it", &headers, body).await;
        assert_eq!(told(&got), (401, "unauthorized".to_owned()), "{what}");
        bodies.push(got.body);
    }
    bodies.push(server.json("/sources/it", &[], body).await.body);
    assert!(bodies.iter().all(|it| *it == bodies[0]), "one body for all causes");
    let metrics = server.get("/metrics").await;
    assert!(
        metrics.text().contains("semel_executions_accepted_total{function=\"orders\"} 0")
            || !metrics.text().contains("semel_executions_accepted_total{"),
        "nothing is stored"
    );
    let time = time.to_string();
    let several = format!("v1,AAAA {right}");
    let headers =
        [("webhook-id", id), ("webhook-timestamp", time.as_str()), ("webhook-signature", several.as_str())];
    assert_eq!(server.json("/sources/it", &headers, body).await.status, 202, "one of several is enough");
    function.heard(1).await;
}

/// Hostile 1 and 14.
#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_there_once_and_right() {
    let function = Upstream::echo().await;
    let file = "[events]\nauth = \"bearer\"\nsecret = \"correct horse\"\n\
        [[source]]\nname = \"key\"\nformat = \"eventbridge\"\nauth = \"api-key\"\nsecrets = [\"battery staple\", \"correct horse\"]\n\
        [[source]]\nname = \"basic\"\nauth = \"basic\"\nuser = \"ann\"\nsecret = \"correct horse\"\n";
    let server = Server::with(&orders(&function, file));
    let body = r#"{"version":"0","id":"6a7e8feb-b491-4cf7-a9f1-bf3703467718","detail-type":"EC2 Instance State-change Notification","source":"aws.ec2","account":"111122223333","time":"2017-12-22T18:43:48Z","region":"us-west-1","resources":["arn:aws:ec2:us-west-1:123456789012:instance/i-1234567890abcdef0"],"detail":{"instance-id":"i-1234567890abcdef0","state":"terminated"}}"#;
    let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
    let refused: [(&str, Vec<(&str, String)>); 9] = [
        ("/sources/key", vec![]),
        ("/sources/key", vec![("x-api-key", "correct horses".into())]),
        ("/sources/key", vec![("x-api-key", String::new())]),
        ("/sources/key", vec![("x-api-key", "correct horse".into()), ("x-api-key", "correct horse".into())]),
        ("/sources/basic", vec![("authorization", basic("ann:wrong pass"))]),
        ("/sources/basic", vec![("authorization", basic("bob:correct horse"))]),
        ("/sources/basic", vec![("authorization", "Bearer correct horse".into())]),
        ("/events", vec![("authorization", "correct horse".into())]),
        ("/events", vec![]),
    ];
    let mut bodies = Vec::new();
    for (path, headers) in &refused {
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let got = server.json(path, &headers, body).await;
        assert_eq!(told(&got), (UNAUTHORIZED.0, UNAUTHORIZED.1.to_owned()), "{path} {headers:?}");
        assert!(got.header("www-authenticate").is_some());
        bodies.push(got.body);
    }
    assert!(bodies.iter().all(|it| *it == bodies[0]), "one body for all causes");
    assert_eq!(function.calls(), 0);
    let taken = server.json("/sources/key", &[("x-api-key", "correct horse")], body).await;
    assert_eq!(taken.status, 202, "{taken:?}");
    let again = server.json("/sources/basic", &[("authorization", &basic("ann:correct horse"))], body).await;
    assert!(is_duplicate(&again), "another door, the same event: {again:?}");
    let again = server.json("/events", &[("authorization", "Bearer correct horse")], body).await;
    assert!(is_duplicate(&again), "{again:?}");
    let asked = function.heard(1).await;
    let id = "6a7e8feb-b491-4cf7-a9f1-bf3703467718";
    assert_eq!(
        (asked[0].header("ce-id"), asked[0].header("ce-time")),
        (vec![id], vec!["2017-12-22T18:43:48Z"])
    );
}

/// The key that SNS's certificate of the tests goes with, or another.
pub(super) fn key(name: &str) -> RsaKeyPair {
    let der: &[u8] = match name {
        "own" => include_bytes!("../../../../semel-events/tests/fixtures/sns/leaf-key.der"),
        _ => include_bytes!("../../../../semel-events/tests/fixtures/sns/stranger-key.der"),
    };
    RsaKeyPair::from_pkcs8(der).unwrap()
}

pub(super) fn jwks(id: &str) -> String {
    let parts = RsaPublicKeyComponents::<Vec<u8>>::from(key("own").public());
    let (n, e) = (URL_SAFE_NO_PAD.encode(parts.n), URL_SAFE_NO_PAD.encode(parts.e));
    json!({"keys": [{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": id, "n": n, "e": e}]}).to_string()
}

pub(super) fn token(header: &Value, claims: &Value, key: &RsaKeyPair) -> String {
    let part = |it: &Value| URL_SAFE_NO_PAD.encode(it.to_string());
    let signed = format!("{}.{}", part(header), part(claims));
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature).unwrap();
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

const PUSH: &str = r#"{"message":{"attributes":{"key":"value"},"data":"SGVsbG8gQ2xvdWQgUHViL1N1YiEgSGVyZSBpcyBteSBtZXNzYWdlIQ==","messageId":"2070443601311540","message_id":"2070443601311540","publishTime":"2021-02-26T19:13:55.749Z","publish_time":"2021-02-26T19:13:55.749Z"},"subscription":"projects/myproject/subscriptions/mysubscription"}"#;

/// Hostile 12: RS256 pinned, keys from the configured place only, fetched at most once a minute.
#[tokio::test(flavor = "multi_thread")]
async fn pubsub_with_tokens() {
    let (function, keys) = (Upstream::echo().await, Upstream::start(async |_| answer(200, jwks("k1"))).await);
    let file = format!(
        "[[source]]\nname = \"it\"\nformat = \"pubsub\"\nauth = \"oidc\"\naudience = \"https://semel.example.com\"\nemail = \"push@example.com\"\njwks = \"http://{}/certs\"\n",
        keys.address
    );
    let server = Server::with(&orders(&function, &file));
    let header = json!({"alg": "RS256", "kid": "k1", "typ": "JWT"});
    let claims = json!({"aud": "https://semel.example.com", "email": "push@example.com", "email_verified": true,
        "exp": now() + 3_000, "iat": now() - 10, "iss": "https://accounts.google.com"});
    let with = |base: &Value, name: &str, value: Value| {
        let mut changed = base.clone();
        changed[name] = value;
        changed
    };
    let right = token(&header, &claims, &key("own"));
    let unsigned = format!(
        "{}.{}.",
        URL_SAFE_NO_PAD.encode(with(&header, "alg", json!("none")).to_string()),
        URL_SAFE_NO_PAD.encode(claims.to_string())
    );
    let refused = [
        ("alg none", unsigned),
        ("HS256", token(&with(&header, "alg", json!("HS256")), &claims, &key("own"))),
        ("a stranger's signature", token(&header, &claims, &key("stranger"))),
        ("kid unknown", token(&with(&header, "kid", json!("k2")), &claims, &key("own"))),
        ("its own key", token(&with(&header, "jku", json!("http://127.0.0.1/")), &claims, &key("own"))),
        ("x5u", token(&with(&header, "x5u", json!("http://127.0.0.1/")), &claims, &key("own"))),
        ("jwk", token(&with(&header, "jwk", json!({})), &claims, &key("own"))),
        ("aud", token(&header, &with(&claims, "aud", json!("https://other.example.com")), &key("own"))),
        ("iss", token(&header, &with(&claims, "iss", json!("https://evil.example.com")), &key("own"))),
        ("email", token(&header, &with(&claims, "email", json!("other@example.com")), &key("own"))),
        ("email_verified", token(&header, &with(&claims, "email_verified", json!(false)), &key("own"))),
        ("expired", token(&header, &with(&claims, "exp", json!(now() - 100)), &key("own"))),
        ("nothing", String::new()),
    ];
    for (what, token) in &refused {
        let got = server.json("/sources/it", &[("authorization", &format!("Bearer {token}"))], PUSH).await;
        assert_eq!(told(&got), (401, "unauthorized".to_owned()), "{what}");
    }
    assert_eq!(function.calls(), 0);
    let first = server.json("/sources/it", &[("authorization", &format!("Bearer {right}"))], PUSH).await;
    assert_eq!(first.status, 202, "{first:?}");
    let again = server.json("/sources/it", &[("authorization", &format!("Bearer {right}"))], PUSH).await;
    assert!(is_duplicate(&again), "a replay is stopped by the message's id: {again:?}");
    let asked = function.heard(1).await;
    assert_eq!(asked[0].header("ce-id"), ["2070443601311540"]);
    assert_eq!(asked[0].header("ce-type"), ["google.cloud.pubsub.topic.v1.messagePublished"]);
    assert_eq!(keys.calls(), 1, "an unknown `kid` does not make it fetch more than once a minute");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_keys_cannot_be_had_nobody_can_tell() {
    let (function, keys) = (Upstream::echo().await, Upstream::start(async |_| answer(500, "")).await);
    let file = format!(
        "[[source]]\nname = \"it\"\nauth = \"oidc\"\naudience = \"a\"\njwks = \"http://{}/\"\n",
        keys.address
    );
    let server = Server::with(&orders(&function, &file));
    let got = server.json("/sources/it", &[("authorization", "Bearer a.b.c")], PUSH).await;
    assert_eq!(told(&got), (503, "keys-unavailable".to_owned()));
    assert!(got.header("retry-after").is_some());
    assert_eq!(function.calls(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn formats_are_told_by_what_they_are() {
    let function = Upstream::echo().await;
    let server = Server::with(&orders(&function, "[[source]]\nname = \"it\"\nauth = \"none\"\n"));
    let s3 = r#"{"Records":[{"eventVersion":"2.1","eventSource":"aws:s3","awsRegion":"us-west-2","eventTime":"1970-01-01T00:00:00.000Z","eventName":"ObjectCreated:Put","responseElements":{"x-amz-request-id":"C3D13FE58DE4C810","x-amz-id-2":"FMyUVURIY8/IgAtTv8xRjskZQpcIZ9KG4V5Wp6S7S/JRWeUWerMUE5JgHvANOjpD"},"s3":{"s3SchemaVersion":"1.0","bucket":{"name":"amzn-s3-demo-bucket","arn":"arn:aws:s3:::amzn-s3-demo-bucket"},"object":{"key":"HappyFace.jpg","size":1024,"eTag":"d41d8cd98f00b204e9800998ecf8427e","versionId":"096fKKXTRTtl3on89fVO.nfljtsv6qko","sequencer":"0055AED6DCD90281E5"}}}]}"#;
    let storage = r#"{"context":{"eventId":"1147091835525187","timestamp":"2020-04-23T07:38:57.772Z","eventType":"google.storage.object.finalize","resource":{"service":"storage.googleapis.com","name":"projects/_/buckets/some-bucket/objects/Test.cs","type":"storage#object"}},"data":{"bucket":"some-bucket","name":"Test.cs","size":"352"}}"#;
    for body in [PUSH, s3, storage] {
        let first = server.json("/sources/it", &[], body).await;
        assert_eq!(first.status, 202, "{first:?}");
        let again = server.json("/events", &[], body).await;
        assert_eq!(again.status, 200, "{again:?}");
    }
    let unknown = server.json("/sources/it", &[], r#"{"hello":"world"}"#).await;
    assert_eq!(told(&unknown), (400, "event-invalid".to_owned()));
    function.heard(3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_json_by_rules() {
    let file = "[[source]]\nname = \"it\"\nformat = \"json\"\nauth = \"none\"\nid = \"/order/id\"\ntype = \"/kind\"\nsource = \"header:x-shop\"\nsubject = \"/customer\"\n";
    let body = r#"{"kind":"paid","order":{"id":42},"customer":"ann"}"#;
    let asked = once(file, &[("x-shop", "https://shop.example.com")], body).await;
    assert_eq!(named(&asked), ["42", "https://shop.example.com", "paid"]);
    assert_eq!(asked.header("ce-subject"), ["ann"]);
    let file = "[[source]]\nname = \"it\"\nformat = \"json\"\nauth = \"none\"\nid = \"hash\"\ntype = \"literal:note\"\n";
    let asked = once(file, &[], body).await;
    assert_eq!(asked.header("ce-type"), ["note"]);
    assert_eq!(asked.header("ce-source"), ["/sources/it"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn json_without_an_id_is_refused() {
    let function = Upstream::echo().await;
    let file = "[[source]]\nname = \"it\"\nformat = \"json\"\nauth = \"none\"\nid = \"/id\"\ntype = \"literal:note\"\n";
    let server = Server::with(&orders(&function, file));
    for body in [r#"{"no":"id"}"#, r#"{"id":null}"#, r#"{"id":""}"#, r#"{"id":" "}"#] {
        let got = server.json("/sources/it", &[], body).await;
        assert_eq!(told(&got), (400, "event-invalid".to_owned()), "{body}");
    }
    assert_eq!(function.calls(), 0);
}
