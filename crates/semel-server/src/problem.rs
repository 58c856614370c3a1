//! What the proxy itself says, as problem documents (RFC 9457).
//!
//! The problems and their pages are the library's: [`semel::http::problems`].

use http::{
    HeaderMap, HeaderValue,
    header::{CONTENT_SECURITY_POLICY, X_CONTENT_TYPE_OPTIONS},
};
use semel::http::ProblemBase;

pub use semel::http::Problem;

/// What browsers are told about everything that is said here: nothing of it runs, and no page shows it as its own part.
pub(crate) const POLICY: &str = "default-src 'none'; frame-ancestors 'none'";

/// Lets no browser take an answer for something else than it says, nor run anything of it: what senders and functions say stands
/// in answers, too.
pub(crate) fn harden(headers: &mut HeaderMap) {
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
}

/// As the bytes of an answer in HTTP/1.1 that ends its connection.
pub(crate) fn to_http1(problem: &Problem, base: &ProblemBase) -> Vec<u8> {
    let (status, body) = (problem.status(), problem.json(base));
    let head = format!(
        "HTTP/1.1 {} {}\r\ncontent-type: application/problem+json\r\ncontent-language: en\r\n\
         x-content-type-options: nosniff\r\ncontent-security-policy: {POLICY}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        status.as_u16(),
        status.canonical_reason().unwrap_or("Error"),
        body.len()
    );
    [head.as_bytes(), &body].concat()
}
