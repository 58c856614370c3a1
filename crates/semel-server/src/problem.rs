//! What the proxy itself says, as problem documents (RFC 9457).
//!
//! The problems and their pages are the library's: [`semel::http::problems`].

use semel::http::ProblemBase;

pub use semel::http::Problem;

/// As the bytes of an answer in HTTP/1.1 that ends its connection.
pub(crate) fn to_http1(problem: &Problem, base: &ProblemBase) -> Vec<u8> {
    let (status, body) = (problem.status(), problem.json(base));
    let head = format!(
        "HTTP/1.1 {} {}\r\ncontent-type: application/problem+json\r\ncontent-language: en\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        status.as_u16(),
        status.canonical_reason().unwrap_or("Error"),
        body.len()
    );
    [head.as_bytes(), &body].concat()
}
