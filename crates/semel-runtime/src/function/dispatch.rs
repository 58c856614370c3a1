//! What is sent to a function.
//!
//! 1. The event, as a CloudEvent: binary, or structured if the function wants it.
//! 2. `Idempotency-Key`: the execution's id, the same for every attempt and every redrive. What a function protects by
//!    it takes effect once.
//! 3. `Semel-Attempt`: from 1. `Semel-Fence`: grows with every attempt, so that a function can refuse an older one.
//!    `Semel-Deadline`: when the attempt is given up, in milliseconds since 1970.
//! 4. `traceparent`: the event's trace, continued under a span of its own; a trace of its own if the event has none.
//!
//! 5. Where the function has secrets, the request is signed by Standard Webhooks, under the execution's id.
//!
//! It does not send anything.

use super::{Attempted, Content, Function};
use crate::deliver::{Delivery, Preset, guard::Target};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header::CONTENT_TYPE};
use semel_core::{execution::Execution, fence::Fence, queue::Fenced, time::Timestamp};
use semel_events::event::Event;

/// Names the operation to the function.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Which attempt it is.
pub const SEMEL_ATTEMPT: HeaderName = HeaderName::from_static("semel-attempt");
/// Grows with every attempt.
pub const SEMEL_FENCE: HeaderName = HeaderName::from_static("semel-fence");
/// When the attempt is given up.
pub const SEMEL_DEADLINE: HeaderName = HeaderName::from_static("semel-deadline");
/// Which trace it belongs to.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// How long a `traceparent` is.
const TRACEPARENT_BYTES: usize = 55;
const STRUCTURED: HeaderValue = HeaderValue::from_static("application/cloudevents+json; charset=utf-8");

/// The attempt, as a function in this process is told.
pub fn attempted(held: &Fenced<Execution>, deadline: Timestamp) -> Attempted {
    Attempted {
        idempotency_key: held.value.id().to_string(),
        number: held.value.attempts,
        fence: held.fence,
        deadline,
    }
}

/// The request to a function behind a URL.
pub fn delivery(
    function: &Function,
    target: &Target,
    event: &Event,
    attempt: &Attempted,
    now: Timestamp,
) -> Delivery {
    let timeout = function.policy.timeout();
    let (mut headers, body) = content(function.content, event);
    let text =
        |text: String| HeaderValue::try_from(text).expect("digits, letters and quotes are a header's value");
    headers.insert(IDEMPOTENCY_KEY, text(["\"", &attempt.idempotency_key, "\""].concat()));
    headers.insert(SEMEL_ATTEMPT, attempt.number.into());
    headers.insert(SEMEL_FENCE, attempt.fence.get().into());
    headers.insert(SEMEL_DEADLINE, attempt.deadline.as_millis().into());
    headers.insert(TRACEPARENT, text(traceparent(event, attempt)));
    if let Some(signed) =
        function.signing.as_ref().and_then(|it| it.sign(&attempt.idempotency_key, now, &body))
    {
        headers.extend(signed);
    }
    Delivery {
        first_byte: Some(timeout),
        protocol: function.protocol,
        takes_processing: function.answers == Preset::PubSub,
        ..Delivery::new(target.clone(), headers, body, timeout)
    }
}

fn content(content: Content, event: &Event) -> (HeaderMap, Bytes) {
    match content {
        Content::Binary => event.to_binary(),
        Content::Structured => {
            let mut headers = HeaderMap::with_capacity(8);
            headers.insert(CONTENT_TYPE, STRUCTURED);
            (headers, event.to_structured())
        }
    }
}

/// The event's trace, continued by this attempt.
fn traceparent(event: &Event, attempt: &Attempted) -> String {
    let known = event.extension("traceparent").and_then(trace_and_flags);
    let (trace, flags) = known.unwrap_or((&attempt.idempotency_key[..32], "00"));
    let mut text = String::with_capacity(TRACEPARENT_BYTES);
    text.extend(["00-", trace, "-"]);
    push_hex(&mut text, span(attempt.fence, attempt.number));
    text.extend(["-", flags]);
    text
}

/// Sixteen digits. By hand: it is done for every attempt, and a formatter takes its time.
fn push_hex(text: &mut String, number: u64) {
    for digit in (0..16).rev().map(|place| (number >> (4 * place)) as usize & 15) {
        text.push(char::from(b"0123456789abcdef"[digit]));
    }
}

/// A span of its own for every attempt: no two attempts of an execution share a fence.
fn span(fence: Fence, number: u32) -> u64 {
    fence.get() ^ u64::from(number).rotate_right(16)
}

/// `00-<32 digits>-<16 digits>-<2 digits>`, as the W3C has it; anything else is no trace.
fn trace_and_flags(text: &str) -> Option<(&str, &str)> {
    let mut parts = text.split('-');
    let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |part: &str, len: usize| {
        part.len() == len && part.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_named = |part: &str| part.bytes().any(|it| it != b'0');
    let is_trace = version == "00"
        && parts.next().is_none()
        && is_hex(trace, 32)
        && is_hex(parent, 16)
        && is_hex(flags, 2)
        && is_named(trace)
        && is_named(parent);
    is_trace.then_some((trace, flags))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Aim, FunctionName,
        deliver::guard::{Policy, check_url},
    };
    use semel_events::auth::standard_webhooks::StandardWebhooks;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
    const KEY: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn event(traceparent: Option<&str>) -> Event {
        let event = Event::builder("evt-1", "/orders", "order.created").json("{}");
        let event = traceparent.into_iter().fold(event, |event, it| event.extension("traceparent", it));
        event.build().expect("an event")
    }

    fn attempt(number: u32, fence: u64) -> Attempted {
        Attempted {
            idempotency_key: KEY.into(),
            number,
            fence: Fence::new(fence).expect("not 0"),
            deadline: Timestamp::from_millis(1_800_000_000_123),
        }
    }

    fn sent(content: Content, attempt: &Attempted) -> Delivery {
        let target = check_url("https://functions.example/orders", &Policy::public()).expect("a target");
        let name: FunctionName = "process-order".parse().expect("a name");
        let signing = StandardWebhooks::new(["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]).ok();
        let function = Function { content, signing, ..Function::new(name, Aim::Url(target.clone())) };
        delivery(&function, &target, &event(Some(TRACE)), attempt, NOW)
    }

    #[test]
    fn a_function_is_told_which_attempt_it_is_and_until_when() {
        let sent = sent(Content::Binary, &attempt(3, 77));
        let header = |name: &str| sent.headers[name].to_str().expect("text").to_owned();
        assert_eq!(header("idempotency-key"), format!("\"{KEY}\""));
        assert_eq!(header("semel-attempt"), "3");
        assert_eq!(header("semel-fence"), "77");
        assert_eq!(header("semel-deadline"), "1800000000123");
        assert_eq!(header("ce-id"), "evt-1");
        assert_eq!(header("content-type"), "application/json");
        assert_eq!(&sent.body[..], b"{}");
    }

    #[test]
    fn a_structured_event_is_json() {
        let sent = sent(Content::Structured, &attempt(1, 1));
        assert_eq!(sent.headers[CONTENT_TYPE], STRUCTURED);
        assert!(!sent.headers.contains_key("ce-id"));
        assert!(sent.body.starts_with(b"{"));
    }

    #[test]
    fn a_request_is_signed_with_the_secrets_of_its_function() {
        let sent = sent(Content::Binary, &attempt(1, 1));
        let webhooks = StandardWebhooks::new(["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]).expect("a secret");
        assert_eq!(sent.headers["webhook-id"], KEY);
        assert!(webhooks.verify(&sent.headers, &sent.body, NOW).is_ok());
        assert!(webhooks.verify(&sent.headers, b"{ }", NOW).is_err());
    }

    #[test]
    fn the_trace_of_the_event_goes_on_under_a_span_for_each_attempt() {
        let (first, second) = (attempt(1, 77), attempt(2, 78));
        let of = |attempt| traceparent(&event(Some(TRACE)), attempt);
        assert!(of(&first).starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"));
        assert!(of(&first).ends_with("-01"));
        assert_ne!(of(&first), of(&second));
        assert_ne!(of(&first), TRACE);
    }

    #[test]
    fn an_event_without_a_trace_gets_one_that_its_attempts_share() {
        for text in [
            None,
            Some(""),
            Some("00-0-0-0"),
            Some("ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        ] {
            let Ok(event) = std::panic::catch_unwind(|| event(text)) else { continue };
            let made = traceparent(&event, &attempt(1, 77));
            assert_eq!(trace_and_flags(&made), Some((&KEY[..32], "00")), "{text:?}");
        }
    }
}
