//! What a function says, and what an environment says of proxies: see [`crate::fuzz`].

use super::{
    Answer, DETAIL_BYTES_MAX, ERROR_BODY_BYTES_MAX, Outcome, Preset, Proxies, RETRY_AFTER_MAX, SEMEL_OUTCOME,
    Status, Verdict, verdict,
};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use semel_core::time::Timestamp;

/// A password in the corpus.
const SECRET: &str = "hidden-word";
/// Room for the words around what a function said.
const WORDS_BYTES_MAX: usize = 128;

/// The head of an answer: its status, its headers line by line, and behind an empty line its body.
pub(crate) fn answer(bytes: &[u8]) {
    let (head, body) = split(bytes, b"\n\n");
    let (code, lines) = split(head, b"\n");
    let Ok(code) = StatusCode::from_bytes(code) else { return };
    let mut headers = HeaderMap::new();
    for line in lines.split(|it| *it == b'\n') {
        let (name, value) = split(line, b":");
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            headers.append(name, value);
        }
    }
    let status = Status { body: Bytes::copy_from_slice(body), ..Status::of_head(code, &headers) };
    assert_eq!(status.outcome, said(&headers), "one word, or none");
    for preset in Preset::ALL {
        for now in [0, 784_111_777_000, u64::MAX] {
            judged(&status, verdict(Answer::Status(status.clone()), preset, Timestamp::from_millis(now)));
        }
    }
}

fn split<'a>(bytes: &'a [u8], at: &[u8]) -> (&'a [u8], &'a [u8]) {
    match bytes.windows(at.len()).position(|it| it == at) {
        Some(place) => (&bytes[..place], &bytes[place + at.len()..]),
        None => (bytes, &[]),
    }
}

/// What the headers say became of an event: one word that is known, however often and in whatever case.
fn said(headers: &HeaderMap) -> Option<Outcome> {
    let values = headers.get_all(SEMEL_OUTCOME).iter();
    let mut words: Vec<_> =
        values.map(|it| String::from_utf8_lossy(it.as_bytes()).trim_ascii().to_ascii_lowercase()).collect();
    words.dedup();
    match &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["done"] => Some(Outcome::Done),
        ["retry"] => Some(Outcome::Retry),
        ["fatal"] => Some(Outcome::Fatal),
        _ => None,
    }
}

fn judged(status: &Status, verdict: Verdict) {
    let error = match verdict {
        Verdict::Done(done) => {
            assert!(status.outcome == Some(Outcome::Done) || done.code.as_u16() < 300, "{done:?}");
            return;
        }
        Verdict::Retry { error, retry_after } => {
            assert!(retry_after.is_none_or(|it| it <= RETRY_AFTER_MAX), "{retry_after:?}");
            error
        }
        Verdict::Fatal { error } | Verdict::StopFunction { error } => error,
    };
    assert!(!error.contains(char::is_control), "an error is a line: {error:?}");
    // What is no UTF-8 takes up to three times as much room once it can be shown.
    let room = 3 * ERROR_BODY_BYTES_MAX.max(DETAIL_BYTES_MAX) + WORDS_BYTES_MAX;
    assert!(error.len() <= room, "{} bytes: {error}", error.len());
}

/// A proxy, and in a second line for which hosts it is not.
pub(crate) fn proxies(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (url, except) = text.split_once('\n').unwrap_or((&text, ""));
    // Where it is a password, and nothing else.
    let is_password =
        ["http", "https", "socks5"].iter().any(|it| url.starts_with(&format!("{it}://ann:{SECRET}@")));
    let is_secret = is_password && text.matches(SECRET).count() == 1;
    let is_hidden =
        |shown: &str| assert!(!is_secret || !shown.contains(SECRET), "a password is shown: {shown}");
    let proxies = match Proxies::all(url, except) {
        Ok(proxies) => proxies,
        Err(unusable) => return is_hidden(&unusable.to_string()),
    };
    is_hidden(&format!("{proxies:?}"));
    for target in [
        "http://example.com/",
        "https://orders.internal:8443/a?b",
        "http://127.0.0.1/",
        "https://[2001:db8::1]/",
        "http://169.254.169.254/",
    ] {
        let found = proxies.to(&Uri::from_static(target));
        let is_excepted = except.split(',').any(|it| it.trim() == "*");
        assert!(found.is_none() || !is_excepted, "what is excepted has no proxy");
        if let Some(authorization) = found.and_then(|it| it.authorization()) {
            assert!(authorization.is_sensitive(), "it would be shown in logs");
        }
    }
}
