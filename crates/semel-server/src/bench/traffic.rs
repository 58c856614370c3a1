//! Requests, as bytes.

use std::{
    fmt::Write as _,
    time::{SystemTime, UNIX_EPOCH},
};

/// The header by which an event says when it was sent: nanoseconds since 1970.
pub const SENT: &str = "ce-sent";

/// How large the data of an event is, with nothing said: what an order looks like.
const PADDING: &str = "a customer, an address, and what was bought: two of these and one of those; paid by card, sent by \
                       post, wrapped as a present, with a card that says many happy returns of the day";

/// Whose events they are, and what they are sent to.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// The host that requests name.
    pub host: String,
    /// Where they are sent.
    pub path: String,
    /// The source of all events: no other run has the same.
    pub source: String,
    /// The type of all events.
    pub kind: String,
}

impl Traffic {
    /// One event in binary mode.
    pub fn one(&self, number: u64, sent: Option<u64>) -> Vec<u8> {
        let Self { host, path, source, kind } = self;
        let mut head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nce-specversion: 1.0\r\nce-id: evt-{number:010}\r\n\
             ce-source: {source}\r\nce-type: {kind}\r\ncontent-type: application/json\r\n"
        );
        if let Some(sent) = sent {
            // Nothing fails to be written to a string.
            let _ = write!(head, "{SENT}: {sent}\r\n");
        }
        with_body(head, &data(number))
    }

    /// A batch of events, numbered from this one on.
    pub fn batch(&self, first: u64, count: u64) -> Vec<u8> {
        let Self { host, path, source, kind } = self;
        let events = (first..first + count).map(|number| {
            format!(
                r#"{{"specversion":"1.0","id":"evt-{number:010}","source":"{source}","type":"{kind}","data":{}}}"#,
                data(number)
            )
        });
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\ncontent-type: application/cloudevents-batch+json\r\n"
        );
        with_body(head, &format!("[{}]", events.collect::<Vec<_>>().join(",")))
    }
}

/// A question without a body.
pub fn get(host: &str, path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes()
}

/// Nanoseconds since 1970: what processes of one machine agree on.
pub fn nanos() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_nanos() as u64)
}

fn data(number: u64) -> String {
    format!(r#"{{"order":{number},"cents":{},"of":"{PADDING}"}}"#, number % 10_000)
}

/// A request: its head, as far as the length, and its body.
pub(crate) fn with_body(mut head: String, body: &str) -> Vec<u8> {
    let _ = write!(head, "content-length: {}\r\n\r\n{body}", body.len());
    head.into_bytes()
}
