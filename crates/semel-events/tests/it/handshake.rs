//! Whether a sender may send: the handshake of CloudEvents' webhooks.

use crate::given::headers;
use semel_events::handshake::{Handshake, ORIGIN_BYTES_MAX, Senders};

const ORIGIN: (&str, &str) = ("webhook-request-origin", "eventemitter.example.com");

fn senders(rate_max: Option<u32>) -> Senders {
    Senders { origins: vec!["other.example.com".into(), ORIGIN.1.into()], rate_max }
}

/// The rate that is allowed, if any is.
fn rate(senders: &Senders, pairs: &[(&str, &str)]) -> Option<String> {
    match senders.answer(&headers(pairs)) {
        Handshake::Allowed(answer) => {
            assert_eq!(answer["webhook-allowed-origin"], pairs[0].1);
            Some(answer["webhook-allowed-rate"].to_str().unwrap().to_owned())
        }
        Handshake::Unanswered | Handshake::Malformed => None,
    }
}

#[test]
fn an_allowed_origin_is_told_its_rate() {
    let asked = ("webhook-request-rate", "120");
    assert_eq!(rate(&senders(None), &[ORIGIN]).as_deref(), Some("*"));
    assert_eq!(rate(&senders(None), &[ORIGIN, asked]).as_deref(), Some("120"));
    assert_eq!(rate(&senders(Some(100)), &[ORIGIN, asked]).as_deref(), Some("100"));
    assert_eq!(rate(&senders(Some(200)), &[ORIGIN, asked]).as_deref(), Some("120"));
    assert_eq!(rate(&senders(Some(200)), &[ORIGIN]).as_deref(), Some("200"));
    let everybody = Senders { origins: vec!["*".into()], rate_max: None };
    assert_eq!(rate(&everybody, &[("webhook-request-origin", "anybody.example.com")]).as_deref(), Some("*"));
}

#[test]
fn another_origin_is_told_nothing() {
    for origin in ["evil.com", "example.com", "eventemitter.example.com.evil.com", "*"] {
        let answer = senders(None).answer(&headers(&[("webhook-request-origin", origin)]));
        assert!(!matches!(answer, Handshake::Allowed(_)), "{origin}");
    }
    assert_eq!(senders(None).answer(&headers(&[])), Handshake::Unanswered);
    assert_eq!(Senders::default().answer(&headers(&[ORIGIN])), Handshake::Unanswered);
}

#[test]
fn what_cannot_be_read_in_one_way_is_refused() {
    let long = "a".repeat(ORIGIN_BYTES_MAX + 1);
    let everybody = Senders { origins: vec!["*".into()], rate_max: None };
    for origin in ["", "a b", "https://a.com", "a,b", "é", &long] {
        let answer = everybody.answer(&headers(&[("webhook-request-origin", origin)]));
        assert_eq!(answer, Handshake::Malformed, "{origin}");
    }
    assert!(rate(&everybody, &[("webhook-request-origin", &long[1..])]).is_some());
    assert_eq!(everybody.answer(&headers(&[ORIGIN, ORIGIN])), Handshake::Malformed);
    for rate in ["", "0", "-1", "fast", "99999999999"] {
        let answer = everybody.answer(&headers(&[ORIGIN, ("webhook-request-rate", rate)]));
        assert_eq!(answer, Handshake::Malformed, "{rate}");
    }
}

#[test]
fn nothing_is_fetched_for_a_stranger() {
    let callback = ("webhook-request-callback", "http://169.254.169.254/latest/meta-data");
    assert_eq!(rate(&senders(None), &[ORIGIN, callback]).as_deref(), Some("*"), "it is ignored");
}
