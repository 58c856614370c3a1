//! Tokens of OpenID Connect: one that is right, and every way to be wrong.

use crate::given::headers;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    hmac,
    rand::SystemRandom,
    signature::{RSA_PKCS1_SHA256, RsaKeyPair, RsaPublicKeyComponents},
};
use semel_core::time::Timestamp;
use semel_events::auth::{
    Refused,
    jwt::{BadKeys, Expected, JWKS_BYTES_MAX, JWKS_KEYS_MAX, Jwks, LEEWAY, TOKEN_BYTES_MAX, TokenError},
};
use serde_json::{Value, json};
use std::time::Duration;

const NOW: Timestamp = Timestamp::from_millis(1_550_185_900_000);
const AUDIENCE: &str = "https://example.com/events";
const EMAIL: &str = "gae-gcp@appspot.gserviceaccount.com";

fn key(der: &[u8]) -> RsaKeyPair {
    RsaKeyPair::from_pkcs8(der).unwrap()
}

fn own() -> RsaKeyPair {
    key(include_bytes!("../fixtures/sns/leaf-key.der"))
}

fn stranger() -> RsaKeyPair {
    key(include_bytes!("../fixtures/sns/stranger-key.der"))
}

fn jwk(key: &RsaKeyPair, id: &str) -> Value {
    let parts = RsaPublicKeyComponents::<Vec<u8>>::from(key.public());
    json!({"kty": "RSA", "alg": "RS256", "use": "sig", "kid": id,
        "n": URL_SAFE_NO_PAD.encode(parts.n), "e": URL_SAFE_NO_PAD.encode(parts.e)})
}

fn keys() -> Jwks {
    let elliptic = json!({"kty": "EC", "crv": "P-256", "kid": "ec", "x": "a", "y": "b"});
    Jwks::parse(
        json!({"keys": [elliptic, jwk(&own(), "7d68"), jwk(&stranger(), "old")]}).to_string().as_bytes(),
    )
    .unwrap()
}

fn header() -> Value {
    json!({"alg": "RS256", "kid": "7d68", "typ": "JWT"})
}

/// As documented for Pub/Sub.
fn claims() -> Value {
    json!({"aud": AUDIENCE, "azp": "113774264463038321964", "email": EMAIL, "sub": "113774264463038321964",
        "email_verified": true, "exp": 1_550_189_535, "iat": 1_550_185_935, "iss": "https://accounts.google.com"})
}

fn part(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

fn token(header: &Value, claims: &Value, key: &RsaKeyPair) -> String {
    let signed = format!("{}.{}", part(header), part(claims));
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature).unwrap();
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

fn verify_at(token: &str, now: Timestamp) -> Result<(), Refused> {
    let headers = headers(&[("authorization", &format!("Bearer {token}"))]);
    Expected::google(AUDIENCE).email(EMAIL).verify(&headers, &keys(), now)
}

fn check(token: &str, expected: Result<(), TokenError>) {
    assert_eq!(verify_at(token, NOW), expected.map_err(Into::into), "{token}");
}

/// The claims with one of them changed, or taken away.
fn check_claim(name: &str, value: &Value, expected: Result<(), TokenError>) {
    let mut claims = claims();
    match value {
        Value::Null => _ = claims.as_object_mut().unwrap().remove(name),
        value => claims[name] = value.clone(),
    }
    check(&token(&header(), &claims, &own()), expected);
}

#[test]
fn a_token_that_says_what_is_expected_is_accepted() {
    check(&token(&header(), &claims(), &own()), Ok(()));
    check_claim("aud", &json!(["other", AUDIENCE]), Ok(()));
    check_claim("iss", &json!("accounts.google.com"), Ok(()));
    check_claim("nbf", &json!(1_550_185_900), Ok(()));
    check_claim("exp", &json!(1_550_189_535.5), Ok(()));
    let old = json!({"alg": "RS256", "kid": "old"});
    check(&token(&old, &claims(), &stranger()), Ok(()));
}

#[test]
fn a_token_of_another_algorithm_is_refused() {
    for algorithm in [
        json!("none"),
        json!("None"),
        json!("HS256"),
        json!("RS512"),
        json!("rs256"),
        json!("ES256"),
        json!(7),
        Value::Null,
    ] {
        let mut header = header();
        header["alg"] = algorithm;
        check(&token(&header, &claims(), &own()), Err(TokenError::Algorithm));
        check(&format!("{}.{}.", part(&header), part(&claims())), Err(TokenError::Algorithm));
    }
    // The public key, taken for a shared secret.
    let parts = RsaPublicKeyComponents::<Vec<u8>>::from(own().public());
    let signed = format!("{}.{}", part(&json!({"alg": "HS256", "kid": "7d68"})), part(&claims()));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &parts.n), signed.as_bytes());
    check(&format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag)), Err(TokenError::Algorithm));
}

#[test]
fn a_token_that_brings_its_own_key_is_refused() {
    let foreign = [
        ("jwk", jwk(&stranger(), "7d68")),
        ("jku", json!("https://evil.com/keys")),
        ("x5u", json!("https://evil.com/x")),
        ("x5c", json!(["MII"])),
        ("crit", json!(["exp"])),
        ("jku", Value::Null),
    ];
    for (name, value) in foreign {
        let mut header = header();
        header[name] = value;
        check(&token(&header, &claims(), &own()), Err(TokenError::ForeignKey));
    }
    for id in [json!("unknown"), json!("../7d68"), Value::Null, json!(7)] {
        let mut header = header();
        header["kid"] = id;
        check(&token(&header, &claims(), &own()), Err(TokenError::UnknownKey));
    }
}

#[test]
fn a_token_that_was_changed_is_refused() {
    check(&token(&header(), &claims(), &stranger()), Err(TokenError::Signature));
    let right = token(&header(), &claims(), &own());
    let (head, rest) = right.split_once('.').unwrap();
    let (_, signature) = rest.split_once('.').unwrap();
    let mut richer = claims();
    richer["email"] = json!("admin@example.com");
    check(&format!("{head}.{}.{signature}", part(&richer)), Err(TokenError::Signature));
    check(&format!("{head}.{}.", part(&claims())), Err(TokenError::Signature));
}

#[test]
fn a_token_for_somebody_else_is_refused() {
    check_claim("aud", &json!("https://example.com/other"), Err(TokenError::Audience));
    check_claim("aud", &json!(format!("{AUDIENCE}/")), Err(TokenError::Audience));
    check_claim("aud", &json!({"a": AUDIENCE}), Err(TokenError::Audience));
    check_claim("aud", &Value::Null, Err(TokenError::Audience));
    check_claim("iss", &json!("https://accounts.google.com.evil.com"), Err(TokenError::Issuer));
    check_claim("iss", &Value::Null, Err(TokenError::Issuer));
    check_claim("email", &json!("other@example.com"), Err(TokenError::Email));
    check_claim("email", &Value::Null, Err(TokenError::Email));
    check_claim("email_verified", &json!(false), Err(TokenError::Email));
    check_claim("email_verified", &json!("true"), Err(TokenError::Email));
    check_claim("email_verified", &Value::Null, Err(TokenError::Email));
}

#[test]
fn a_token_has_its_time() {
    let right = token(&header(), &claims(), &own());
    let expires = Timestamp::from_millis(1_550_189_535_000);
    let second = Duration::from_secs(1);
    assert_eq!(verify_at(&right, expires + LEEWAY - second), Ok(()));
    assert_eq!(verify_at(&right, expires + LEEWAY), Err(TokenError::Expired.into()));
    let issued = Timestamp::from_millis(1_550_185_935_000);
    assert_eq!(verify_at(&right, issued - LEEWAY), Ok(()));
    assert_eq!(verify_at(&right, issued - LEEWAY - second), Err(TokenError::Early.into()));
    check_claim("exp", &Value::Null, Err(TokenError::Expired));
    check_claim("exp", &json!("never"), Err(TokenError::Malformed));
    check_claim("exp", &json!(-1), Err(TokenError::Malformed));
    check_claim("nbf", &json!(4_000_000_000_u64), Err(TokenError::Early));
    check_claim("nbf", &json!(u64::MAX), Err(TokenError::Early));
}

#[test]
fn what_is_no_token_is_refused() {
    for token in ["", "a", "a.b", "a.b.c.d", "!.!.!", "e30.e30.", "eyJhbGciOiJSUzI1NiJ9"] {
        let verdict = verify_at(token, NOW);
        assert!(verdict.is_err(), "{token}");
    }
    check("e30.e30.e30.e30", Err(TokenError::Malformed));
    check(&"a".repeat(TOKEN_BYTES_MAX), Err(TokenError::Malformed));
    let expected = Expected::google(AUDIENCE);
    let right = format!("Bearer {}", token(&header(), &claims(), &own()));
    let verify = |pairs: &[(&str, &str)]| expected.verify(&headers(pairs), &keys(), NOW);
    assert_eq!(verify(&[("authorization", &right)]), Ok(()));
    assert_eq!(verify(&[]), Err(TokenError::Missing.into()));
    assert_eq!(verify(&[("authorization", "Basic QTpC")]), Err(TokenError::Missing.into()));
    assert_eq!(
        verify(&[("authorization", &right), ("authorization", &right)]),
        Err(TokenError::Malformed.into())
    );
    let twice = format!(
        "{}.{}",
        URL_SAFE_NO_PAD.encode(r#"{"alg":"none","alg":"RS256","kid":"7d68"}"#),
        part(&claims())
    );
    check(&format!("{twice}.AA"), Err(TokenError::Malformed));
}

#[test]
fn what_is_no_set_of_keys_is_refused() {
    let check = |set: &Value, expected| {
        assert_eq!(Jwks::parse(set.to_string().as_bytes()).map(|_| ()), expected, "{set}");
    };
    let one = |id: usize| jwk(&own(), &id.to_string());
    let many = |count: usize| json!({"keys": (0..count).map(one).collect::<Vec<_>>()});
    check(&many(JWKS_KEYS_MAX), Ok(()));
    check(&many(JWKS_KEYS_MAX + 1), Err(BadKeys::TooLarge));
    check(&json!({"keys": [], "more": "x".repeat(JWKS_BYTES_MAX)}), Err(BadKeys::TooLarge));
    check(&json!({"keys": []}), Err(BadKeys::Empty));
    check(&json!({"keys": [{"kty": "EC", "kid": "a"}]}), Err(BadKeys::Empty));
    check(
        &json!({"keys": [{"kty": "RSA", "kid": "a", "use": "enc", "n": "AQAB", "e": "AQAB"}]}),
        Err(BadKeys::Empty),
    );
    check(&json!({"keys": [{"kty": "RSA", "kid": "a", "n": "AQAB"}]}), Err(BadKeys::Key));
    check(&json!({"keys": [one(1), one(1)]}), Err(BadKeys::Key));
    check(&json!({"keys": {}}), Err(BadKeys::Malformed));
    check(&json!([]), Err(BadKeys::Malformed));
    assert!(keys().has("7d68") && !keys().has("ec"));
}
