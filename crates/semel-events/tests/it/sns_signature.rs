//! SNS's signatures: what is fetched, from where, and what it must prove.

use crate::given::headers;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::{
    rand::SystemRandom,
    signature::{RSA_PKCS1_SHA256, RsaKeyPair},
};
use semel_core::time::Timestamp;
use semel_events::auth::{
    Refused,
    sns::{CERTIFICATE_BYTES_MAX, Roots, Sns, SnsError, is_certificate_url, is_sns_url},
};
use serde_json::{Value, json};

const LEAF: &[u8] = include_bytes!("../fixtures/sns/leaf.pem");
const STRANGER: &[u8] = include_bytes!("../fixtures/sns/stranger.pem");
const ROOT: &[u8] = include_bytes!("../fixtures/sns/root.pem");
const OTHER_ROOT: &[u8] = include_bytes!("../fixtures/sns/other-root.pem");
/// Made by openssl over what SNS's documentation says is signed.
const SIGNATURE_1: &[u8] = include_bytes!("../fixtures/sns/notification-v1.sig");
const SIGNATURE_2: &[u8] = include_bytes!("../fixtures/sns/notification-v2.sig");
const TOPIC: &str = "arn:aws:sns:us-west-2:123456789012:MyTopic";
/// 2030-01-01.
const NOW: Timestamp = Timestamp::from_millis(1_893_456_000_000);

fn sns() -> Sns {
    Sns { topics: vec![TOPIC.into()], accepts_version_1: false, roots: None }
}

fn notification(version: &str, signature: &[u8]) -> Value {
    json!({
        "Type": "Notification",
        "MessageId": "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324",
        "TopicArn": TOPIC,
        "Subject": "My First Message",
        "Message": "Hello world!",
        "Timestamp": "2012-05-02T00:54:06.655Z",
        "SignatureVersion": version,
        "Signature": STANDARD.encode(signature),
        "SigningCertURL": "https://sns.us-west-2.amazonaws.com/SimpleNotificationService-f3ecfb7224c7233fe7bb5f59f96de52f.pem",
        "UnsubscribeURL": "https://sns.us-west-2.amazonaws.com/?Action=Unsubscribe"
    })
}

fn verify(sns: &Sns, message: &Value, pem: &[u8]) -> Result<(), Refused> {
    let message = sns.inspect(message.to_string().as_bytes())?;
    sns.verify(&message, pem, NOW)
}

#[test]
fn a_message_that_sns_signed_is_accepted() {
    assert_eq!(verify(&sns(), &notification("2", SIGNATURE_2), LEAF), Ok(()));
}

#[test]
fn version_1_is_accepted_only_if_it_is_switched_on() {
    let message = notification("1", SIGNATURE_1);
    assert_eq!(verify(&sns(), &message, LEAF), Err(SnsError::Version.into()));
    let lenient = Sns { accepts_version_1: true, ..sns() };
    assert_eq!(verify(&lenient, &message, LEAF), Ok(()));
    assert_eq!(verify(&lenient, &notification("2", SIGNATURE_2), LEAF), Ok(()));
    assert_eq!(verify(&lenient, &notification("1", SIGNATURE_2), LEAF), Err(SnsError::Signature.into()));
    assert_eq!(verify(&lenient, &notification("2", SIGNATURE_1), LEAF), Err(SnsError::Signature.into()));
    assert_eq!(verify(&lenient, &notification("3", SIGNATURE_2), LEAF), Err(SnsError::Version.into()));
}

#[test]
fn what_is_signed_cannot_be_changed() {
    for name in ["Message", "MessageId", "Subject", "Timestamp", "Type"] {
        let mut message = notification("2", SIGNATURE_2);
        message[name] = json!("changed");
        assert!(verify(&sns(), &message, LEAF).is_err(), "{name}");
        message[name] = Value::Null;
        assert!(verify(&sns(), &message, LEAF).is_err(), "{name}");
    }
    let mut message = notification("2", SIGNATURE_2);
    message["Type"] = json!("SubscriptionConfirmation");
    message["Token"] = json!("t");
    message["SubscribeURL"] = json!("https://sns.us-west-2.amazonaws.com/");
    assert_eq!(verify(&sns(), &message, LEAF), Err(SnsError::Signature.into()));
}

/// What is signed is lines, so that the same bytes could be two messages: with a subject, and with an id of three lines.
#[test]
fn where_a_member_ends_cannot_be_shifted() {
    let right = notification("2", SIGNATURE_2);
    let mut shifted = right.clone();
    let text = |name: &str| right[name].as_str().unwrap();
    shifted["MessageId"] = json!(format!("{}\nSubject\n{}", text("MessageId"), text("Subject")));
    shifted.as_object_mut().unwrap().remove("Subject");
    assert_eq!(verify(&sns(), &shifted, LEAF), Err(SnsError::Malformed.into()));
    let mut lines = right.clone();
    lines["Message"] = json!("Hello\nworld!");
    assert!(sns().inspect(lines.to_string().as_bytes()).is_ok(), "a message may have lines");
}

#[test]
fn what_is_of_raw_delivery_is_not_signed() {
    let head = |value: &str| sns().inspect_head(&headers(&[("x-amz-sns-rawdelivery", value)]));
    assert_eq!(head("true"), Err(SnsError::Raw.into()));
    assert_eq!(head("True"), Err(SnsError::Raw.into()));
    assert_eq!(head("false"), Ok(()));
    assert_eq!(sns().inspect_head(&headers(&[])), Ok(()));
}

#[test]
fn a_subscription_is_signed_with_its_url_and_token() {
    let key = RsaKeyPair::from_pkcs8(include_bytes!("../fixtures/sns/leaf-key.der")).unwrap();
    let url = "https://sns.us-west-2.amazonaws.com/?Action=ConfirmSubscription&Token=t";
    let signed = format!(
        "Message\nWelcome\nMessageId\nm\nSubscribeURL\n{url}\nTimestamp\n2012-05-02T00:54:06.655Z\nToken\nt\nTopicArn\n{TOPIC}\nType\nSubscriptionConfirmation\n"
    );
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature).unwrap();
    let mut message = notification("2", &signature);
    message["Type"] = json!("SubscriptionConfirmation");
    message["Message"] = json!("Welcome");
    message["MessageId"] = json!("m");
    message["SubscribeURL"] = json!(url);
    message["Token"] = json!("t");
    assert_eq!(verify(&sns(), &message, LEAF), Ok(()));
    let mut elsewhere = message.clone();
    elsewhere["SubscribeURL"] = json!("https://evil.example.com/");
    assert_eq!(verify(&sns(), &elsewhere, LEAF), Err(SnsError::SubscribeUrl.into()));
    message["SubscribeURL"] = json!("https://sns.us-west-2.amazonaws.com/?Action=Other");
    assert_eq!(verify(&sns(), &message, LEAF), Err(SnsError::Signature.into()));
}

#[test]
fn nothing_is_fetched_for_a_topic_that_is_not_expected() {
    for topic in
        ["arn:aws:sns:us-west-2:123456789012:MyTopic2", "arn:aws:sns:us-west-2:999999999999:MyTopic", ""]
    {
        let mut message = notification("2", SIGNATURE_2);
        message["TopicArn"] = json!(topic);
        assert_eq!(sns().inspect(message.to_string().as_bytes()), Err(SnsError::Topic.into()), "{topic}");
    }
    let nobody = Sns { topics: Vec::new(), ..sns() };
    assert_eq!(
        nobody.inspect(notification("2", SIGNATURE_2).to_string().as_bytes()),
        Err(SnsError::Topic.into())
    );
}

const ELSEWHERE: [&str; 30] = [
    "http://sns.us-west-2.amazonaws.com/x.pem",
    "https://evil.com/x.pem",
    "https://sns.evil.com/amazonaws.com/x.pem",
    "https://sns.us-west-2.amazonaws.com.evil.com/x.pem",
    "https://evil.com/sns.us-west-2.amazonaws.com/x.pem",
    "https://sns.us-west-2.amazonaws.com@evil.com/x.pem",
    "https://user@sns.us-west-2.amazonaws.com/x.pem",
    "https://sns.us-west-2.amazonaws.com:8443/x.pem",
    "https://sns.us-west-2.amazonaws.com:443/x.pem",
    "https://sns.us-west-2.amazonaws.com./x.pem",
    "https://sns.us-west-2.amazonaws.com\\@evil.com/x.pem",
    "https://sns.us.west.amazonaws.com/x.pem",
    "https://sns..amazonaws.com/x.pem",
    "https://sns.amazonaws.com/x.pem",
    "https://snsxus-west-2.amazonaws.com/x.pem",
    "https://s3.us-west-2.amazonaws.com/x.pem",
    "https://bucket.s3.amazonaws.com/x.pem",
    "https://sns.us-west-2.amazonaws.com.cn.evil.com/x.pem",
    "https://sns.us-west-2.amazonaws.comevil/x.pem",
    "https://sns.US-WEST-2.amazonaws.com/x.pem",
    "https://sns.us-west-2%2eevil.com/.amazonaws.com/x.pem",
    "https://sns.us-west-2#.amazonaws.com/x.pem",
    "https://sns.us-west-2?.amazonaws.com/x.pem",
    "https://[sns.us-west-2.amazonaws.com]/x.pem",
    "https:/sns.us-west-2.amazonaws.com/x.pem",
    "HTTPS://sns.us-west-2.amazonaws.com/x.pem",
    " https://sns.us-west-2.amazonaws.com/x.pem",
    "//sns.us-west-2.amazonaws.com/x.pem",
    "file:///etc/passwd.pem",
    "",
];

#[test]
fn nothing_is_fetched_from_elsewhere() {
    for url in ELSEWHERE {
        assert!(!is_sns_url(url), "{url}");
        let mut message = notification("2", SIGNATURE_2);
        message["SigningCertURL"] = json!(url);
        assert_eq!(
            sns().inspect(message.to_string().as_bytes()),
            Err(SnsError::CertificateUrl.into()),
            "{url}"
        );
    }
    for path in ["/ x", "/\r\nHost: evil.com", "/é", "/\0"] {
        assert!(!is_sns_url(&format!("https://sns.us-west-2.amazonaws.com{path}")), "{path:?}");
    }
    let host = "https://sns.us-west-2.amazonaws.com";
    for path in [
        "/",
        "/.pem",
        "/x.pem?y",
        "/x.pem#y",
        "/a/x.pem",
        "/../x.pem",
        "/..%2fx.pem",
        "/x.pem/",
        "/x",
        "/x..pem.pem",
        "//x.pem",
        "/x y.pem",
    ] {
        assert!(!is_certificate_url(&format!("{host}{path}")), "{path}");
    }
    for url in [
        "https://sns.eu-central-1.amazonaws.com/a-b_c.1.pem",
        "https://sns.cn-north-1.amazonaws.com.cn/x.pem",
    ] {
        assert!(is_certificate_url(url), "{url}");
    }
}

#[test]
fn a_certificate_of_somebody_else_proves_nothing() {
    let message = notification("2", SIGNATURE_2);
    assert_eq!(verify(&sns(), &message, STRANGER), Err(SnsError::Signature.into()));
    let long = [LEAF, &vec![b'\n'; CERTIFICATE_BYTES_MAX]].concat();
    for pem in [
        &b""[..],
        b"nonsense",
        b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        &LEAF[..500],
        &long,
    ] {
        assert_eq!(verify(&sns(), &message, pem), Err(SnsError::Certificate.into()));
    }
}

#[test]
fn with_roots_a_certificate_must_lead_to_one() {
    let with = |root: &[u8]| Sns { roots: Some(Roots::from_pem(root, b"").unwrap().requiring()), ..sns() };
    let message = notification("2", SIGNATURE_2);
    assert_eq!(verify(&with(ROOT), &message, LEAF), Ok(()));
    assert_eq!(verify(&with(OTHER_ROOT), &message, LEAF), Err(SnsError::Certificate.into()));
    // It leads to the root, but is not in SNS's name.
    let key = RsaKeyPair::from_pkcs8(include_bytes!("../fixtures/sns/stranger-key.der")).unwrap();
    let signed = "Message\nHello world!\nMessageId\n22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324\nSubject\nMy First Message\nTimestamp\n2012-05-02T00:54:06.655Z\nTopicArn\narn:aws:sns:us-west-2:123456789012:MyTopic\nType\nNotification\n";
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature).unwrap();
    let forged = notification("2", &signature);
    assert_eq!(verify(&sns(), &forged, STRANGER), Ok(()), "without roots, the connection is what is trusted");
    assert_eq!(verify(&with(ROOT), &forged, STRANGER), Err(SnsError::Certificate.into()));
    let parsed = with(ROOT).inspect(message.to_string().as_bytes()).unwrap();
    let before = Timestamp::from_millis(1_000_000_000_000);
    assert_eq!(
        with(ROOT).verify(&parsed, LEAF, before),
        Err(SnsError::Certificate.into()),
        "it is not valid yet"
    );
    assert!(Roots::from_pem(b"", b"").is_none());
    assert!(Roots::from_pem(ROOT, b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n").is_none());
}

/// Hostile 13: an unchained certificate.
#[test]
fn where_an_issuer_is_at_hand_a_certificate_must_lead_to_a_root() {
    const CHAIN_ROOT: &[u8] = include_bytes!("../fixtures/sns/chain-root.pem");
    const INTERMEDIATE: &[u8] = include_bytes!("../fixtures/sns/intermediate.pem");
    const CHAINED: &[u8] = include_bytes!("../fixtures/sns/chained.pem");
    let with = |root: &[u8]| Sns { roots: Some(Roots::from_pem(root, b"").unwrap()), ..sns() };
    let message = notification("2", SIGNATURE_2);
    let whole = [CHAINED, INTERMEDIATE].concat();
    assert_eq!(verify(&with(CHAIN_ROOT), &message, &whole), Ok(()));
    let refused = Err(SnsError::Certificate.into());
    assert_eq!(verify(&with(OTHER_ROOT), &message, &whole), refused, "it leads to another root");
    // Names are the same, and keys are not.
    let impostor = include_bytes!("../fixtures/sns/impostor.pem");
    assert_eq!(verify(&with(CHAIN_ROOT), &message, impostor), refused);
    assert_eq!(verify(&with(CHAIN_ROOT), &message, &[CHAINED, impostor].concat()), refused);
    let unrelated = [LEAF, INTERMEDIATE].concat();
    assert_eq!(verify(&with(CHAIN_ROOT), &message, &unrelated), refused);
    let given = Roots::from_pem(CHAIN_ROOT, INTERMEDIATE).unwrap();
    let strict = Sns { roots: Some(given.requiring()), ..sns() };
    assert_eq!(verify(&strict, &message, CHAINED), Ok(()));
    assert_eq!(verify(&strict, &message, LEAF), refused);
}

/// SNS's own file is such a one: see the module.
#[test]
fn a_certificate_whose_issuer_is_not_at_hand_is_believed_by_its_connection_if_all_else_is_right() {
    let sns = Sns { roots: Some(Roots::from_pem(OTHER_ROOT, b"").unwrap()), ..sns() };
    let message = notification("2", SIGNATURE_2);
    assert_eq!(verify(&sns, &message, LEAF), Ok(()));
    let refused = Err(SnsError::Certificate.into());
    for (what, pem) in [
        ("it issued itself", &include_bytes!("../fixtures/sns/self-signed.pem")[..]),
        ("it is not for a server", include_bytes!("../fixtures/sns/client.pem")),
        ("it is a root", ROOT),
        ("it is for somebody else", STRANGER),
    ] {
        assert_eq!(verify(&sns, &message, pem), refused, "{what}");
    }
    let parsed = sns.inspect(message.to_string().as_bytes()).unwrap();
    let (before, after) = (1_000_000_000_000, 5_000_000_000_000);
    for millis in [before, after] {
        assert_eq!(sns.verify(&parsed, LEAF, Timestamp::from_millis(millis)), refused, "at {millis}");
    }
    assert_eq!(sns.verify(&parsed, LEAF, NOW), Ok(()));
}

#[test]
fn what_is_no_message_is_refused() {
    for body in [&b""[..], b"{}", b"[]", b"{\"TopicArn\":1}", b"\xff"] {
        assert_eq!(sns().inspect(body), Err(SnsError::Malformed.into()));
    }
    let mut message = notification("2", SIGNATURE_2);
    message["Signature"] = json!("not base64");
    assert_eq!(sns().inspect(message.to_string().as_bytes()), Err(SnsError::Malformed.into()));
    let text = notification("2", SIGNATURE_2).to_string();
    let twice = text.replacen('{', "{\"TopicArn\":\"arn:aws:sns:us-west-2:1:Other\",", 1);
    assert_eq!(sns().inspect(twice.as_bytes()), Err(SnsError::Malformed.into()), "which topic counts?");
}
