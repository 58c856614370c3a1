//! The handshake of CloudEvents' webhooks: whether a sender may send here.
//!
//! 1. A sender asks by `OPTIONS` with `WebHook-Request-Origin`, which is a DNS name. Without it, or with two, the
//!    request is none of this.
//! 2. An allowed origin gets itself back, and a rate per minute: the one it asked for, if there is no limit or the
//!    limit is higher.
//! 3. Another origin gets nothing: that is how the specification says no.
//!
//! It does not fetch `WebHook-Request-Callback`: whoever asks could have any URL fetched.

use http::{HeaderMap, HeaderValue, header::ALLOW};

/// Longest origin, in bytes: the longest DNS name.
pub const ORIGIN_BYTES_MAX: usize = 253;
/// Most origins of one source.
pub const ORIGINS_MAX: usize = 256;

/// Who may send, and how much.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Senders {
    /// Their origins, or `*` for all.
    pub origins: Vec<Box<str>>,
    /// Most requests per minute; none for no limit.
    pub rate_max: Option<u32>,
}

/// What to answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Handshake {
    /// The sender may send: 200 with these headers.
    Allowed(HeaderMap),
    /// It may not, or this was no handshake: 200 with `Allow`, and nothing that permits anything.
    Unanswered,
    /// It cannot be read: 400.
    Malformed,
}

impl Senders {
    /// Answers an `OPTIONS` request.
    ///
    /// ```
    /// use semel_events::handshake::{Handshake, Senders};
    /// let senders = Senders { origins: vec!["eventemitter.example.com".into()], rate_max: Some(120) };
    /// let mut headers = http::HeaderMap::new();
    /// headers.insert("webhook-request-origin", "eventemitter.example.com".parse()?);
    /// let Handshake::Allowed(answer) = senders.answer(&headers) else { panic!("it is allowed") };
    /// assert_eq!(answer["webhook-allowed-origin"], "eventemitter.example.com");
    /// assert_eq!(answer["webhook-allowed-rate"], "120");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn answer(&self, headers: &HeaderMap) -> Handshake {
        let origin = match only(headers, "webhook-request-origin") {
            Ok(None) => return Handshake::Unanswered,
            Ok(Some(origin)) if is_origin(origin) => origin,
            Ok(Some(_)) | Err(Unclear) => return Handshake::Malformed,
        };
        let asked = match only(headers, "webhook-request-rate") {
            Ok(None) => None,
            Ok(Some(rate)) => match rate.parse::<u32>().ok().filter(|it| *it > 0) {
                Some(rate) => Some(rate),
                None => return Handshake::Malformed,
            },
            Err(Unclear) => return Handshake::Malformed,
        };
        let is_allowed = self.origins.iter().any(|it| **it == *"*" || it.eq_ignore_ascii_case(origin));
        if !is_allowed {
            return Handshake::Unanswered;
        }
        let mut answer = HeaderMap::with_capacity(3);
        let origin = HeaderValue::from_str(origin).expect("a DNS name is a header's value");
        answer.insert("webhook-allowed-origin", origin);
        let rate = match (asked, self.rate_max) {
            (Some(asked), Some(max)) => asked.min(max).into(),
            (Some(it), None) | (None, Some(it)) => it.into(),
            (None, None) => HeaderValue::from_static("*"),
        };
        answer.insert("webhook-allowed-rate", rate);
        answer.insert(ALLOW, HeaderValue::from_static("POST, OPTIONS"));
        Handshake::Allowed(answer)
    }
}

struct Unclear;

fn only<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Unclear> {
    let mut all = headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (None, _) => Ok(None),
        (Some(one), None) => one.to_str().map(Some).map_err(|_| Unclear),
        (Some(_), Some(_)) => Err(Unclear),
    }
}

fn is_origin(text: &str) -> bool {
    let is_letter = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'.' | b'-' | b'_');
    (1..=ORIGIN_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_letter)
}
