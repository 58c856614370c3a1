//! Signatures and credentials: who is let in, and who is not.

use crate::given::headers;
use http::HeaderName;
use semel_core::time::Timestamp;
use semel_events::auth::{
    BadSecret, Cause, Refused, SECRET_BYTES_MIN, SECRETS_MAX, SIGNATURES_MAX, SignatureError, TOLERANCE,
    credentials::{Credentials, CredentialsError},
    github::Github,
    standard_webhooks::{ID_BYTES_MAX, StandardWebhooks},
    stripe::Stripe,
};
use std::error::Error as _;

const NOW: Timestamp = Timestamp::from_millis(1_614_265_330_000);
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const BODY: &[u8] = br#"{"test": 2432232314}"#;
/// Published with the libraries of Standard Webhooks.
const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
const TIME: &str = "1614265330";
const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

fn webhook(id: &str, time: &str, signature: &str, secret: &str) -> Result<(), Refused> {
    let headers =
        headers(&[("webhook-id", id), ("webhook-timestamp", time), ("webhook-signature", signature)]);
    StandardWebhooks::new([secret]).unwrap().verify(&headers, BODY, NOW)
}

fn refused<T: Into<Cause>>(cause: T) -> Result<(), Refused> {
    Err(Refused::from(cause))
}

#[test]
fn the_published_vector_of_standard_webhooks_is_accepted() {
    assert_eq!(webhook(ID, TIME, SIGNATURE, SECRET), Ok(()));
    assert_eq!(webhook(ID, TIME, SIGNATURE, SECRET.trim_start_matches("whsec_")), Ok(()));
    let svix = headers(&[("svix-id", ID), ("svix-timestamp", TIME), ("svix-signature", SIGNATURE)]);
    assert_eq!(StandardWebhooks::new([SECRET]).unwrap().verify(&svix, BODY, NOW), Ok(()));
}

#[test]
fn one_right_signature_among_several_is_enough() {
    let several = format!("v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc= v2,x {SIGNATURE} v1a,nonsense");
    assert_eq!(webhook(ID, TIME, &several, SECRET), Ok(()));
    let both = StandardWebhooks::new([OTHER, SECRET]).unwrap();
    let headers =
        headers(&[("webhook-id", ID), ("webhook-timestamp", TIME), ("webhook-signature", SIGNATURE)]);
    assert_eq!(both.verify(&headers, BODY, NOW), Ok(()));
}

#[test]
fn a_wrong_signature_is_refused() {
    let wrong = refused(SignatureError::Wrong);
    let unversioned = SIGNATURE.trim_start_matches("v1,");
    let confused = SIGNATURE.replace("v1,", "v1a,");
    for signature in ["", "v1,", "v1,AAAA", "v1,?", unversioned, &confused, &SIGNATURE[..SIGNATURE.len() - 1]]
    {
        assert_eq!(webhook(ID, TIME, signature, SECRET), wrong, "{signature}");
    }
    assert_eq!(webhook(ID, TIME, SIGNATURE, OTHER), wrong);
    assert_eq!(webhook("msg_other", TIME, SIGNATURE, SECRET), wrong);
    assert_eq!(webhook(ID, "1614265331", SIGNATURE, SECRET), wrong);
    let headers =
        headers(&[("webhook-id", ID), ("webhook-timestamp", TIME), ("webhook-signature", SIGNATURE)]);
    let webhooks = StandardWebhooks::new([SECRET]).unwrap();
    assert_eq!(webhooks.verify(&headers, br#"{"test": 2432232315}"#, NOW), wrong);
    let many = vec![SIGNATURE; SIGNATURES_MAX + 1].join(" ");
    assert_eq!(webhook(ID, TIME, &many, SECRET), refused(SignatureError::Malformed));
}

#[test]
fn a_signature_ages_in_both_directions() {
    let webhooks = StandardWebhooks::new([SECRET]).unwrap();
    let at = |now: Timestamp| {
        let headers = webhooks.sign(ID, NOW, BODY).unwrap();
        webhooks.verify(&headers, BODY, now)
    };
    let second = std::time::Duration::from_secs(1);
    assert_eq!(at(NOW + TOLERANCE), Ok(()));
    assert_eq!(at(NOW - TOLERANCE), Ok(()));
    assert_eq!(at(NOW + TOLERANCE + second), refused(SignatureError::Time));
    assert_eq!(at(NOW - TOLERANCE - second), refused(SignatureError::Time));
}

#[test]
fn a_time_that_is_none_is_refused() {
    let malformed = refused(SignatureError::Malformed);
    for time in ["", "-1614265330", "+1614265330", "1614265330.0", "1000000000000000000", "1e9", "0x60", " "]
    {
        assert_eq!(webhook(ID, time, SIGNATURE, SECRET), malformed, "{time}");
    }
}

#[test]
fn where_an_id_ends_cannot_be_shifted() {
    // Signed as `a.1614265330.b.…`: the same bytes with another border.
    let webhooks = StandardWebhooks::new([SECRET]).unwrap();
    let signed = webhooks.sign("a", NOW, b"1614265330.b").unwrap();
    let signature = signed["webhook-signature"].to_str().unwrap();
    let shifted = headers(&[
        ("webhook-id", "a.1614265330"),
        ("webhook-timestamp", TIME),
        ("webhook-signature", signature),
    ]);
    assert_eq!(webhooks.verify(&shifted, b"b", NOW), refused(SignatureError::Malformed));
    assert!(webhooks.sign("a.b", NOW, b"").is_none());
    assert!(webhooks.sign("", NOW, b"").is_none());
    assert!(webhooks.sign("a b", NOW, b"").is_none());
    assert!(webhooks.sign(&"a".repeat(ID_BYTES_MAX), NOW, b"").is_some());
    assert!(webhooks.sign(&"a".repeat(ID_BYTES_MAX + 1), NOW, b"").is_none());
}

#[test]
fn a_header_that_is_missing_or_twice_is_refused() {
    let all = [("webhook-id", ID), ("webhook-timestamp", TIME), ("webhook-signature", SIGNATURE)];
    let webhooks = StandardWebhooks::new([SECRET]).unwrap();
    for index in 0..all.len() {
        let mut pairs = all.to_vec();
        pairs.remove(index);
        assert_eq!(webhooks.verify(&headers(&pairs), BODY, NOW), refused(SignatureError::Missing));
        let twice = [&all[..], &all[index..=index]].concat();
        assert_eq!(webhooks.verify(&headers(&twice), BODY, NOW), refused(SignatureError::Malformed));
    }
    let mixed = [("webhook-id", ID), ("svix-timestamp", TIME), ("svix-signature", SIGNATURE)];
    assert_eq!(webhooks.verify(&headers(&mixed), BODY, NOW), refused(SignatureError::Missing));
}

#[test]
fn what_is_sent_is_signed_with_every_secret() {
    let both = StandardWebhooks::new([SECRET, OTHER]).unwrap();
    let signed = both.sign(ID, NOW, BODY).unwrap();
    assert_eq!(
        (&signed["webhook-id"], &signed["webhook-timestamp"]),
        (&ID.parse().unwrap(), &TIME.parse().unwrap())
    );
    assert!(signed["webhook-signature"].to_str().unwrap().starts_with(&format!("{SIGNATURE} v1,")));
    for secret in [SECRET, OTHER] {
        assert_eq!(StandardWebhooks::new([secret]).unwrap().verify(&signed, BODY, NOW), Ok(()));
    }
}

#[test]
fn what_is_no_secret_is_refused() {
    let short = "x".repeat(SECRET_BYTES_MIN - 1);
    assert_eq!(StandardWebhooks::new(["whsec_"]).unwrap_err(), BadSecret::Short);
    assert_eq!(StandardWebhooks::new(["whsec_not base64"]).unwrap_err(), BadSecret::Base64);
    assert_eq!(StandardWebhooks::new([]).unwrap_err(), BadSecret::Count);
    assert_eq!(StandardWebhooks::new([SECRET; SECRETS_MAX + 1]).unwrap_err(), BadSecret::Count);
    assert!(StandardWebhooks::new([SECRET; SECRETS_MAX]).is_ok());
    assert_eq!(Stripe::new([""]).unwrap_err(), BadSecret::Short);
    assert_eq!(Github::new([&*short]).unwrap_err(), BadSecret::Short);
    assert_eq!(Credentials::bearer([""]).unwrap_err(), BadSecret::Short);
    assert_eq!(Credentials::basic([("a long name", "")]).unwrap_err(), BadSecret::Short);
}

#[test]
fn no_secret_is_shown() {
    let shown = format!(
        "{:?} {:?} {:?} {:?}",
        StandardWebhooks::new([SECRET]).unwrap(),
        Stripe::new([SECRET]).unwrap(),
        Github::new([SECRET]).unwrap(),
        Credentials::bearer([SECRET]).unwrap(),
    );
    assert!(!shown.contains("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), "{shown}");
    // Its bytes, as a list of numbers, begin so.
    assert!(!shown.contains("119, 104, 115"), "{shown}");
}

#[test]
fn stripes_scheme_is_checked() {
    // `printf '1614265330.{"test": 2432232314}' | openssl dgst -sha256 -hmac whsec_MfKQ…` gives the signature.
    let right = include_str!("../fixtures/stripe-signature.txt").trim();
    let zero = "0".repeat(64);
    let check = |header: &str, expected: Result<(), SignatureError>| {
        let stripe = Stripe::new([OTHER, SECRET]).unwrap();
        let verdict = stripe.verify(&headers(&[("stripe-signature", header)]), BODY, NOW);
        assert_eq!(verdict, expected.map_err(Into::into), "{header}");
    };
    check(&format!("t={TIME},v1={right}"), Ok(()));
    check(&format!("t={TIME},v1={zero},v1={right},v0={zero}"), Ok(()));
    check(&format!("v1={right}, t={TIME}"), Ok(()));
    check(&format!("t={TIME},v1={}", right.to_uppercase()), Ok(()));
    check(&format!("t={TIME},v1={zero}"), Err(SignatureError::Wrong));
    check(&format!("t={TIME},v0={right}"), Err(SignatureError::Wrong));
    check(&format!("t={TIME}"), Err(SignatureError::Wrong));
    check(&format!("t={TIME},v1={}", &right[1..]), Err(SignatureError::Wrong));
    check(&format!("t=1614265331,v1={right}"), Err(SignatureError::Wrong));
    check(&format!("t=1614260000,v1={right}"), Err(SignatureError::Time));
    check(&format!("t=-5,v1={right}"), Err(SignatureError::Malformed));
    check(&format!("v1={right}"), Err(SignatureError::Malformed));
    check(&format!("t={TIME},t={TIME},v1={right}"), Err(SignatureError::Malformed));
    check("nonsense", Err(SignatureError::Malformed));
    check(&format!("t={TIME}{}", ",v1=00".repeat(SIGNATURES_MAX)), Err(SignatureError::Malformed));
}

#[test]
fn githubs_documented_vector_is_accepted() {
    let right = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    let check = |pairs: &[(&str, &str)], expected: Result<(), SignatureError>| {
        let github = Github::new(["another secret", "It's a Secret to Everybody"]).unwrap();
        assert_eq!(
            github.verify(&headers(pairs), b"Hello, World!"),
            expected.map_err(Into::into),
            "{pairs:?}"
        );
    };
    let with = |it: &str| format!("sha256={it}");
    check(&[("x-hub-signature-256", &with(right))], Ok(()));
    check(&[("x-hub-signature-256", &with(&"0".repeat(64)))], Err(SignatureError::Wrong));
    check(&[("x-hub-signature-256", right)], Err(SignatureError::Malformed));
    check(&[("x-hub-signature-256", "sha256=xyz")], Err(SignatureError::Malformed));
    check(&[("x-hub-signature-256", "sha256=")], Err(SignatureError::Wrong));
    check(&[("x-hub-signature", "sha1=e5e1")], Err(SignatureError::Missing));
    check(
        &[("x-hub-signature-256", &with(right)), ("x-hub-signature-256", &with(right))],
        Err(SignatureError::Malformed),
    );
}

#[test]
fn credentials_are_those_or_they_are_refused() {
    let check =
        |credentials: &Credentials, pairs: &[(&str, &str)], expected: Result<(), CredentialsError>| {
            assert_eq!(credentials.verify(&headers(pairs)), expected.map_err(Into::into), "{pairs:?}");
        };
    let key = Credentials::api_key(HeaderName::from_static("x-api-key"), ["old-key-1", "new-key-2"]).unwrap();
    check(&key, &[("x-api-key", "old-key-1")], Ok(()));
    check(&key, &[("x-api-key", "new-key-2")], Ok(()));
    check(&key, &[("x-api-key", "new-key-3")], Err(CredentialsError::Wrong));
    check(&key, &[("x-api-key", "")], Err(CredentialsError::Wrong));
    check(&key, &[], Err(CredentialsError::Missing));
    check(&key, &[("x-api-key", "old-key-1"), ("x-api-key", "old-key-1")], Err(CredentialsError::Malformed));
    let basic = Credentials::basic([("Aladdin", "open sesame")]).unwrap();
    check(&basic, &[("authorization", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")], Ok(()));
    check(&basic, &[("authorization", "basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")], Ok(()));
    check(&basic, &[("authorization", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZR==")], Err(CredentialsError::Wrong));
    check(
        &basic,
        &[("authorization", "Bearer QWxhZGRpbjpvcGVuIHNlc2FtZQ==")],
        Err(CredentialsError::Malformed),
    );
    check(&basic, &[("authorization", "Basic")], Err(CredentialsError::Malformed));
    let bearer = Credentials::bearer(["a-long-token"]).unwrap();
    check(&bearer, &[("authorization", "Bearer a-long-token")], Ok(()));
    check(&bearer, &[("authorization", "a-long-token")], Err(CredentialsError::Malformed));
}

#[test]
fn every_refusal_shows_the_same() {
    let refusals = [
        webhook(ID, "0", SIGNATURE, SECRET),
        webhook(ID, TIME, "", SECRET),
        Github::new([SECRET]).unwrap().verify(&headers(&[]), BODY),
        Credentials::bearer([SECRET]).unwrap().verify(&headers(&[])),
    ];
    let mut causes = Vec::new();
    for refusal in refusals.map(Result::unwrap_err) {
        assert_eq!(refusal.to_string(), "the request is not authenticated");
        causes.push(refusal.source().unwrap().to_string());
    }
    causes.dedup();
    assert_eq!(causes.len(), 4, "the causes differ: {causes:?}");
}
